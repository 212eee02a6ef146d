"""Checks and certificates of the memories of examples/python that have a form in C++ or compute in another library, and
of one with a planted fault. Their numbers are tested in python/tests/memory."""

import tempfile
import unittest
from pathlib import Path

from support import EXAMPLES, NO_PROGRAM, certified, validated

NO_CUTS = ("cuts",)


@unittest.skipIf(bool(NO_PROGRAM), NO_PROGRAM)
class Program(unittest.TestCase):
    def test_checks_of_the_memories_pass(self) -> None:
        for name in ("decayed_mean", "infini", "gated_delta", "recurrent_memory", "knn"):
            with self.subTest(name):
                validated(self, name, only=("python", "causality", "generation", "lanes", "state.save"))

    def test_every_line_of_their_certificates_holds(self) -> None:
        for name, *settings in (("decayed_mean",), ("infini", "update=linear"), ("infini", "update=delta"), ("gated_delta",),
                                ("recurrent_memory", "rows=3"), ("knn", "rows=20", "neighbours=3"),
                                ("knn", "rows=20", "neighbours=3", "merge=gate"), ("dlpack_recurrence",)):
            with self.subTest(name, settings=settings):
                certified(self, name, *settings, without=NO_CUTS)

    def test_a_memory_that_reads_the_length_of_a_step_fails_the_line_of_generation(self) -> None:
        source = (EXAMPLES / "decayed_mean.py").read_text(encoding="utf-8")
        self.assertIn('* layer.slot("mean")', source)
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "faulty.py"
            file.write_text(source.replace('* layer.slot("mean")', '* layer.slot("mean") * layer.length'), encoding="utf-8")
            with self.assertRaisesRegex(AssertionError, "'generation': 'fails: most at token "):
                certified(self, str(file), without=NO_CUTS)


if __name__ == "__main__":
    unittest.main()
