"""small_ops.cpp in Python."""

import mneme


class SmallOps(mneme.Memory):
    id = "bench.small_ops_in_python"
    ops = mneme.integer(0, 0, 1000, "operations of the hook; 0 = an empty hook")

    def setup(self, s):
        s.parameter("start", [1, 1, s.width], mneme.constant(1.0))

    def read(self, layer, queries):
        if self.ops == 0:
            return mneme.nothing()
        x = layer.parameter("start")
        for _ in range(self.ops // 2):
            x = x * 0.5 + 1.0
        return mneme.add(x)
