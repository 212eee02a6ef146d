#!/usr/bin/env python3
"""scripts/bench/compare_gpu.py: what it compares before it times anything, its table, its errors; with --with-torch PROGRAM the whole
script on the CPU at tiny sizes, where PyTorch can be imported. Exit status 0 when all holds, 77 when it was skipped."""
import contextlib
import io
import json
import subprocess
import sys
import tempfile
import tomllib
import unittest
from pathlib import Path
from types import SimpleNamespace
from unittest import mock

ROOT = Path(__file__).resolve().parents[3]
SCRIPT = ROOT / "scripts/bench/compare_gpu.py"
sys.path.insert(0, str(SCRIPT.parent))
if sys.version_info < (3, 11):
    print("skipped: scripts/bench/compare_gpu.py needs Python 3.11")
    sys.exit(77)

import compare_gpu
from program import Failure, Used

PROGRAM = None  # mneme


class Bench:
    """Trainings of given losses; a step of mneme takes 2 s, one of its rival 1 s, after a first one of 60."""

    def __init__(self, ours, theirs):
        self.ours, self.theirs, self.order = ours, theirs, []
        self.options = SimpleNamespace(steps=4, small=False, device="cuda")

    def prepared(self, case, steps, most_lanes=None):
        return "x.toml", {"tokens": "ids"}

    def start_of(self, experiment):
        return "run", "checkpoint", {}

    def mneme_train(self, *arguments):
        self.order.append("mneme")
        step = 1.6 if "--set=train.replay=on" in arguments else 2.0
        return {"losses": self.ours, "step_seconds": [60.0, step, step, step], "tokens": 100, "peak_bytes": 1 << 30, "mfu": 0.4,
                "training_flops_per_token": 8.0, "product_flops_per_second": 1000.0}

    def side(self, trainings):
        self.order.append("rival")
        return [{"losses": self.theirs, "step_seconds": [60.0, 60.0, 1.0, 1.0], "peak_bytes": 1 << 29} for _ in trainings]


def compared(bench):
    side = bench.side
    variants = {"page, compiled": (side, {"compile": True})}
    return compare_gpu.compare_training(bench, compare_gpu.TRAININGS["gpt2"], lambda *given: variants)


class Compare(unittest.TestCase):
    def test_times_are_those_of_the_second_half_and_ratios_are_over_the_rival(self):
        ours, replayed, theirs = compared(Bench([3.0, 2.0, 1.0], [3.0, 2.0, 1.0001]))
        self.assertEqual((ours["tokens_per_second"], ours["step_ms"], ours["mfu"]), (50.0, 2000.0, 0.4))
        self.assertEqual((replayed["side"], replayed["tokens_per_second"], replayed["ratio"]), ("mneme, replay", 62.5, 0.8))
        self.assertEqual((theirs["tokens_per_second"], theirs["mfu"], theirs["ratio"]), (100.0, 0.8, 0.5))
        self.assertAlmostEqual(theirs["difference"]["bf16"], 1e-4)
        self.assertRegex(compare_gpu.line(theirs), r"gpt2 +page, compiled +100 +1000.00 +0.50 +0.800 +0.50  f32 1.0e-04 bf16 1.0e-04")
        self.assertRegex(compare_gpu.line(ours), r"gpt2 +mneme +50 +2000.00 +1.00 +0.400 +-  -")

    def test_nothing_is_timed_where_losses_differ(self):
        far = "gpt2, page, compiled, f32: losses differ by 0.01 nats, expected at most 0.001; nothing was timed"
        for theirs, text in (([3.0, 2.0, 1.01], far), ([3.0, float("nan"), 1.0], "losses differ by nan nats"),
                             ([3.0], "mneme gives 3 losses, its rival 1")):
            bench = Bench([3.0, 2.0, 1.0], theirs)
            with self.assertRaisesRegex(Failure, text):
                compared(bench)
            self.assertEqual(bench.order, ["rival", "mneme"], "a training was timed")

    def test_continuations_agree_up_to_the_first_difference(self):
        self.assertEqual(compare_gpu.agreeing([[1, 2, 3], [1, 2, 3]], [[1, 2, 3], [1, 9, 3]]), 1)
        self.assertEqual(compare_gpu.agreeing([[1, 2]], [[1, 2]]), 2)

    def test_recorded_steps_are_over_others(self):
        def generate(*words):
            is_recorded = "--set=generate.replay=on" in words
            ids = [[1, 2, 4 if is_recorded else 3]]
            return {"seconds": 1.0 if is_recorded else 2.0, "samples": [{"ids": each} for each in ids]}, SimpleNamespace(peak_bytes=5)
        bench = SimpleNamespace(options=SimpleNamespace(small=True, device="cpu", python="python"), mneme=generate,
                                prepared=lambda *_: (None, {"vocabulary": 5}), start_of=lambda _: ("run", "checkpoint", "model"))
        absent = mock.patch.object(compare_gpu.subprocess, "run", lambda *_, **__: SimpleNamespace(returncode=1))
        with absent, contextlib.redirect_stdout(io.StringIO()):
            rows = compare_gpu.generation(bench)
        self.assertEqual([each["side"] for each in rows], ["mneme, 1", "mneme, recorded, 1", "mneme, 16", "mneme, recorded, 16"])
        self.assertEqual([each["ratio"] for each in rows], [None, 2.0, None, 2.0])
        self.assertEqual(rows[1]["agreeing_tokens"], 2)

    def test_experiments_are_written_as_they_are_read(self):
        for file in ("wt103_base.toml", "speed/gpt2.toml", "speed/smollm.toml", "sorting/memory/continuous_ltm.toml"):
            tables = tomllib.loads((ROOT / "configs" / file).read_text())
            self.assertEqual(tomllib.loads(compare_gpu.toml(tables)), tables, file)

    def test_ids_are_written_as_safetensors(self):
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "ids.safetensors"
            compare_gpu.write_ids(file, 2, 3, 5)
            data = file.read_bytes()
            size = int.from_bytes(data[:8], "little")
            self.assertEqual(json.loads(data[8 : 8 + size]), {"input": {"dtype": "I32", "shape": [2, 3], "data_offsets": [0, 24]}})
            ids = [int.from_bytes(data[at : at + 4], "little") for at in range(8 + size, len(data), 4)]
            self.assertTrue(len(ids) == 6 and all(0 <= i < 5 for i in ids))


