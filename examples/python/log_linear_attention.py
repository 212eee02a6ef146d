"""Log-linear attention over Mamba-2 in place of a layer's attention [Guo et al. 2025, "Log-Linear Attention", arXiv 2506.04761,
section 3]: each head keeps a matrix for each level of a Fenwick tree over the past, so that its state grows with the logarithm
of the text's length. A level holds a span of tokens twice as long as the level below, and each token weighs the levels anew.

Letters: B lanes, T tokens, D the model's width, H heads, K and V widths of a head's keys and values, L levels, * by channel.
With u [D] the layer's input behind its norm, for each token:

    z [H*V], xBC, dt [H], dl [H,L] = W u                     xBC: x [H,V], B [K], C [K], which the heads share
    xBC    = silu(conv(xBC))                                 each channel with its last `convolution` inputs, and a bias
    dt     = softplus(dt + step_bias)
    decay  = -exp(rate_log) dt                               [H]
    scale  = softplus(level_weight * dl)                     [H,L] the paper's lambda
    out_t  = sum over s <= t of scale_t[level(t,s)] exp(decay_(s+1) + ... + decay_t) (C_t . B_s) dt_s x_s
    y      = Wo RMSNorm((out + skip x) * silu(z))            the norm is over all H*V

level(t,s) is the length of the binary number t xor s, at most L-1, with tokens counted from 0 where the lane began: 0 for the
token itself, l for the 2^(l-1) tokens that differ from it in bit l-1 and are equal above. These are the paper's buckets.

The state of a lane in front of token t is, for each l from 1 on, the sum over the tokens s of level(t,s) = l:

    S_l = sum of exp(decay_(s+1) + ... + decay_(t-1)) B_s (dt_s x_s)^T                [K,V]

A text may be longer than the 2^(L-1) tokens that L levels hold apart: all that lies behind belongs to level L-1.

State of a layer and lane: `states` [H,L-1,K,V] and `convolution` [taps-1,channels] with gradient through train.bptt_segments
segments, and `position` [1], t as i64. Padding is read as zeros: the lane is reset behind it.

Departures:
- The released code starts exp(rate_log) of head h at h; here it starts between 1 and 16, uniform in its logarithm.
- softplus(step_bias) starts between 0.001 and 0.1, uniform in its logarithm; here step_bias starts uniform between the ends'
  inverses, which is the same up to 5 %. Other weights start normal there, and uniform by their fan-in here.
- The released code has 15 levels, the default here, for texts of 2^14 tokens; here the last level goes on.
- The released code may give groups of heads B and C of their own; here all heads share them, its default.
"""

import torch
from torch.nn.functional import linear, silu, softplus

import mneme

CHUNK = 64


def levels_of(differences, count):
    """i64 [...] of at least 0 -> lengths of these binary numbers, at most count - 1."""
    powers = 2 ** torch.arange(count - 1, device=differences.device)
    return (differences.unsqueeze(-1) >= powers).sum(-1)


def chosen(levels, count, dtype):
    """i64 [...] -> [...,count], 1 at the level."""
    return (levels.unsqueeze(-1) == torch.arange(count, device=levels.device)).to(dtype)


def recurrence(q, k, v, decay, scale, states, position):
    """out and state as in the text above, for q = C, k = B and v = dt x.

    q, k [B,T,H,K], v [B,T,H,V], decay [B,T,H] of at most 0, scale [B,T,H,L], states [B,H,L-1,K,V], position [B,1]. Gives out
    [B,T,H,V], states and position behind these tokens. With t0 the first token of a chunk and t1 the first one behind it, a
    token t reads S_l with the scale of level max(l, level(t,t0)), because the tokens of S_l are equal to t0 above bit l-1;
    likewise S_l goes into level max(l, level(t1,t0))."""
    out = []
    lanes, _, heads, width = q.shape
    count, dtype = scale.shape[3], q.dtype
    own = torch.arange(1, count, device=q.device)  # l of S_l
    inputs = [x.transpose(1, 2).split(CHUNK, 2) for x in (q, k, v, decay, scale)]
    for q, k, v, decay, scale in zip(*inputs):  # [B,H,C,...] each
        length = q.shape[2]
        total = decay.cumsum(2).unsqueeze(3)  # [B,H,C,1]
        tokens = position + torch.arange(length, device=q.device)  # [B,C]
        position = position + length

        levels = levels_of(tokens.unsqueeze(2) ^ tokens.unsqueeze(1), count)  # [B,C,C]
        weight = torch.einsum("btsl,bhtl->bhts", chosen(levels, count, dtype), scale)
        within = (q @ k.transpose(2, 3) * weight * torch.exp(torch.tril(total - total.transpose(2, 3)))).tril() @ v
        levels = torch.maximum(levels_of(tokens ^ tokens[:, :1], count).unsqueeze(2), own)  # [B,C,L-1]
        weight = torch.einsum("btnl,bhtl->bhtn", chosen(levels, count, dtype), scale) * torch.exp(total)
        before = (weight.unsqueeze(4) * q.unsqueeze(3)).flatten(3) @ states.flatten(2, 3)  # C by (L-1)K times (L-1)K by V
        out.append(within + before)

        levels = torch.maximum(levels_of(position ^ tokens[:, :1], count), own)  # [B,L-1]
        moved = torch.einsum("bnl,bhnkv->bhlkv", chosen(levels, count, dtype)[..., 1:], states)
        levels = levels_of(position ^ tokens, count)  # [B,C], all at least 1
        weight = chosen(levels, count, dtype)[..., 1:].unsqueeze(1) * torch.exp(total[:, :, -1:] - total)  # [B,H,C,L-1]
        written = (weight.unsqueeze(4) * k.unsqueeze(3)).flatten(3).transpose(2, 3) @ v
        states = moved * torch.exp(total[:, :, -1]).reshape(lanes, heads, 1, 1, 1) + written.reshape(states.shape)
    return torch.cat(out, 2).transpose(1, 2), states, position


