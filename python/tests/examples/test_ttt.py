"""examples/python/ttt.py against loops over tokens in which autograd makes the inner gradient, in f64, and against numbers of the PyPI
package fla-core and of the authors' ttt-lm-pytorch (tests/golden/ttt)."""

import unittest
from types import SimpleNamespace
from typing import Any

from support import NO_PROGRAM, NO_TORCH, Host, assert_near, certified, example, golden, validated

ttt = example("ttt")
if not NO_TORCH:
    import torch

MODES: dict[str, dict[str, Any]] = {
    "mlp": {"rate": 1.0},
    "linear": {"inner": "linear", "rate": 2.0},
    "every token": {"chunk": 1, "expansion": 1.5, "rate": 1.0},
    "long chunks": {"chunk": 64},
}


def norm(x: Any, weight: Any, bias: Any) -> Any:
    centred = x - x.mean()
    return centred / torch.sqrt((centred * centred).mean() + 1e-6) * weight + bias


class Naive:
    """One head of one lane, token by token."""

    def __init__(self, host: Host, head: int) -> None:
        self.options, self.head, self.p = host.memory, head, host.parameters
        self.weights = [self.p[name][head] for name in ("first_start", "second_start") if name in self.p]
        self.anchor, self.count = self.weights, 0

    def f(self, weights: Any, k: Any) -> Any:
        one = k.new_ones(1)
        out = weights[0] @ torch.cat([k, one])
        if len(weights) == 2:
            out = weights[1] @ torch.cat([torch.nn.functional.gelu(out, approximate="tanh"), one])
        return k + norm(out, self.p["norm_weight"][self.head], self.p["norm_bias"][self.head])

    def step(self, q: Any, k: Any, v: Any, x: Any) -> Any:
        if self.count % self.options.chunk == 0:
            self.anchor = self.weights
        self.count += 1
        loss = (self.f(self.anchor, k) - v).square().sum() / 2
        eta = self.options.rate / len(q) * torch.sigmoid(self.p["rate_weight"][self.head] @ x + self.p["rate_bias"][self.head])
        gradients = torch.autograd.grad(loss, self.anchor, create_graph=True)
        self.weights = [w - eta * g for w, g in zip(self.weights, gradients)]
        return self.f(self.weights, q)