class Errors(unittest.TestCase):
    def refused(self, *arguments):
        printed = io.StringIO()
        with mock.patch.object(sys, "argv", ["compare_gpu.py", *arguments]), contextlib.redirect_stderr(printed):
            with self.assertRaises(SystemExit):
                compare_gpu.parse()
        return printed.getvalue()

    def test_wrong_arguments_are_refused(self):
        self.assertIn("there is no part 'gpt3'; expected one of: enwik8, wt103, gpt2", self.refused("--only", "gpt3"))
        self.assertIn("--steps must be at least 2", self.refused("--steps", "1"))
        self.assertIn("needs --official CHECKOUT", self.refused("--only", "official"))
        self.assertIn("there is no pytorch/mem_transformer.py", self.refused("--official", "/nowhere"))
        self.assertIn("there is no /nowhere: build mneme with CUDA", self.refused("--mneme", "/nowhere"))

    def place(self, replies, device="cuda"):
        """place_of() where programs end and print as `replies` say; a reply of None is a program that is not there."""
        def run(command, **_):
            reply = replies[Path(str(command[0])).name]
            if reply is None:
                raise FileNotFoundError
            if isinstance(reply, list):
                Path(command[-1]).write_text(json.dumps({"findings": reply}))
            printed = reply if isinstance(reply, str) else ""
            return SimpleNamespace(returncode=reply == 1, stdout=printed, stderr="No module named 'torch'")
        with mock.patch.object(compare_gpu.subprocess, "run", run):
            return compare_gpu.place_of(SimpleNamespace(python="python", mneme=Path("mneme"), device=device))

    def test_what_is_missing_is_named(self):
        cuda = {"subject": "CUDA in LibTorch", "state": "fine", "text": ""}
        good = {"python": "2.11.0 True", "nvidia-smi": "NVIDIA H100, 580\nNVIDIA H200, 580\n", "mneme": [cuda]}
        self.assertEqual(self.place(good, "cuda:1"), "NVIDIA H200, 580")
        for change, text in (({"python": 1}, "python has no PyTorch; make one with.*No module named 'torch'"),
                             ({"nvidia-smi": None}, "nvidia-smi lists no GPU; --device cpu --small"),
                             ({"nvidia-smi": 1}, "nvidia-smi lists no GPU"),
                             ({"python": "2.11.0 False"}, "PyTorch 2.11.0 finds no GPU"),
                             ({"mneme": [{**cuda, "state": "absent", "text": "not usable: no libtorch_cuda.so"}]},
                              "mneme cannot use the GPU: not usable: no libtorch_cuda.so"), ({"mneme": []}, "says nothing about CUDA")):
            with self.assertRaisesRegex(Failure, "(?s)" + text):
                self.place({**good, **change})
        self.assertTrue(self.place({"python": "2.11.0 False"}, "cpu"))


class WithTorch(unittest.TestCase):
    """The page's models have mneme's losses, in f32 and in bf16; else the script ends with 1."""

    def test_small_sizes_on_the_cpu(self):
        listed = subprocess.run([PROGRAM, "plugins", "list"], capture_output=True, text=True).stdout
        parts = ["gpt2", "smollm", "generation", *(["enwik8", "wt103"] if "org.mneme.xl_cache" in listed else [])]
        with tempfile.TemporaryDirectory() as folder:
            result = Path(folder) / "result.json"
            only = [word for part in parts for word in ("--only", part)]
            done = subprocess.run([sys.executable, "-B", SCRIPT, "--device", "cpu", "--small", "--steps", "2", "--mneme", PROGRAM,
                                   "--json", result, *only], capture_output=True, text=True)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            rows = json.loads(result.read_text())["rows"]
        self.assertEqual({row["part"] for row in rows}, set(parts))
        for row in rows:
            self.assertGreater(row["tokens_per_second"], 0)
            self.assertGreater(row["peak_bytes"], 0)
            if row["side"] == "page":
                self.assertLess(row["difference"]["f32"], 1e-5, row["part"])


if __name__ == "__main__":
    if len(sys.argv) > 1 and sys.argv[1] == "--with-torch":
        if subprocess.run([sys.executable, "-c", "import torch"], capture_output=True).returncode != 0:
            print("skipped: this Python cannot import torch")
            sys.exit(77)
        PROGRAM = sys.argv[2]
        unittest.main(argv=sys.argv[:1], defaultTest="WithTorch")
    unittest.main(defaultTest=["Compare", "Errors"])
