"""Titans: a network that learns while the text is read, as context of attention or as its gate [Behrouz, Zhong and Mirrokni
2024, arXiv 2501.00663]; titans_layer.py is the third variant, in place of attention.

The memory of a lane and a head is a network M_W of one or two layers, whose weights W are state. Of inputs x_t [D], divided by
their root mean square, with convolutions over each channel's last inputs (section 4.4):

    q_t, k_t, v_t = silu(conv(Wq x_t)), silu(conv(Wk x_t)), silu(conv(Wv x_t))    [d]; q_t and k_t have length 1
    theta_t, eta_t, alpha_t = sigmoid of a linear function of x_t, one a head
    S_t = eta_t S_(t-1) - theta_t grad_W |M_W(k_t) - v_t|^2 at W_c                eq. 12 and 14: surprise, with momentum
    W_t = (1 - alpha_t) W_(t-1) + S_t                                             eq. 13: forgetting
    M(x_t) = Wo [RMSNorm(M_(W_t)(q_t)) * silu(Wg x_t)]                            eq. 15 and section 4.4, [D]

M_W(k) = W k (`depth` 1, W [d,d]) or W2 silu(W1 k) (`depth` 2, W1 [e,d], W2 [d,e], e = `expansion` d): the letters of
examples/neural_memory. W_c are the weights before the chunk of token t (section 3.2); chunks count from the lane's reset, so the
numbers do not depend on the pieces in which a text is computed. W_0 is learned. With p [P,D] the persistent tokens:

    context (4.1)   h_t = M_(W_s)(q(x_t)), W_s the weights before the segment         eq. 21
                    y = Attention over [p, h, x], o_t = y_t (x) M(y_t)                eq. 22 to 25: y is written
    gate (4.2)      y = Attention over [p, x], o_t = y_t (x) M([p, x])_t              eq. 26 to 28: x is written, p at the start
    layer (4.3)     o_t = M([p, x])_t                                                 eq. 29 to 31, titans_layer.py

(x): a (x) b = (RMSNorm(a) w_a) * sigmoid(RMSNorm(b) w_b).

Departures:
- The paper's h_t is made of a whole segment, and its tokens attend to all of it. Here token i sees h_j for j <= i alone, at the
  place of token j: otherwise it would see later tokens. Persistent tokens have no place.
- p and h are keys and values of the attention. The paper gives them queries too, and writes their results: a tier has no results
  of rows that are no tokens.
- The attention of `gate` is that of the model: over the segment, or, with an `xl_cache` of N rows before this tier and
  `model.window = N + 1`, a sliding window with p as its prefix.
- The paper leaves open how wide heads are, how a chunk's gradients are added up (here: summed) and which non-linearity (x) has.
- Inputs are divided by their root mean square, so that a step does not depend on their scale.

examples/neural_memory is the same recurrence beside attention: it reads the weights before the segment and has no persistent
tokens, convolutions or gates that depend on the token. Gradients go through the steps, second order included: give
`train.bptt_segments` of 2 or more."""

import math

import torch

import mneme

linear = torch.nn.functional.linear
RATES = ("theta", "eta", "alpha")


def unit(x):
    """Finite for rows of zeros, and so is the gradient."""
    return x * torch.rsqrt(x.square().sum(-1, keepdim=True) + 1e-6)


def scaled(x):
    """Divided by the root of the mean square of the last dimension."""
    return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-6)


def forward(weights, x):
    """Inputs of each matrix and the result: x [B,H,C,d], weights of one or two [B,H,out,in] -> [x, result] or [x, hidden, result]."""
    if len(weights) == 1:
        return [x, x @ weights[0].mT]
    hidden = torch.nn.functional.silu(x @ weights[0].mT)
    return [x, hidden, hidden @ weights[1].mT]


