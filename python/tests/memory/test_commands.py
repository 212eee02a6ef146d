"""Memories in Python in the program's commands: each takes the .py file as it takes a plugin's.

Needs the program (MNEME_PROGRAM) and an interpreter with torch: this one, which the program is told to use."""

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

import faulty
from test_training import SKIP

SDK = Path(__file__).resolve().parents[3] / "sdk/include"

SHORT = ("--set", "train.steps=6", "--set", "train.warmup=0", "--set", "train.lanes=4", "--set", "data.train_sequences=64",
         "--set", "data.valid_sequences=8", "--set", "data.test_sequences=8", "--threads", "1")

RECURRENT = """
import torch
import mneme

class Recurrent(mneme.Memory):
    id = "org.example.recurrent"

    def setup(self, s):
        with torch.device("meta"):
            s.module("cell", torch.nn.GRUCell(s.width, s.width))
            s.module("out", torch.nn.Linear(s.width, s.width))
        s.slot("h", [mneme.LANES, s.width], gradient="through")

    def absorb(self, layer, rows):
        h = layer.slot("h")
        layer.set("h", layer.module("cell")(rows.hidden[:, -1].to(h.dtype), h))

    def read(self, layer, queries):
        return mneme.add(layer.module("out")(layer.slot("h")).to(layer.compute_dtype).unsqueeze(1))
"""