@unittest.skipIf(bool(NO_TORCH), NO_TORCH)
class Layer(unittest.TestCase):
    def given(self, host: Host, length: int) -> list[Any]:
        """q, k, v [B,T,H,d] and the normed input [B,T,D]."""
        return [host.random(2, length, 2, 4) for _ in range(3)] + [host.random(2, length, 6)]

    def outputs(self, host: Host, given: list[Any], lengths: list[int], reset_at: int = -1) -> Any:
        """Segments of these lengths; lane 1 starts afresh with segment `reset_at`."""
        out = []
        for i, (q, k, v, x) in enumerate(zip(*(each.split(lengths, 1) for each in given))):
            host.begin(0, q.shape[1], (1,) if i == reset_at else ())
            read = host.memory.read(host, SimpleNamespace(q=q, k=k, v=v, normed=x))
            self.assertEqual(read.merge, 4)
            out.append(read.out)
        return torch.cat(out, 1)

    def expected(self, host: Host, given: list[Any], reset: int = -1) -> Any:
        """`reset`: the token at which lane 1 starts afresh."""
        q, k, v, x = given
        out = torch.zeros_like(q)
        for b in range(q.shape[0]):
            for h in range(q.shape[2]):
                rows = []
                for t in range(q.shape[1]):
                    if t == 0 or (b == 1 and t == reset):
                        naive = Naive(host, h)
                    rows.append(naive.step(q[b, t, h], k[b, t, h], v[b, t, h], x[b, t]))
                out = out.index_put((torch.tensor(b), torch.arange(q.shape[1]), torch.tensor(h)), torch.stack(rows))
        return out

    def test_equals_the_recurrence_in_pieces_of_1_16_and_64_tokens(self) -> None:
        for name, options in MODES.items():
            given = self.given(Host(ttt.Ttt, **options), 64)
            expected = self.expected(Host(ttt.Ttt, **options), given)
            for length in (64, 16, 1):
                with self.subTest(name, length=length):
                    ours = self.outputs(Host(ttt.Ttt, **options), given, [length] * (64 // length))
                    torch.testing.assert_close(ours, expected, rtol=1e-10, atol=1e-10)

    def test_chunks_of_a_lane_count_from_its_own_start(self) -> None:
        options = {"chunk": 4, "rate": 1.0}
        given = self.given(Host(ttt.Ttt, **options), 23)
        expected = self.expected(Host(ttt.Ttt, **options), given, reset=7)
        ours = self.outputs(Host(ttt.Ttt, **options), given, [7, 10, 1, 5], reset_at=1)
        torch.testing.assert_close(ours, expected, rtol=1e-10, atol=1e-10)

    def test_has_the_gradients_of_the_recurrence(self) -> None:
        for inner in ("linear", "mlp"):
            options = {"inner": inner, "chunk": 4, "rate": 1.0}
            ours, theirs = (Host(ttt.Ttt, **options) for _ in range(2))
            given = [each.requires_grad_() for each in self.given(ours, 10)]
            again = [each.detach().requires_grad_() for each in given]
            weight = ours.random(2, 10, 2, 4)
            (self.outputs(ours, given, [7, 3]) * weight).sum().backward()
            (self.expected(theirs, again) * weight).sum().backward()
            pairs = [(each.grad, other.grad) for each, other in zip(given, again)]
            pairs += [(each.grad, theirs.parameters[name].grad) for name, each in ours.parameters.items()]
            for i, (mine, other) in enumerate(pairs):
                with self.subTest(inner, i=i):
                    self.assertGreater(other.abs().max().item(), 1e-6)
                    torch.testing.assert_close(mine, other, rtol=1e-8, atol=1e-9)

    def test_padding_that_is_not_a_number_changes_nothing(self) -> None:
        given = self.given(Host(ttt.Ttt), 8)
        whole = self.outputs(Host(ttt.Ttt), given, [8])
        host = Host(ttt.Ttt)
        host.valid = torch.tensor([[True] * 8, [True] * 5 + [False] * 3])
        for each in given:
            each[1, 5:] = torch.nan
        padded = self.outputs(host, given, [8])
        torch.testing.assert_close(padded[host.valid], whole[host.valid], rtol=0, atol=0)
        self.assertTrue(torch.isfinite(padded).all())

    def test_linear_has_the_numbers_of_fla_core(self) -> None:
        tensors = golden("ttt/fla_core")
        q, k, v = (tensors[f"in.{name}"].transpose(1, 2) for name in "qkv")  # [B,H,T,d]
        weight, bias = (tensors[f"in.{name}"].unsqueeze(1) for name in ("weight", "bias"))  # [H,1,d]
        eta = tensors["in.eta"].reshape(1, -1, 1).expand(q.shape[:3])
        state = torch.zeros(q.shape[0], q.shape[1], q.shape[3], q.shape[3] + 1, dtype=torch.float64)
        out = []
        for first in range(0, q.shape[2], 4):
            piece = slice(first, first + 4)
            tokens = [each[:, :, piece] for each in (q, k, v, eta)]
            z, (state,) = ttt.learn(*tokens, weight, bias, [state], [state])
            out.append(z + weight * ttt.centred(z)[0] + bias)  # fla-core adds the norm to the net's result, not to q
        torch.testing.assert_close(torch.cat(out, 2).transpose(1, 2), tensors["linear.out"], rtol=1e-5, atol=1e-5)
        theirs = torch.cat([tensors["linear.state"].mT, tensors["linear.bias_state"].mT], 3)
        torch.testing.assert_close(state, theirs, rtol=1e-5, atol=1e-5)


@unittest.skipIf(bool(NO_TORCH), NO_TORCH)
class OfTheAuthors(unittest.TestCase):
    """Whole layers but for projections and the result's norm, against the authors' TTTLinear and TTTMLP."""

    def host(self, inner: str, theirs: Any, rate: float) -> Host:
        class Wide(Host):
            width = 8

        host = Wide(ttt.Ttt, inner=inner, chunk=4, rate=rate)
        given = {f"{name}_start": self.joined(theirs[f"in.W{i}"], theirs[f"in.b{i}"])
                 for name, i in (("first", 1), ("second", 2)) if f"in.W{i}" in theirs}
        given |= {"norm_weight": theirs["in.ttt_norm_weight"], "norm_bias": theirs["in.ttt_norm_bias"],
                  "rate_weight": theirs["in.learnable_ttt_lr_weight"][:, 0],
                  "rate_bias": theirs["in.learnable_ttt_lr_bias"][:, 0]}
        self.assertEqual(given.keys(), host.parameters.keys())
        for name, value in given.items():
            self.assertEqual(host.parameters[name].shape, value.shape, name)
            host.parameters[name] = value
        host.slots = {name: host.fresh(name) for name in host.starts}
        return host

    def joined(self, weight: Any, bias: Any) -> Any:
        """Of [..., in, out] and [..., 1, out]: [..., out, in + 1]."""
        return torch.cat([weight, bias], -2).mT

    def test_results_and_weights_are_those_of_their_layers(self) -> None:
        tensors = golden("ttt/ttt_lm_pytorch")
        for inner, rate in (("linear", 2.0), ("mlp", 1.0)):
            theirs = {name.removeprefix(f"{inner}."): value for name, value in tensors.items()}
            q, k, v = (theirs[f"in.{name}"] for name in "qkv")
            for lengths in ([12, 2], [14], [3, 9, 2]):
                with self.subTest(inner, lengths=lengths):
                    host, out = self.host(inner, theirs, rate), []
                    first = 0
                    for length in lengths:
                        tokens = slice(first, first + length)
                        host.begin(0, length)
                        given = SimpleNamespace(q=q[:, tokens], k=k[:, tokens], v=v[:, tokens], normed=tensors["in.x"][:, tokens])
                        out.append(host.memory.read(host, given).out)
                        first += length
                        if first == 12:  # theirs are behind the last whole mini-batch
                            for i, name in enumerate(host.memory.names, 1):
                                self.assertGreater((host.slot(name) - host.parameters[f"{name}_start"]).abs().max().item(), 0.1)
                                assert_near(host.slot(name), self.joined(theirs[f"W{i}"], theirs[f"b{i}"]), 1e-7)
                    assert_near(torch.cat(out, 1), theirs["out"], 1e-7)  # their slope of gelu has 9 digits


@unittest.skipIf(bool(NO_PROGRAM), NO_PROGRAM)
class Program(unittest.TestCase):
    def test_checks_of_the_memory_pass(self) -> None:
        for inner in ("linear", "mlp"):
            with self.subTest(inner):
                validated(self, "ttt", f"inner={inner}", only=("python", "causality", "generation", "lanes.padding", "state.save"))

    def test_every_line_of_its_certificate_holds(self) -> None:
        for inner in ("linear", "mlp"):
            with self.subTest(inner):
                certified(self, "ttt", f"inner={inner}", "chunk=5")


if __name__ == "__main__":
    unittest.main()