def gradients(weights, k, v):
    """Of |M(k) - v|^2 / 2 for each token alone, as outer products: the left vectors [B,H,C,out] and the right ones [B,H,C,in] of
    each matrix."""
    *inputs, out = forward(weights, k)
    error = out - v
    if len(weights) == 1:
        return [error], inputs
    before = k @ weights[0].mT
    share = torch.sigmoid(before)
    slope = share * (1 + before * (1 - share))  # of SiLU
    return [(error @ weights[1]) * slope, error], inputs


def products(log_rate):
    """log_rate [B,H,C] -> [B,H,C,C]: entry i, j is the product of the rates of tokens j + 1 to i, 0 above the diagonal."""
    total = log_rate.cumsum(-1)
    later = torch.ones(total.shape[-1:] * 2, dtype=torch.bool, device=total.device).triu(1)
    return torch.exp((total.unsqueeze(-1) - total.unsqueeze(-2)).masked_fill(later, -torch.inf))


def learn(q, k, v, theta, log_eta, log_keep, anchor, weights, momenta):
    """Tokens of one chunk: each reads the weights behind its own step, and all gradients are taken at `anchor`.

    q, k, v [B,H,C,d]; theta, log eta, log (1 - alpha) [B,H,C], log_eta None = no momentum; anchor, weights, momenta: lists of
    [B,H,out,in]. Gives the results [B,H,C,d], and weights and momenta behind the last token. A gradient is an outer product, so no
    matrix of a single token is made: W_i = kept_i W_0 + carried_i S_0 - sum_(j<=i) into_ij 2 theta_j left_j right_j^T."""
    kept = torch.exp(log_keep.cumsum(-1)).unsqueeze(3)  # [B,H,C,1], likewise those below
    of_keep = products(log_keep)
    if log_eta is None:
        of_eta = torch.eye(theta.shape[2], dtype=theta.dtype, device=theta.device)
        faded = torch.zeros_like(kept)
    else:
        of_eta, faded = products(log_eta), torch.exp(log_eta.cumsum(-1)).unsqueeze(3)
    carried = of_keep @ faded
    steps = 2 * theta.unsqueeze(2)
    into = of_keep @ of_eta * steps  # [B,H,C,C]
    into_momentum = (of_eta[..., -1:, :] * steps).mT  # [B,H,C,1]
    x, new_weights, new_momenta = q, [], []
    for n, (left, right) in enumerate(zip(*gradients(anchor, k, v))):
        if n > 0:
            x = torch.nn.functional.silu(x)
        x = kept * (x @ weights[n].mT) + carried * (x @ momenta[n].mT) - (x @ right.mT * into) @ left
        new_weights.append(kept[..., -1:, :] * weights[n] + carried[..., -1:, :] * momenta[n] - (left * into[..., -1:, :].mT).mT @ right)
        new_momenta.append(faded[..., -1:, :] * momenta[n] - (left * into_momentum).mT @ right)
    return x, new_weights, new_momenta


def pieces(places, length, chunk):
    """Cuts a step of `length` tokens where a chunk begins in some lane, which has `places` tokens behind it: the first token
    and the end of each piece, and whether a chunk begins with it in all lanes, and in any."""
    cuts = sorted({0}.union(*(range(-place % chunk, length, chunk) for place in set(places))))
    for first, last in zip(cuts, [*cuts[1:], length]):
        at_start = [(place + first) % chunk == 0 for place in places]
        yield first, last, all(at_start), any(at_start)


def begins(place, first, chunk):
    """In which lanes a chunk begins with token `first` of a step; place [B,1] -> [B,1,1,1]."""
    return ((place + first) % chunk == 0).reshape(-1, 1, 1, 1)


def behind(place, length, chunk):
    """The tokens of the chunk that runs `length` tokens after `place`: 1 to `chunk`, since 0 is that of a fresh lane."""
    return (place + length - 1) % chunk + 1


def gated(layer, y, m):
    """y (x) m [B,T,D]."""
    return scaled(y) * layer.parameter("y_weight") * torch.sigmoid(scaled(m) * layer.parameter("m_weight"))


