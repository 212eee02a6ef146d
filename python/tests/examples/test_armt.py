"""examples/python/armt.py against loops over layers, lanes and memory tokens, and against numbers of the authors' program
(tests/golden/armt), in f64."""

import unittest
from types import SimpleNamespace
from typing import Any
from unittest import mock

from support import NO_PROGRAM, NO_TORCH, Host, assert_near, certified, example, golden, validated

armt = example("armt")
if not NO_TORCH:
    import torch

LAYERS, ROWS = 2, 3


def phi(u: Any) -> Any:
    """DPFP-3 of one vector, entry by entry; of length 1."""
    r = [max(value, 0.0 * value) for value in (*u, *(-u))]
    out = torch.stack([r[i] * r[(i - j) % len(r)] for j in (1, 2, 3) for i in range(len(r))])
    return out / out.square().sum().sqrt()


class Naive:
    """The matrices of one lane."""

    def __init__(self, host: Host) -> None:
        self.p, self.has_correction = host.parameters, host.memory.correction
        width = 6 * host.memory.key_width
        self.a = [torch.zeros(width, host.width, dtype=torch.float64) for _ in range(LAYERS)]
        self.z = [torch.zeros(width, dtype=torch.float64) for _ in range(LAYERS)]

    def held(self, layer: int, k: Any) -> Any:
        return k @ self.a[layer] / (k @ self.z[layer] + 1e-5)

    def read(self, layer: int, x: Any) -> Any:
        return self.held(layer, phi(self.p["query_weight"][layer] @ x))

    def write(self, layer: int, outputs: Any) -> None:
        """Outputs [m,D] of the layer's memory tokens."""
        a, z = self.a[layer], self.z[layer]
        for y in outputs:
            k = phi(self.p["key_weight"][layer] @ y)
            beta = torch.sigmoid(self.p["beta_weight"][layer] @ y + self.p["beta_bias"][layer])
            a = a + beta * torch.outer(k, self.p["value_weight"][layer] @ y - self.held(layer, k))
            gamma = 1 - (k @ self.z[layer]) / (k @ k)
            z = z + (min(max(float(gamma.detach()), 0.0), 1.0) if self.has_correction else 1.0) * k
        self.a[layer], self.z[layer] = a, z


def attention(q: Any, k: Any, v: Any, mask: str, *, query_offset: int, key_valid: Any) -> tuple[Any, None]:
    """The host's, without positions."""
    assert mask == "causal"
    scores = torch.einsum("bihd,bjhd->bhij", q, k)
    places = torch.arange(k.shape[1])
    later = places > places[query_offset:].unsqueeze(1)
    if key_valid is not None:
        later = later | key_valid.logical_not()[:, None, None]
    return torch.einsum("bhij,bjhd->bihd", torch.softmax(scores.masked_fill(later, -torch.inf), -1), v), None


