"""Tests of scripts/reproduce/reproduce_strong.py with a program that plays mneme; and that the table of docs/training.md is that
of docs/figures/strong.csv."""
import contextlib
import io
import json
import os
import pathlib
import signal
import sys
import tempfile
import unittest
import unittest.mock

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "scripts/reproduce"))

import experiment_runs
import fake_program
import reproduce_strong

# base ends at 5 + seed after 2,000 steps; strong ends after 1,333 steps at $LAST of its seed below that, and has base's loss at
# step 1200, unless it ends above it. A step of base takes .1 s, of strong .12 s with seed 1 and .15 s with the others. Step 1200
# is not logged.
FAKE = '''folder = pathlib.Path(after("--resume" if "--resume" in arguments else "--run"))
folder.mkdir(exist_ok=True)
(folder / "experiment.toml").touch()
if os.environ.get("FAILS") == folder.name:
    sys.exit("out of luck")
(folder / "run.json").write_text(json.dumps({"commit": "0123456789abcdef", "dirty": False, "device": "Abacus, 1 thread"}))
name, seed = folder.name.split("-seed")
seed, base = int(seed), 5 + int(seed)
last = json.loads(os.environ["LAST"])[seed - 1]
losses = {1000: base + 1, 2000: base} if name == "base" else {1000: base + .5, 1200: base, 1333: base - last}
if last < 0 and name == "strong":
    losses[1200] = base + .2
seconds = .1 if name == "base" else .12 if seed == 1 else .15
lines = []
for step, loss in losses.items():
    if step != 1200:
        lines.append({"kind": "step", "step": step, "tokens": 1000 * step, "seconds": seconds * step})
    lines.append({"kind": "eval", "step": step, "result": {"loss": loss}})
(folder / "metrics.jsonl").write_text("".join(json.dumps(line) + "\\n" for line in lines))
'''


