"""Writes titans_pytorch.txt: the neural memory of the PyPI package titans-pytorch, in f64.

    python make.py      # with titans-pytorch; 0.5.1 made the file here

The settings that make it the memory of examples/python/titans.py are in README.md.
"""

import pathlib

import torch
from titans_pytorch import MemoryMLP, NeuralMemory

LANES, TOKENS, WIDTH, HEADS, HEAD_WIDTH, HIDDEN, CHUNK = 2, 14, 6, 2, 4, 8, 4


class TwoMatrices(torch.nn.Module):
    """W2 silu(W1 x), the package's MemoryMLP of depth 2 with SiLU for GELU: a network is an argument of NeuralMemory."""

    def __init__(self):
        super().__init__()
        self.first = torch.nn.Parameter(torch.zeros(HEAD_WIDTH, HIDDEN))
        self.second = torch.nn.Parameter(torch.zeros(HIDDEN, HEAD_WIDTH))

    def forward(self, x):
        return torch.nn.functional.silu(x @ self.first) @ self.second


def main():
    torch.set_default_dtype(torch.float64)
    torch.manual_seed(1)
    tensors = {"in.x": torch.randn(LANES, TOKENS, WIDTH), "in.in_weight": 2 * torch.randn(3 * HEADS * HEAD_WIDTH, WIDTH)}
    parts = {"theta": "to_adaptive_step", "eta": "to_momentum", "alpha": "to_decay_factor"}
    for name, start in (("theta", -4.5), ("eta", 0.0), ("alpha", -2.0)):
        tensors[f"in.{name}_weight"] = 0.5 * torch.randn(HEADS, WIDTH)
        tensors[f"in.{name}_bias"] = start + 0.3 * torch.randn(HEADS)

    for case, network in (("matrix", MemoryMLP(HEAD_WIDTH, depth=1)), ("two_matrices", TwoMatrices())):
        memory = NeuralMemory(
            WIDTH, chunk_size=1, batch_size=CHUNK, dim_head=HEAD_WIDTH, heads=HEADS, model=network, activation=torch.nn.SiLU(),
            qk_rmsnorm=True, mem_model_norm_add_residual=False,
            store_memory_loss_fn=lambda result, target: (result - target).square().sum(-1))
        with torch.no_grad():
            for name, weight in zip(("queries", "keys", "values"), tensors["in.in_weight"].chunk(3)):
                getattr(memory, f"to_{name}")[0].weight.copy_(weight)
            for name, part in parts.items():
                getattr(memory, part)[0].weight.copy_(tensors[f"in.{name}_weight"])
                getattr(memory, part)[0].bias.copy_(tensors[f"in.{name}_bias"])
            for norm in (memory.q_norm, memory.k_norm):  # RMSNorm times gamma + 1: queries and keys of length 1
                norm.gamma.fill_(HEAD_WIDTH ** -0.5 - 1)
            for name, start in zip(("first", "second"), memory.memory_model_parameters):
                start.data = 0.5 * torch.randn(start.shape)
                tensors[f"{case}.{name}_start"] = start.detach().clone()

            heads = []  # results of the networks, [B,H,T,d], before norm and gate
            memory.multihead_rmsnorm.register_forward_pre_hook(lambda _, given: heads.append(given[0]))
            _, state = memory(tensors["in.x"])
        tensors[f"{case}.heads"] = heads[0][:, :, -TOKENS:]
        weights, momenta = state.states
        for name, weight, momentum in zip(("first", "second"), weights.values(), momenta.values()):
            shape = (LANES, HEADS, *weight.shape[-2:])
            tensors[f"{case}.{name}"] = weight.reshape(shape)
            tensors[f"{case}.{name}_momentum"] = momentum.reshape(shape)

    with pathlib.Path(__file__).with_name("titans_pytorch.txt").open("w") as file:
        for name, value in tensors.items():
            print(name, value.dim(), *value.shape, *(f"{number:.17g}" for number in value.flatten().tolist()), file=file)


main()
