#!/usr/bin/env python3
"""Runs the official code of Transformer-XL or of LaMemo from a checkout; scripts/bench/compare_official.py and compare_gpu.py start it.

    official_code.py weights|evaluate|train JOB.json RESULT.json

The checkout is kimiyoung/transformer-xl or thu-coai/LaMemo, unchanged. The loops here are those of its eval.py and train.py
(LaMemo: eval_ddp.py, train_ddp.py) on one device, without data files, logging and validation. Needs PyTorch, NumPy and safetensors.

A job: "checkout"; "model", arguments of MemTransformerLM; "weights" (safetensors); "threads"; "device"; to evaluate and to train also
"tokens" (safetensors, input [lanes, n + 1]), "segment", "memory" (rows); to evaluate "clamp", "same_length" and "losses", the
file for the nll [lanes, n]; to train those of training.py.
A result: "seconds" of the loop; of a training also what training.py gives.
"""
import json
import sys
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file

import training
from training import clock, segments

LAMEMO = "LaMemoRelPartialLearnableDecoderLayer"


def import_official(checkout):
    """The checkout's module mem_transformer, which PyTorch of today refuses in two places."""
    folder = Path(checkout) / "pytorch"
    sys.path[:0] = [str(folder), str(folder / "utils")]
    torch.version.cuda = torch.version.cuda or "0.0"  # read by the adaptive softmax, None in builds for the CPU
    torch.Tensor.byte = torch.Tensor.bool  # masks: masked_fill takes booleans only
    import mem_transformer

    return mem_transformer


def make_model(job):
    module = import_official(job["checkout"])
    return module.MemTransformerLM(**job["model"]), hasattr(module, LAMEMO)


def weights(job):
    """Random weights with the distributions of train.py."""
    model, _ = make_model(job)
    torch.manual_seed(1)
    for name, parameter in model.named_parameters():
        mean = 1.0 if name.endswith("layer_norm.weight") else 0.0
        is_zero = name.endswith(".bias") and "layer_norm" not in name or name.endswith("cluster_bias")
        with torch.no_grad():
            parameter.zero_() if is_zero else parameter.normal_(mean, 0.02)
    save_file({name: tensor.clone().contiguous() for name, tensor in model.state_dict().items()}, job["weights"])
    return {"parameters": sum(parameter.numel() for parameter in model.parameters())}


def ready_model(job):
    model, is_lamemo = make_model(job)
    model.load_state_dict(load_file(job["weights"]))
    return model.to(job["device"]), is_lamemo


@torch.no_grad()
def evaluate(job):
    model, is_lamemo = ready_model(job)
    model.eval()
    model.reset_length(job["segment"], 0, job["memory"])
    model.clamp_len, model.same_length = job["clamp"], job["same_length"]
    losses, memory = [], ()
    start = clock(job)
    for inputs, targets in segments(job):
        result = model(inputs, targets, *memory)
        loss, memory = (result[0][0], result[0][1:]) if is_lamemo else (result[0], result[1:])
        losses.append(loss)
    seconds = clock(job) - start
    save_file({"nll": torch.cat(losses).t().contiguous().cpu()}, job["losses"])
    return {"seconds": seconds}


def train(job):
    model, is_lamemo = ready_model(job)
    model.train()

    def step(net, inputs, targets, memory):
        result = net(inputs, targets, *memory)
        # LaMemo's code gives a loss of the memory beside that of the tokens, zeros by default, and trains with their mean.
        loss, others, memory = (result[0], result[1], result[2:]) if is_lamemo else (result[0], None, result[1:])
        loss = loss.float().mean()
        return loss if others is None else (loss + others.float().mean()) / 2, loss, memory

    return training.train(model, step, (), job)


def main():
    task, job_file, result_file = sys.argv[1:]
    job = json.loads(Path(job_file).read_text())
    torch.set_num_threads(job["threads"])
    result = {"weights": weights, "evaluate": evaluate, "train": train}[task](job)
    Path(result_file).write_text(json.dumps({**result, "torch": torch.__version__}))


if __name__ == "__main__":
    main()
