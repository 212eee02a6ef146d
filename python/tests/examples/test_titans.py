"""examples/python/titans.py and titans_layer.py against loops over tokens in which autograd makes the inner gradient, and
against the PyPI package titans-pytorch (tests/golden/titans), in f64."""

import unittest
from typing import Any
from unittest import mock

from support import NO_PROGRAM, NO_TORCH, Host, assert_near, certified, example, golden, validated

titans, titans_layer = example("titans"), example("titans_layer")
if not NO_TORCH:
    import torch

MODES: dict[str, dict[str, Any]] = {
    "deep": {"theta": 0.1},
    "a matrix": {"depth": 1, "theta": 0.05},
    "every token": {"chunk": 1, "theta": 0.05},
    "long chunks": {"chunk": 64, "theta": 0.01},
    "one network": {"heads": 1, "expansion": 0.5},
    "plain": {"eta": 0.0, "alpha": 0.0, "convolution": 1, "persistent": 0},
    "never writes": {"theta": 0.0},
}


def rms(x: Any) -> Any:
    return x / torch.sqrt((x * x).mean() + 1e-6)


class Naive:
    """The memory of one lane, token by token; inner gradients by autograd."""

    def __init__(self, host: Host) -> None:
        self.p, self.options = host.parameters, host.memory
        self.heads = self.options.heads or host.heads
        self.width = host.heads * host.head_width // self.heads
        names = ("first_start", "second_start")[:self.options.depth]
        self.weights = [[self.p[name][h] for name in names] for h in range(self.heads)]
        self.momenta = [[torch.zeros_like(w) for w in of_head] for of_head in self.weights]
        self.anchor, self.count = self.weights, 0
        self.history: list[Any] = []
        self.queries: list[Any] = []

    def recall(self, weights: Any, x: Any) -> Any:
        if len(weights) == 1:
            return weights[0] @ x
        return weights[1] @ torch.nn.functional.silu(weights[0] @ x)

    def convolved(self, history: list[Any], channels: slice) -> Any:
        taps = self.options.convolution
        total = torch.zeros_like(history[-1])
        for i in range(taps):
            before = taps - 1 - i
            if before < len(history):
                total = total + self.p["convolution_weight"][i, 0, channels] * history[-1 - before]
        return torch.nn.functional.silu(total)

    def rate(self, name: str, h: int, x: Any) -> Any:
        if getattr(self.options, name) == 0.0:
            return torch.zeros((), dtype=x.dtype)
        return torch.sigmoid(self.p[f"{name}_weight"][h] @ x + self.p[f"{name}_bias"][h])

    def unit(self, x: Any) -> Any:
        return x / torch.sqrt((x * x).sum() + 1e-6)

    def result(self, heads: list[Any], x: Any) -> Any:
        y = torch.cat([rms(each) * self.p["norm_weight"] for each in heads])
        return self.p["out_weight"] @ (y * torch.nn.functional.silu(self.p["gate_weight"] @ x))

    def write(self, x: Any) -> Any:
        """M(x) behind the step of x."""
        x = rms(x)
        self.history.append(self.p["in_weight"] @ x)
        mixed = self.convolved(self.history, slice(None)).reshape(3, self.heads, self.width)
        if self.count % self.options.chunk == 0:
            self.anchor = [list(of_head) for of_head in self.weights]
        self.count += 1
        out = []
        for h in range(self.heads):
            q, k, v = self.unit(mixed[0, h]), self.unit(mixed[1, h]), mixed[2, h]
            loss = (self.recall(self.anchor[h], k) - v).square().sum()
            gradients = torch.autograd.grad(loss, self.anchor[h], create_graph=True)
            self.momenta[h] = [self.rate("eta", h, x) * s - self.rate("theta", h, x) * g for s, g in zip(self.momenta[h], gradients)]
            self.weights[h] = [(1 - self.rate("alpha", h, x)) * w + s for w, s in zip(self.weights[h], self.momenta[h])]
            out.append(self.recall(self.weights[h], q))
        return self.result(out, x)

    def ask(self, weights: Any, x: Any) -> Any:
        """h of a token, by these weights, with the queries' own history."""
        x = rms(x)
        inner = slice(0, self.heads * self.width)
        self.queries.append(self.p["in_weight"][inner] @ x)
        q = self.convolved(self.queries, inner).reshape(self.heads, self.width)
        return self.result([self.recall(weights[h], self.unit(q[h])) for h in range(self.heads)], x)

    def write_persistent(self) -> None:
        for p in self.p.get("persistent", ()):
            self.write(p)


def cut(x: Any, lengths: list[int]) -> list[Any]:
    assert sum(lengths) == x.shape[1]
    return list(x.split(lengths, 1))


