"""The recipe of configs/decoder/strong.toml as one page of PyTorch: a small model, trained for 20 steps in f64.

    python3 -m venv /tmp/strong && /tmp/strong/bin/pip install torch==2.11.0 safetensors numpy
    /tmp/strong/bin/python tests/golden/strong/make_golden.py          # writes strong.safetensors beside this file
    /tmp/strong/bin/python tests/golden/strong/make_golden.py --check  # compares it with a file that is there

Every number of the recipe is read from the experiment file, with the overrides below for the size. README.md says what
each tensor means.
"""

import argparse
import json
import math
import tomllib
from pathlib import Path

import torch
from safetensors import safe_open
from safetensors.torch import save_file

HERE = Path(__file__).resolve().parent
RECIPE = HERE.parents[2] / "configs/decoder/strong.toml"
SEED = 20261130
SMALLER = {"model.layers": 2, "model.heads": 2, "model.kv_heads": 1, "model.width": 16, "model.ff": 32,
           "model.dropout": 0.0, "data.task": "tokens", "data.vocabulary_size": 32, "data.reset": "never",
           "train.segment": 16, "train.lanes": 2, "train.steps": 20, "train.warmup": 4, "train.precision": "f64",
           "eval.segment": 16, "eval.lanes": 2}


def read_recipe() -> tuple[dict, dict, int]:
    tables = tomllib.loads(RECIPE.read_text())
    for key, value in SMALLER.items():
        table, name = key.split(".")
        tables[table][name] = value
    return tables["model"], tables["train"], tables["data"]["vocabulary_size"]


def first_weights(model: dict, vocabulary: int) -> dict[str, torch.Tensor]:
    """Names and shapes are mneme's; queries, keys and values are one matrix, gate and up another."""
    width, head = model["width"], model["width"] // model["heads"]
    shapes = {"model.embedding.0.weight": (vocabulary, width), "model.final_norm.weight": (width,)}
    for layer in range(model["layers"]):
        at = f"model.layers.{layer}."
        shapes |= {at + "attention.qkv.weight": ((model["heads"] + 2 * model["kv_heads"]) * head, width),
                   at + "attention.output.weight": (width, width),
                   at + "attention.query_norm.weight": (head,), at + "attention.key_norm.weight": (head,),
                   at + "attention.norm.weight": (width,), at + "ff.norm.weight": (width,),
                   at + "ff.in.weight": (2 * model["ff"], width), at + "ff.out.weight": (width, model["ff"])}
    torch.manual_seed(SEED)
    out = {}
    for name, shape in shapes.items():
        drawn = torch.randn(shape, dtype=torch.float64)
        out[name] = (1.0 + 0.1 * drawn if len(shape) == 1 else drawn / math.sqrt(shape[1])).requires_grad_()
    return out


