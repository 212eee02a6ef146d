"""Layers without attention of examples/python against their equations token by token in f64, against the naive functions of
fla-core (tests/golden/recurrences) and programs of RWKV-LM (tests/golden/rwkv7), and in the program where MNEME_PROGRAM names
one."""

import types
import unittest
from typing import Any
from unittest import mock

from mneme.files import map_columns
from support import NO_PROGRAM, NO_TORCH, ROOT, assert_near, certified, example, golden, validated

WIDTH, HEADS, LAYERS = 6, 2, 2
CUTS = ([37], [1] * 37, [16, 16, 5], [3, 1, 33])
rwkv7, log_linear = example("rwkv7"), example("log_linear_attention")
if not NO_TORCH:
    import torch


def assert_close(ours: "torch.Tensor", theirs: "torch.Tensor", tolerance: float) -> None:
    torch.testing.assert_close(ours, theirs, rtol=tolerance, atol=tolerance)


class Host:
    """In place of Setup and Layer: parameters and state of all layers in f64, for a memory's `setup` and `read`."""

    lanes, width, heads, head_width, served = 2, WIDTH, HEADS, 3, tuple(range(LAYERS))

    def __init__(self, memory: Any, **options: int) -> None:
        self.generator = torch.Generator().manual_seed(1)
        self.parameters: dict[tuple[str, int], torch.Tensor] = {}
        self.slots: dict[tuple[str, int], torch.Tensor] = {}
        self.memory, self.layer, self.valid, self.compute_dtype = memory, 0, None, torch.float64
        for name, option in vars(type(memory)).items():
            if hasattr(option, "default"):
                setattr(memory, name, options.get(name, option.default))
        memory.setup(self)

    def _says(self, *_: Any) -> None:
        """What the memory is and wants."""

    replaces_attention = reads_at = wants = is_cut_invariant = _says

    def drawn(self, *shape: int) -> "torch.Tensor":
        return torch.randn(*shape, dtype=torch.float64, generator=self.generator)

    def slot(self, name: str, shape: Any = None, dtype: str = "f64", scope: str = "layer", **rest: str) -> Any:
        if shape is None:
            return self.slots[name, self.layer if (name, self.layer) in self.slots else -1]
        extents = [{-1: self.lanes, -2: 0}.get(extent, extent) for extent in shape]
        for layer in self.served if scope == "layer" else (-1,):
            self.slots[name, layer] = torch.zeros(extents, dtype=torch.int64 if dtype == "i64" else torch.float64)

    def set(self, name: str, value: "torch.Tensor") -> None:
        at = (name, self.layer if (name, self.layer) in self.slots else -1)
        assert value.dtype == self.slots[at].dtype, name
        assert name == "first_values" or value.shape == self.slots[at].shape, name  # its extent is mneme.ANY
        self.slots[at] = value

    def parameter(self, name: str, shape: Any = None, *start: Any, **rest: Any) -> Any:
        if shape is None:
            return self.parameters[name, self.layer]
        for layer in self.served:  # one of the model is drawn for each layer, and used in one
            self.parameters[name, layer] = self.drawn(*shape) / (shape[-1] ** 0.5 if len(shape) > 1 else 1.0)

    def read(self, pieces: "list[list[torch.Tensor]]") -> "list[torch.Tensor]":
        """The results of each layer, of its inputs [B,T,D] in pieces, as steps of one text."""
        out: list[list[torch.Tensor]] = [[] for _ in self.served]
        for piece in pieces:
            for self.layer, normed in enumerate(piece):
                out[self.layer].append(self.memory.read(self, types.SimpleNamespace(normed=normed)).out)
        return [torch.cat(results, 1) for results in out]


def compare_cuts(case: unittest.TestCase, make: Any, naive: Any, **options: int) -> None:
    """Results of `make()` in each cut of a text against naive(parameters of a layer, inputs, results of the layers below)."""
    for cut in CUTS:
        with case.subTest(cut=cut):
            host = Host(make(), **options)
            texts = [host.drawn(host.lanes, 37, WIDTH) for _ in range(LAYERS)]
            ours = host.read([list(piece) for piece in zip(*(text.split(cut, 1) for text in texts))])
            shared: dict[str, torch.Tensor] = {}
            for layer, text in enumerate(texts):
                weights = {name: value for (name, of), value in host.parameters.items() if of == layer}
                assert_close(ours[layer], naive(weights, text, shared), 1e-10)