class Strong(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.folder = pathlib.Path(scratch.name)
        self.log = self.folder / "log"
        self.program = self.folder / "mneme"
        fake_program.write(self.program, FAKE)
        self.books = self.folder / "books"
        self.books.mkdir()
        (self.books / "data.json").write_text(json.dumps({"splits": {s: {"tokens": 7} for s in ("train", "valid", "test")}}))
        self.page = self.folder / "docs/training.md"
        self.page.parent.mkdir()
        self.page.write_text("before\n<!-- begin strong: of a test -->\nold\n<!-- end strong -->\nafter\n", encoding="utf-8")
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):  # main() sets them
            self.addCleanup(signal.signal, number, signal.getsignal(number))

    def call(self, *options, last=(.1, .1, .1), status=0, **environment):
        """What the script prints; stderr and its message at the end with it."""
        arguments = ["strong", "--runs", self.folder / "runs", "--books", self.books, "--program", self.program, *options]
        variables = {"LOG": str(self.log), "LAST": json.dumps(last), **environment}
        out, got = io.StringIO(), 0
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out), unittest.mock.patch.dict(os.environ, variables), \
                unittest.mock.patch.object(sys, "argv", list(map(str, arguments))):
            try:
                reproduce_strong.main()
            except SystemExit as end:
                got = end.code if isinstance(end.code, int) else 1
                out.write(str(end.code))
        self.assertEqual(got, status, out.getvalue())
        return out.getvalue()

    def commands(self):
        return [json.loads(line) for line in self.log.read_text(encoding="utf-8").splitlines()] if self.log.exists() else []

    def test_trains_both_and_writes_the_page(self):
        out = self.call("--write-docs", self.page, last=(.1, .2, .3))
        self.assertIn("| 1 | 6.0000 | 5.9000 | -0.1000 | 0.6665 | 200 | 160 | 0.80 | 0.6000 |", out)
        self.assertIn("| 3 | 8.0000 | 7.7000 | -0.3000 | 0.6665 | 200 | 200 | 1.00 | 0.6000 |", out)
        # 4.303 times .1 / sqrt(3) nats, and .11547 / sqrt(3) of the ratios .8, 1, 1.
        self.assertIn("| mean \\[95 %\\] | 7.0000 | 6.8000 | -0.2000 \\[-0.4484, +0.0484\\] | 0.6665 | 200 | 187 | "
                      "0.93 \\[0.65, 1.22\\] | 0.6000 |", out)
        self.assertIn("**Not shown:** that strong.toml ends at the loss of books.toml or below it in 0.6665 of its tokens; the "
                      "interval has both signs.", out)
        self.assertIn("Trained on (number of runs): Abacus, 1 thread (6)\n\n"
                      "Commits of these runs (number of runs): 0123456789ab (6)", out)
        text = self.page.read_text(encoding="utf-8")
        self.assertTrue(text.startswith("before\n<!-- begin strong: of a test -->\n| seed | loss: base |"), text)
        self.assertTrue(text.endswith("wall-clock time).\n<!-- end strong -->\nafter\n"), text)
        rows = experiment_runs.read_rows(self.page.parent / "figures/strong.csv")
        self.assertIn(reproduce_strong.section(rows), text)
        self.assertEqual([(row["recipe"], row["seed"], row["steps"], row["tokens"], row["reached_step"], row["reached_tokens"])
                          for row in rows[:2]],
                         [("base", "1", "2000", "2000000", "", ""), ("strong", "1", "1333", "1333000", "1200", "1200000")])

    def test_both_have_the_same_data_and_evaluations(self):
        self.call("--seeds", "1", "--jobs", "1", "--set", "train.warmup=9")
        base, strong = self.commands()
        self.assertTrue(base[1].endswith("configs/decoder/books.toml"), base)
        self.assertTrue(strong[1].endswith("configs/decoder/strong.toml"), strong)
        settings = [[after for word, after in zip(one, one[1:]) if word == "--set"] for one in (base, strong)]
        self.assertEqual(settings[0], settings[1])
        self.assertEqual(settings[0], ["train.seed=1", f'data.prepared="{self.books.resolve()}"', "train.eval_every=200",
                                       "train.warmup=9"])

    def test_says_when_it_is_shown_and_when_the_loss_is_higher(self):
        self.assertIn("**Shown:** that strong.toml ends at the loss of books.toml or below it in 0.6665 of its tokens.",
                      self.call())
        out = self.call("--runs", self.folder / "worse", last=(-.1, -.1, -.1))
        self.assertIn("in 0.6665 of its tokens; its loss is higher.", out)
        self.assertIn("| 1 | 6.0000 | 6.1000 | +0.1000 | 0.6665 | 200 | 160 | 0.80 | not reached |", out)
        self.assertIn("| 0 of 3 seeds |", out)

    def test_equal_losses_are_reached(self):
        self.assertIn("**Shown:**", self.call("--seeds", "2", last=(0, 0)))

    def test_one_seed_has_no_interval(self):
        out = self.call("--seeds", "1")
        self.assertIn("| mean \\[95 %\\] | 6.0000 | 5.9000 | -0.1000 | 0.6665 | 200 | 160 | 0.80 | 0.6000 |", out)
        self.assertIn("One seed has no interval: nothing is shown.", out)

    def test_goes_on_where_it_was(self):
        out = self.call("--jobs", "1", "--seeds", "2", status=1, FAILS="strong-seed1")
        self.assertIn("error: mneme train", out)
        self.assertIn("out of luck", out)
        before = len(self.commands())
        self.call("--jobs", "1", "--seeds", "2")
        commands = self.commands()[before:]
        self.assertEqual(commands[0][:2], ["train", "--resume"])
        self.assertTrue(commands[0][2].endswith("strong-seed1"), commands)
        self.assertFalse(any(word.endswith("base-seed1") for one in commands for word in one))
        before = len(self.commands())
        self.call("--table", "--seeds", "2")
        self.assertEqual(len(self.commands()), before)

    def test_shows_seeds_that_have_both(self):
        self.assertIn("No seed has finished runs of both.", self.call("--memories", "strong", "--seeds", "2"))
        out = self.call("--memories", "base", "--seeds", "1")  # of strong, step 1200 is known now
        self.assertIn("| 1 | 6.0000 | 5.9000 | -0.1000 | 0.6665 | 200 | 160 | 0.80 | 0.6000 |", out)
        self.assertNotIn("| 2 |", out)

    def test_refuses_trainings_that_log_no_step(self):
        self.assertIn("--set train.log_every=0: tokens and seconds are those of logged steps; expected at least 1",
                      self.call("--set", "train.log_every = 0", status=2))
        self.assertEqual(self.commands(), [])

    def test_names_novels_that_are_not_there(self):
        out = self.call("--books", self.folder / "none", "--text", self.folder, status=1)
        self.assertIn(f"error: --text {self.folder}: 11 of 11 novels are not there", out)

    def test_the_page_has_the_table_of_its_runs(self):
        page = reproduce_strong.PAGE
        _, section, _ = experiment_runs.split_section(page, reproduce_strong.SECTION)
        results = page.parent / "figures/strong.csv"
        if results.exists():
            self.assertIn(reproduce_strong.section(experiment_runs.read_rows(results)), section)
        else:
            self.assertEqual(section, "Not measured yet.")


if __name__ == "__main__":
    unittest.main()