class Options:
    """Of both files."""

    depth = mneme.integer(2, 1, 2, "layers of the network: 1 = a matrix; 2 = two, with SiLU between them", trained=True)
    expansion = mneme.real(2.0, 0.25, 16.0, "depth 2: hidden units as a multiple of a head's width", trained=True)
    heads = mneme.integer(0, 0, 256, "networks side by side; 0 = as many as the model has heads", trained=True)
    chunk = mneme.integer(16, 1, 1024, "tokens whose gradients are taken at the same weights", trained=True)
    theta = mneme.real(0.02, 0.0, 0.999, "step at the start; 0 = never writes")
    eta = mneme.real(0.5, 0.0, 0.999, "momentum at the start; 0 = none, and none is learned")
    alpha = mneme.real(0.01, 0.0, 0.999, "forgetting at the start; 0 = none, and none is learned")
    convolution = mneme.integer(4, 1, 64, "inputs that the convolutions join; 1 = each token alone")
    persistent = mneme.integer(4, 0, 1024, "persistent tokens P", trained=True)


class NeuralMemory:
    """The network, its parameters and its state, of a memory with `Options`."""

    def __init__(self, s, options):
        inner = s.heads * s.head_width
        self.heads = options.heads or s.heads
        if inner % self.heads != 0:
            raise ValueError(f"heads is {self.heads}: expected a divisor of {inner}, the width of all heads of the model")
        self.width = inner // self.heads  # d
        self.inner, self.chunk, self.taps, self.persistent = inner, options.chunk, options.convolution, options.persistent
        self.fixed = [name for name in RATES if getattr(options, name) == 0.0]
        hidden = math.ceil(options.expansion * self.width)  # e
        self.shapes = {"first": (self.width, self.width)}
        if options.depth == 2:
            self.shapes = {"first": (hidden, self.width), "second": (self.width, hidden)}

        s.parameter("in_weight", [3 * inner, s.width], mneme.fan_in_uniform())
        s.parameter("convolution_weight", [self.taps, 1, 3 * inner], mneme.fan_in_uniform(self.taps))
        for name in RATES:
            start = getattr(options, name)
            if start > 0.0:
                s.parameter(f"{name}_weight", [self.heads, s.width])
                s.parameter(f"{name}_bias", [self.heads], mneme.constant(math.log(start / (1 - start))))
        s.parameter("norm_weight", [self.width], mneme.constant(1.0))
        s.parameter("gate_weight", [inner, s.width], mneme.fan_in_uniform())
        s.parameter("out_weight", [s.width, inner], mneme.fan_in_uniform())
        if self.persistent > 0:
            s.parameter("persistent", [self.persistent, s.width], mneme.normal(0.0, 0.02))

        self.slots = []
        for name, shape in self.shapes.items():
            s.parameter(f"{name}_start", [self.heads, *shape], mneme.fan_in_uniform(shape[1]))
            self.slot(s, name, [self.heads, *shape], f"{name}_start")
            self.slot(s, f"{name}_momentum", [self.heads, *shape])
            if self.chunk > 1:
                self.slot(s, f"{name}_anchor", [self.heads, *shape])
        if self.taps > 1:
            self.slot(s, "inputs", [self.taps - 1, 3 * inner])
        s.counts("place")  # where a step is cut
        s.slot("place_of_lane", [mneme.LANES, 1], dtype="i64")  # the same beside the other state, for masks
        self.slots.append("place_of_lane")

    def slot(self, s, name, shape, start=mneme.zeros()):
        s.slot(name, [mneme.LANES, *shape], start, gradient="through")
        self.slots.append(name)

    def cleaned(self, layer, x):
        """x [B,T,D] in the state's dtype and of scale 1; padding, which may hold anything, is 0: its lane is reset behind it."""
        x = x.to(layer.slot("first").dtype)
        if layer.valid is not None:
            x = x.masked_fill(layer.valid.logical_not().unsqueeze(2), 0.0)
        return scaled(x)

    def convolved(self, layer, x, before, channels):
        """silu of the convolution of some `channels` of x [B,T,channels], `before` [B,taps-1,channels]; and the newest inputs."""
        weight = layer.parameter("convolution_weight")[:, 0, channels]
        rows = x if self.taps == 1 else torch.cat([before.expand(x.shape[0], -1, -1), x], 1)
        length = x.shape[1]
        mixed = sum(rows[:, i:i + length] * weight[i] for i in range(self.taps))
        return torch.nn.functional.silu(mixed), rows[:, length:]

    def by_head(self, x):
        return x.unflatten(2, (self.heads, self.width)).transpose(1, 2)  # [B,T,H*d] -> [B,H,T,d]

    def rates(self, layer, x):
        """theta, log eta (None = no momentum) and log (1 - alpha) of x [B,T,D], [B,H,T]."""
        logits = {name: linear(x, layer.parameter(f"{name}_weight"), layer.parameter(f"{name}_bias")).transpose(1, 2)
                  for name in RATES if name not in self.fixed}
        zeros = x.new_zeros(x.shape[0], self.heads, x.shape[1])
        log_sigmoid = torch.nn.functional.logsigmoid
        return (torch.sigmoid(logits["theta"]) if "theta" in logits else zeros,
                log_sigmoid(logits["eta"]) if "eta" in logits else None,
                log_sigmoid(-logits["alpha"]) if "alpha" in logits else zeros)

    def run(self, layer, x, state, places):
        """Writes x [B,T,D] and reads behind each token: heads' results [B,H,T,d] and the state. `places`: tokens of the chunk that
        runs in each lane, 0 in a fresh one."""
        state, length = dict(state), x.shape[1]
        mixed, state["inputs"] = self.convolved(layer, linear(x, layer.parameter("in_weight")), state.get("inputs"), slice(None))
        q, k, v = (self.by_head(part) for part in mixed.split(self.inner, 2))
        q, k, rates = unit(q), unit(k), self.rates(layer, x)
        names, out = list(self.shapes), []
        for first, last, in_all, in_any in pieces(places, length, self.chunk):
            for name in names:
                if in_all:
                    state[f"{name}_anchor"] = state[name]
                elif in_any:
                    state[f"{name}_anchor"] = torch.where(begins(state["place_of_lane"], first, self.chunk), state[name],
                                                          state[f"{name}_anchor"])
            tokens = [None if each is None else each[:, :, first:last] for each in (q, k, v, *rates)]
            given = [[state[name + part] for name in names] for part in ("_anchor", "", "_momentum")]
            result, weights, momenta = learn(*tokens, *given)
            out.append(result)
            for name, weight, momentum in zip(names, weights, momenta):
                state[name], state[f"{name}_momentum"] = weight, momentum
        state["place_of_lane"] = behind(state["place_of_lane"], length, self.chunk)
        return torch.cat(out, 2), state

    def write(self, layer, x, writes_persistent):
        """Writes tokens x [B,T,D], in fresh lanes the persistent ones before them, and gives M(x) [B,T,D]."""
        x = self.cleaned(layer, x)
        state, places = {name: layer.slot(name) for name in self.slots}, list(layer.counts("place"))
        if writes_persistent and self.persistent > 0 and 0 in places:
            start, is_fresh = self.start(layer, x.dtype), state["place_of_lane"] == 0
            state = {name: torch.where(is_fresh.reshape(-1, *[1] * (value.dim() - 1)), start[name], value)
                     for name, value in state.items()}
            places = [place or behind(0, self.persistent, self.chunk) for place in places]
        out, state = self.run(layer, x, state, places)
        for name in self.slots:
            layer.set(name, state[name].contiguous())
        layer.set_counts("place", [behind(place, x.shape[1], self.chunk) for place in places])
        return self.result(layer, out, x)

    def start(self, layer, dtype):
        """The state of one lane behind the persistent tokens."""
        x = scaled(layer.parameter("persistent").to(dtype)).unsqueeze(0)
        state = {"inputs": x.new_zeros(1, self.taps - 1, 3 * self.inner),
                 "place_of_lane": torch.zeros(1, 1, dtype=torch.int64, device=x.device)}
        for name in self.shapes:
            state[name] = layer.parameter(f"{name}_start").unsqueeze(0)
            state[f"{name}_momentum"] = torch.zeros_like(state[name])
        return self.run(layer, x, state, [0])[1]

    def result(self, layer, heads, x):
        """Heads' results [B,H,T,d] and their tokens' x [B,T,D] -> [B,T,D]."""
        y = (scaled(heads) * layer.parameter("norm_weight")).transpose(1, 2).flatten(2)
        return linear(y * torch.nn.functional.silu(linear(x, layer.parameter("gate_weight"))), layer.parameter("out_weight"))