def shifted(x: "torch.Tensor") -> "torch.Tensor":
    return torch.cat([torch.zeros_like(x[:, :1]), x[:, :-1]], 1)


def naive_rwkv7(r: Any, decay: Any, k: Any, v: Any, removal: Any, rate: Any, state: Any) -> Any:
    """As `recurrence` of the example, with the transition S (diag(w) - z (a z)^T) + v k^T of the paper as a matrix."""
    state, out = state.transpose(2, 3), []
    for t in range(r.shape[1]):
        transition = torch.diag_embed(decay[:, t].exp()) - removal[:, t].unsqueeze(3) * (rate * removal)[:, t].unsqueeze(2)
        state = state @ transition + v[:, t].unsqueeze(3) * k[:, t].unsqueeze(2)
        out.append((state @ r[:, t].unsqueeze(3)).squeeze(3))
    return torch.stack(out, 1), state.transpose(2, 3)


def naive_rwkv7_layer(w: Any, x: Any, shared: Any) -> Any:
    mixed = [x + (shifted(x) - x) * mu for mu in w["shift"]]
    r, k, v = (mixed[i] @ w[f"{name}_weight"].T for i, name in ((0, "r"), (2, "k"), (3, "v")))
    def low(name: str, x: Any) -> Any:
        return x @ w[f"{name}_up"].T + w[f"{name}_bias"]
    decay = -(-torch.tensor(0.5, dtype=x.dtype)).exp() * torch.sigmoid(low("decay", torch.tanh(mixed[1] @ w["decay_down"].T)))
    rate = torch.sigmoid(low("rate", mixed[4] @ w["rate_down"].T))
    if "first" not in shared:
        shared["first"] = v
    else:
        share = torch.sigmoid(low("value1", mixed[3] @ w["value1_down"].T))
        v = (1 - share) * v + share * shared["first"]
    gate = torch.sigmoid(mixed[5] @ w["gate_down"].T) @ w["gate_up"].T
    removal, k = k * w["removal"], k * (1 - w["replacement"] + rate * w["replacement"])
    heads = [each.unflatten(2, (HEADS, -1)) for each in (r, decay, k, v, removal, rate)]
    heads[4] = heads[4] / heads[4].norm(dim=3, keepdim=True)
    keys = heads[0].shape[3]
    out, _ = naive_rwkv7(*heads, torch.zeros(x.shape[0], HEADS, keys, keys, dtype=x.dtype))
    out = (out - out.mean(3, keepdim=True)) / (out.var(3, unbiased=False, keepdim=True) + 1e-5 * keys).sqrt()
    bonus = torch.einsum("bthk,hk,bthk,bthv->bthv", heads[0], w["bonus"].reshape(HEADS, keys), heads[2], heads[3])
    return (gate * (out.flatten(2) * w["norm_weight"] + w["norm_bias"] + bonus.flatten(2))) @ w["out_weight"].T


