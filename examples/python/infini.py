"""A linear associative memory for each head, read before it is written [Munkhdalai, Faruqui and Gopal 2024]:
examples/infini in Python. Gradients flow through it from segment to segment."""

import math

import torch

import mneme


def sigma(x):
    """elu(x) + 1 is above 0, but rounds to 0 where e^x is small beside 1; this sum does not."""
    return torch.relu(x) + torch.exp(x.clamp_max(0.0))


class Infini(mneme.Memory):
    id = "org.example.infini"
    version = "0.1.0"
    summary = "an associative matrix for each head beside local attention [Munkhdalai, Faruqui and Gopal 2024]; in Python"
    update = mneme.choice("linear", "linear|delta",
                          "what is added for a key: its value, or its value less what the memory gives",
                          trained=True)
    gate = mneme.real(0.5, 0.001, 0.999, "share of the memory in a head's result at the start")

    def setup(self, s):
        d = s.head_width
        self.groups = s.kv_heads  # G
        s.slot("matrix", [mneme.LANES, self.groups, d, d], gradient="through")
        s.slot("normaliser", [mneme.LANES, self.groups, d], gradient="through")
        s.parameter("beta", [s.heads], mneme.constant(math.log(self.gate / (1 - self.gate))))
        s.takes_grouped_keys()
        s.reads_at("heads")
        s.wants("read_q", "absorb_k", "absorb_v")

    def read(self, layer, queries):
        """The memory as it was before this segment, for all tokens of it. A query that meets nothing has gate 0."""
        b, t, heads, d = queries.q.shape
        q = queries.q.to(layer.slot("matrix").dtype)
        values, is_empty = self.look_up(layer, sigma(q.reshape(b, t, self.groups, heads // self.groups, d)))
        is_empty = is_empty.reshape(b, t, heads, 1)
        share = torch.sigmoid(layer.parameter("beta")).reshape(1, 1, heads, 1)
        return mneme.gate(values.reshape(b, t, heads, d), share.expand(is_empty.shape).masked_fill(is_empty, 0.0))

    def absorb(self, layer, rows):
        """Writes the segment's keys and values, or those of the rows that another tier released."""
        matrix, normaliser = layer.slot("matrix"), layer.slot("normaliser")
        absent = None if rows.valid is None else rows.valid.logical_not().unsqueeze(2)  # [B,m,1]
        k, v = layer.local.k, layer.local.v  # [B,m,G,d], in the graph
        if not layer.local.is_own_segment:
            hidden = rows.hidden if absent is None else rows.hidden.masked_fill(absent, 0.0)
            normed = layer.norm(hidden)
            k, v = layer.project("k", normed), layer.project("v", normed)
        k = sigma(k.to(matrix.dtype))
        v = v.to(matrix.dtype)
        if absent is not None:
            k = k.masked_fill(absent.unsqueeze(3), 0.0)
            v = v.masked_fill(absent.unsqueeze(3), 0.0)
        if self.update == "delta":
            v = v - self.look_up(layer, k.unsqueeze(3))[0].squeeze(3)
        layer.set("matrix", matrix + torch.einsum("bmgd,bmge->bgde", k, v))
        layer.set("normaliser", normaliser + k.sum(1))

    def look_up(self, layer, keys):
        """keys [B,m,G,n,d], n for each matrix: s M / (s . z) [B,m,G,n,d], and where the normaliser is 0, [B,m,G,n,1]."""
        total = torch.einsum("bmgnd,bgd->bmgn", keys, layer.slot("normaliser")).unsqueeze(4)
        is_empty = total == 0.0
        return torch.einsum("bmgnd,bgde->bmgne", keys, layer.slot("matrix")) / total.masked_fill(is_empty, 1.0), is_empty
