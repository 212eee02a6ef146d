"""The associative recurrent memory transformer: memory tokens behind each segment, whose outputs every layer writes into a matrix of
its own [Rodkin, Kuratov, Bulatov and Burtsev 2024, arXiv 2407.04841, section 3; released code: associative-recurrent-memory-transformer].

m memory tokens, learned and the same in every segment, are behind the segment's tokens and pass all layers with them. No token sees
them; memory token i sees the tokens and memory tokens up to itself. Of a layer with input x [D] and the outputs y_i [D] of its memory
tokens, with A [K,D] and z [K] from the segments before, K = 6 `key_width`:

    phi(u) = DPFP-3 of u, divided by its length         DPFP-n: r = [relu(u), relu(-u)], the products r roll(r, j), j = 1 .. n
    a(x) = phi(Wq x) A / (phi(Wq x) . z + 1e-5)         what every token reads
    k_i, v_i, beta_i = phi(Wk y_i), Wv y_i, sigmoid(wb . y_i + bb)
    u_i = k_i A / (k_i . z + 1e-5)                      what the memory holds for the key
    A += sum_i beta_i k_i (v_i - u_i)^T                 the delta rule
    z += sum_i gamma_i k_i                              gamma_i = 1 - k_i . z / |k_i|^2, from 0 to 1, without gradient: `correction`

Departures:
- The paper adds a(x) to the layer's input, so that the layer's attention sees it; here it is added to the attention's result. No hook
  of a tier changes a layer's input.
- Memory tokens read no a(x): `read` has results of tokens alone.
- The default branch of the released code does not divide DPFP-3 by its length; its branch `experimental` does, as here.
- The released code has gamma = 1 in a lane's first segment and 1e-5 in k_i . z afterwards; without it both are one formula.

Gradients reach the memory's parameters through the state alone: give `train.bptt_segments` of 2 or more. A and z of all layers are
state of the model, because the output of the last layer's memory tokens is known when all layers are done. examples/recurrent_memory
carries such tokens themselves, examples/infini writes a matrix of every token's keys and values."""

import torch

import mneme

ROLLS = 3  # n of DPFP-n
SMALL = 1e-5


def phi(u):
    """[..., key_width] -> [..., 6 key_width], of length 1."""
    r = torch.relu(torch.cat([u, -u], -1))
    return torch.nn.functional.normalize(torch.cat([r * r.roll(j, -1) for j in range(1, ROLLS + 1)], -1), dim=-1)


class Armt(mneme.Memory):
    id = "org.example.armt"
    version = "0.1.0"
    summary = "memory tokens that each layer writes into a matrix by the delta rule [ARMT, Rodkin et al. 2024]; in Python"
    rows = mneme.integer(8, 1, 4096, "memory tokens m")
    key_width = mneme.integer(32, 1, 4096, "width of keys before DPFP-3, which makes six times as many of them", trained=True)
    correction = mneme.boolean(True, "gamma: the normaliser takes in the new part of a key alone", trained=True)

    def setup(self, s):
        width = 2 * ROLLS * self.key_width  # K
        s.parameter("tokens", [self.rows, s.width], mneme.normal(0.0, 0.02), scope="model")
        for name in ("query", "key"):
            s.parameter(f"{name}_weight", [s.layers, self.key_width, s.width], mneme.fan_in_uniform(s.width), scope="model")
        s.parameter("value_weight", [s.layers, s.width, s.width], scope="model")
        s.parameter("beta_weight", [s.layers, s.width], mneme.fan_in_uniform(s.width), scope="model")
        s.parameter("beta_bias", [s.layers], mneme.fan_in_uniform(s.width), scope="model")
        s.slot("matrix", [mneme.LANES, s.layers, width, s.width], scope="model", gradient="through")
        s.slot("normaliser", [mneme.LANES, s.layers, width], scope="model", gradient="through")
        s.slot("outputs", [mneme.LANES, mneme.ANY, s.width], scope="model", lifetime="segment")
        s.wants("read_x", "finish_riders")

    def begin(self, segment):
        tokens = segment.parameter("tokens").to(segment.compute_dtype)
        return mneme.Riders(tokens.expand(segment.lanes, -1, -1), unseen=self.rows)

    def ride(self, layer, ride):
        """Keeps the memory tokens' output of the layer below, and attends as if they were behind the tokens."""
        m = self.rows
        if layer.layer > 0:
            below = ride.hidden.to(layer.slot("outputs").dtype)
            layer.set("outputs", below if layer.layer == 1 else torch.cat([layer.slot("outputs"), below], 1))
        k, v = (torch.cat([x[:, m:], x[:, :m]], 1) for x in (ride.k, ride.v))
        valid = None if ride.valid is None else torch.cat([ride.valid[:, m:], ride.valid[:, :m]], 1)
        return layer.attention(ride.q, k, v, "causal", query_offset=k.shape[1] - m, key_valid=valid)[0]

    def read(self, layer, queries):
        matrix = layer.slot("matrix")[:, layer.layer]  # [B,K,D]
        x = layer.x.to(matrix.dtype)
        q = phi(torch.nn.functional.linear(x, layer.parameter("query_weight")[layer.layer]))  # [B,T,K]
        known = q @ layer.slot("normaliser")[:, layer.layer].unsqueeze(2)
        return mneme.add((q @ matrix / (known + SMALL)).to(layer.compute_dtype))

    def finish(self, segment, finish):
        matrix, normaliser = segment.slot("matrix"), segment.slot("normaliser")  # [B,L,K,D], [B,L,K]
        y = torch.cat([segment.slot("outputs"), finish.riders.to(matrix.dtype)], 1)
        y = y.unflatten(1, (matrix.shape[1], self.rows))  # [B,L,m,D]
        k = phi(y @ segment.parameter("key_weight").mT)  # [B,L,m,K]
        v = y @ segment.parameter("value_weight").mT
        logits = y @ segment.parameter("beta_weight").unsqueeze(2) + segment.parameter("beta_bias").reshape(-1, 1, 1)
        known = k @ normaliser.unsqueeze(3)  # [B,L,m,1]
        error = v - k @ matrix / (known + SMALL)
        segment.set("matrix", matrix + k.mT @ (torch.sigmoid(logits) * error))
        gamma = torch.ones_like(known)
        if self.correction:
            gamma = (1 - known / k.square().sum(3, keepdim=True).clamp_min(SMALL)).clamp(0.0, 1.0).detach()
        segment.set("normaliser", normaliser + (gamma * k).sum(2))
