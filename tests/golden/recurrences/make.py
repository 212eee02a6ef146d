"""Writes fla_core.txt, rwkv7.txt and log_linear_attn.txt: recurrences of the PyPI package fla-core as its naive
functions compute them.

    python make.py FOLDER      # FOLDER: an unpacked wheel of fla-core, 0.6.0 made the files here

Needs torch, numpy and einops. The files of the functions are loaded alone, because importing the package needs
triton.
"""

import importlib.util
import math
import pathlib
import sys

import torch


def load(folder, mechanism):
    path = pathlib.Path(folder) / "fla" / "ops" / mechanism / "naive.py"
    spec = importlib.util.spec_from_file_location(f"naive_{mechanism.replace('/', '_')}", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def drawn(lanes=1, length=37, heads=2, keys=5, values=4):
    """Inputs of every mechanism, f32."""
    unit = torch.nn.functional.normalize
    return {
        "q": torch.randn(lanes, length, heads, keys),
        "k": unit(torch.randn(lanes, length, heads, keys), dim=-1),
        "v": torch.randn(lanes, length, heads, values),
        "beta": 2 * torch.rand(lanes, length, heads),
        "head_decay": -torch.rand(lanes, length, heads),
        "channel_decay": -torch.rand(lanes, length, heads, keys),
        "state": torch.randn(lanes, heads, keys, values),
    }


def write(name, tensors):
    with pathlib.Path(__file__).with_name(name).open("w") as file:
        for name, value in tensors.items():
            print(name, value.dim(), *value.shape, *(f"{number:.9g}" for number in value.flatten().tolist()), file=file)


def of_plugins(folder):
    """What the plugins of plugins/recurrences compute."""
    torch.manual_seed(1)
    x = drawn()
    given = {"initial_state": x["state"], "output_final_state": True}
    qkv = (x["q"], x["k"], x["v"])
    results = {
        "gla": load(folder, "gla").naive_recurrent_gla(*qkv, x["channel_decay"], **given),
        "simple_gla": load(folder, "simple_gla").naive_recurrent_simple_gla(*qkv, x["head_decay"], **given),
        "gated_delta_rule": load(folder, "gated_delta_rule").naive_recurrent_gated_delta_rule(
            *qkv, x["beta"], x["head_decay"], **given
        ),
        "kda": load(folder, "kda").naive_recurrent_kda(*qkv, x["channel_decay"], x["beta"], **given),
    }
    tensors = {f"in.{name}": value for name, value in x.items()}
    for name, (out, state) in results.items():
        tensors[f"{name}.out"] = out
        tensors[f"{name}.state"] = state
    return tensors


def of_rwkv7(folder):
    """What examples/python/rwkv7.py computes. The naive function has T behind H, and names its vectors otherwise."""
    torch.manual_seed(2)
    x = drawn()
    decay = -math.exp(-0.5) * torch.rand(x["k"].shape)
    k, rate = torch.randn(x["k"].shape), torch.rand(x["k"].shape)
    q, k, v, alpha, beta, gk = (
        each.transpose(1, 2) for each in (x["q"], k, x["v"], -x["k"], x["k"] * rate, decay)
    )
    out, state = load(folder, "generalized_delta_rule/dplr").dplr_recurrence(
        q, k, v, alpha, beta, gk, initial_state=x["state"]
    )
    inputs = {"r": x["q"], "decay": decay, "k": k.transpose(1, 2), "v": x["v"], "removal": x["k"], "rate": rate}
    tensors = {f"in.{name}": value for name, value in {**inputs, "state": x["state"]}.items()}
    return {**tensors, "out": out.transpose(1, 2), "state": state}


def of_log_linear_attention(folder):
    """What examples/python/log_linear_attention.py computes."""
    torch.manual_seed(3)
    x = drawn()
    scales = torch.rand(*x["head_decay"].shape, 7)  # levels 0 to 6, of 37 tokens
    out = load(folder, "log_linear_attn").naive_log_linear_attn(x["q"], x["k"], x["v"], x["head_decay"], scales)
    inputs = {"q": x["q"], "k": x["k"], "v": x["v"], "decay": x["head_decay"], "scale": scales}
    return {**{f"in.{name}": value for name, value in inputs.items()}, "out": out}


def main():
    folder = sys.argv[1]
    write("fla_core.txt", of_plugins(folder))
    write("rwkv7.txt", of_rwkv7(folder))
    write("log_linear_attn.txt", of_log_linear_attention(folder))


if __name__ == "__main__":
    main()
