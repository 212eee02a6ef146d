"""Tests of scripts/reproduce/reproduce_states.py with a program that plays mneme; and that the table of docs/tasks.md is that of
docs/figures/states.csv."""
import contextlib
import io
import json
import os
import pathlib
import sys
import tempfile
import unittest
import unittest.mock

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "scripts/reproduce"))

import experiment_runs
import fake_program
import reproduce_states

# Beyond the training length gla guesses, and the others lose a tenth each time the length doubles; seed 2 loses twice that.
FAKE = '''if arguments[0] == "train":
    folder = pathlib.Path(after("--run"))
    folder.mkdir()
    (folder / "experiment.toml").touch()
    (folder / "run.json").write_text(json.dumps({"commit": "0123456789abcdef", "dirty": False}))
    (folder / "metrics.jsonl").write_text(json.dumps({"kind": "step", "seconds": 30.0}) + "\\n")
else:
    loss = 10 * int(arguments[1].split("-seed")[1])
    right = [50] * 3 if "gla" in arguments[1] else [100 - loss, 100 - 2 * loss, 100 - 3 * loss]
    groups = {"name": ["1", "16-31", "32-63", "64-127", "128-255"], "tokens": [100] * 5, "correct": [100, 80, *right]}
    pathlib.Path(after("--json")).write_text(json.dumps({"memories": [{"result": {"loss": 0.5},
                                                                         "breakdown": {"distance": groups}}]}))
'''


class States(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.folder = pathlib.Path(temporary.name)
        self.log = self.folder / "log"
        self.program = self.folder / "mneme"
        fake_program.write(self.program, FAKE)
        self.page = self.folder / "docs/tasks.md"
        self.page.parent.mkdir()
        self.page.write_text("before\n<!-- begin states: of a test -->\nold\n<!-- end states -->\nafter\n", encoding="utf-8")

    def call(self, *options):
        """What the script prints."""
        arguments = ["states", "--runs", str(self.folder / "runs"), "--program", str(self.program), *options]
        with contextlib.redirect_stdout(io.StringIO()) as out, unittest.mock.patch.object(sys, "argv", arguments), \
                unittest.mock.patch.dict(os.environ, {"LOG": str(self.log)}):
            reproduce_states.main()
        return out.getvalue()

    def commands(self):
        return [json.loads(line) for line in self.log.read_text(encoding="utf-8").splitlines()]

    def test_trains_evaluates_and_writes_the_page(self):
        out = self.call("--memories", "gla", "kda, negative", "--seeds", "2", "--write-docs", str(self.page))
        # 0.85 and 12.706 * sqrt(0.005) / sqrt(2): with two seeds the interval says nothing.
        self.assertIn("| kda, negative | 0.900 \\[0.900, 0.900\\] | 0.850 \\[0.215, 1.000\\] |", out)
        self.assertIn("| gla | 0.900 \\[0.900, 0.900\\] | 0.500 \\[0.500, 0.500\\] |", out)
        self.assertIn("4 trainings, 2 minutes added up.\n\nCommits of these runs (number of runs): 0123456789ab (4)", out)
        self.assertNotIn("mamba2", out)
        text = self.page.read_text(encoding="utf-8")
        self.assertTrue(text.startswith("before\n<!-- begin states: of a test -->\n| memory | 1-31 symbols |"), text)
        self.assertTrue(text.endswith("wall-clock time).\n<!-- end states -->\nafter\n"), text)
        self.assertTrue((self.page.parent / "figures/states.csv").exists())
        train, evaluation = (next(one for one in self.commands() if one[0] == name) for name in ("train", "eval"))
        self.assertIn("train.seed=1", train)
        self.assertEqual(evaluation[evaluation.index("--set") + 1], "data.length=255")
        before = len(self.commands())
        self.assertEqual(self.call("--memories", "gla", "--seeds", "2").count("| gla |"), 1)
        self.assertEqual(len(self.commands()), before)

    def test_one_seed_has_no_interval(self):
        self.assertIn("| gla | 0.900 | 0.500 | 0.500 | 0.500 | 1 |", self.call("--memories", "gla", "--seeds", "1"))

    def test_a_folder_without_an_arm_keeps_its_table_and_gets_the_arm(self):
        self.call("--memories", "gla", "--seeds", "1")
        before = len(self.commands())
        self.assertNotIn("slow", self.call("--table"))
        self.assertEqual(len(self.commands()), before)
        out = self.call("--memories", "gla, slow decay", "--seeds", "1")
        self.assertIn("| gla | 0.900 | 0.500 | 0.500 | 0.500 | 1 |\n| gla, slow decay | 0.900 |", out)
        train, _ = self.commands()[before:]
        self.assertEqual(train[train.index("--memory") + 1], str(reproduce_states.MEMORIES / "gla.toml"))
        self.assertIn("memory.tier.0.gate_divisor=1000", train)

    def test_the_page_has_the_table_of_its_runs(self):
        page = reproduce_states.PAGE
        _, section, _ = experiment_runs.split_section(page, reproduce_states.SECTION)
        results = page.parent / "figures/states.csv"
        if results.exists():
            self.assertIn(reproduce_states.section(experiment_runs.read_rows(results)), section)


if __name__ == "__main__":
    unittest.main()
