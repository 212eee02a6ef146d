"""Test-time training: a network that learns while the text is read, in place of attention: TTT-Linear and TTT-MLP [Sun et al. 2024,
arXiv 2407.04620, sections 2.1 to 2.6; released code: ttt-lm-pytorch].

The hidden state of a lane and a head is a network f_W. With q_t, k_t, v_t [d] the layer's projections of its normed input x_t [D]
(the paper's test, training and label views), and LN a norm over d with weight and bias:

    f_W(k) = k + LN(net_W(k))        net_W(k) = W1 [k; 1]                        `inner` linear, W1 [d,d+1]
                                     net_W(k) = W2 [gelu(W1 [k; 1]); 1]          `inner` mlp, W1 [e,d+1], W2 [d,e+1], e = `expansion` d
    loss_t(W) = |f_W(k_t) - v_t|^2 / 2
    eta_t = `rate` / d * sigmoid(w . x_t + b)
    W_t = W_(t-1) - eta_t grad loss_t(W_c)     W_c: the weights before the chunk of token t (section 2.4: mini-batches)
    z_t = f_(W_t)(q_t)                         then the layer's output projection

The last column of a matrix is the bias, which learns too. W_0 and LN are learned. Chunks count from the lane's reset, so the numbers do
not depend on the pieces in which a text is computed.

Departures from the released code: it divides the step of the i-th token of a mini-batch by i, and as its state carries that last
token's; the paper's sum of steps is here. Its rotations of q and k within a mini-batch, convolutions, the norm and the gate of the
result are not here: they belong to its backbones.

titans.py is the same idea with momentum and forgetting, beside attention too. Gradients go through the steps, second order included:
give `train.bptt_segments` of 2 or more."""

import math

import torch

import mneme
from titans import begins, behind, pieces


def with_ones(x):
    """[..., d] -> [..., d+1]."""
    return torch.cat([x, torch.ones_like(x[..., :1])], -1)


def gelu(x):
    return torch.nn.functional.gelu(x, approximate="tanh")


def gelu_slope(x):
    """The derivative of gelu."""
    scale = math.sqrt(2 / math.pi)
    t = torch.tanh(scale * (x + 0.044715 * x * x * x))
    return 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * scale * (1 + 3 * 0.044715 * x * x)


def centred(x):
    """x without its mean, with variance 1, over the last dimension; and 1 / its standard deviation."""
    x = x - x.mean(-1, keepdim=True)
    inverse = torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-6)
    return x * inverse, inverse


def gradients(weights, norm_weight, norm_bias, k, v):
    """Of loss for each token alone, as outer products: the left vectors [B,H,C,out] and the right ones [B,H,C,in] of each matrix.
    weights [B,H,out,in]; norm_weight, norm_bias [H,1,d]; k, v [B,H,C,d]."""
    right = [with_ones(k)]
    before = right[0] @ weights[0].mT
    out = before
    if len(weights) == 2:
        right.append(with_ones(gelu(before)))
        out = right[1] @ weights[1].mT
    hat, inverse = centred(out)
    g = (k + norm_weight * hat + norm_bias - v) * norm_weight
    left = (g - g.mean(-1, keepdim=True) - hat * (g * hat).mean(-1, keepdim=True)) * inverse  # through the norm
    if len(weights) == 1:
        return [left], right
    return [(left @ weights[1][..., :-1]) * gelu_slope(before), left], right


def learn(q, k, v, eta, norm_weight, norm_bias, anchor, weights):
    """Tokens of one chunk: each reads net_W behind its own step, and all gradients are taken at `anchor`.

    q, k, v [B,H,C,d], eta [B,H,C]; anchor, weights: lists of [B,H,out,in]. Gives net_(W_t)(q_t) [B,H,C,d] and the weights behind the
    last token. No matrix of a single token is made: W_i = W_0 - sum_(j<=i) eta_j left_j right_j^T."""
    x, new = q, []
    for n, (left, right) in enumerate(zip(*gradients(anchor, norm_weight, norm_bias, k, v))):
        steps = left * eta.unsqueeze(3)
        x = with_ones(gelu(x) if n > 0 else x)
        new.append(weights[n] - steps.mT @ right)
        x = x @ weights[n].mT - (x @ right.mT).tril() @ steps
    return x, new


