"""A recurrent matrix for each head, written by the gated delta rule [Yang, Kautz and Hatamizadeh 2024] and read beside
local attention: examples/gated_delta in Python, whose kernel is a loop over the tokens here."""

import math

import torch

import mneme


def unit(x):
    """The official code's: finite for rows of zeros, and so is the gradient."""
    return x * torch.rsqrt(x.square().sum(-1, keepdim=True) + 1e-6)


def logit(share):
    """Start value of a bias whose sigmoid is to be `share`."""
    return mneme.constant(math.log(share / (1 - share)))


def delta_rule(q, k, v, alpha, beta, state):
    """out_t = S_(t-1) q_t;  S_t = alpha_t S_(t-1) + beta_t (v_t - alpha_t S_(t-1) k_t) k_t^T

    q, k, v [B,T,H,d], alpha, beta [B,T,H], state [B,H,d,d] with rows for v and columns for k. Gives out [B,T,H,d] and S_T."""
    out = []
    for t in range(q.shape[1]):
        a, b = alpha[:, t, :, None], beta[:, t, :, None]
        out.append((state @ q[:, t].unsqueeze(3)).squeeze(3))
        error = v[:, t] - a * (state @ k[:, t].unsqueeze(3)).squeeze(3)
        state = a.unsqueeze(3) * state + (b * error).unsqueeze(3) * k[:, t].unsqueeze(2)
    return torch.stack(out, 1), state


class GatedDelta(mneme.Memory):
    id = "org.example.gated_delta"
    version = "0.1.0"
    summary = ("a matrix for each head that forgets, corrects and recalls token by token [Yang, Kautz and Hatamizadeh 2024]; "
               "in Python")
    retention = mneme.real(0.98, 0.001, 0.999, "alpha at the start: what a token leaves")
    step = mneme.real(0.5, 0.001, 0.999, "beta at the start: how far a token corrects")
    scale = mneme.real(1.0, 0.0, 100.0, "factor of what is read, at the start")

    def setup(self, s):
        s.parameter("alpha_weight", [s.heads, s.width], mneme.fan_in_uniform())
        s.parameter("alpha_bias", [s.heads], logit(self.retention))
        s.parameter("beta_weight", [s.heads, s.width], mneme.fan_in_uniform())
        s.parameter("beta_bias", [s.heads], logit(self.step))
        s.parameter("scale", [s.heads], mneme.constant(self.scale))
        s.slot("state", [mneme.LANES, s.heads, s.head_width, s.head_width], gradient="through")
        s.reads_at("heads")
        s.wants("read_q", "read_k", "read_v", "read_x")

    def read(self, layer, queries):
        """Reads and writes: the slot goes from the state before these tokens to that behind them."""
        state = layer.slot("state")
        x = layer.norm(layer.x).to(state.dtype)
        alpha, beta = (torch.sigmoid(torch.nn.functional.linear(
            x, layer.parameter(f"{name}_weight"), layer.parameter(f"{name}_bias"))) for name in ("alpha", "beta"))
        # The newest tokens: in an open segment k and v hold those of earlier steps as well.
        k = unit(queries.k[:, layer.offset:].to(state.dtype))
        v = queries.v[:, layer.offset:].to(state.dtype)
        if layer.valid is not None:  # padding leaves the state as it is, whatever it holds
            absent = layer.valid.logical_not().unsqueeze(2)  # [B,T,1]
            alpha, beta = alpha.masked_fill(absent, 1.0), beta.masked_fill(absent, 0.0)
            k, v = k.masked_fill(absent.unsqueeze(3), 0.0), v.masked_fill(absent.unsqueeze(3), 0.0)
        out, state = delta_rule(unit(queries.q.to(state.dtype)), k, v, alpha, beta, state)
        layer.set("state", state)
        return mneme.add((out * layer.parameter("scale").reshape(1, 1, -1, 1)).to(layer.compute_dtype))
