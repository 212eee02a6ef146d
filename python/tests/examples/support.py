"""What stands in for the host where hooks of examples/python are called without the program, and what the tests of them need."""

import atexit
import importlib
import importlib.util
import json
import os
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path
from types import SimpleNamespace
from typing import Any

ROOT = Path(__file__).resolve().parents[3]
EXAMPLES = ROOT / "examples/python"
NO_TORCH = "" if importlib.util.find_spec("torch") else f"{sys.executable} has no torch"
NO_PROGRAM = NO_TORCH or ("" if os.access(os.environ.get("MNEME_PROGRAM", ""), os.X_OK) else "MNEME_PROGRAM names no program")


def example(name: str) -> Any:
    """The module examples/python/<name>.py, which may import others of that folder. None without torch."""
    if NO_TORCH:
        return None
    if str(EXAMPLES) not in sys.path:
        sys.path.append(str(EXAMPLES))
    return importlib.import_module(name)


def golden(name: str) -> "dict[str, Any]":
    """The tensors of tests/golden/<name>.txt, in f64. A line is a tensor: its name, its rank, its extents, its elements."""
    import torch
    tensors = {}
    for line in (ROOT / f"tests/golden/{name}.txt").read_text(encoding="utf-8").splitlines():
        tensor, rank, *numbers = line.split()
        shape, values = numbers[:int(rank)], numbers[int(rank):]
        tensors[tensor] = torch.tensor([float(value) for value in values], dtype=torch.float64).reshape([int(n) for n in shape])
    return tensors


def assert_near(ours: Any, theirs: Any, tolerance: float = 1e-5) -> None:
    """No element differs by more than this share of the largest one of `theirs`."""
    import torch
    torch.testing.assert_close(ours.detach(), theirs.to(ours.dtype), rtol=0.0, atol=tolerance * theirs.abs().max().item())


class Host:
    """Setup and layer of a memory in one: parameters of random numbers in f64, state of `lanes` lanes, one layer of D = 6 with 2
    heads of width 4. `emitted`: rows and their named arguments."""

    width, heads, head_width, layers, is_evaluation, valid, is_training = 6, 2, 4, 2, False, None, True

    def __init__(self, cls: Any, lanes: int = 2, **options: Any) -> None:
        import torch
        from mneme.memory import runtime
        self.torch, self.lanes, self.compute_dtype = torch, lanes, torch.float64
        self.generator = torch.Generator().manual_seed(1)
        self.parameters: dict[str, Any] = {}
        self.starts: dict[str, Any] = {}
        self.lifetimes: dict[str, str] = {}
        self.dtypes: dict[str, Any] = {}
        self.places: dict[str, list[int]] = {}
        self.emitted: list[Any] = []
        self.offset = self.length = self.layer = 0
        self.memory = cls()
        for key, option in runtime.options_of(cls):
            setattr(self.memory, key, options.pop(key, option.default))
        assert not options, options
        self.memory.setup(self)
        self.slots = {name: self.fresh(name) for name in self.starts}

    # Setup

    def parameter(self, name: str, shape: Any = None, start: Any = None, **_: Any) -> Any:
        if shape is not None:
            is_constant = start is not None and start.rule == 1
            value = start.value + 0.3 * self.random(*shape) if is_constant else 0.5 * self.random(*shape)
            self.parameters[name] = value.requires_grad_()
        return self.parameters[name]

    def slot(self, name: str, shape: Any = None, start: Any = None, **settings: Any) -> Any:
        if shape is None:
            return self.slots[name]
        self.starts[name] = (shape[1:], start)
        self.lifetimes[name] = settings.get("lifetime", "run")
        self.dtypes[name] = self.torch.int64 if settings.get("dtype") == "i64" else self.torch.float64

    def counts(self, name: str) -> list[int]:
        return self.places.setdefault(name, [0] * self.lanes)

    def _nothing(self, *_: Any, **__: Any) -> None: ...

    wants = context_rows = max_segment = reads_at = replaces_attention = is_cut_invariant = _nothing

    # Layer

    def random(self, *shape: int) -> Any:
        return self.torch.randn(*shape, dtype=self.torch.float64, generator=self.generator)

    def fresh(self, name: str) -> Any:
        shape, start = self.starts[name]
        if isinstance(start, str):
            return self.parameters[start].expand(self.lanes, *shape)
        return self.torch.zeros(self.lanes, *(max(0, extent) for extent in shape), dtype=self.dtypes[name])

    def begin(self, offset: int, length: int, resets: tuple[int, ...] = ()) -> None:
        """A step of `length` tokens; a segment begins with it where offset is 0, and lanes `resets` start afresh."""
        self.offset, self.length, self.emitted = offset, length, []
        if offset > 0:
            return
        for name in self.slots:
            if self.lifetimes[name] == "segment":
                self.slots[name] = self.fresh(name)
            for lane in resets:
                self.slots[name] = self.torch.stack([(self.fresh(name) if each == lane else self.slots[name])[each]
                                                     for each in range(self.lanes)])
        for lane in resets:
            for places in self.places.values():
                places[lane] = 0

    def set(self, name: str, value: Any) -> None:
        shape = self.starts[name][0]
        assert value.dtype == self.dtypes[name] and value.shape[0] == self.lanes, name
        assert all(want in (got, -2) for want, got in zip(shape, value.shape[1:])) and value.dim() == 1 + len(shape), name
        self.slots[name] = value

    def set_counts(self, name: str, places: Any) -> None:
        self.places[name] = list(places)

    def norm(self, x: Any) -> Any:
        return x

    def emit(self, rows: Any, **how: Any) -> None:
        self.emitted.append(SimpleNamespace(rows=rows.hidden, **how))


