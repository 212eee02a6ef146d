"""Memories in Python on a GPU: functions of fla-core and of Triton, interrupts, and a device without memory left.

Needs the program (MNEME_PROGRAM) and an interpreter with torch, as test_training.py. Without a GPU Triton's function runs in Triton's
own interpreter on the CPU, and what needs a GPU is skipped."""

import importlib.util
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

from test_training import EXPERIMENT, SKIP, tensors_of

HAS_GPU = False
if not SKIP:
    import torch
    HAS_GPU = torch.cuda.is_available()
DEVICE = "cuda" if HAS_GPU else "cpu"
NO_GPU = "" if HAS_GPU else SKIP or "torch.cuda.is_available() is false"
MISSING = {name: "" if importlib.util.find_spec(name) else f"{sys.executable} has no {name}: pip install {package}"
           for name, package in (("fla", "fla-core"), ("triton", "triton"))}

TRITON = '''
import torch
import triton
import triton.language as tl

import mneme


@triton.jit
def multiply(a, b, out, size, BLOCK: tl.constexpr):
    place = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    there = place < size
    tl.store(out + place, tl.load(a + place, mask=there) * tl.load(b + place, mask=there), mask=there)


def product(a, b):
    a, b = a.detach().contiguous(), b.detach().contiguous()
    out = torch.empty_like(a)
    multiply[(triton.cdiv(a.numel(), 64),)](a, b, out, a.numel(), BLOCK=64)
    return out


class Product(torch.autograd.Function):
    @staticmethod
    def forward(ctx, a, b):
        ctx.save_for_backward(a, b)
        return product(a, b)

    @staticmethod
    def backward(ctx, gradient):
        a, b = ctx.saved_tensors
        return product(gradient, b), product(gradient, a)


class Gated(mneme.Memory):
    id = "org.example.gated"
    by = mneme.choice("triton", "triton|torch", "what multiplies")

    def setup(self, s):
        s.parameter("gate", [s.width])
        s.slot("last", [mneme.LANES, s.width])

    def absorb(self, layer, rows):
        layer.set("last", rows.hidden[:, -1].to(layer.slot("last").dtype))

    def read(self, layer, queries):
        last = layer.slot("last")
        gate = layer.parameter("gate").expand(last.shape)
        out = Product.apply(gate, last) if self.by == "triton" else gate * last
        return mneme.add(out.to(layer.compute_dtype).unsqueeze(1))
'''

FLA = '''
import torch

import mneme


def by_torch(q, k, v, g, beta, state):
    out = []
    for t in range(q.shape[1]):
        state = state * g[:, t, :, None, None].exp()
        error = beta[:, t, :, None] * (v[:, t] - (state * k[:, t, :, :, None]).sum(2))
        state = state + k[:, t, :, :, None] * error[:, :, None]
        out.append((q[:, t, :, :, None] * state).sum(2))
    return torch.stack(out, 1), state


def by_fla(q, k, v, g, beta, state):
    from fla.ops.gated_delta_rule import chunk_gated_delta_rule
    q, k, v = (x.to(torch.bfloat16) for x in (q, k, v))
    return chunk_gated_delta_rule(q, k, v, g, beta, scale=1.0, initial_state=state, output_final_state=True)


class Delta(mneme.Memory):
    id = "org.example.delta"
    by = mneme.choice("fla", "fla|torch", "what computes the rule")

    def setup(self, s):
        s.parameter("decay", [s.heads, s.width], mneme.fan_in_uniform())
        s.parameter("step", [s.heads, s.width], mneme.fan_in_uniform())
        s.slot("state", [mneme.LANES, s.heads, s.head_width, s.head_width], gradient="through")
        s.reads_at("heads")
        s.wants("read_q", "read_k", "read_v", "read_x")

    def read(self, layer, queries):
        state = layer.slot("state")
        x = layer.norm(layer.x).to(state.dtype)
        g = torch.nn.functional.logsigmoid(x @ layer.parameter("decay").T)
        beta = torch.sigmoid(x @ layer.parameter("step").T)
        q, k = (torch.nn.functional.normalize(y.to(state.dtype), dim=3) for y in (queries.q, queries.k))
        rule = by_fla if self.by == "fla" else by_torch
        out, state = rule(q, k, queries.v.to(state.dtype), g, beta, state)
        layer.set("state", state.to(torch.float32))
        return mneme.add(out.to(layer.compute_dtype))
'''

