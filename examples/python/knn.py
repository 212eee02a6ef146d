"""Keys and values of the past, of which every query reads its nearest ones (Memorizing Transformers, Wu et al. 2022):
examples/knn in Python."""

import torch

import mneme

PIECE = 1024  # scores are searched in pieces of so many rows, so that no tensor holds the scores of all


class Knn(mneme.Memory):
    id = "org.example.knn"
    version = "0.1.0"
    summary = "each query reads its nearest past keys and values; Memorizing Transformers, Wu et al. 2022; in Python"
    rows = mneme.integer(512, 1, 1 << 20, "keys and values that are kept", at_evaluation=True)
    neighbours = mneme.integer(32, 1, 4096, "keys that each query and head reads", at_evaluation=True)
    merge = mneme.choice("lse", "lse|gate", "one softmax over neighbours and local keys, or a learned gate a head")

    def setup(self, s):
        self.heads, self.groups, self.head_width = s.heads, s.kv_heads, s.head_width  # H, G, d
        self.has_content_bias = s.position in ("relative", "disentangled")
        s.queue("past", kind="keys_values", capacity=self.rows)
        if self.merge == "gate":
            s.parameter("gate", [s.heads])
        s.takes_grouped_keys()
        s.read_rows(self.rows)
        s.reads_at("heads")
        s.wants("read_q", "absorb_k", "absorb_v")

    def read(self, layer, queries):
        past = layer.queue("past").rows()
        if past.count == 0:
            return mneme.nothing()
        b, t = layer.lanes, layer.length
        q = self.score_queries(layer, queries.q)  # [B,G,S,d], S = (H/G) T
        if past.count <= self.neighbours:  # all queries read one piece of rows: A = 1 group of queries
            k, v = (x.transpose(1, 2).unsqueeze(2) for x in (past.k, past.v))
            valid = None if past.valid is None else past.valid[:, None, None]
            q = q.unsqueeze(2)
        else:  # each reads its own: A = S
            k, v, valid = self.nearest(q.detach(), past)
            q = q.unsqueeze(3)
        k, v = existing(k, v, valid, q.dtype)
        scores = q @ k.transpose(3, 4)  # [B,G,A,S/A,n]
        if valid is not None:
            scores = torch.where(valid.unsqueeze(3), scores, -torch.inf)
        out = (torch.softmax(scores, -1) @ v).reshape(b, self.heads, t, self.head_width).permute(0, 2, 1, 3)
        if self.merge == "lse":
            return mneme.lse(out, torch.logsumexp(scores, 4).reshape(b, self.heads, t))
        gate = torch.sigmoid(layer.parameter("gate")).reshape(1, 1, self.heads, 1)
        if past.valid is not None:
            gate = torch.where(past.valid.any(1).reshape(b, 1, 1, 1), gate, 0.0)
        return mneme.gate(out, gate)

    def absorb(self, layer, rows):
        """Appends keys and values of the segment, and keeps the newest ones."""
        if layer.local.is_own_segment:
            k, v = layer.local.k, layer.local.v
        else:
            normed = layer.norm(rows.hidden, weight_gradient=False)
            k, v = (layer.project(which, normed, weight_gradient=False) for which in "kv")
        past = layer.queue("past")
        past.append(mneme.Rows("keys_values", rows.count, k=k, v=v, valid=rows.valid, counts=rows.counts))
        past.drop_oldest(max(0, past.size - self.rows))

    def score_queries(self, layer, q):
        """Queries [B,T,H,d] -> [B,G,S,d] in at least f32, such that q.k is what the layer's own attention gives for a key
        without a position: with its content bias and its scale."""
        q = q.to(score_dtype(layer))
        if self.has_content_bias:
            q = q + layer.weight("content_bias")
        shared = self.heads // self.groups
        by_group = (q * layer.scale).reshape(layer.lanes, layer.length, self.groups, shared, self.head_width)
        return by_group.permute(0, 2, 3, 1, 4).reshape(layer.lanes, self.groups, shared * layer.length, self.head_width)

    def nearest(self, q, past):
        """The rows with the largest scores of each query, [B,G,S,n,d]. The search has no gradient; the scores of what was
        found are computed again, with theirs."""
        values, rows = self.search(q, past)
        rows = rows.unsqueeze(4).expand(-1, -1, -1, -1, self.head_width)

        def pick(x):  # [B,M,G,d]
            of_queries = x.transpose(1, 2).unsqueeze(2).expand(-1, -1, q.shape[2], -1, -1)
            return torch.gather(of_queries, 3, rows)

        return pick(past.k), pick(past.v), None if past.valid is None else values != -torch.inf

    def search(self, q, past):
        """The largest scores of each query and the rows that they belong to, [B,G,S,n]."""
        k = past.k.permute(0, 2, 3, 1)  # [B,G,d,M]
        absent = None if past.valid is None else past.valid.logical_not()[:, None, None]
        best, rows = None, None
        for first in range(0, past.count, PIECE):
            last = min(past.count, first + PIECE)
            scores = q @ k[..., first:last].to(q.dtype)
            if absent is not None:
                scores = scores.masked_fill(absent[..., first:last], -torch.inf)
            values, places = torch.topk(scores, min(self.neighbours, last - first), 3, True, False)
            if first > 0:
                joined = torch.cat([best, values], 3)
                places = torch.cat([rows, places + first], 3)
                values, chosen = torch.topk(joined, min(self.neighbours, last), 3, True, False)
                places = torch.gather(places, 3, chosen)
            best, rows = values, places
        return best, rows


def score_dtype(layer):
    return torch.float64 if layer.compute_dtype == torch.float64 else torch.float32


def existing(k, v, valid, dtype):
    """Rows that a lane lacks hold any numbers, NaN too: they are zeroed, so that what has weight 0 gives 0."""
    if valid is not None:
        k = torch.where(valid.unsqueeze(4), k, 0.0)
        v = torch.where(valid.unsqueeze(4), v, 0.0)
    return k.to(dtype), v.to(dtype)
