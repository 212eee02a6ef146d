"""A kernel that is not torch's: a gated linear recurrence [minGRU, Feng et al. 2024], computed by NumPy or by JAX.

Arrays pass by DLPack, so both sides see the same memory and nothing is copied. torch cannot look into the kernel, whose gradient
is therefore written by hand. On the CPU alone."""

import functools

import numpy
import torch

import mneme


def by_numpy(a, b, state):
    """s_t = a_t s_(t-1) + b_t for a, b [B,T,D] and s_0 [B,D]; gives s_1 to s_T, [B,T,D]."""
    out = numpy.empty_like(b)
    for t in range(b.shape[1]):
        state = out[:, t] = a[:, t] * state + b[:, t]
    return out


@functools.cache
def by_jax():
    """The same in JAX, compiled once for each shape."""
    import jax
    jax.config.update("jax_enable_x64", True)

    def step(state, given):
        state = given[0] * state + given[1]
        return state, state

    return jax.jit(lambda a, b, state: jax.lax.scan(step, state, (a.swapaxes(0, 1), b.swapaxes(0, 1)))[1].swapaxes(0, 1))


# An operation of torch, so that what records operations sees it. Each build of the memory has one of its own.
@torch.library.custom_op(f"{__name__.replace('.', '_')}::recurrence", mutates_args=(), device_types="cpu")
def recurrence(kernel: str, a: torch.Tensor, b: torch.Tensor, state: torch.Tensor) -> torch.Tensor:
    """The kernel of that name on tensors, which it sees as arrays of its own kind."""
    tensors = [tensor.detach().contiguous() for tensor in (a, b, state)]
    if kernel == "numpy":
        return torch.from_dlpack(by_numpy(*map(numpy.from_dlpack, tensors)))
    import jax.dlpack
    return torch.from_dlpack(by_jax()(*map(jax.dlpack.from_dlpack, tensors)))


class Recurrence(torch.autograd.Function):
    @staticmethod
    def forward(ctx, kernel, a, b, state):
        out = recurrence(kernel, a, b, state)
        ctx.kernel = kernel
        ctx.save_for_backward(a, state, out)
        return out

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, gradient):
        """g_t = gradient_t + a_(t+1) g_(t+1), the same recurrence from the end; b_t gets g_t, a_t gets g_t s_(t-1)."""
        a, state, out = ctx.saved_tensors
        later = torch.cat([a[:, 1:], torch.zeros_like(a[:, :1])], 1)
        g = recurrence(ctx.kernel, later.flip(1), gradient.flip(1), torch.zeros_like(state)).flip(1)
        return None, g * torch.cat([state.unsqueeze(1), out[:, :-1]], 1), g, g[:, 0] * a[:, 0]


class DlpackRecurrence(mneme.Memory):
    id = "org.example.dlpack_recurrence"
    version = "0.1.0"
    summary = "a gated linear recurrence over the tokens [minGRU, Feng et al. 2024], by NumPy or JAX; in Python"
    kernel = mneme.choice("numpy", "numpy|jax", "what computes the recurrence", at_evaluation=True)

    def setup(self, s):
        with torch.device("meta"):
            s.module("gate", torch.nn.Linear(s.width, s.width))
            s.module("candidate", torch.nn.Linear(s.width, s.width))
        s.parameter("scale", [s.width], mneme.constant(0.1))
        s.slot("state", [mneme.LANES, s.width], gradient="through")
        s.wants("read_x")

    def read(self, layer, queries):
        """Reads and writes: the slot goes from the state before these tokens to that behind them."""
        state = layer.slot("state")
        x = layer.norm(layer.x).to(state.dtype)
        gate = torch.sigmoid(layer.module("gate")(x))
        added = gate * layer.module("candidate")(x)
        if layer.valid is not None:  # padding leaves the state as it is, whatever it holds
            absent = layer.valid.logical_not().unsqueeze(2)
            gate, added = gate.masked_fill(absent, 0.0), added.masked_fill(absent, 0.0)
        out = Recurrence.apply(self.kernel, 1 - gate, added, state)
        layer.set("state", out[:, -1])
        return mneme.add((out * layer.parameter("scale")).to(layer.compute_dtype))
