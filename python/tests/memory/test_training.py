"""Memories of examples/python train to the numbers of their C++ forms, and resume to the very bits.

Needs the program (MNEME_PROGRAM), the C++ examples that its build made (MNEME_EXAMPLES, or the folder examples of the build)
and an interpreter with torch: this one, which the program is told to use."""

import array
import importlib.util
import json
import os
import struct
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[3]

EXPERIMENT = """\
[model]
backbone = "xl"
layers = 2
heads = 4
head_width = 8
width = 32
ff = 64
dropout = 0.0
position = "relative"
norm = "post"
[memory]
plugins = ["{plugins}"]
[[memory.tier]]
plugin = "{plugin}"
{options}
[data]
task = "motif"
alphabet = 32
period_min = 3
period_max = 20
seed = 1
[train]
segment = 16
lanes = 4
steps = 30
bptt_segments = 2
optimizer = "adam"
lr = 1.5e-3
schedule = "cosine"
warmup = 5
clip = 1.0
precision = "f64"
seed = 1
[eval]
steps = 2
"""


def reason_to_skip() -> str:
    program = os.environ.get("MNEME_PROGRAM", "")
    if not os.access(program, os.X_OK):
        return "MNEME_PROGRAM names no program"
    if importlib.util.find_spec("torch") is None:
        return f"{sys.executable} has no torch"
    done = subprocess.run([sys.executable, "-c", "import torch"], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        return "import torch fails: " + done.stderr.strip().splitlines()[-1]
    return ""


SKIP = reason_to_skip()


def tensors_of(path: Path) -> dict[str, tuple[str, bytes]]:
    """Dtype and bytes of each tensor of a safetensors file."""
    data = path.read_bytes()
    size = struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8:8 + size])
    header.pop("__metadata__", None)
    return {name: (entry["dtype"], data[8 + size + entry["data_offsets"][0]:8 + size + entry["data_offsets"][1]])
            for name, entry in header.items()}


def relative_difference(ours: bytes, theirs: bytes) -> float:
    """||ours - theirs|| / ||theirs|| of two tensors of f64."""
    a, b = array.array("d", ours), array.array("d", theirs)
    norm = sum(y * y for y in b) ** 0.5
    return sum((x - y) ** 2 for x, y in zip(a, b)) ** 0.5 / norm if norm > 0 else float(list(a) != list(b))


class Trainings(unittest.TestCase):
    """A folder for runs of the program."""

    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        program = Path(os.environ["MNEME_PROGRAM"])
        self.examples = Path(os.environ.get("MNEME_EXAMPLES", program.parents[1] / "examples"))
        self.environment = {**os.environ, "MNEME_PYTHON": sys.executable, "OMP_NUM_THREADS": "1",
                            "XDG_CACHE_HOME": str(self.folder / "cache")}

    def run_command(self, *words: str, given: str = "") -> str:
        """What a program prints. Fails where it fails."""
        done = self.finished(*words, given=given)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return done.stdout

    def finished(self, *words: str, given: str = "") -> "subprocess.CompletedProcess[str]":
        return subprocess.run(words, input=given, capture_output=True, encoding="utf-8", errors="backslashreplace", check=False,
                              env=self.environment, cwd=self.folder)

    def run_program(self, *arguments: str, given: str = "") -> str:
        return self.run_command(os.environ["MNEME_PROGRAM"], *arguments, given=given)

    def refusal_of(self, *arguments: str) -> str:
        """What the program prints where it fails."""
        done = self.finished(os.environ["MNEME_PROGRAM"], *arguments)
        self.assertNotEqual(done.returncode, 0, done.stdout)
        return done.stderr

    def checkpoint(self, run: str) -> dict[str, tuple[str, bytes]]:
        return tensors_of(max((self.folder / run / "checkpoints").glob("*.safetensors")))