def rms_norm(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    return x * (x.square().mean(-1, keepdim=True) + 1e-5).rsqrt() * weight


def turned(x: torch.Tensor) -> torch.Tensor:
    """Rotary positions of heads [B,T,H,d]: number i and number i + d/2 are a pair."""
    tokens, half = x.shape[1], x.shape[-1] // 2
    angles = torch.arange(tokens, dtype=x.dtype)[:, None] * 10000.0 ** (-torch.arange(half, dtype=x.dtype) / half)
    cos, sin = angles.cos()[:, None], angles.sin()[:, None]
    first, second = x[..., :half], x[..., half:]
    return torch.cat([first * cos - second * sin, second * cos + first * sin], -1)


def logits_of(w: dict[str, torch.Tensor], ids: torch.Tensor, model: dict) -> torch.Tensor:
    heads, keys, head = model["heads"], model["kv_heads"], model["width"] // model["heads"]
    h = w["model.embedding.0.weight"][ids]
    for layer in range(model["layers"]):
        at = f"model.layers.{layer}."
        qkv = rms_norm(h, w[at + "attention.norm.weight"]) @ w[at + "attention.qkv.weight"].T
        q, k, v = (part.unflatten(-1, (-1, head)) for part in qkv.split([heads * head, keys * head, keys * head], -1))
        q = turned(rms_norm(q, w[at + "attention.query_norm.weight"]))
        k = turned(rms_norm(k, w[at + "attention.key_norm.weight"])).repeat_interleave(heads // keys, 2)
        scores = torch.einsum("bthd,bshd->bhts", q, k) / math.sqrt(head)
        hidden = torch.ones(ids.shape[1], ids.shape[1], dtype=torch.bool).triu(1)
        p = scores.masked_fill(hidden, -math.inf).softmax(-1)
        z = torch.einsum("bhts,bshd->bthd", p, v.repeat_interleave(heads // keys, 2)).flatten(2)
        h = h + z @ w[at + "attention.output.weight"].T
        gate, up = (rms_norm(h, w[at + "ff.norm.weight"]) @ w[at + "ff.in.weight"].T).chunk(2, -1)
        h = h + (torch.nn.functional.silu(gate) * up) @ w[at + "ff.out.weight"].T
    return rms_norm(h, w["model.final_norm.weight"]) @ w["model.embedding.0.weight"].T


def rate_of(step: int, train: dict) -> float:
    """Warm-up, stable, decay by 1 - sqrt, to 0."""
    steps = train["steps"]
    decay = max(1, round(train.get("decay_share", 0.2) * steps))
    if step < train["warmup"]:
        return train["lr"] * step / train["warmup"]
    fallen = max(0.0, (step - (steps - decay)) / decay)
    return train["lr"] * (1.0 - math.sqrt(fallen))


def orthogonalized(g: torch.Tensor) -> torch.Tensor:
    """Muon's Newton-Schulz iteration."""
    a, b, c = 3.4445, -4.7750, 2.0315
    x = g / max(g.norm().item(), 1e-7)
    for _ in range(5):
        gram = x @ x.T
        x = a * x + (b * gram + c * gram @ gram) @ x
    return x


class Optimizer:
    """Muon for the matrices of layers, AdamW for all others; weight decay for matrices."""

    def __init__(self, w: dict[str, torch.Tensor], train: dict):
        self.w, self.train, self.updates = w, train, 0
        self.m = {name: torch.zeros_like(p) for name, p in w.items()}
        self.v = {name: torch.zeros_like(p) for name, p in w.items()}

    def step(self, lr: float) -> None:
        self.updates += 1
        beta1, beta2 = self.train["betas"]
        mu = self.train.get("momentum", 0.95)
        for name, p in self.w.items():
            g, m, v = p.grad, self.m[name], self.v[name]
            if p.dim() == 2:
                p.mul_(1.0 - lr * self.train["weight_decay"])
            if p.dim() == 2 and name.startswith("model.layers."):
                m.mul_(mu).add_(g, alpha=1.0 - mu)
                p.sub_(lr * 0.2 * math.sqrt(max(p.shape)) * orthogonalized((1.0 - mu) * g + mu * m))
            else:
                m.mul_(beta1).add_(g, alpha=1.0 - beta1)
                v.mul_(beta2).add_(g.square(), alpha=1.0 - beta2)
                root = (v / (1.0 - beta2**self.updates)).sqrt() + 1e-8
                p.sub_(lr * m / (1.0 - beta1**self.updates) / root)


def trained() -> dict[str, torch.Tensor]:
    model, train, vocabulary = read_recipe()
    w = first_weights(model, vocabulary)
    out = {"param/" + name: p.detach().clone() for name, p in w.items()}
    average = {name: p.detach().clone() for name, p in w.items()}
    tokens = torch.randint(0, vocabulary, (train["lanes"], train["steps"] * train["segment"] + 1))
    tokens[:, 1::2] = (3 * tokens[:, :-1:2] + 1) % vocabulary  # every second one can be predicted
    optimizer, losses, norms, rates = Optimizer(w, train), [], [], []
    for step in range(train["steps"]):
        part = tokens[:, step * train["segment"]:(step + 1) * train["segment"] + 1]
        for p in w.values():
            p.grad = None
        logits = logits_of(w, part[:, :-1], model)
        log_sum = logits.logsumexp(-1)
        loss = (log_sum - logits.gather(-1, part[:, 1:, None]).squeeze(-1)).mean()
        (loss + train["z_loss"] * log_sum.square().mean()).backward()
        norm = torch.stack([p.grad.norm() for p in w.values()]).norm()
        lr = rate_of(step, train)
        with torch.no_grad():
            for p in w.values():
                p.grad *= min(1.0, train["clip"] / (norm.item() + 1e-6))
            optimizer.step(lr)
            d = min(train["average"], (2.0 + step) / (11.0 + step))
            for name, p in w.items():
                average[name].mul_(d).add_(p, alpha=1.0 - d)
        losses.append(loss.item())
        norms.append(norm.item())
        rates.append(lr)
    for name, values in (("loss", losses), ("grad_norm", norms), ("lr", rates)):
        out[name] = torch.tensor(values, dtype=torch.float64)
    out |= {"average/" + name: a for name, a in average.items()}
    return out | {"tokens": tokens.to(torch.int32)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true")
    path = HERE / "strong.safetensors"
    tensors = trained()
    print("losses", [round(loss, 4) for loss in tensors["loss"].tolist()])
    if not parser.parse_args().check:
        overrides = [f"{key}={value}" for key, value in SMALLER.items()]
        save_file(tensors, path, {"family": "strong", "overrides": json.dumps(overrides)})
        return
    with safe_open(path, "pt") as stored:
        for name, tensor in tensors.items():
            torch.testing.assert_close(stored.get_tensor(name), tensor, rtol=1e-10, atol=1e-12)


if __name__ == "__main__":
    main()