@unittest.skipIf(bool(NO_TORCH), NO_TORCH)
class Rwkv7(unittest.TestCase):
    INPUTS = ("r", "decay", "k", "v", "removal", "rate", "state")

    def inputs(self, length: int = 37) -> "list[torch.Tensor]":
        x = golden("recurrences/rwkv7")
        return [x[f"in.{name}"] if name == "state" else x[f"in.{name}"][:, :length] for name in self.INPUTS]

    def test_recurrence_equals_the_naive_function_of_fla_core(self) -> None:
        expected = golden("recurrences/rwkv7")
        r, *others = self.inputs()
        out, state = rwkv7.recurrence(r * r.shape[3] ** -0.5, *others)
        assert_close(out, expected["out"], 1e-5)
        assert_close(state, expected["state"], 1e-5)

    def test_recurrence_equals_the_definition_and_its_gradients_in_every_chunk(self) -> None:
        for length in (1, 16, 17, 37):
            theirs = [x.clone().requires_grad_() for x in self.inputs(length)]
            expected = naive_rwkv7(*theirs)
            weights = [torch.linspace(-1, 1, x.numel(), dtype=x.dtype).reshape(x.shape) for x in expected]
            sum((x * weight).sum() for x, weight in zip(expected, weights)).backward()
            for chunk in (1, 16, 64):
                with self.subTest(length=length, chunk=chunk), mock.patch.object(rwkv7, "CHUNK", chunk):
                    ours = [x.clone().requires_grad_() for x in self.inputs(length)]
                    results = rwkv7.recurrence(*ours)
                    sum((x * weight).sum() for x, weight in zip(results, weights)).backward()
                    for x, y in zip(results, expected):
                        assert_close(x, y, 1e-10)
                    for x, y in zip(ours, theirs):
                        assert_close(x.grad, y.grad, 1e-10)

    def test_recurrence_keeps_its_digits_in_f32_with_the_strongest_decay(self) -> None:
        inputs = self.inputs()
        inputs[1] = torch.full_like(inputs[1], -0.6065306597126334)
        for x, y in zip(rwkv7.recurrence(*(x.float() for x in inputs)), naive_rwkv7(*inputs)):
            assert_close(x.double(), y, 1e-5)

    def test_layers_equal_their_equations_in_every_cut(self) -> None:
        compare_cuts(self, rwkv7.Rwkv7, naive_rwkv7_layer, decay_rank=2, rate_rank=3, value_rank=2, gate_rank=4)
        compare_cuts(self, rwkv7.Rwkv7, naive_rwkv7_layer, head_width=5)


class WideHost(Host):
    """Of one head, as wide as those of RWKV-7's released models."""

    width, heads, head_width = 64, 1, 64


class NarrowHost(Host):
    """Of two heads."""

    width, heads, head_width = 16, 2, 8


@unittest.skipIf(bool(NO_TORCH), NO_TORCH)
class Rwkv7OfItsAuthor(unittest.TestCase):
    """All of the time mixing in two layers, the second of which takes a share of the first one's values."""

    VECTORS = {"decay_bias": "w0", "rate_bias": "a0", "removal": "k_k", "replacement": "k_a", "bonus": "r_k",
               "norm_weight": "ln_x.weight", "norm_bias": "ln_x.bias"}
    MATRICES = {"r_weight": "receptance.weight", "k_weight": "key.weight", "v_weight": "value.weight",
                "out_weight": "output.weight"}
    TRANSPOSED = {"decay_down": "w1", "decay_up": "w2", "rate_down": "a1", "rate_up": "a2", "gate_down": "g1", "gate_up": "g2"}

    def setUp(self) -> None:
        columns = map_columns(ROOT / "tests/golden/rwkv7/rwkv_lm.safetensors")
        self.tensors = {name: torch.tensor(column) for name, column in columns.items()}

    def host(self, cls: Any, case: str) -> Host:
        class Lanes(cls):  # type: ignore[misc]
            lanes = self.tensors[f"{case}.in"].shape[1]

        host = Lanes(rwkv7.Rwkv7(), decay_rank=2, rate_rank=3, value_rank=2, gate_rank=4)
        for layer in range(LAYERS):
            theirs = {name.removeprefix(f"{case}.{layer}."): value.double() for name, value in self.tensors.items()}
            given = {"shift": torch.cat([theirs[f"x_{name}"].flatten(0, 1) for name in "rwkvag"])}
            given |= {name: theirs[of].flatten() for name, of in self.VECTORS.items()}
            given |= {name: theirs[of] for name, of in self.MATRICES.items()}
            given |= {name: theirs[of].T for name, of in self.TRANSPOSED.items()}
            if layer > 0:
                given |= {"value1_down": theirs["v1"].T, "value1_up": theirs["v2"].T, "value1_bias": theirs["v0"].flatten()}
            for name, value in given.items():
                self.assertEqual(host.parameters[name, layer].shape, value.shape, name)
                host.parameters[name, layer] = value
        return host

    def outputs(self, host: Host, case: str, cut: "list[int]") -> "torch.Tensor":
        texts = self.tensors[f"{case}.in"].double()
        return torch.stack(host.read([list(piece) for piece in zip(*(text.split(cut, 1) for text in texts))]))

    def test_results_are_those_of_the_torch_program(self) -> None:
        for cls, case in ((WideHost, "one_head"), (NarrowHost, "two_heads")):
            for cut in ([20], [3, 17]):
                with self.subTest(case, cut=cut):
                    assert_near(self.outputs(self.host(cls, case), case, cut), self.tensors[f"{case}.torch.out"])

    def test_results_and_states_are_those_of_the_numpy_program_in_f64(self) -> None:
        host = self.host(WideHost, "one_head")
        assert_near(self.outputs(host, "one_head", [20]), self.tensors["one_head.numpy.out"], 1e-10)
        states = torch.stack([host.slots["state", layer] for layer in range(LAYERS)])
        assert_near(states.mT, self.tensors["one_head.numpy.state"], 1e-10)


