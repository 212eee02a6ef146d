#!/usr/bin/env python3
"""What `mneme eval` does before its first segment: the bytes that it reads, and its time beside that of reading the checkpoint.

    scripts/bench/start_up_bench.py [ROUNDS]

The run has the sizes of configs/wt103_base.toml (151 M parameters) and is made by one step of training on words drawn at random; its
checkpoint also holds what only training needs, Adam's moments. Bytes are counted in an evaluation before which the checkpoint was
taken out of the system's cache. For the times the file is in it, and in each round the program and a reader of the whole file take
turns. The program's time is that of its process without its segments.
"""
import json
import os
import random
import statistics
import sys
import tempfile
import time
from pathlib import Path

from program import MNEME, ROOT, Failure, call, call_for_json, processor

VOCABULARY = 267735
WORDS = 65
SEGMENT = 16
CHUNK = 1 << 20


def write_text(folder):
    generator = random.Random(1)
    text, vocabulary = folder / "text.txt", folder / "vocabulary.json"
    text.write_text(" ".join(f"w{generator.randrange(VOCABULARY - 1)}" for _ in range(WORDS)))
    vocabulary.write_text(json.dumps({
        "format": "mneme.vocabulary", "revision": 1, "kind": "word", "add_eos": False,
        "symbols": [*(f"w{i}" for i in range(VOCABULARY - 1)), "<unk>"], "counts": [1] * VOCABULARY}))
    return text, vocabulary


def train_one_step(folder):
    text, vocabulary = write_text(folder)
    run = folder / "run"
    settings = {"data.train": text, "data.valid": text, "data.vocabulary": "word", "data.vocabulary_file": vocabulary,
                "data.add_eos": "false", "train.steps": 1, "train.warmup": 0, "train.segment": SEGMENT, "train.lanes": 1,
                "train.eval_every": 0}
    call([MNEME, "train", ROOT / "configs/wt103_base.toml", "--memory", ROOT / "configs/memory/xl_cache.toml", "--run", run,
          "--unset=data.test", "--unset=data.vocabulary_size", *(f"--set={key}={value}" for key, value in settings.items())])
    return run


def seconds_to_read(file):
    buffer = memoryview(bytearray(CHUNK))
    start = time.perf_counter()
    with file.open("rb", buffering=0) as opened:
        while opened.readinto(buffer):
            pass
    return time.perf_counter() - start


def bytes_of_weights(checkpoint):
    """Of those tensors of the checkpoint that an evaluation needs."""
    with checkpoint.open("rb") as opened:
        header = json.loads(opened.read(int.from_bytes(opened.read(8), "little")))
    return sum(entry["data_offsets"][1] - entry["data_offsets"][0] for name, entry in header.items() if name.startswith("model."))


def forget(file):
    """Takes a file out of the system's cache."""
    descriptor = os.open(file, os.O_RDONLY)
    os.fsync(descriptor)
    os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
    os.close(descriptor)


def evaluate(run):
    """Seconds before and after the segments, and what the process took."""
    file = run / "start_up.json"
    result, used = call_for_json([MNEME, "eval", run, f"--set=eval.segment={SEGMENT}", "--json", file, "--quiet", "--no-store"], file)
    return used.seconds - result["memories"][0]["result"]["seconds"], used


def main(rounds):
    with tempfile.TemporaryDirectory(dir=ROOT / "build") as name:
        run = train_one_step(Path(name))
        checkpoint = next((run / "checkpoints").glob("*.safetensors"))
        size, weights = checkpoint.stat().st_size, bytes_of_weights(checkpoint)
        evaluate(run)
        forget(checkpoint)
        read = evaluate(run)[1].read_bytes
        seconds_to_read(checkpoint)
        ratios = [evaluate(run)[0] / seconds_to_read(checkpoint) for _ in range(rounds)]
    print(f"{processor()}; {rounds} rounds")
    print(f"checkpoint {size / 2**20:.0f} MiB, of which weights {weights / 2**20:.0f} MiB")
    print(f"read from storage {read / 2**20:.0f} MiB: {read / size:.2f} times the file")
    print(f"start-up / reading the whole file: {statistics.median(ratios):.2f}")


if __name__ == "__main__":
    try:
        main(int(sys.argv[1]) if len(sys.argv) > 1 else 3)
    except Failure as failure:
        sys.exit(f"error: {failure}")
