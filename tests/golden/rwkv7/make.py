"""Writes rwkv_lm.safetensors: RWKV-7's time mixing as two programs of RWKV-LM compute it.

    python make.py FOLDER      # FOLDER: RWKV-v7 of the repository that README.md names

Needs torch, numpy and safetensors. The programs load models and vocabularies when they are run, so their time mixing
is run without the rest.
"""

import ast
import pathlib
import sys

import numpy
import torch
from safetensors.torch import save_file

TOKENS, LAYERS = 20, 2
RANKS = {"w": 2, "a": 3, "v": 2, "g": 4}


def part(path, chosen, **space):
    """What `chosen` nodes of a file's syntax tree define."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    tree.body = [node for node in ast.walk(tree) if chosen(node)]
    exec(compile(tree, str(path), "exec"), space)
    return space


def torch_program(folder, head_width):
    """Its TimeMix with the recurrence in plain torch, which is in f32."""
    def is_recurrence(node):
        return getattr(node, "name", "") == "RWKV7_OP" and not any(isinstance(each, ast.Attribute) and each.attr == "apply"
                                                                  for each in ast.walk(node))
    return part(folder / "rwkv_v7_demo.py", lambda node: getattr(node, "name", "") == "RWKV_Tmix_x070" or is_recurrence(node),
                torch=torch, nn=torch.nn, F=torch.nn.functional, MyModule=torch.nn.Module, MyFunction=lambda function: function,
                HEAD_SIZE=head_width, DTYPE=torch.float32, D_DECAY_LORA=RANKS["w"], D_AAA_LORA=RANKS["a"],
                D_MV_LORA=RANKS["v"], D_GATE_LORA=RANKS["g"])["RWKV_Tmix_x070"]


def numpy_program(folder, heads, head_width):
    names = ("group_norm", "sigmoid", "time_mixing")
    return part(folder / "rwkv_v7_numpy.py",
                lambda node: getattr(node, "name", "") in names
                or isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") in names,
                np=numpy, N_HEAD=heads, HEAD_SIZE=head_width)["time_mixing"]


class Settings:
    def __init__(self, heads, head_width):
        self.n_embd = self.dim_att = heads * head_width
        self.head_size_a = head_width


def layers_of(program, heads, head_width):
    layers = [program(Settings(heads, head_width), layer) for layer in range(LAYERS)]
    with torch.no_grad():
        for layer in layers:
            for name, weight in layer.named_parameters():
                drawn = torch.randn(weight.shape)
                is_matrix = name.endswith("weight") and weight.dim() == 2 or name[0] in RANKS and name[1:] in ("1", "2")
                weight.copy_(drawn / weight.shape[0] ** 0.5 if is_matrix else 0.5 * drawn)
            layer.ln_x.weight.add_(1.0)
            layer.k_k.add_(1.0)
            layer.k_a.add_(1.0)
    return layers


def by_numpy(mixing, layers, inputs, heads, head_width):
    """The same text in f64, token by token: results and last states of all layers."""
    named = [{name: value.detach().double().squeeze().numpy() for name, value in layer.named_parameters()} for layer in layers]
    order = ["x_r", "x_w", "x_k", "x_v", "x_a", "x_g", "w0", "r_k", "w1", "w2", "a1", "a2", "a0", "g1", "g2"]
    of_values = ["v2", "v1", "v0"]
    last = ["k_k", "k_a", "receptance.weight", "key.weight", "value.weight", "output.weight", "ln_x.weight", "ln_x.bias"]
    out, states = numpy.zeros(inputs.shape), numpy.zeros((LAYERS, inputs.shape[1], heads, head_width, head_width))
    for lane in range(inputs.shape[1]):
        before = numpy.zeros((LAYERS, inputs.shape[3]))
        for token in range(TOKENS):
            first = None
            for layer, weights in enumerate(named):
                parameters = [weights[name] for name in (*order, *(of_values if layer > 0 else ()), *last)]
                out[layer, lane, token], first, before[layer], states[layer, lane] = mixing(
                    inputs[layer, lane, token].astype(numpy.float64), first, before[layer], states[layer, lane], parameters)
    return torch.from_numpy(out), torch.from_numpy(states)


def main():
    folder, tensors = pathlib.Path(sys.argv[1]), {}
    torch.manual_seed(1)
    for case, lanes, heads, head_width in (("one_head", 1, 1, 64), ("two_heads", 2, 2, 8)):
        layers = layers_of(torch_program(folder, head_width), heads, head_width)
        inputs, out, first = torch.randn(LAYERS, lanes, TOKENS, heads * head_width), [], None
        for layer, x in zip(layers, inputs):
            layer.ln_x.eps = 1e-5 * head_width  # the program's own 64e-5 where heads are 64 wide
            with torch.no_grad():
                y, first = layer(x, first)
            out.append(y)
        tensors[f"{case}.in"], tensors[f"{case}.torch.out"] = inputs, torch.stack(out)
        for number, layer in enumerate(layers):
            tensors |= {f"{case}.{number}.{name}": value.detach().clone() for name, value in layer.named_parameters()
                        if number > 0 or name not in ("v0", "v1", "v2")}
        if head_width == 64:
            mixing = numpy_program(folder, heads, head_width)
            out, states = by_numpy(mixing, layers, inputs.numpy(), heads, head_width)
            tensors[f"{case}.numpy.out"], tensors[f"{case}.numpy.state"] = out, states
    path = pathlib.Path(__file__).with_name("rwkv_lm.safetensors")
    save_file(tensors, path)
    path.chmod(0o644)


main()