def naive_log_linear(q: Any, k: Any, v: Any, decay: Any, scale: Any) -> Any:
    """The sum over all pairs of tokens, with the buckets of the paper: the own token, then those in front of t, whose sizes are
    the bits of t from the lowest up."""
    out = torch.zeros_like(v)
    for t in range(q.shape[1]):
        end = t
        spans = [(0, t, t + 1)]  # level, first token, end
        while end > 0:
            size = end & -end
            spans.append((min(size.bit_length(), scale.shape[3] - 1), end - size, end))
            end -= size
        for level, first, end in spans:
            for s in range(first, end):
                factor = scale[:, t, :, level] * decay[:, s + 1:t + 1].sum(1).exp() * (q[:, t] * k[:, s]).sum(2)
                out[:, t] += factor.unsqueeze(2) * v[:, s]
    return out


def naive_log_linear_layer(w: Any, u: Any, shared: Any) -> Any:
    levels, inner = w["level_weight"].shape[1], w["norm_weight"].shape[0]
    keys = (w["convolution_bias"].shape[0] - inner) // 2
    z, mixed, step, scale = (u @ w["in_weight"].T).split([inner, inner + 2 * keys, HEADS, HEADS * levels], 2)
    convolved, inputs = w["convolution_bias"], mixed
    for taps in w["convolution_weight"].flip(0):
        convolved, inputs = convolved + taps * inputs, shifted(inputs)
    x, k, q = (convolved * convolved.sigmoid()).split([inner, keys, keys], 2)
    step = (step + w["step_bias"]).exp().log1p()
    scale = (w["level_weight"] * scale.unflatten(2, (HEADS, levels))).exp().log1p()
    x = x.unflatten(2, (HEADS, -1))
    q, k = (torch.stack([each] * HEADS, 2) for each in (q, k))
    out = naive_log_linear(q, k, step.unsqueeze(3) * x, -w["rate_log"].exp() * step, scale)
    out = (out + w["skip"].unsqueeze(1) * x).flatten(2) * z * z.sigmoid()
    return (out / (out.square().mean(2, keepdim=True) + 1e-5).sqrt() * w["norm_weight"]) @ w["out_weight"].T


