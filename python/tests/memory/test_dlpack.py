"""The kernels of examples/python/dlpack_recurrence.py against operations of torch. JAX is tested where it is installed, and the
memory in the program where MNEME_PROGRAM names one."""

import importlib.util
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path
from unittest import mock

from test_training import ROOT, SKIP

EXAMPLE = ROOT / "examples/python/dlpack_recurrence.py"
HAS_TORCH = not SKIP or SKIP.startswith("MNEME_PROGRAM")
MISSING = [name for name in ("torch", "numpy") if importlib.util.find_spec(name) is None] if HAS_TORCH else ["torch"]
KERNELS = ["numpy"] + ["jax"] * (importlib.util.find_spec("jax") is not None)
if not MISSING:
    import torch
    spec = importlib.util.spec_from_file_location("dlpack_recurrence", EXAMPLE)
    assert spec is not None and spec.loader is not None
    example = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(example)


def by_torch(a: "torch.Tensor", b: "torch.Tensor", state: "torch.Tensor") -> "torch.Tensor":
    out = []
    for t in range(b.shape[1]):
        state = a[:, t] * state + b[:, t]
        out.append(state)
    return torch.stack(out, 1)


def inputs(dtype: "torch.dtype", length: int = 7) -> "list[torch.Tensor]":
    generator = torch.Generator().manual_seed(1)

    def drawn(*shape: int) -> "torch.Tensor":
        return torch.rand(*shape, dtype=dtype, generator=generator).requires_grad_()
    return [drawn(3, length, 5), drawn(3, length, 5), drawn(3, 5)]


@unittest.skipIf(bool(MISSING), f"this Python has no {', '.join(MISSING)}")
class Kernels(unittest.TestCase):
    def test_give_the_values_and_gradients_of_operations_of_torch(self) -> None:
        for kernel in KERNELS:
            for dtype, tolerance in ((torch.float32, 1e-6), (torch.float64, 1e-12)):
                for length in (1, 7):
                    with self.subTest(kernel, dtype=dtype, length=length):
                        ours, theirs = inputs(dtype, length), inputs(dtype, length)
                        out, expected = example.Recurrence.apply(kernel, *ours), by_torch(*theirs)
                        torch.testing.assert_close(out, expected, rtol=tolerance, atol=tolerance)
                        weight = torch.linspace(-1, 1, out.numel(), dtype=dtype).reshape(out.shape)
                        (out * weight).sum().backward()
                        (expected * weight).sum().backward()
                        for x, y in zip(ours, theirs):
                            torch.testing.assert_close(x.grad, y.grad, rtol=10 * tolerance, atol=10 * tolerance)

    def test_have_the_gradient_of_finite_differences(self) -> None:
        for kernel in KERNELS:
            with self.subTest(kernel):
                self.assertTrue(torch.autograd.gradcheck(lambda *x: example.Recurrence.apply(kernel, *x), inputs(torch.float64)))

    def test_take_tensors_of_any_strides(self) -> None:
        a, b, state = (x.detach() for x in inputs(torch.float64))
        for kernel in KERNELS:
            out = example.recurrence(kernel, a.flip(1), b.transpose(0, 1).contiguous().transpose(0, 1), state[:, ::1])
            torch.testing.assert_close(out, by_torch(a.flip(1), b, state), rtol=1e-12, atol=1e-12)

    def test_copy_nothing(self) -> None:
        seen = []

        def kernel(*arrays):
            seen.extend(array.__array_interface__["data"][0] for array in arrays)
            seen.append(arrays[1])
            return arrays[1].copy()

        tensors = [x.detach() for x in inputs(torch.float32)]
        with mock.patch.object(example, "by_numpy", kernel):
            example.recurrence("numpy", *tensors)
        self.assertEqual(seen[:3], [tensor.data_ptr() for tensor in tensors])
        tensors[1][0, 0, 0] = 5.0
        self.assertEqual(seen[3][0, 0, 0], 5.0)


@unittest.skipIf(bool(SKIP or MISSING), SKIP or f"this Python has no {', '.join(MISSING)}")
class Program(unittest.TestCase):
    def test_checks_of_the_memory_pass(self) -> None:
        for kernel in KERNELS:
            with self.subTest(kernel), tempfile.TemporaryDirectory() as folder:
                words = ["plugins", "validate", str(EXAMPLE), "--set", f"kernel={kernel}"]
                for group in ("python", "replay", "causality"):
                    words += ["--only", group]
                done = subprocess.run([os.environ["MNEME_PROGRAM"], *words], capture_output=True, text=True, check=False,
                                      env={**os.environ, "MNEME_PYTHON": sys.executable, "XDG_CACHE_HOME": folder})
                self.assertEqual(done.returncode, 0, done.stdout + done.stderr)


if __name__ == "__main__":
    if "jax" not in KERNELS:
        print("JAX is not installed: only NumPy's kernel is tested")
    unittest.main()
