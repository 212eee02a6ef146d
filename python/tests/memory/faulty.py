"""Memories that each break one rule that PyTorch allows to break, by the check that finds it."""

RIGHT = '''\
import torch
from mneme import memory as mneme

KEPT = {{}}


class Faulty(mneme.Memory):
    id = "org.example.faulty"

    def setup(self, s):
        s.parameter("gate", [s.width], mneme.constant(0.5))
        s.slot("last", [mneme.LANES, s.width])

    def absorb(self, layer, rows):
        last = layer.slot("last")
        row = rows.hidden[:, -1].to(last.dtype)
{absorb}
        layer.set("last", row)

    def read(self, layer, queries):
        out = layer.parameter("gate") * layer.slot("last")
        return mneme.add(out.to(layer.compute_dtype).unsqueeze(1))
'''

LINE = 17
"""Of the fault."""

FAULTS = {
    "values": "row = row * float(row.abs().max() >= 0)",
    "writes": "last += 0.0",
    "random": "row = row + 0.0 * torch.rand(1)",
    "keeps": "KEPT['last'] = row",
    "dtype": "row = row.float().to(row.dtype)",
}

OTHER_FAULTS = {
    "values": ["row = row if bool((row == row).all()) else last", "row = row + 0 * row[row != 0].sum()",
               "row = row + 0 * row.nonzero().sum()", "row.tolist()", "row.numpy()", "torch.equal(row, last)"],
    "writes": ["rows.hidden.mul_(1.0)", "last[:, 0] = 0.0", "layer.set('last', row); row.add_(0.0)",
               "torch.add(row, 0.0, out=last)", "last.view(-1).zero_()"],
    "random": ["torch.manual_seed(1)", "torch.nn.functional.dropout(row, 0.5)", "torch.randn_like(row)", "row.bernoulli(0.5)"],
    "keeps": ["KEPT.setdefault('all', []).append(rows.hidden)", "Faulty.row = row", "Faulty.absorb.row = last"],
    "dtype": ["row = torch.zeros(row.shape).copy_(row)", "row.to(torch.bfloat16)", "row.sum(0, dtype=torch.float32)",
              "torch.softmax(row, -1, dtype=torch.float32)", "new = torch.zeros(row.shape); new[:, 0] = row[:, 0]",
              "torch.add(row, row, out=torch.zeros(row.shape))"],
}


def memory_with(line: str) -> str:
    """The source of a memory with this line in its hook absorb; "" = one without a fault."""
    return RIGHT.format(absorb=" " * 8 + (line or "pass"))
