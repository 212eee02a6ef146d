"""Writes armt.txt: the associative memory of a layer as the authors' AssociativeLayerWrapper computes it, in f64.

    python make.py FILE      # FILE: modeling_amt/language_modeling.py of the repository that README.md names

Needs torch. The two classes are run without the rest of the file, whose imports need models, wandb and munch.
"""

import ast
import pathlib
import sys

import torch

LAYERS, LANES, TOKENS, ROWS, WIDTH, KEY_WIDTH, SEGMENTS = 2, 2, 5, 3, 6, 4, 4


class Smaller(ast.NodeTransformer):
    """1e-9 where the program adds 1e-5, which it counts among a known key's share."""

    def visit_Constant(self, node):
        return ast.copy_location(ast.Constant(1e-9), node) if node.value == 1e-5 else node


def classes(path, *names, is_smaller=False):
    tree = ast.parse(pathlib.Path(path).read_text(encoding="utf-8"))
    tree.body = [node for node in tree.body if getattr(node, "name", "") in names]
    tree = Smaller().visit(tree) if is_smaller else tree
    space = {"torch": torch, "F": torch.nn.functional, "r": torch.relu}
    exec(compile(tree, path, "exec"), space)
    return [space[name] for name in names]


def main():
    torch.set_default_dtype(torch.float64)
    torch.manual_seed(1)
    names = ("DPFP", "AssociativeLayerWrapper")
    _, wrapper = classes(sys.argv[1], *names)
    _, wrapper_of_smaller = classes(sys.argv[1], *names, is_smaller=True)
    tensors = {"in.tokens": torch.randn(SEGMENTS, LAYERS, LANES, TOKENS, WIDTH),
               "in.outputs": torch.randn(SEGMENTS, LAYERS, LANES, ROWS, WIDTH)}
    parts = {"query_weight": "W_mq.weight", "key_weight": "W_mk.weight", "value_weight": "W_mv.weight",
             "beta_weight": "W_mb.weight", "beta_bias": "W_mb.bias"}
    weights = wrapper(torch.nn.Identity(), WIDTH, ROWS, KEY_WIDTH).state_dict()
    for name, part in parts.items():
        tensors[f"in.{name}"] = 0.5 * torch.randn(LAYERS, *weights[part].shape)

    cases = ("plain", wrapper, False), ("corrected", wrapper, True), ("smaller", wrapper_of_smaller, True)
    for name, program, has_correction in cases:
        read, matrix, normaliser = ([[None] * LAYERS for _ in range(SEGMENTS)] for _ in range(3))
        for layer in range(LAYERS):
            seen = []

            def of_layer(x):
                """Stands for the layer: keeps its input, and gives the memory tokens' outputs behind the tokens'."""
                seen.append(x)
                return (torch.cat([x[:, :TOKENS], tensors["in.outputs"][len(seen) - 1, layer]], 1),)

            memory = program(of_layer, WIDTH, ROWS, KEY_WIDTH, correction=has_correction)
            memory.load_state_dict({part: tensors[f"in.{each}"][layer] for each, part in parts.items()})
            for segment in range(SEGMENTS):
                x = tensors["in.tokens"][segment, layer]
                memory(torch.cat([x, torch.zeros(LANES, ROWS, WIDTH)], 1))
                read[segment][layer] = seen[-1][:, :TOKENS] - x
                matrix[segment][layer], normaliser[segment][layer] = memory.W_mem[:, 0], memory.z[:, 0]
        for part, values in (("read", read), ("matrix", matrix), ("normaliser", normaliser)):
            tensors[f"{name}.{part}"] = torch.stack([torch.stack(each) for each in values])

    with pathlib.Path(__file__).with_name("armt.txt").open("w") as file:
        for name, value in tensors.items():
            print(name, value.dim(), *value.shape, *(f"{number:.17g}" for number in value.flatten().tolist()), file=file)


main()
