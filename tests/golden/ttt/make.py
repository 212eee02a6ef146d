"""Writes fla_core.txt: TTT-Linear of the PyPI package fla-core as its naive function computes it.

    python make.py FOLDER      # FOLDER: an unpacked wheel of fla-core, 0.6.0 made the file here

Needs torch. The function's file is loaded alone, because importing the package needs triton.
"""

import importlib.util
import pathlib
import sys

import torch


def main():
    path = pathlib.Path(sys.argv[1]) / "fla" / "ops" / "ttt" / "naive.py"
    spec = importlib.util.spec_from_file_location("naive_ttt", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)

    torch.manual_seed(1)
    lanes, length, heads, width = 1, 16, 2, 4
    x = {name: torch.randn(lanes, length, heads, width) for name in "qkv"}
    x |= {"weight": 1 + 0.2 * torch.randn(heads, width), "bias": 0.2 * torch.randn(heads, width), "eta": torch.tensor([0.05, 0.1])}
    eta = x["eta"].reshape(1, 1, heads, 1).expand(lanes, length, heads, 1)
    out, state, bias_state = module.chunk_ttt_linear_ref(
        x["q"].clone(), x["k"], x["v"], x["weight"], x["bias"], eta, scale=1.0, eps=1e-6, mini_batch_size=4, output_final_state=True
    )
    tensors = {f"in.{name}": value for name, value in x.items()}
    tensors |= {"linear.out": out, "linear.state": state, "linear.bias_state": bias_state}
    with pathlib.Path(__file__).with_name("fla_core.txt").open("w") as file:
        for name, value in tensors.items():
            print(name, value.dim(), *value.shape, *(f"{number:.9g}" for number in value.flatten().tolist()), file=file)


main()