@unittest.skipIf(SKIP, SKIP)
class Program(unittest.TestCase):
    """A project that `mneme plugins new --lang python` has written."""

    def setUp(self) -> None:
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.root = Path(self.folder.name)
        self.environment = {**os.environ, "MNEME_PYTHON": sys.executable, "XDG_CACHE_HOME": str(self.root / "cache")}
        self.root = self.root / "mine"
        self.mneme("plugins", "new", "mine", "--lang", "python", "--folder", str(self.root), folder=Path("/"))

    def run_mneme(self, *words: str, folder: Path | None = None) -> "subprocess.CompletedProcess[str]":
        return subprocess.run([os.environ["MNEME_PROGRAM"], *words], cwd=folder or self.root, env=self.environment,
                              capture_output=True, text=True, check=False, timeout=600)

    def mneme(self, *words: str, folder: Path | None = None) -> str:
        """What the program prints. Fails where it fails."""
        done = self.run_mneme(*words, folder=folder)
        self.assertEqual(done.returncode, 0, done.stderr + done.stdout)
        return done.stdout

    def refused(self, *words: str) -> str:
        done = self.run_mneme(*words)
        self.assertNotEqual(done.returncode, 0, done.stdout)
        return done.stderr + done.stdout

    def train(self, run: str, *words: str) -> Path:
        self.mneme("train", "experiment.toml", "--memory", "mine.toml", "--run", run, "--quiet", *SHORT, *words)
        return self.root / run

    def test_describe_try_and_lock(self) -> None:
        self.assertIn("org.example.mine 0.1.0", self.mneme("plugins", "describe", "mine.py"))
        self.mneme("plugins", "try", "experiment.toml", "--memory", "mine.py")
        self.mneme("plugins", "lock", "mine.toml")
        self.mneme("plugins", "try", "experiment.toml", "--memory", "mine.toml", "--locked")
        with open(self.root / "mine.py", "a", encoding="utf-8") as file:
            file.write("# changed\n")
        self.assertIn("is not the locked file",
                      self.refused("plugins", "try", "experiment.toml", "--memory", "mine.toml", "--locked"))

    def test_another_package_of_the_interpreter_is_not_taken(self) -> None:
        other = self.root / "other"
        (other / "mneme").mkdir(parents=True)
        (other / "mneme" / "__init__.py").write_text("raise RuntimeError('another mneme')\n", encoding="utf-8")
        self.environment["PYTHONPATH"] = str(other)
        self.mneme("plugins", "try", "experiment.toml", "--memory", "mine.py")

    def test_a_wrapped_file_is_the_same_plugin(self) -> None:
        self.mneme("plugins", "wrap", "mine.py")
        described = [json.loads(self.mneme("plugins", "describe", f"./mine{end}", "--json", "-")) for end in (".py", ".so")]
        self.assertEqual(described[0]["note"], described[1]["note"])
        self.assertEqual(described[0]["sha256"], described[1]["sha256"])

    def test_a_port_declares_what_the_memory_does_and_names_what_is_left(self) -> None:
        compiler = shutil.which("g++") or shutil.which("c++")
        if compiler is None:
            self.skipTest("no C++ compiler was found")
        said = self.mneme("plugins", "port", "mine.py", "--name", "fast")
        self.assertIn("to do:\n  hooks: absorb, read\nnext:\n  cd fast\n", said)
        self.assertIn(f"mneme plugins same {self.root / 'mine.py'} ./build/fast.so", said)
        files = {str(file.relative_to(self.root / "fast")) for file in (self.root / "fast").rglob("*") if file.is_file()}
        self.assertEqual(files, {"fast.cpp", "CMakeLists.txt", "tests.cmake", "memory.toml", "none.toml", "experiment.toml", "README.md",
                                 ".gitignore", ".github/workflows/ci.yml"})
        self.assertTrue((self.root / "fast/memory.toml").read_text(encoding="utf-8").endswith('plugin = "fast"\n# scale = 1.0\n'))
        subprocess.run([compiler, "-std=c++17", "-shared", "-fPIC", "-I", str(SDK), "fast/fast.cpp", "-o", "fast.so"], cwd=self.root,
                       check=True)
        described = [json.loads(self.mneme("plugins", "describe", name, "--json", "-")) for name in ("./mine.py", "./fast.so")]
        for key in ("summary", "hooks", "options", "losses"):
            self.assertEqual(described[0][key], described[1][key], key)
        for key in ("id", "version"):
            self.assertEqual(described[0]["note"][key], described[1]["note"][key], key)
        source = (self.root / "mine.py").read_text(encoding="utf-8").splitlines()
        line = next(place for place, text in enumerate(source, 1) if "def read(" in text)
        self.assertIn(f"not ported yet: read (mine.py:{line})", self.refused("plugins", "same", "mine.py", "./fast.so"))
        self.assertIn("it is there already", self.refused("plugins", "port", "mine.py", "--name", "fast"))

    def test_what_is_no_memory_has_no_port(self) -> None:
        (self.root / "none.py").write_text("x = 1\n", encoding="utf-8")
        self.assertIn("has no memory", self.refused("plugins", "port", "none.py"))
        self.assertFalse((self.root / "none").exists())

    def test_compare(self) -> None:
        self.mneme("compare", "experiment.toml", "--memory", "none.toml", "--memory", "mine.py", "--run", "compare", "--samples",
                   "0", "--quiet", *SHORT)
        self.assertTrue(list((self.root / "compare").rglob("*.html")) or list((self.root / "compare").rglob("report*")))
        arm = json.loads((self.root / "compare" / "comparison.json").read_text(encoding="utf-8"))["arms"][1]
        self.assertEqual(arm["plugins"][0]["defaults"], {"scale": "1.0"})
        self.assertIn("that of mine holds Python and torch's Python package too",
                      (self.root / "compare" / "report" / "report.md").read_text(encoding="utf-8"))

    def open_program(self, *words: str) -> "subprocess.Popen[str]":
        """A command that goes on while it is talked to."""
        return subprocess.Popen([os.environ["MNEME_PROGRAM"], *words, "--threads", "1"], cwd=self.root, env=self.environment,
                                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, encoding="utf-8",
                                errors="backslashreplace")

    def change(self) -> None:
        source = (self.root / "mine.py").read_text(encoding="utf-8")
        (self.root / "mine.py").write_text(source.replace("self.scale *", "0.5 * self.scale *"), encoding="utf-8")

    def test_watch_takes_a_change_up(self) -> None:
        run = self.train("watched")
        with self.open_program("eval", str(run), "--memory", "mine.toml", "--watch", "--watch-count", "2") as watch:
            assert watch.stdout is not None and watch.stderr is not None
            lines = [watch.stdout.readline()]
            self.change()
            lines.append(watch.stdout.readline())
            builds = {part for line in lines for part in line.split() if part.startswith("[") and len(part) > 8}
            self.assertEqual(len(builds), 2, (lines, watch.stderr.read()))

    def test_chat_takes_a_change_up(self) -> None:
        run = self.train("talked")
        with self.open_program("generate", str(run), "--memory", "mine.toml", "--chat", "--tokens", "4") as chat:
            assert chat.stdin is not None and chat.stderr is not None
            said: list[str] = []
            for turn in (1, 2):
                chat.stdin.write("3,4\n")
                chat.stdin.flush()
                while sum("text of" in line for line in said) < turn:
                    said.append(chat.stderr.readline())
                    self.assertTrue(said[-1], said)
                self.change()
            chat.stdin.close()
        self.assertEqual(chat.returncode, 0)
        self.assertEqual(sum("the memory changed: org.example.mine" in line for line in said), 1, said)

    def broken_backward(self, body: str) -> tuple[str, str]:
        """The memory's source with a backward pass of this body, and what a training says of it."""
        broken = ("class Broken(torch.autograd.Function):\n    @staticmethod\n    def forward(ctx, x):\n        return x.clone()\n\n"
                  f"    @staticmethod\n    def backward(ctx, gradient):\n        {body}\n\n\n")
        source = (self.root / "mine.py").read_text(encoding="utf-8")
        self.assertIn("torch.tanh(", source)
        source = source.replace("class ", broken + "class ", 1).replace("torch.tanh(", "Broken.apply(")
        (self.root / "mine.py").write_text(source, encoding="utf-8")
        return source, self.refused("train", "experiment.toml", "--memory", "mine.toml", "--run", "broken", "--quiet", *SHORT)

    def test_an_error_in_a_backward_pass_names_memory_file_and_line(self) -> None:
        source, said = self.broken_backward("raise ValueError('planted')")
        line = source[:source.index("raise ValueError")].count("\n") + 1
        self.assertIn(f"plugin org.example.mine, backward of Broken: ValueError: planted (at mine.py:{line})", said)

    def assert_names_the_graph_fault(self, said: str, failed: str, hint: str) -> None:
        self.assertIn("mneme: error: backward pass: ", said)
        self.assertIn(failed, said)
        self.assertIn(f"; in a memory in Python {hint}", said)
        self.assertNotIn("frame #", said)

    def test_a_gradient_of_another_shape_is_named_with_its_class(self) -> None:
        _, said = self.broken_backward("return gradient[:-1]")
        self.assert_names_the_graph_fault(said, "Function BrokenBackward returned an invalid gradient at index 0 - got [",
                                          "the backward of this class has to return one gradient for each argument")

    def test_another_number_of_gradients_is_named_with_its_class(self) -> None:
        _, said = self.broken_backward("return gradient, gradient")
        self.assert_names_the_graph_fault(said, "BrokenBackward returned an incorrect number of gradients (expected 1, got 2)",
                                          "the backward of this class has to return one gradient for each argument")

    def test_a_write_that_breaks_the_backward_pass_names_the_check_that_finds_it(self) -> None:
        source = (self.root / "mine.py").read_text(encoding="utf-8")
        self.assertIn("row = rows.hidden[:, -1]", source)
        source = source.replace("row = rows.hidden[:, -1]", "row = rows.hidden.mul_(2)[:, -1]")
        (self.root / "mine.py").write_text(source, encoding="utf-8")
        said = self.refused("train", "experiment.toml", "--memory", "mine.toml", "--run", "broken", "--quiet", *SHORT)
        self.assert_names_the_graph_fault(said, "has been modified by an inplace operation",
                                          "a hook may not write into a tensor that it was given: mneme plugins validate FILE")

    def test_a_second_signal_ends_a_hook_that_hangs(self) -> None:
        # A program in the background of a shell's script ignores this signal, and so would those that it starts.
        before = signal.signal(signal.SIGINT, signal.default_int_handler)
        self.addCleanup(signal.signal, signal.SIGINT, before)
        source = (self.root / "mine.py").read_text(encoding="utf-8")
        hangs = "        open('hangs', 'w').close()\n        while True:\n            pass\n"
        at = source.index("\n", source.index("def absorb(")) + 1
        (self.root / "mine.py").write_text(source[:at] + hangs + source[at:], encoding="utf-8")
        with self.open_program("train", "experiment.toml", "--memory", "mine.toml", "--run", "hung", "--quiet", *SHORT[:-2]) as run:
            assert run.stderr is not None
            while not (self.root / "hangs").exists():
                self.assertIsNone(run.poll())
                time.sleep(0.1)
            run.send_signal(signal.SIGINT)
            said = run.stderr.readline()
            self.assertIn("has not returned for 2 s; mneme stops when it does; a second signal ends the process at once", said)
            self.assertIn("absorb", said)
            run.send_signal(signal.SIGINT)
            self.assertIn("ended at once by a second signal", run.stderr.read())
        self.assertEqual(run.returncode, -signal.SIGINT)

    def test_validate_finds_each_fault_by_its_check(self) -> None:
        """Which check finds which fault alone is tested without the program (test_checking.py)."""
        results = {}
        for name, lines in (("right", ""), ("faulty", "\n        ".join(faulty.FAULTS.values()))):
            (self.root / "faulty.py").write_text(faulty.memory_with(lines), encoding="utf-8")
            self.run_mneme("plugins", "validate", "faulty.py", "--only", "python", "--json", "out.json")
            results[name] = {one["name"]: one for one in json.loads((self.root / "out.json").read_text(encoding="utf-8"))["checks"]}
        self.assertEqual({name: one["result"] for name, one in results["right"].items()},
                         {f"python.{check}": "pass" for check in faulty.FAULTS})
        for place, check in enumerate(faulty.FAULTS):
            with self.subTest(check):
                line = faulty.LINE - 3 if check == "keeps" else faulty.LINE + place
                failed = results["faulty"][f"python.{check}"]
                self.assertEqual(failed["result"], "warn" if check == "dtype" else "fail")
                self.assertIn(f"faulty.py:{line}", failed["text"])

    def test_try_finds_each_fault(self) -> None:
        for check, line in faulty.FAULTS.items():
            if check == "dtype":  # of runs in f64
                continue
            with self.subTest(check):
                (self.root / "faulty.py").write_text(faulty.memory_with(line), encoding="utf-8")
                self.assertIn(f"python.{check}: ", self.refused("plugins", "try", "experiment.toml", "--memory", "faulty.py"))

    def test_a_hook_that_hangs_is_ended_and_the_import_of_torch_not_counted(self) -> None:
        (self.root / "faulty.py").write_text(faulty.memory_with("while True: pass"), encoding="utf-8")
        counted = "has not returned after 10 s, in which the import of torch is not counted: the trial ends"
        said = self.refused("plugins", "try", "experiment.toml", "--memory", "faulty.py", "--trial-seconds", "10")
        self.assertIn(f"hook absorb, layer 0: {counted}", said)
        done = self.run_mneme("plugins", "validate", "faulty.py", "--only", "options.run", "--seconds", "10", "--json", "-")
        self.assertIn(f"hook absorb, layer 0: {counted}", json.loads(done.stdout)["checks"][0]["text"])

    def test_nothing_is_printed_before_an_error_of_the_file(self) -> None:
        (self.root / "faulty.py").write_text("import mneme\ndef read(:\n", encoding="utf-8")
        done = self.run_mneme("plugins", "validate", "faulty.py")
        self.assertEqual((done.returncode, done.stdout), (3, ""))
        self.assertIn("faulty.py:2: SyntaxError", done.stderr)

    def test_validate_finds_rows_that_a_lane_does_not_have(self) -> None:
        validate = ("plugins", "validate", "mine.py", "--here", "lanes.rows")
        self.assertRegex(self.mneme(*validate), "^lanes.rows +pass\n")
        source = (self.root / "mine.py").read_text(encoding="utf-8")
        masked = "torch.where(rows.valid[:, -1:], row, last)"
        self.assertIn(masked, source)
        (self.root / "mine.py").write_text(source.replace(masked, "row"), encoding="utf-8")
        self.assertIn("rows that lane 2 does not have change its losses", " ".join(self.refused(*validate).split()))

    def test_validate_takes_less_than_a_minute(self) -> None:
        start = time.monotonic()
        self.assertIn(", 0 with a warning, ", self.mneme("plugins", "validate", "mine.py", "--jobs", "2"))
        self.assertLess(time.monotonic() - start, 60)

    def test_validate_compares_gradients_of_a_recurrent_state(self) -> None:
        """Its rows are detached, which differences of what is below them do not know."""
        (self.root / "recurrent.py").write_text(RECURRENT, encoding="utf-8")
        self.mneme("plugins", "validate", "recurrent.py", "--only", "gradients")

    def test_validate_compares_gradients_to_the_digits_that_a_hook_leaves(self) -> None:
        rounded = faulty.memory_with("").replace("layer.parameter(\"gate\") *", "layer.parameter(\"gate\").float().double() *")
        (self.root / "rounded.py").write_text(rounded, encoding="utf-8")
        said = self.mneme("plugins", "validate", "rounded.py", "--only", "gradients", "--only", "python.dtype", "--json", "-")
        results = {one["name"]: one for one in json.loads(said)["checks"]}
        self.assertEqual(results["python.dtype"]["result"], "warn")
        self.assertIn("_to_copy rounds float64 to float32", results["python.dtype"]["text"])
        self.assertEqual(results["gradients.parameters"]["result"], "warn")
        self.assertIn("agree within 1.0e-02 of their norm", results["gradients.parameters"]["text"])

    def test_doctor(self) -> None:
        self.assertIn(sys.executable, self.mneme("doctor", "python"))
        self.environment["MNEME_PYTHON"] = "/nowhere/python3"
        self.assertIn("/nowhere/python3", self.refused("doctor", "python"))


if __name__ == "__main__":
    unittest.main()