CACHE = tempfile.mkdtemp()  # the program imports a memory's file once to read what it declares, and keeps that here
atexit.register(shutil.rmtree, CACHE)


def call(test: unittest.TestCase, folder: str, *words: str, statuses: tuple[int, ...] = (0,)) -> str:
    """What the program prints in this folder. The test fails where it ends with another status."""
    done = subprocess.run([os.environ["MNEME_PROGRAM"], *words], capture_output=True, text=True, check=False, cwd=folder,
                          env={**os.environ, "MNEME_PYTHON": sys.executable, "XDG_CACHE_HOME": CACHE, "OMP_NUM_THREADS": "1"})
    test.assertIn(done.returncode, statuses, done.stdout + done.stderr)
    return done.stdout


def given(option: str, settings: tuple[str, ...], prefix: str = "") -> list[str]:
    return [word for setting in settings for word in (option, prefix + setting)]


def validated(test: unittest.TestCase, name: str, *settings: str, only: tuple[str, ...]) -> None:
    """`mneme plugins validate` passes with these settings, in these checks or groups."""
    call(test, CACHE, "plugins", "validate", str(EXAMPLES / f"{name}.py"), *given("--set", settings), *given("--only", only))


CERTIFIED = """\
[model]
layers = 2
heads = 2
head_width = 8
width = 16
ff = 32
[memory]
[data]
task = "motif"
alphabet = 8
period_min = 3
period_max = 11
[train]
segment = 12
lanes = 3
steps = 12
bptt_segments = 2
lr = 1e-2
[eval]
segment = 12
steps = 2
"""
LINES = ["ranks", "cuts", "generation", "lanes", "resume", "projections", "threads", "f64", "reference", "causality", "reset",
         "isolation", "bytes"]


def certified(test: unittest.TestCase, memory: str, *settings: str, without: tuple[str, ...] = ()) -> None:
    """A small decoder is trained for a few steps with a memory of examples/python, or with that of a file. Every line of its
    certificate holds, in f32 and, to 1e-8, in f64. Those of `without` do not apply, nor do those that need other processes or
    another program's losses. The text ends inside a segment of 12 tokens."""
    plugin = memory if memory.endswith(".py") else str(EXAMPLES / f"{memory}.py")
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "experiment.toml").write_text(CERTIFIED, encoding="utf-8")
        call(test, folder, "train", "experiment.toml", "--memory", plugin, "--run", "run", "--quiet", "--checked",
             *given("--set", settings, "memory.tier.0."))
        for precision in ("f32", "f64"):
            absent = {"ranks", "reference", *without, *(["f64"] if precision == "f64" else [])}
            result = json.loads(call(test, folder, "certify", "run", "--tokens", "53", "--quiet", "--json", "-",
                                     "--set", f"eval.precision={precision}", statuses=(0, 1)))
            test.assertEqual([line["name"] for line in result["lines"]], LINES)
            test.assertEqual({line["name"]: f"{line['result']}: {line['text']}" for line in result["lines"]
                              if line["result"] != ("not checked" if line["name"] in absent else "holds")}, {}, precision)
