"""Writes fla_core.txt, TTT-Linear of the PyPI package fla-core as its naive function computes it, and ttt_lm_pytorch.txt,
TTT-Linear and TTT-MLP of the authors' ttt-lm-pytorch.

    python make.py fla_core FOLDER          # FOLDER: an unpacked wheel of fla-core, 0.6.0 made the file here
    python make.py ttt_lm_pytorch FOLDER    # FOLDER: the repository at the commit that README.md names

Needs torch, and transformers for the second. The function's file of fla-core is loaded alone, because importing the package
needs triton.
"""

import importlib.util
import pathlib
import sys

import torch


def load(path):
    spec = importlib.util.spec_from_file_location(f"loaded_{path.stem}", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def write(name, tensors, digits):
    with pathlib.Path(__file__).with_name(f"{name}.txt").open("w") as file:
        for name, value in tensors.items():
            print(name, value.dim(), *value.shape, *(f"{number:.{digits}g}" for number in value.flatten().tolist()), file=file)


def fla_core(folder):
    module = load(folder / "fla" / "ops" / "ttt" / "naive.py")
    torch.manual_seed(1)
    lanes, length, heads, width = 1, 16, 2, 4
    x = {name: torch.randn(lanes, length, heads, width) for name in "qkv"}
    x |= {"weight": 1 + 0.2 * torch.randn(heads, width), "bias": 0.2 * torch.randn(heads, width)}
    x |= {"eta": torch.tensor([0.05, 0.1])}
    eta = x["eta"].reshape(1, 1, heads, 1).expand(lanes, length, heads, 1)
    out, state, bias_state = module.chunk_ttt_linear_ref(
        x["q"].clone(), x["k"], x["v"], x["weight"], x["bias"], eta, scale=1.0, eps=1e-6, mini_batch_size=4,
        output_final_state=True
    )
    tensors = {f"in.{name}": value for name, value in x.items()}
    tensors |= {"linear.out": out, "linear.state": state, "linear.bias_state": bias_state}
    write("fla_core", tensors, 9)


def ttt_lm_pytorch(folder):
    torch.set_default_dtype(torch.float64)
    module = load(folder / "ttt.py")
    torch.manual_seed(1)
    lanes, length, heads, width, chunk = 2, 14, 2, 4, 4
    tensors = {"in.x": torch.randn(lanes, length, heads * width)}
    for name, layer, rate in (("linear", module.TTTLinear, 2.0), ("mlp", module.TTTMLP, 1.0)):
        settings = module.TTTConfig(hidden_size=heads * width, num_attention_heads=heads, mini_batch_size=chunk, ttt_base_lr=rate)
        layer = layer(settings, 0)
        with torch.no_grad():
            for of, weight in layer.named_parameters():
                weight.copy_((1.0 if of == "ttt_norm_weight" else 0.0) + 0.4 * torch.randn(weight.shape))
            layer.learnable_token_idx.copy_(1 - layer.token_idx)  # the step of every token of a mini-batch is divided by 1
            results, original = [], layer.ttt

            def ttt(*given, **named):
                """Keeps what the layer's inner loop gives, before the layer's norm and output projection."""
                results.append(original(*given, **named))
                return results[-1]

            layer.ttt = ttt
            places = torch.zeros(1, length, dtype=torch.int64)  # turns by 0
            layer(tensors["in.x"], position_ids=places)
            for of, view in zip("qkv", layer.get_qkv_projections(tensors["in.x"])):
                tensors[f"{name}.in.{of}"] = view.reshape(lanes, length, heads, width)
        for of in ("W1", "b1", "W2", "b2"):
            if hasattr(layer, of):
                tensors[f"{name}.in.{of}"] = getattr(layer, of).detach()
                tensors[f"{name}.{of}"] = results[0][1][f"{of}_states"]  # behind the last whole mini-batch
        for of in ("learnable_ttt_lr_weight", "learnable_ttt_lr_bias", "ttt_norm_weight", "ttt_norm_bias"):
            tensors[f"{name}.in.{of}"] = getattr(layer, of).detach()
        tensors[f"{name}.out"] = torch.cat([out for out, _ in results], 1).reshape(lanes, length, heads, width)
    write("ttt_lm_pytorch", tensors, 17)


{"fla_core": fla_core, "ttt_lm_pytorch": ttt_lm_pytorch}[sys.argv[1]](pathlib.Path(sys.argv[2]))
