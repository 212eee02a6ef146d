"""Transformer-XL, GPT-2 and Llama as one writes them in PyTorch today: fused projections, scaled_dot_product_attention and
its grouped keys, the position term as a bias of the scores. scripts/bench/compare_gpu.py compiles them and trains them beside mneme.

A model is made from the table [model] of a run's experiment.toml, so both sides have one source of sizes. It is called with
ids [B, T], targets [B, T] and the memory that the call before returned, and returns the mean loss and the next memory.
"""
import math

import torch
import torch.nn.functional as F
from torch import nn


class Layer(nn.Module):
    """The parts that all layers have."""

    def __init__(self, m):
        super().__init__()
        self.heads, self.head_width, self.is_gated = m["heads"], m["head_width"], m.get("feed_forward") == "swiglu"
        self.key_heads = m.get("kv_heads") or self.heads
        inner, keys, ff = self.heads * self.head_width, self.key_heads * self.head_width, m["ff"]
        self.qkv = nn.Linear(m["width"], inner + 2 * keys, bias=m.get("qkv_bias", False))
        self.output = nn.Linear(inner, m["width"], bias=m.get("output_bias", False))
        self.ff_in = nn.Linear(m["width"], 2 * ff if self.is_gated else ff, bias=m.get("ff_bias", True))
        self.ff_out = nn.Linear(ff, m["width"], bias=m.get("ff_bias", True))
        self.attention_norm, self.ff_norm = norm(m), norm(m)
        self.dropout, self.attention_dropout = nn.Dropout(m["dropout"]), m["attention_dropout"]
        self.activation = F.relu if m["backbone"] == "xl" else lambda x: F.gelu(x, approximate="tanh")

    def split(self, rows, counts):
        """[B, n, heads * d] into tensors [B, h, n, d] of so many heads."""
        heads = rows.unflatten(-1, (sum(counts), self.head_width)).transpose(1, 2)
        return heads.split(counts, dim=1)

    def attend(self, q, k, v, **mask):
        p = self.attention_dropout if self.training else 0.0
        grouped = self.key_heads != self.heads
        z = F.scaled_dot_product_attention(q, k, v, dropout_p=p, enable_gqa=grouped, **mask)
        return self.dropout(self.output(z.transpose(1, 2).flatten(2)))

    def feed_forward(self, x):
        x = self.ff_in(x)
        if self.is_gated:
            gate, up = x.chunk(2, dim=-1)
            x = F.silu(gate) * up
        else:
            x = self.activation(x)
        return self.dropout(self.ff_out(self.dropout(x)))


class XlLayer(Layer):
    def __init__(self, m):
        super().__init__(m)
        self.position = nn.Linear(m["width"], m["heads"] * m["head_width"], bias=False)

    def forward(self, x, memory, table, content_bias, position_bias, is_hidden):
        h, inner = self.heads, self.heads * self.head_width
        q, = self.split(F.linear(x, self.qkv.weight[:inner]), [h])
        k, v = self.split(F.linear(torch.cat([memory, x], 1), self.qkv.weight[inner:]), [h, h])
        r, = self.split(self.position(table)[None], [h])  # [1, H, K, d], of distance K-1 first
        scores = (q + position_bias[:, None]) @ r.transpose(-1, -2)
        b, _, t, n = scores.shape
        scores = F.pad(scores, (1, 0)).view(b, h, n + 1, t)[:, :, 1:].reshape(b, h, t, n)  # each row moved to its distances
        bias = (scores / math.sqrt(self.head_width)).masked_fill(is_hidden, float("-inf")).to(q.dtype)
        x = self.attention_norm(x + self.attend((q + content_bias[:, None]).to(q.dtype), k, v, attn_mask=bias))
        return self.ff_norm(x + self.feed_forward(x))