@unittest.skipIf(bool(NO_TORCH), NO_TORCH)
class Hooks(unittest.TestCase):
    def host(self, **options: Any) -> Host:
        host = Host(armt.Armt, rows=ROWS, key_width=4, **options)
        host.attention = attention  # type: ignore[attr-defined]
        return host

    def segment(self, host: Host, outputs: Any, x: Any) -> list[Any]:
        """One segment whose memory tokens have these outputs of the layers [B,L,m,D]; what its tokens x [B,T,D] or [L,B,T,D]
        read in each layer."""
        x = x.expand(LAYERS, *x.shape[-3:])
        host.begin(0, x.shape[2])
        riders = host.memory.begin(host)
        self.assertEqual((riders.unseen, riders.rows.shape), (ROWS, (2, ROWS, 6)))
        torch.testing.assert_close(riders.rows[1], host.parameters["tokens"])
        read = []
        for layer in range(LAYERS):
            host.layer, host.x = layer, x[layer]  # type: ignore[attr-defined]
            hidden = riders.rows if layer == 0 else outputs[:, layer - 1]
            q, k, v = host.random(2, ROWS, 2, 4), host.random(2, ROWS + 4, 2, 4), host.random(2, ROWS + 4, 2, 4)
            host.memory.ride(host, SimpleNamespace(q=q, k=k, v=v, valid=None, hidden=hidden))
            result = host.memory.read(host, None)
            self.assertEqual(result.merge, 1)
            read.append(result.out)
        host.memory.finish(host, SimpleNamespace(riders=outputs[:, -1]))
        return read

    def test_matrices_are_those_of_the_loops(self) -> None:
        for has_correction in (True, False):
            with self.subTest(has_correction):
                host = self.host(correction=has_correction)
                naive = [Naive(host) for _ in range(2)]
                for segment in range(4):
                    outputs, x = host.random(2, LAYERS, ROWS, 6), host.random(2, 5, 6)
                    read = self.segment(host, outputs, x)
                    for lane in range(2):
                        for layer in range(LAYERS):
                            expected = torch.stack([naive[lane].read(layer, token) for token in x[lane]])
                            torch.testing.assert_close(read[layer][lane], expected, rtol=1e-10, atol=1e-10)
                            self.assertEqual(bool(expected.abs().max() == 0.0), segment == 0)
                            naive[lane].write(layer, outputs[lane, layer])
                            torch.testing.assert_close(host.slot("matrix")[lane, layer], naive[lane].a[layer], rtol=1e-10, atol=1e-10)
                            torch.testing.assert_close(host.slot("normaliser")[lane, layer], naive[lane].z[layer], rtol=1e-10, atol=1e-10)

    def test_reads_matrices_and_normalisers_are_those_of_the_authors(self) -> None:
        """With `correction` to 1e-4, because they count the 1e-5 of the denominator among the known share of a key; with 1e-9 in
        its place to 1e-7."""
        tensors = golden("armt/armt")
        for case, has_correction, small, tolerance in (("plain", False, 1e-5, 1e-10), ("corrected", True, 1e-5, 1e-4),
                                                       ("smaller", True, 1e-9, 1e-7)):
            host = self.host(correction=has_correction)
            for name in ("query_weight", "key_weight", "value_weight", "beta_weight", "beta_bias"):
                weight = tensors[f"in.{name}"]
                weight = weight.squeeze(1) if name.startswith("beta") else weight
                self.assertEqual(host.parameters[name].shape, weight.shape, name)
                host.parameters[name] = weight
            for segment, (outputs, tokens) in enumerate(zip(tensors["in.outputs"], tensors["in.tokens"])):
                with self.subTest(case, segment=segment), mock.patch.object(armt, "SMALL", small):
                    read = self.segment(host, outputs.transpose(0, 1), tokens)
                    assert_near(torch.stack(read), tensors[f"{case}.read"][segment], tolerance)
                    for part in ("matrix", "normaliser"):
                        assert_near(host.slot(part).transpose(0, 1), tensors[f"{case}.{part}"][segment], tolerance)

    def test_gamma_keeps_the_normaliser_of_a_key_that_is_known(self) -> None:
        host = self.host()
        outputs = host.random(2, LAYERS, 1, 6).expand(-1, -1, ROWS, -1).contiguous()
        once = []
        for _ in range(3):
            self.segment(host, outputs, host.random(2, 5, 6))
            once.append(host.slot("normaliser"))
        self.assertGreater(once[0].abs().max().item(), 0.1)
        torch.testing.assert_close(once[1], once[0], rtol=1e-12, atol=1e-12)
        torch.testing.assert_close(once[2], once[0], rtol=1e-12, atol=1e-12)

    def test_has_the_gradients_of_the_loops(self) -> None:
        ours, theirs = self.host(), self.host()
        outputs, x = ours.random(2, 2, LAYERS, ROWS, 6), ours.random(3, 2, 5, 6)
        naive = [Naive(theirs) for _ in range(2)]
        read, expected = [], []
        for segment in range(3):
            given = outputs[min(segment, 1)]
            read += self.segment(ours, given, x[segment])
            expected += [torch.stack([torch.stack([naive[lane].read(layer, token) for token in x[segment, lane]]) for lane in range(2)])
                         for layer in range(LAYERS)]
            for lane in range(2):
                for layer in range(LAYERS):
                    naive[lane].write(layer, given[lane, layer])
        weights = [ours.random(2, 5, 6) for _ in read]
        for results in (read, expected):
            sum((weight * result).sum() for weight, result in zip(weights, results)).backward()
        for name in ("query_weight", "key_weight", "value_weight", "beta_weight", "beta_bias"):
            with self.subTest(name):
                self.assertGreater(theirs.parameters[name].grad.abs().max().item(), 1e-6)
                torch.testing.assert_close(ours.parameters[name].grad, theirs.parameters[name].grad, rtol=1e-8, atol=1e-9)

    def test_a_memory_token_attends_to_the_tokens_and_to_memory_tokens_up_to_itself(self) -> None:
        host = self.host()
        q, k, v = (host.random(2, rows, 2, 4) for rows in (ROWS, ROWS + 4, ROWS + 4))
        valid = torch.ones(2, ROWS + 4, dtype=torch.bool)
        valid[1, -2:] = False
        host.begin(0, 4)
        out = host.memory.ride(host, SimpleNamespace(q=q, k=k, v=v, valid=valid, hidden=host.random(2, ROWS, 6)))
        for lane in range(2):
            for i in range(ROWS):
                seen = [*range(ROWS, ROWS + (4 if lane == 0 else 2)), *range(i + 1)]
                for h in range(2):
                    weights = torch.softmax(torch.stack([q[lane, i, h] @ k[lane, j, h] for j in seen]), 0)
                    expected = sum(weight * v[lane, j, h] for weight, j in zip(weights, seen))
                    torch.testing.assert_close(out[lane, i, h], expected, rtol=1e-10, atol=1e-10)


@unittest.skipIf(bool(NO_PROGRAM), NO_PROGRAM)
class Program(unittest.TestCase):
    def test_checks_of_the_memory_pass(self) -> None:
        validated(self, "armt", only=("python", "causality", "generation", "lanes.padding", "state.save", "gradients.reach"))

    def test_every_line_of_its_certificate_holds(self) -> None:
        certified(self, "armt", "rows=3", "key_width=4", without=("cuts",))


if __name__ == "__main__":
    unittest.main()