@unittest.skipIf(bool(NO_TORCH), NO_TORCH)
class LogLinearAttention(unittest.TestCase):
    def inputs(self, length: int = 37, levels: int = 7) -> "list[torch.Tensor]":
        x = golden("recurrences/log_linear_attn")
        inputs = [x[f"in.{name}"][:, :length] for name in ("q", "k", "v", "decay")]
        return [*inputs, x["in.scale"][:, :length, :, :levels].clone()]

    def run_in(self, cut: "list[int]", inputs: "list[torch.Tensor]") -> "torch.Tensor":
        """Results of the recurrence over inputs in steps of these lengths, from no state."""
        q, _, v, _, scale = inputs
        states = q.new_zeros(q.shape[0], q.shape[2], scale.shape[3] - 1, q.shape[3], v.shape[3])
        place, out = torch.zeros(q.shape[0], 1, dtype=torch.int64), []
        for piece in zip(*(x.split(cut, 1) for x in inputs)):
            step, states, place = log_linear.recurrence(*piece, states, place)
            out.append(step)
        return torch.cat(out, 1)

    def test_recurrence_equals_the_naive_function_of_fla_core(self) -> None:
        for cut in CUTS:
            with self.subTest(cut=cut):
                assert_close(self.run_in(cut, self.inputs()), golden("recurrences/log_linear_attn")["out"], 1e-5)

    def test_recurrence_equals_the_definition_and_its_gradients_in_every_chunk(self) -> None:
        """With 7 levels, which hold 37 tokens, and with 2 and 4, which hold 2 and 8: the last one goes on."""
        for levels in (2, 4, 7):
            theirs = [x.clone().requires_grad_() for x in self.inputs(levels=levels)]
            expected = naive_log_linear(*theirs)
            weight = torch.linspace(-1, 1, expected.numel(), dtype=expected.dtype).reshape(expected.shape)
            (expected * weight).sum().backward()
            for chunk in (1, 16, 64):
                for cut in CUTS:
                    with self.subTest(levels=levels, chunk=chunk, cut=cut), mock.patch.object(log_linear, "CHUNK", chunk):
                        ours = [x.clone().requires_grad_() for x in self.inputs(levels=levels)]
                        out = self.run_in(cut, ours)
                        (out * weight).sum().backward()
                        assert_close(out, expected, 1e-10)
                        for x, y in zip(ours, theirs):
                            assert_close(x.grad, y.grad, 1e-10)

    def test_lanes_at_other_places_do_not_touch(self) -> None:
        """A lane that began 5 tokens earlier beside one that begins."""
        inputs = self.inputs()
        late = naive_log_linear(*inputs)
        states = torch.zeros(1, 2, 6, 5, 4, dtype=torch.float64)
        _, early, place = log_linear.recurrence(*(x[:, :5] for x in inputs), states, torch.zeros(1, 1, dtype=torch.int64))
        lanes = [torch.cat([x[:, 5:], x[:, :32]]) for x in inputs]
        out, _, place = log_linear.recurrence(*lanes, torch.cat([early, states]), torch.cat([place, torch.zeros_like(place)]))
        assert_close(out[:1], late[:, 5:], 1e-10)
        assert_close(out[1:], late[:, :32], 1e-10)
        self.assertEqual(place.tolist(), [[37], [32]])

    def test_recurrence_is_finite_where_all_is_forgotten(self) -> None:
        inputs = [x.float() for x in self.inputs()]
        inputs[3] = torch.full_like(inputs[3], -1e4)
        ours, theirs = ([x.clone().requires_grad_() for x in inputs] for _ in range(2))
        out, expected = self.run_in([37], ours), naive_log_linear(*theirs)
        assert_close(out, expected, 1e-5)
        out.sum().backward()
        expected.sum().backward()
        for x, y in zip(ours, theirs):
            assert_close(x.grad, y.grad, 1e-5)

    def test_layers_equal_their_equations_in_every_cut(self) -> None:
        compare_cuts(self, log_linear.LogLinearAttention, naive_log_linear_layer, key_width=5, levels=7)
        compare_cuts(self, log_linear.LogLinearAttention, naive_log_linear_layer, key_width=0, levels=3, convolution=2)


@unittest.skipIf(bool(NO_PROGRAM), NO_PROGRAM)
class Program(unittest.TestCase):
    def checks_pass(self, name: str, *settings: str) -> None:
        validated(self, name, *settings, only=("python", "replay", "causality", "generation", "lanes.padding", "state.reset_lane"))

    def test_checks_of_rwkv7_pass(self) -> None:
        self.checks_pass("rwkv7", "decay_rank=2", "rate_rank=2", "value_rank=2", "gate_rank=2")

    def test_checks_of_log_linear_attention_pass(self) -> None:
        self.checks_pass("log_linear_attention", "key_width=4", "levels=4")

    def test_every_line_of_the_certificate_of_rwkv7_holds(self) -> None:
        certified(self, "rwkv7", "decay_rank=2", "rate_rank=2", "value_rank=2", "gate_rank=2")

    def test_every_line_of_the_certificate_of_log_linear_attention_holds(self) -> None:
        certified(self, "log_linear_attention", "key_width=4", "levels=4")


if __name__ == "__main__":
    unittest.main()
