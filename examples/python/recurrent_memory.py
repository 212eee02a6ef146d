"""Vectors that stand at both ends of a segment and are carried to the next one (Recurrent Memory Transformer, Bulatov et al.
2022): examples/recurrent_memory in Python."""

import torch

import mneme


class RecurrentMemory(mneme.Memory):
    id = "org.example.recurrent_memory"
    version = "0.1.0"
    summary = "memory vectors before and behind each segment, carried with their gradient (Bulatov et al. 2022); in Python"
    rows = mneme.integer(8, 0, 4096, "memory vectors m; 0 = no memory")

    def setup(self, s):
        if self.rows == 0:
            s.has_no_riders()
            return
        s.parameter("start", [self.rows, s.width], mneme.normal(0.0, 0.02), scope="model")
        s.slot("memory", [mneme.LANES, self.rows, s.width], "start", scope="model", gradient="through")
        s.context_rows(self.rows)
        s.wants("finish_riders")

    def begin(self, segment):
        """Twice the memory: rows that will be the new one, which no token sees, then rows that all see."""
        if self.rows == 0:
            return None
        memory = segment.slot("memory")
        return mneme.Riders(torch.cat([memory, memory], 1), unseen=self.rows)

    def ride(self, layer, ride):
        """k, v: new rows, old rows, tokens. The old rows see themselves; the new ones see everything."""
        old = slice(self.rows, 2 * self.rows)
        new_z, _ = layer.attention(ride.q[:, :self.rows], ride.k, ride.v, "full", key_valid=ride.valid)
        old_z, _ = layer.attention(ride.q[:, old], ride.k[:, old], ride.v[:, old], "full")
        return torch.cat([new_z, old_z], 1)

    def finish(self, segment, finish):
        if self.rows > 0:
            segment.set("memory", finish.riders[:, :self.rows].to(segment.slot("memory").dtype))