class Titans(Options, mneme.Memory):
    id = "org.example.titans"
    version = "0.1.0"
    summary = ("a network that learns while it reads, as context of attention or as its gate [Behrouz, Zhong and Mirrokni 2024]; in "
               "Python")
    variant = mneme.choice("gate", "context|gate", "context: attention reads what the network recalls, and the network learns its "
                           "result; gate: the network learns the layer's input and gates attention's result", trained=True)
    longest_segment = mneme.integer(512, 1, 1 << 20, "context: most tokens of a segment, each of which is a row of context")

    def setup(self, s):
        self.memory = NeuralMemory(s, self)
        self.is_context = self.variant == "context"
        s.parameter("y_weight", [s.width], mneme.constant(1.0))
        s.parameter("m_weight", [s.width], mneme.constant(1.0))
        s.wants("read_projected", "read_normed")
        s.context_rows(self.persistent + (self.longest_segment if self.is_context else 0))
        if self.is_context:
            s.max_segment(self.longest_segment)
            if self.convolution > 1:
                s.slot("query_inputs", [mneme.LANES, self.convolution - 1, self.memory.inner], gradient="through")
            s.slot("recalled", [mneme.LANES, mneme.ANY, s.width], lifetime="segment")
            for name, shape in self.memory.shapes.items():
                s.slot(f"{name}_before", [mneme.LANES, self.memory.heads, *shape], lifetime="segment")

    def context(self, layer):
        if self.persistent > 0:
            rows = layer.parameter("persistent").to(layer.compute_dtype).expand(layer.lanes, -1, -1)
            layer.emit(mneme.Rows.of_hidden(rows), position="none")
        if self.is_context:
            self.recall(layer)

    def recall(self, layer):
        """Emits h of all tokens of the segment so far: in an open segment those of earlier steps are kept in a slot, and so
        are the weights before the segment."""
        names, count = list(self.memory.shapes), layer.offset + layer.length
        if layer.offset == 0:
            for name in names:
                layer.set(f"{name}_before", layer.slot(name))
        x = self.memory.cleaned(layer, layer.norm(layer.x))
        inner = slice(0, self.memory.inner)
        mixed, inputs = self.memory.convolved(layer, linear(x, layer.parameter("in_weight")[inner]),
                                              layer.slot("query_inputs") if self.convolution > 1 else None, inner)
        if self.convolution > 1:
            layer.set("query_inputs", inputs.contiguous())
        heads = forward([layer.slot(f"{name}_before") for name in names], unit(self.memory.by_head(mixed)))[-1]
        h = self.memory.result(layer, heads, x)
        if layer.offset > 0:
            h = torch.cat([layer.slot("recalled"), h], 1)
        layer.set("recalled", h)
        places = torch.arange(count, device=h.device)
        later = places > places[layer.offset:].unsqueeze(1)  # [T, count]
        layer.emit(mneme.Rows.of_hidden(h.to(layer.compute_dtype)), position="explicit", distance=-places.unsqueeze(0),
                   bias=h.new_zeros(1, 1, *later.shape).masked_fill(later, -torch.inf))

    def read(self, layer, queries):
        y = queries.projected.to(layer.slot("first").dtype)
        if layer.valid is not None:
            y = y.masked_fill(layer.valid.logical_not().unsqueeze(2), 0.0)
        m = self.memory.write(layer, y if self.is_context else queries.normed, writes_persistent=not self.is_context)
        return mneme.replace(gated(layer, y, m).to(layer.compute_dtype))
