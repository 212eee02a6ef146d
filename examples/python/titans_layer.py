"""Titans with its memory as a layer, in place of attention (MAL) [Behrouz, Zhong and Mirrokni 2024, arXiv 2501.00663, section 4.3].
titans.py states the equations and holds the network.

    o_t = M([p, x])_t        eq. 29 and 30; x behind the layer's norm, p the persistent tokens

A model alternates such layers and attention (eq. 31) where the tier's `layers` names every second one:

    [[memory.tier]]
    plugin = "titans_layer.py"
    layers = [0, 2, 4]

Departures: those of titans.py, and between a layer of memory and one of attention lies the feed-forward. Attention does not see the
results of persistent tokens: what is no token has no row in the layers above, where riders would need attention here. Losses do not
depend on how a text is cut into segments."""

import mneme
from titans import NeuralMemory, Options


class TitansLayer(Options, mneme.Memory):
    id = "org.example.titans_layer"
    version = "0.1.0"
    summary = "a network that learns while it reads, in place of attention [Behrouz, Zhong and Mirrokni 2024]; in Python"

    def setup(self, s):
        self.memory = NeuralMemory(s, self)
        s.replaces_attention()
        s.wants("read_normed")
        s.is_cut_invariant()

    def read(self, layer, queries):
        return mneme.replace(self.memory.write(layer, queries.normed, writes_persistent=True).to(layer.compute_dtype))
