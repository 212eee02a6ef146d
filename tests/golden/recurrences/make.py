"""Writes fla_core.txt: recurrences of the PyPI package fla-core as its naive functions compute them.

    python make.py FOLDER      # FOLDER: an unpacked wheel of fla-core, 0.6.0 made the file here

Needs torch and einops. The files of the functions are loaded alone, because importing the package needs
triton.
"""

import importlib.util
import pathlib
import sys

import torch


def load(folder, mechanism):
    path = pathlib.Path(folder) / "fla" / "ops" / mechanism / "naive.py"
    spec = importlib.util.spec_from_file_location(f"naive_{mechanism}", path)
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


def main():
    folder = sys.argv[1]
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
    with pathlib.Path(__file__).with_name("fla_core.txt").open("w") as file:
        for name, value in tensors.items():
            print(name, value.dim(), *value.shape, *(f"{number:.9g}" for number in value.flatten().tolist()), file=file)


if __name__ == "__main__":
    main()