@unittest.skipIf(bool(NO_TORCH), NO_TORCH)
class Layer(unittest.TestCase):
    """titans_layer.py, which is the network alone."""

    def outputs(self, host: Host, x: Any, lengths: list[int], reset_at: int = -1) -> Any:
        """Segments of these lengths; lane 1 starts afresh with segment `reset_at`."""
        out = []
        for i, part in enumerate(cut(x, lengths)):
            host.begin(0, part.shape[1], (1,) if i == reset_at else ())
            read = host.memory.read(host, QueriesOf(part))
            self.assertEqual(read.merge, 4)
            out.append(read.out)
        return torch.cat(out, 1)

    def expected(self, host: Host, x: Any, resets: tuple[int, ...] = ()) -> Any:
        """`resets`: tokens at which lane 1 starts afresh."""
        out = []
        for lane in range(x.shape[0]):
            rows = []
            for t in range(x.shape[1]):
                if t == 0 or (lane == 1 and t in resets):
                    naive = Naive(host)
                    naive.write_persistent()
                rows.append(naive.write(x[lane, t]))
            out.append(torch.stack(rows))
        return torch.stack(out)

    def test_equals_the_recurrence_in_pieces_of_1_16_and_64_tokens(self) -> None:
        for name, options in MODES.items():
            x = Host(titans_layer.TitansLayer, **options).random(2, 64, 6)
            expected = self.expected(Host(titans_layer.TitansLayer, **options), x)
            for length in (64, 16, 1):
                with self.subTest(name, length=length):
                    ours = self.outputs(Host(titans_layer.TitansLayer, **options), x, [length] * (64 // length))
                    torch.testing.assert_close(ours, expected, rtol=1e-10, atol=1e-10)

    def test_chunks_of_a_lane_count_from_its_own_start(self) -> None:
        for options in ({}, {"persistent": 0}, {"persistent": 6}):
            with self.subTest(**options):
                options = {"chunk": 4, "theta": 0.1, **options}
                x = Host(titans_layer.TitansLayer, **options).random(2, 23, 6)
                expected = self.expected(Host(titans_layer.TitansLayer, **options), x, resets=(7,))
                ours = self.outputs(Host(titans_layer.TitansLayer, **options), x, [7, 10, 1, 5], reset_at=1)
                torch.testing.assert_close(ours, expected, rtol=1e-10, atol=1e-10)

    def test_has_the_gradients_of_the_recurrence(self) -> None:
        for name, options in MODES.items():
            with self.subTest(name):
                options = {"chunk": 4, **{key: value for key, value in options.items() if key != "chunk"}}
                ours, theirs = (Host(titans_layer.TitansLayer, lanes=1, **options) for _ in range(2))
                x = ours.random(1, 10, 6)
                weight = ours.random(1, 10, 6)
                (self.outputs(ours, x, [7, 3]) * weight).sum().backward()
                (self.expected(theirs, x) * weight).sum().backward()
                for key, parameter in ours.parameters.items():
                    other = theirs.parameters[key].grad
                    self.assertIsNotNone(other, key)
                    torch.testing.assert_close(parameter.grad, other, rtol=1e-9, atol=1e-10, msg=lambda m, key=key: f"{key}: {m}")

    def test_padding_that_is_not_a_number_changes_nothing(self) -> None:
        x = Host(titans_layer.TitansLayer).random(2, 8, 6)
        whole = self.outputs(Host(titans_layer.TitansLayer), x, [8])
        host = Host(titans_layer.TitansLayer)
        host.valid = torch.tensor([[True] * 8, [True] * 5 + [False] * 3])
        padded = self.outputs(host, x.masked_fill(host.valid.logical_not().unsqueeze(2), torch.nan), [8])
        torch.testing.assert_close(padded[host.valid], whole[host.valid], rtol=0, atol=0)
        self.assertTrue(torch.isfinite(padded).all())

    def test_networks_are_those_of_titans_pytorch(self) -> None:
        """To 1e-5, and to 1e-10 where lengths and root mean squares are without the 1e-6 that ours have."""
        tensors = golden("titans/titans_pytorch")
        exact = {"unit": lambda x: x / x.norm(dim=-1, keepdim=True),
                 "scaled": lambda x: x / x.square().mean(-1, keepdim=True).sqrt()}
        for depth, case in ((1, "matrix"), (2, "two_matrices")):
            for lengths, functions, tolerance in (([14], {}, 1e-5), ([5, 9], {}, 1e-5), ([5, 9], exact, 1e-10)):
                with self.subTest(case, lengths=lengths, tolerance=tolerance), mock.patch.dict(vars(titans), functions):
                    host = Host(titans_layer.TitansLayer, depth=depth, chunk=4, convolution=1, persistent=0)
                    network = host.memory.memory
                    given = {name.removeprefix("in."): value for name, value in tensors.items() if name.startswith("in.")}
                    given |= {f"{name}_start": tensors[f"{case}.{name}_start"].mT for name in network.shapes}
                    given["convolution_weight"] = torch.ones(1, 1, 24, dtype=torch.float64)
                    x = given.pop("x")
                    for name, value in given.items():
                        self.assertEqual(host.parameters[name].shape, value.shape, name)
                        host.parameters[name] = value
                    state = {name: host.fresh(name) for name in network.slots}
                    heads, places = [], [0, 0]
                    for part in cut(x, lengths):
                        out, state = network.run(host, network.cleaned(host, part), state, places)
                        heads.append(out)
                        places = state["place_of_lane"].flatten().tolist()
                    assert_near(torch.cat(heads, 2), tensors[f"{case}.heads"], tolerance)
                    for name in network.shapes:
                        self.assertGreater((state[name] - host.parameters[f"{name}_start"]).abs().max().item(), 0.1)
                        for part in (name, f"{name}_momentum"):
                            assert_near(state[part], tensors[f"{case}.{part}"].mT, tolerance)

    def test_heads_that_do_not_divide_the_width_are_refused(self) -> None:
        with self.assertRaisesRegex(ValueError, "heads is 3: expected a divisor of 8, the width of all heads of the model"):
            Host(titans_layer.TitansLayer, heads=3)


class QueriesOf:
    """What `read` gets."""

    def __init__(self, normed: Any, projected: Any = None) -> None:
        self.normed, self.projected = normed, projected


@unittest.skipIf(bool(NO_TORCH), NO_TORCH)
class Beside(unittest.TestCase):
    """titans.py: as context and as gate of an attention, whose result is given here."""

    def gated(self, host: Host, y: Any, m: Any) -> Any:
        return rms(y) * host.parameters["y_weight"] * torch.sigmoid(rms(m) * host.parameters["m_weight"])

    def test_a_gate_writes_the_inputs_and_multiplies_the_result(self) -> None:
        host = Host(titans.Titans, chunk=4, theta=0.1)
        x, y = host.random(2, 9, 6), host.random(2, 9, 6)
        expected = []
        for lane in range(2):
            naive = Naive(host)
            naive.write_persistent()
            expected.append(torch.stack([self.gated(host, y[lane, t], naive.write(x[lane, t])) for t in range(9)]))
        out = []
        for first, last in ((0, 5), (5, 9)):
            host.begin(0, last - first)
            host.x = x[:, first:last]
            host.memory.context(host)
            self.assertEqual([one.position for one in host.emitted], ["none"])
            torch.testing.assert_close(host.emitted[0].rows[1], host.parameters["persistent"])
            out.append(host.memory.read(host, QueriesOf(x[:, first:last], y[:, first:last])).out)
        torch.testing.assert_close(torch.cat(out, 1), torch.stack(expected), rtol=1e-10, atol=1e-10)

    def steps(self, lengths: list[int]) -> None:
        """Two segments of 6 tokens, each in steps of these lengths."""
        host = Host(titans.Titans, variant="context", chunk=4, theta=0.1)
        x, y = host.random(2, 12, 6), host.random(2, 12, 6)
        naive = [Naive(host) for _ in range(2)]
        for segment in (0, 6):
            before = [list(each.weights) for each in naive]
            recalled: list[Any] = []
            for offset, length in zip([sum(lengths[:i]) for i in range(len(lengths))], lengths):
                first, last = segment + offset, segment + offset + length
                host.begin(offset, length)
                host.x = x[:, first:last]
                host.memory.context(host)
                out = host.memory.read(host, QueriesOf(x[:, first:last], y[:, first:last])).out
                for t in range(first, last):
                    recalled.append(torch.stack([naive[b].ask(before[b], x[b, t]) for b in range(2)]))
                    for b in range(2):
                        expected = self.gated(host, y[b, t], naive[b].write(y[b, t]))
                        torch.testing.assert_close(out[b, t - first], expected, rtol=1e-10, atol=1e-10)
                persistent, h = host.emitted
                self.assertEqual((persistent.position, h.position), ("none", "explicit"))
                torch.testing.assert_close(h.rows, torch.stack(recalled, 1), rtol=1e-10, atol=1e-10)
                self.assertEqual(h.distance.tolist(), [[-i for i in range(offset + length)]])
                sees = [[j <= offset + i for j in range(offset + length)] for i in range(length)]
                self.assertEqual(h.bias[0, 0].isfinite().tolist(), sees)
                self.assertEqual(h.bias.nan_to_num(neginf=0.0).abs().max().item(), 0.0)

    def test_context_recalls_by_the_weights_before_the_segment_and_writes_the_result(self) -> None:
        for lengths in ([6], [2, 3, 1], [1] * 6):
            with self.subTest(lengths=lengths):
                self.steps(lengths)


@unittest.skipIf(bool(NO_PROGRAM), NO_PROGRAM)
class Program(unittest.TestCase):
    def test_checks_of_the_memory_pass(self) -> None:
        for name, settings in (("titans", ["variant=gate"]), ("titans", ["variant=context"]), ("titans_layer", [])):
            with self.subTest(name, settings=settings):
                validated(self, name, *settings, only=("python", "causality", "generation", "lanes.padding", "state.save"))

    def test_every_line_of_their_certificates_holds(self) -> None:
        for name, settings, without in (("titans", ["variant=gate"], ("cuts",)), ("titans_layer", [], ()),
                                        ("titans", ["variant=context", "longest_segment=12"], ("cuts",))):
            with self.subTest(name, settings=settings):
                certified(self, name, "chunk=5", *settings, without=without)


if __name__ == "__main__":
    unittest.main()