@unittest.skipIf(bool(SKIP), SKIP)
class Training(Trainings):
    def train(self, plugin: str, options: str = "", *settings: str) -> dict[str, tuple[str, bytes]]:
        """The last checkpoint of a training in a folder of its own."""
        name = f"run{sum(1 for _ in self.folder.glob('*.toml'))}"
        (self.folder / f"{name}.toml").write_text(
            EXPERIMENT.format(plugins=self.examples, plugin=plugin, options=options))
        self.run_program("train", f"{name}.toml", "--run", name, "--checked", *settings)
        return self.checkpoint(name)

    def compare(self, name: str, options: str = "", tolerance: float = 0.0) -> None:
        if not (self.examples / f"{name}.so").is_file():
            self.skipTest(f"{self.examples} has no {name}.so")
        theirs = self.train(name, options)
        ours = self.train(str(ROOT / "examples/python" / f"{name}.py"), options)
        self.assertEqual(ours.keys(), theirs.keys())
        self.assertGreater(len(ours), 50)
        for tensor, (dtype, data) in ours.items():
            with self.subTest(tensor):
                self.assertEqual(dtype, theirs[tensor][0])
                if tolerance == 0.0 or dtype != "F64":
                    self.assertEqual(data, theirs[tensor][1])
                else:
                    self.assertLess(relative_difference(data, theirs[tensor][1]), tolerance)

    def test_decayed_mean_has_the_bits_of_the_form_in_cpp(self) -> None:
        self.compare("decayed_mean")

    def test_infini_has_the_bits_of_the_form_in_cpp(self) -> None:
        for update in ("linear", "delta"):
            with self.subTest(update):
                self.compare("infini", f'update = "{update}"')

    def test_recurrent_memory_has_the_bits_of_the_form_in_cpp(self) -> None:
        self.compare("recurrent_memory")

    def test_knn_has_the_numbers_of_the_form_in_cpp(self) -> None:
        for merge in ("lse", "gate"):
            with self.subTest(merge):
                self.compare("knn", f'merge = "{merge}"\nrows = 40\nneighbours = 6', 1e-10)

    def test_gated_delta_has_the_numbers_of_the_kernel_in_cpp(self) -> None:
        self.compare("gated_delta", "", 1e-10)

    def test_resumes_to_the_very_bits(self) -> None:
        whole = self.train(str(ROOT / "examples/python/infini.py"), "", "--set", "train.save_every=18")
        self.run_program("train", "--resume", "run0", "--checkpoint", "18")
        self.assertEqual(self.checkpoint("run0"), whole)


@unittest.skipIf(SKIP, SKIP)
class Same(Trainings):
    """`mneme plugins same`: a prototype in Python against its C++ form."""

    def compared(self, old: str = "", new: str = "") -> dict[str, Any]:
        """examples/python/decayed_mean.py, with `new` in place of `old`, and the C++ form."""
        form = self.examples / "decayed_mean.so"
        if not form.is_file():
            self.skipTest(f"{form} is missing")
        source = (ROOT / "examples/python/decayed_mean.py").read_text(encoding="utf-8")
        self.assertIn(old, source)
        (self.folder / "port.py").write_text(source.replace(old, new), encoding="utf-8")
        done = self.finished(os.environ["MNEME_PROGRAM"], "plugins", "same", str(form), "port.py", "--json", "-")
        self.assertIn(done.returncode, (0, 1), done.stderr)
        result: dict[str, Any] = json.loads(done.stdout)
        self.assertEqual(result["same"], done.returncode == 0)
        return result

    def test_the_forms_are_the_same(self) -> None:
        result = self.compared()
        self.assertTrue(result["same"], result)
        self.assertEqual([kind["kind"] for kind in result["kinds"]], ["losses", "states", "gradients"])

    def test_a_wrong_sign_is_named(self) -> None:
        """Of rows with padding alone: segment 1 is the first one that has it."""
        first = self.compared("old + (1 - self.decay) * count", "old - (1 - self.decay) * count")["first_difference"]
        self.assertEqual((first["what"], first["phase"], first["segment"]), ("state 0.mean", "training", 1))

    def test_a_wrong_reset_is_named(self) -> None:
        found = self.compared("[mneme.LANES, s.width]", "[mneme.LANES, s.width], mneme.constant(1.0)")["declarations"]
        self.assertTrue(found[0].startswith("slot mean (evaluation): first f32 [lanes, 14] a layer"), found)

    def test_a_wrong_dtype_is_named(self) -> None:
        found = self.compared("[mneme.LANES, s.width]", '[mneme.LANES, s.width], dtype="bf16"')["declarations"]
        self.assertIn("second bf16", found[0])


if __name__ == "__main__":
    unittest.main()