class LogLinearAttention(mneme.Memory):
    id = "org.example.log_linear_attention"
    version = "0.1.0"
    summary = ("log-linear attention over Mamba-2 in place of attention: a matrix for each head and level of a Fenwick tree "
               "[Guo et al. 2025]; in Python")
    heads = mneme.integer(0, 0, 256, "heads; 0 = the model's", trained=True)
    key_width = mneme.integer(64, 0, 512, "width of the state's keys, of B and C; 0 = that of the model's heads", trained=True)
    value_width = mneme.integer(0, 0, 512, "width of a head's inputs; 0 = twice that of the model's heads", trained=True)
    levels = mneme.integer(15, 2, 32, "levels L, the token's own among them: 2^(L-1) tokens are held apart", trained=True)
    convolution = mneme.integer(4, 2, 64, "inputs that the short convolution joins")

    def setup(self, s):
        self.count = self.heads if self.heads > 0 else s.heads  # H
        self.keys = self.key_width if self.key_width > 0 else s.head_width  # K
        self.values = self.value_width if self.value_width > 0 else 2 * s.head_width  # V
        self.inner = self.count * self.values
        self.channels = self.inner + 2 * self.keys  # of x, B and C
        s.parameter("in_weight", [self.inner + self.channels + self.count * (1 + self.levels), s.width], mneme.fan_in_uniform())
        s.parameter("convolution_weight", [self.convolution, 1, self.channels], mneme.fan_in_uniform(self.convolution))
        s.parameter("convolution_bias", [self.channels], mneme.fan_in_uniform(self.convolution))
        s.parameter("rate_log", [self.count], mneme.uniform(0.0, 2.7725887), group="none")  # log 1 to log 16
        s.parameter("step_bias", [self.count], mneme.uniform(-6.9072552, -2.2521685), group="none")
        s.parameter("level_weight", [self.count, self.levels], mneme.constant(1.0), group="none")
        s.parameter("skip", [self.count], mneme.constant(1.0), group="none")
        s.parameter("norm_weight", [self.inner], mneme.constant(1.0))
        s.parameter("out_weight", [s.width, self.inner], mneme.fan_in_uniform())
        s.slot("states", [mneme.LANES, self.count, self.levels - 1, self.keys, self.values], gradient="through")
        s.slot("convolution", [mneme.LANES, self.convolution - 1, self.channels], gradient="through")
        s.slot("position", [mneme.LANES, 1], dtype="i64")
        s.replaces_attention()
        s.reads_at("out")
        s.wants("read_normed")
        s.is_cut_invariant()

    def read(self, layer, queries):
        states, dtype = layer.slot("states"), layer.compute_dtype
        x = queries.normed
        if layer.valid is not None:
            x = x.masked_fill(layer.valid.logical_not().unsqueeze(2), 0.0)
        projected = linear(x, layer.parameter("in_weight").to(dtype)).to(states.dtype)
        z, mixed, step, scale = projected.split(
            [self.inner, self.channels, self.count, self.count * self.levels], 2)
        x, k, q = self.convolve(layer, mixed).split([self.inner, self.keys, self.keys], 2)
        x = x.unflatten(2, (self.count, self.values))
        step = softplus(step + layer.parameter("step_bias"))  # [B,T,H]
        scale = softplus(layer.parameter("level_weight") * scale.unflatten(2, (self.count, self.levels)))
        q, k = (each.unsqueeze(2).expand(-1, -1, self.count, -1) for each in (q, k))

        out, states, position = recurrence(
            q, k, x * step.unsqueeze(3), -torch.exp(layer.parameter("rate_log")) * step, scale, states, layer.slot("position"))
        layer.set("states", states)
        layer.set("position", position)
        out = (out + x * layer.parameter("skip").unsqueeze(1)).flatten(2) * silu(z)
        out = out * torch.rsqrt(out.square().mean(-1, keepdim=True) + 1e-5) * layer.parameter("norm_weight")
        return mneme.replace(linear(out.to(dtype), layer.parameter("out_weight").to(dtype)))

    def convolve(self, layer, x):
        """silu of each channel's [B,T,channels] sum over its own and the last inputs, which the slot carries on."""
        rows, weight = torch.cat([layer.slot("convolution"), x], 1), layer.parameter("convolution_weight")
        length = x.shape[1]
        layer.set("convolution", rows[:, length:])
        taps = [rows[:, i:i + length] * weight[i] for i in range(self.convolution)]
        return silu(sum(taps) + layer.parameter("convolution_bias"))