class TransformerXl(nn.Module):
    def __init__(self, m, vocabulary, segment, rows):
        super().__init__()
        self.width, self.rows, self.cutoffs = m["width"], rows, m.get("adaptive", {}).get("cutoffs", [])
        self.embedding = nn.Embedding(vocabulary, m["width"])
        self.layers = nn.ModuleList(XlLayer(m) for _ in range(m["layers"]))
        self.content_bias = nn.Parameter(torch.zeros(m["heads"], m["head_width"]))
        self.position_bias = nn.Parameter(torch.zeros(m["heads"], m["head_width"]))
        self.softmax_bias = nn.Parameter(torch.zeros(vocabulary))
        self.cluster = nn.Linear(m["width"], len(self.cutoffs)) if self.cutoffs else None
        self.dropout = nn.Dropout(m["dropout"])
        place = torch.arange(rows + segment - 1, -1, -1.0)[:, None]
        angle = place / 10000 ** (torch.arange(0, m["width"], 2) / m["width"])
        self.register_buffer("sinusoids", torch.cat([angle.sin(), angle.cos()], -1), persistent=False)

    def first_memory(self, lanes):
        """How many rows are filled, and the rows of every layer."""
        rows = self.sinusoids.new_zeros(len(self.layers), lanes, self.rows, self.width)
        return self.sinusoids.new_zeros((), dtype=torch.long), *rows.unbind()

    def forward(self, ids, targets, memory):
        filled, *memory = memory
        t = ids.shape[1]
        column, row = torch.arange(self.rows + t, device=ids.device), torch.arange(t, device=ids.device)[:, None]
        is_hidden = (column > row + self.rows) | (column < self.rows - filled)
        x = self.dropout(self.embedding(ids) * math.sqrt(self.width))
        table, kept = self.dropout(self.sinusoids), []
        for layer, old in zip(self.layers, memory):
            kept.append(torch.cat([old, x], 1)[:, -self.rows :].detach())
            x = layer(x, old, table, self.content_bias, self.position_bias, is_hidden)
        x, targets = self.dropout(x).flatten(0, 1), targets.flatten()
        return self.loss(x, targets), ((filled + t).clamp(max=self.rows), *kept)

    def loss(self, x, targets):
        weight, bias = self.embedding.weight, self.softmax_bias
        if not self.cutoffs:
            return F.cross_entropy(F.linear(x, weight, bias).float(), targets)
        clusters, first, head_targets = len(self.cutoffs), self.cutoffs[0], targets
        for i, begin in enumerate(self.cutoffs, 1):
            head_targets = torch.where(targets >= begin, first + clusters - i, head_targets)
        head = torch.cat([weight[:first], self.cluster.weight]), torch.cat([bias[:first], self.cluster.bias])
        of_heads = F.cross_entropy(F.linear(x, *head).float(), head_targets, reduction="sum")
        return (of_heads + self.loss_of_tails(x, targets)) / len(targets)

    @torch.compiler.disable  # how many words are in a cluster differs from step to step
    def loss_of_tails(self, x, targets):
        weight, bias, total = self.embedding.weight, self.softmax_bias, 0.0
        for begin, end in zip(self.cutoffs, [*self.cutoffs[1:], len(weight)]):
            members = ((targets >= begin) & (targets < end)).nonzero().squeeze(1)
            logits = F.linear(x[members], weight[begin:end], bias[begin:end]).float()
            total = total + F.cross_entropy(logits, targets[members] - begin, reduction="sum")
        return total


class PreNormLayer(Layer):
    def forward(self, x, turn):
        q, k, v = self.split(self.qkv(self.attention_norm(x)), [self.heads, self.key_heads, self.key_heads])
        x = x + self.attend(turn(q), turn(k), v, is_causal=True)
        return x + self.feed_forward(self.ff_norm(x))


class Decoder(nn.Module):
    """GPT-2 and Llama, without memory."""

    def __init__(self, m, vocabulary, segment):
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, m["width"])
        is_learned = m["position"] == "learned"
        self.positions = nn.Embedding(m.get("positions") or segment, m["width"]) if is_learned else None
        self.layers = nn.ModuleList(PreNormLayer(m) for _ in range(m["layers"]))
        self.final_norm, self.dropout = norm(m), nn.Dropout(m["dropout"])
        if not is_learned:
            pair = torch.arange(0, m["head_width"], 2) / m["head_width"]
            angle = torch.arange(segment)[:, None] / m["rotary"]["base"] ** pair
            self.register_buffer("cosines", angle.cos().repeat(1, 2), persistent=False)
            self.register_buffer("sines", angle.sin().repeat(1, 2), persistent=False)

    def first_memory(self, lanes):
        return ()

    def turn(self, x):
        a, b = x.chunk(2, dim=-1)
        return (x * self.cosines + torch.cat([-b, a], -1) * self.sines).to(x.dtype)

    def forward(self, ids, targets, memory):
        x = self.embedding(ids)
        if self.positions is not None:
            x = x + self.positions.weight[: ids.shape[1]]
        x = self.dropout(x)
        for layer in self.layers:
            x = layer(x, self.turn if self.positions is None else lambda rows: rows)
        x = self.dropout(self.final_norm(x)).flatten(0, 1)
        return F.cross_entropy(F.linear(x, self.embedding.weight).float(), targets.flatten()), memory


def norm(m):
    of = nn.RMSNorm if m.get("norm_kind") == "rms" else nn.LayerNorm
    return of(m["width"], eps=m.get("norm_epsilon", 1e-5))


def make_model(m, vocabulary, segment, rows):
    return TransformerXl(m, vocabulary, segment, rows) if m["backbone"] == "xl" else Decoder(m, vocabulary, segment)


# Names of mneme's checkpoints, and the names here; replaced in this order.
NAMES = (("model.", ""), ("embedding.0.", "embedding."), ("position.embedding", "positions.weight"),
         (".attention.norm.", ".attention_norm."), ("attention.", ""), (".ff.", ".ff_"), ("softmax.0.bias", "softmax_bias"),
         ("softmax.cluster.", "cluster."))


def load_checkpoint(model, tensors):
    """Takes the weights of a checkpoint of mneme, which holds those of the optimiser too."""
    weights = {}
    for name, tensor in tensors.items():
        if name.startswith("model."):
            for theirs, ours in NAMES:
                name = name.replace(theirs, ours)
            weights[name] = tensor
    model.load_state_dict(weights)
