"""A decayed mean of past rows, read through a learned gate: examples/decayed_mean in Python."""

import torch

import mneme


class DecayedMean(mneme.Memory):
    id = "org.example.decayed_mean"
    version = "0.1.0"
    summary = "a decayed mean of past rows, read through a learned gate; an example in Python"
    decay = mneme.real(0.9, 0.0, 1.0, "weight of the past")

    def setup(self, s):
        s.parameter("gate", [s.width])
        s.slot("mean", [mneme.LANES, s.width])

    def absorb(self, layer, rows):
        old = layer.slot("mean")
        hidden = rows.hidden.to(old.dtype)  # [B,m,D]
        if rows.valid is None:
            layer.set("mean", self.decay * old + (1 - self.decay) * hidden.mean(1))
            return
        count = rows.valid.to(old.dtype).unsqueeze(2).sum(1)  # [B,1]
        valid = rows.valid.unsqueeze(2)  # [B,m,1]: an invalid row may hold even NaN
        average = torch.where(valid, hidden, 0.0).sum(1) / count.clamp_min(1.0)
        layer.set("mean", old + (1 - self.decay) * count.clamp_max(1.0) * (average - old))

    def read(self, layer, queries):
        out = torch.sigmoid(layer.parameter("gate")) * layer.slot("mean")
        return mneme.add(out.to(layer.compute_dtype).unsqueeze(1))  # [B,1,D]
