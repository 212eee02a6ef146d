"""RWKV-7's time mixing in place of a layer's attention [Peng et al. 2025, "RWKV-7 Goose with Expressive Dynamic State
Evolution", arXiv 2503.14456, section 4]: a matrix for each head that decays by channel, removes what lies under one key and
writes under another.

Letters: B lanes, T tokens, D the model's width, H heads, K the width of a head's keys and values, * by channel. With x [D] the
layer's input behind its norm and x' that of the token before (zeros before the first), for each token:

    x_m  = x + (x' - x) * mu_m                            m = r, w, k, v, a, g: six mixtures
    r    = Wr x_r,  k = Wk x_k,  v = Wv x_v               [H*K]
    w    = exp(-e^-0.5 sigmoid(d0 + D2 tanh(D1 x_w)))     [H*K] decay, between 0.545 and 1
    a    = sigmoid(a0 + A2 A1 x_a)                        [H*K] rate of learning in context
    v    = v + (v_first - v) * sigmoid(n0 + N2 N1 x_v)    v_first: v of the first layer served, which has no n0, N2, N1
    g    = G2 sigmoid(G1 x_g)                             [H*K] gate
    z    = k * xi / |k * xi|                              removal key, of length 1 in each head
    k~   = k * (1 + (a - 1) * alpha)                      key that is written
    S_t  = S_(t-1) (diag(w_t) - z_t (a_t * z_t)^T) + v_t k~_t^T        S [K,K] for each head, rows for values
    out  = S_t r_t
    y    = Wo [g * (GroupNorm(out) + (r . (rho * k~)) v)]              the norm and the product are over a head's channels

`recurrence` computes chunks of 16 tokens by products. Its exponents are at most 16 e^-0.5 < 9.8, since no decay is stronger.

State of a layer and lane, with gradient through train.bptt_segments segments: `state` [H,K,K], the transpose of S, and
`previous` [D]. v_first lives for a segment. Padding is read as zeros: the lane is reset behind it.

Departures:
- The released code starts the weights by depth and channel, with orthogonal matrices, and zeros in the output's and in the
  first factors of low ranks. Here matrices start uniform by their fan-in; the vectors mu, d0, a0, n0, xi, alpha, rho and the
  norm's weight have one law or number for all layers and channels (`setup`).
- The layer's feed-forward network follows as behind attention; RWKV-7 has one with a token shift and squared ReLU there.
"""

import torch
from torch.nn.functional import group_norm, linear

import mneme

CHUNK = 16


def unit(x):
    """Length 1 along the last dimension; finite for rows of zeros, and so is the gradient."""
    return x * torch.rsqrt(x.square().sum(-1, keepdim=True) + 1e-12)


def recurrence(r, decay, k, v, removal, rate, state):
    """h_t = diag(e^decay_t) h_(t-1) + (rate_t * removal_t) u_t^T + k_t v_t^T,  u_t = -h_(t-1)^T removal_t,  out_t = h_t^T r_t

    r, decay, k, removal, rate [B,T,H,K], v [B,T,H,V], state h_0 [B,H,K,V]; decay between -e^-0.5 and 0. Gives out [B,T,H,V]
    and h_T. Within a chunk, with G_t the sum of its decays to t, these matrices have a row for each token:

        R = r_t e^G_t,  A = -removal_t e^G_(t-1),  K = k_t e^-G_t,  C = rate_t removal_t e^-G_t
        (I - below(A C^T)) U = A h_0 + below(A K^T) V                      below: without diagonal, since u_t sees h_(t-1)
        out = R h_0 + to(R C^T) U + to(R K^T) V                            to: with diagonal
        h   = diag(e^G) (h_0 + C^T U + K^T V)                              G of the chunk's last token"""
    out = []
    inputs = [x.transpose(1, 2).split(CHUNK, 2) for x in (r, decay, k, v, removal, rate * removal)]
    for r, decay, k, v, removal, correction in zip(*inputs):  # [B,H,C,K] each
        total = decay.cumsum(2)
        growth = torch.exp(-total)
        r, removal = r * torch.exp(total), -removal * torch.exp(total - decay)
        k, correction = (k * growth).transpose(2, 3), (correction * growth).transpose(2, 3)
        u = torch.linalg.solve_triangular(
            torch.tril(-(removal @ correction), -1), removal @ state + torch.tril(removal @ k, -1) @ v,
            upper=False, unitriangular=True)
        out.append(r @ state + torch.tril(r @ correction) @ u + torch.tril(r @ k) @ v)
        state = torch.exp(total[:, :, -1]).unsqueeze(3) * (state + correction @ u + k @ v)
    return torch.cat(out, 2).transpose(1, 2), state


