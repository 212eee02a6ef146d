"""The training loop of programs in PyTorch that compare_official.py and compare_gpu.py compare mneme with, on one device."""
import contextlib
import json
import struct
import time
from pathlib import Path

import torch

DTYPES = {"F32": torch.float32, "I32": torch.int32, "I64": torch.int64}


def read_tensors(file):
    """The tensors of a safetensors file that have one of these dtypes and are not empty."""
    data = bytearray(Path(file).read_bytes())
    size, = struct.unpack_from("<Q", data)
    header = json.loads(data[8 : 8 + size])
    header.pop("__metadata__", None)
    tensors = {}
    for name, entry in header.items():
        begin, end = entry["data_offsets"]
        if entry["dtype"] in DTYPES and begin < end:
            dtype = DTYPES[entry["dtype"]]
            flat = torch.frombuffer(data, dtype=dtype, offset=8 + size + begin, count=(end - begin) // dtype.itemsize)
            tensors[name] = flat.view(entry["shape"])
    return tensors


def clock(job):
    """Seconds, after all work on the device is done."""
    if job["device"] != "cpu":
        torch.cuda.synchronize(job["device"])
    return time.perf_counter()


def segments(job):
    """Inputs and targets [T, lanes], segment by segment."""
    tokens = read_tensors(job["tokens"])["input"].long().t().contiguous().to(job["device"])
    for at in range(0, len(tokens) - 1, job["segment"]):
        targets = tokens[at + 1 : at + job["segment"] + 1]
        yield tokens[at : at + len(targets)], targets


def train(model, step, memory, job):
    """Trains with Adam. step(net, inputs, targets, memory) gives the loss that is trained, the tokens' mean
    loss and the next memory. A job: "device", "tokens",
    "segment", "steps", "lr", "clip"; optional: "precision" ("bf16" = autocast), "compile", "fused" (one kernel for all of Adam).
    Gives the "losses", the "seconds" of the loop, "step_seconds" and, on a GPU, "peak_bytes"."""
    is_on_gpu = job["device"] != "cpu"
    if is_on_gpu:
        torch.cuda.reset_peak_memory_stats(job["device"])
    optimizer = torch.optim.Adam(model.parameters(), lr=job["lr"], fused=job.get("fused", False))
    net = torch.compile(model) if job.get("compile") else model
    half = job.get("precision") == "bf16"
    losses, ends = [], []
    start = clock(job)
    for _, (inputs, targets) in zip(range(job["steps"]), segments(job)):
        optimizer.zero_grad()
        with torch.autocast("cuda" if is_on_gpu else "cpu", torch.bfloat16) if half else contextlib.nullcontext():
            loss, of_tokens, memory = step(net, inputs, targets, memory)
        loss.backward()
        losses.append(of_tokens.item())
        torch.nn.utils.clip_grad_norm_(model.parameters(), job["clip"])
        optimizer.step()
        ends.append(clock(job) - start)
    result = {"seconds": ends[-1], "losses": losses, "step_seconds": [b - a for a, b in zip([0.0, *ends], ends)]}
    return {**result, "peak_bytes": torch.cuda.max_memory_allocated(job["device"])} if is_on_gpu else result