class Ttt(mneme.Memory):
    id = "org.example.ttt"
    version = "0.1.0"
    summary = "a network that learns while it reads, in place of attention: TTT-MLP and TTT-Linear [Sun et al. 2024]; in Python"
    inner = mneme.choice("mlp", "linear|mlp", "the network of a head: a matrix, or two with GELU between them", trained=True)
    expansion = mneme.real(4.0, 0.25, 16.0, "mlp: hidden units as a multiple of a head's width", trained=True)
    chunk = mneme.integer(16, 1, 1024, "tokens of a mini-batch, whose gradients are taken at the same weights", trained=True)
    rate = mneme.real(0.1, 0.0, 16.0, "step before it is divided by a head's width; the paper has 0.1 for mlp, 1 for linear", trained=True)

    def setup(self, s):
        d = self.width = s.head_width
        hidden = math.ceil(self.expansion * d)
        shapes = {"first": (d, d + 1)} if self.inner == "linear" else {"first": (hidden, d + 1), "second": (d, hidden + 1)}
        self.names = list(shapes)
        for name, shape in shapes.items():
            s.parameter(f"{name}_start", [s.heads, *shape], mneme.normal(0.0, 0.02))
            s.slot(name, [mneme.LANES, s.heads, *shape], f"{name}_start", gradient="through")
            if self.chunk > 1:
                s.slot(f"{name}_anchor", [mneme.LANES, s.heads, *shape], gradient="through")
        s.parameter("norm_weight", [s.heads, d], mneme.constant(1.0))
        s.parameter("norm_bias", [s.heads, d])
        s.parameter("rate_weight", [s.heads, s.width], mneme.normal(0.0, 0.02))
        s.parameter("rate_bias", [s.heads])
        s.counts("place")  # where a step is cut
        s.slot("place_of_lane", [mneme.LANES, 1], dtype="i64")  # the same beside the other state, for masks
        s.replaces_attention()
        s.reads_at("heads")
        s.wants("read_q", "read_k", "read_v", "read_normed")
        s.is_cut_invariant()

    def read(self, layer, queries):
        dtype = layer.slot("first").dtype
        q, k, v = (x.to(dtype).transpose(1, 2) for x in (queries.q, queries.k, queries.v))  # [B,H,T,d]
        normed = queries.normed.to(dtype)
        if layer.valid is not None:  # it may hold anything, and its lane is reset behind it
            absent = layer.valid.logical_not().unsqueeze(2)
            normed, absent = normed.masked_fill(absent, 0.0), absent.unsqueeze(1)
            q, k, v = (x.masked_fill(absent, 0.0) for x in (q, k, v))
        logits = torch.nn.functional.linear(normed, layer.parameter("rate_weight"), layer.parameter("rate_bias"))
        eta = self.rate / self.width * torch.sigmoid(logits.transpose(1, 2))  # [B,H,T]
        norm = [layer.parameter(name).unsqueeze(1) for name in ("norm_weight", "norm_bias")]
        weights, out = [layer.slot(name) for name in self.names], []
        place, places = layer.slot("place_of_lane"), layer.counts("place")
        anchor = [layer.slot(f"{name}_anchor") for name in self.names] if self.chunk > 1 else weights
        for first, last, in_all, in_any in pieces(places, layer.length, self.chunk):
            if in_all:
                anchor = weights
            elif in_any:
                anchor = [torch.where(begins(place, first, self.chunk), w, a) for w, a in zip(weights, anchor)]
            tokens = [x[:, :, first:last] for x in (q, k, v, eta)]
            result, weights = learn(*tokens, *norm, anchor, weights)
            out.append(result)
        for name, weight, at_chunk in zip(self.names, weights, anchor):
            layer.set(name, weight)
            if self.chunk > 1:
                layer.set(f"{name}_anchor", at_chunk)
        layer.set("place_of_lane", behind(place, layer.length, self.chunk))
        layer.set_counts("place", [behind(each, layer.length, self.chunk) for each in places])
        z = q + norm[0] * centred(torch.cat(out, 2))[0] + norm[1]
        return mneme.replace(z.transpose(1, 2).to(layer.compute_dtype))