class Rwkv7(mneme.Memory):
    id = "org.example.rwkv7"
    version = "0.1.0"
    summary = "RWKV-7's time mixing in place of attention: a generalised delta rule [Peng et al. 2025]; in Python"
    heads = mneme.integer(0, 0, 256, "heads; 0 = the model's", trained=True)
    head_width = mneme.integer(0, 0, 512, "width of a head's keys and values; 0 = that of the model's heads", trained=True)
    decay_rank = mneme.integer(64, 1, 1024, "rank of the decays' projection; the ranks are those of the paper's width of 768")
    rate_rank = mneme.integer(64, 1, 1024, "rank of the projection of rates")
    value_rank = mneme.integer(32, 1, 1024, "rank of the projection of shares of the first layer's values")
    gate_rank = mneme.integer(128, 1, 1024, "rank of the gate's projection")

    def setup(self, s):
        self.count = self.heads if self.heads > 0 else s.heads  # H
        self.keys = self.head_width if self.head_width > 0 else s.head_width  # K
        inner = self.count * self.keys
        self.first = s.served[0]
        for name in ("r", "k", "v"):
            s.parameter(f"{name}_weight", [inner, s.width], mneme.fan_in_uniform())
        s.parameter("out_weight", [s.width, inner], mneme.fan_in_uniform())
        s.parameter("shift", [6, s.width], mneme.uniform(0.0, 0.5), group="none")  # mu of r, w, k, v, a, g
        for name, rank in (("decay", self.decay_rank), ("rate", self.rate_rank), ("gate", self.gate_rank)):
            s.parameter(f"{name}_down", [rank, s.width], mneme.fan_in_uniform())
            s.parameter(f"{name}_up", [inner, rank], mneme.fan_in_uniform())
        s.parameter("decay_bias", [inner], mneme.uniform(-6.0, 1.0), group="none")
        s.parameter("rate_bias", [inner], mneme.constant(-0.19), group="none")
        for layer in s.served[1:]:  # the model's, because the first layer has none
            s.parameter(f"value{layer}_down", [self.value_rank, s.width], mneme.fan_in_uniform(), scope="model")
            s.parameter(f"value{layer}_up", [inner, self.value_rank], mneme.fan_in_uniform(), scope="model")
            s.parameter(f"value{layer}_bias", [inner], mneme.constant(0.73), scope="model", group="none")
        for name, start in (("removal", 0.71), ("replacement", 1.02), ("bonus", -0.04),  # xi, alpha, rho
                            ("norm_weight", 1.0), ("norm_bias", 0.0)):
            s.parameter(name, [inner], mneme.constant(start), group="none")
        s.slot("state", [mneme.LANES, self.count, self.keys, self.keys], gradient="through")
        s.slot("previous", [mneme.LANES, s.width], gradient="through")
        s.slot("first_values", [mneme.LANES, mneme.ANY, inner], scope="model", lifetime="segment")
        s.replaces_attention()
        s.reads_at("out")
        s.wants("read_normed")
        s.is_cut_invariant()

    def read(self, layer, queries):
        state, dtype = layer.slot("state"), layer.compute_dtype

        def product(name, x):
            """The large products are in the compute dtype, all else in the state's."""
            return linear(x.to(dtype), layer.parameter(name).to(dtype)).to(state.dtype)

        def low_rank(name, x, between=None, has_bias=True):
            x = linear(x, layer.parameter(f"{name}_down"))
            return linear(x if between is None else between(x), layer.parameter(f"{name}_up"),
                          layer.parameter(f"{name}_bias") if has_bias else None)

        x = queries.normed.to(state.dtype)
        if layer.valid is not None:
            x = x.masked_fill(layer.valid.logical_not().unsqueeze(2), 0.0)
        before = torch.cat([layer.slot("previous").unsqueeze(1), x[:, :-1]], 1)
        layer.set("previous", x[:, -1])
        x_r, x_w, x_k, x_v, x_a, x_g = (x + (before - x) * layer.parameter("shift")[:, None, None]).unbind(0)
        r, k, v = product("r_weight", x_r), product("k_weight", x_k), product("v_weight", x_v)
        decay = -0.6065306597126334 * torch.sigmoid(low_rank("decay", x_w, torch.tanh))  # e^-0.5
        rate = torch.sigmoid(low_rank("rate", x_a))
        gate = low_rank("gate", x_g, torch.sigmoid, False)
        if layer.layer == self.first:
            layer.set("first_values", v)
        else:
            v = v + (layer.slot("first_values") - v) * torch.sigmoid(low_rank(f"value{layer.layer}", x_v))
        removal = unit(self.by_heads(k * layer.parameter("removal")))
        k = k * (1 + (rate - 1) * layer.parameter("replacement"))

        r, k, v = self.by_heads(r), self.by_heads(k), self.by_heads(v)
        out, state = recurrence(r, self.by_heads(decay), k, v, removal, self.by_heads(rate), state)
        layer.set("state", state)
        normed = group_norm(out.flatten(0, 1).flatten(1), self.count, layer.parameter("norm_weight"),
                            layer.parameter("norm_bias"), 1e-5 * self.keys).reshape(gate.shape)
        bonus = (r * k * layer.parameter("bonus").reshape(self.count, self.keys)).sum(-1, keepdim=True) * v
        return mneme.replace(product("out_weight", gate * (normed + bonus.flatten(2))).to(dtype))

    def by_heads(self, x):
        """[B,T,H*K] -> [B,T,H,K]."""
        return x.reshape(x.shape[0], x.shape[1], self.count, self.keys)
