"""my_memory: the last row of the past, added through a learned gate. Replace it with a memory of your own."""

import torch

import mneme


class MyMemory(mneme.Memory):
    id = "org.example.my_memory"
    version = "0.1.0"
    summary = "keeps the last row of the past and adds it through a gate"
    scale = mneme.real(1.0, 0.0, 10.0, "factor of what is read", at_evaluation=True)

    def setup(self, s):
        s.parameter("gate", [s.width])
        s.slot("last", [mneme.LANES, s.width])

    def absorb(self, layer, rows):
        """After the segment: rows.hidden [B,m,D] are the layer's inputs. Slots hold f32 (f64 in f64 runs) while rows come in
        the layer's compute dtype, so the cast is explicit."""
        last = layer.slot("last")
        row = rows.hidden[:, -1].to(last.dtype)
        if rows.valid is not None:  # a lane may lack the row, as behind a cache, or where it has ended
            row = torch.where(rows.valid[:, -1:], row, last)
        layer.set("last", row)

    def read(self, layer, queries):
        """While reading: [B,1,D] is added to the attention's projected result [B,T,D]."""
        out = self.scale * (torch.tanh(layer.parameter("gate")) * layer.slot("last"))
        return mneme.add(out.to(layer.compute_dtype).unsqueeze(1))