GREEDY = '''
import torch

import mneme


class Greedy(mneme.Memory):
    id = "org.example.greedy"

    def absorb(self, layer, rows):
        if layer.index == 2:
            torch.empty(1 << 44, dtype=torch.uint8, device=layer.device)
'''


@unittest.skipIf(bool(SKIP), SKIP)
class Device(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.environment = {**os.environ, "MNEME_PYTHON": sys.executable, "OMP_NUM_THREADS": "1",
                            "XDG_CACHE_HOME": str(self.folder / "cache"), "TRITON_CACHE_DIR": str(self.folder / "triton")}
        if not HAS_GPU:
            self.environment["TRITON_INTERPRET"] = "1"

    def command(self, text: str, run: str, options: str = "", *settings: str) -> list[str]:
        (self.folder / "mine.py").write_text(text, encoding="utf-8")
        experiment = EXPERIMENT.format(plugins=self.folder, plugin=self.folder / "mine.py", options=options)
        (self.folder / f"{run}.toml").write_text(experiment, encoding="utf-8")
        return ["train", f"{run}.toml", "--run", run, "--checked", "--device", DEVICE, "--set", "train.precision=f32",
                *(word for setting in settings for word in ("--set", setting))]

    def run_mneme(self, words: list[str]) -> "subprocess.CompletedProcess[str]":
        return subprocess.run([os.environ["MNEME_PROGRAM"], *words], capture_output=True, text=True, check=False,
                              env=self.environment, cwd=self.folder)

    def train(self, *given: str) -> dict[str, tuple[str, bytes]]:
        """The last checkpoint."""
        done = self.run_mneme(self.command(*given))
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return tensors_of(max((self.folder / given[1] / "checkpoints").glob("*.safetensors")))

    def losses(self, run: str) -> list[float]:
        lines = (self.folder / run / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
        return [line["loss"] for line in map(json.loads, lines) if line["kind"] == "step"]

    @unittest.skipIf(bool(MISSING["triton"]), MISSING["triton"])
    def test_a_function_of_triton_trains_as_operations_of_torch(self) -> None:
        ours, theirs = (self.train(TRITON, by, f'by = "{by}"', "train.steps=8", "train.log_every=1") for by in ("triton", "torch"))
        gates = [name for name in ours if name.startswith("memory.") and name.endswith(".gate")]
        self.assertEqual(len(gates), 2)
        for name in gates:
            self.assertNotEqual(ours[name][1], bytes(len(ours[name][1])), "its backward gave no gradient")
        for a, b in zip(self.losses("triton"), self.losses("torch"), strict=True):
            self.assertAlmostEqual(a, b, delta=1e-4)

    @unittest.skipIf(bool(NO_GPU or MISSING["fla"]), NO_GPU or MISSING["fla"])
    def test_a_function_of_fla_trains_as_a_loop_of_torch(self) -> None:
        sizes = ("model.head_width=64", "model.width=128", "train.segment=64", "train.steps=8", "train.log_every=1")
        for by in ("fla", "torch"):
            self.train(FLA, by, f'by = "{by}"', *sizes)
        for a, b in zip(self.losses("fla"), self.losses("torch"), strict=True):
            self.assertAlmostEqual(a, b, delta=2e-2)  # the kernel computes in bf16

    def test_an_interrupt_saves_and_the_run_continues(self) -> None:
        words = self.command(GREEDY.replace("layer.index == 2", "False"), "stopped", "", "train.steps=100000", "train.log_every=1")
        with subprocess.Popen([os.environ["MNEME_PROGRAM"], *words], env=self.environment, cwd=self.folder, text=True,
                              stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as program:
            metrics = self.folder / "stopped" / "metrics.jsonl"
            while program.poll() is None and not (metrics.is_file() and metrics.stat().st_size):
                time.sleep(0.1)
            program.send_signal(signal.SIGINT)
            _, said = program.communicate(timeout=120)
        self.assertEqual(program.returncode, 130, said)
        self.assertIn("saved", said)
        step = max(int(path.stem.partition("_")[2]) for path in (self.folder / "stopped/checkpoints").glob("step_*.safetensors"))
        done = self.run_mneme(["train", "--resume", "stopped", "--device", DEVICE, "--steps", str(step + 5)])
        self.assertEqual(done.returncode, 0, done.stderr)

    @unittest.skipIf(bool(NO_GPU), NO_GPU)
    def test_a_device_without_memory_left_names_the_line(self) -> None:
        done = self.run_mneme(self.command(GREEDY, "greedy"))
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("OutOfMemoryError", done.stderr)
        self.assertIn("at mine.py:12", done.stderr)


if __name__ == "__main__":
    unittest.main()
