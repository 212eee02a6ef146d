"""Tests of scripts/reproduce/suite_docs.py, on folders as mneme compare writes them for suites."""
import contextlib
import io
import json
import pathlib
import sys
import tempfile
import unittest
import unittest.mock

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "scripts/reproduce"))

import experiment_runs
import suite_docs

TABLE = "### Accuracy by task and memory\n\n| task | none |\n|---|---:|\n| copy, outside | 0.061 |\n\nMean over 2 seeds.\n"
AGGREGATES = "\n### All tasks\n\n| measure | none |\n|---|---:|\n| IQM | 0.061 |\n"
PAGE = "# Tasks\n\nbefore\n\n<!-- begin small: made by a test -->\nold\n<!-- end small -->\n\nafter\n"


class SuiteDocs(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.folder = pathlib.Path(temporary.name)
        self.page = self.folder / "docs/tasks.md"
        self.page.parent.mkdir()
        self.page.write_text(PAGE, encoding="utf-8")
        self.suite = self.folder / "suite"
        self.suite_json()
        (self.suite / "suite.md").write_text(TABLE, encoding="utf-8")
        for task in ("copy", "needle"):
            self.comparison(task)

    def suite_json(self, **changes):
        tasks = [{"name": name, "folder": name, "measure": "accuracy"} for name in ("copy", "needle")]
        self.write("suite.json", {"kind": "suite", "file": "configs/suite/small.toml", "tasks": tasks, **changes})

    def write(self, name, value):
        path = self.suite / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(value), encoding="utf-8")

    def comparison(self, task, state="done"):
        runs = [{"folder": f"none-seed{seed}", "state": state} for seed in (1, 2)]
        self.write(f"{task}/comparison.json", {"commit": "0123456789ab", "machine": {"device": "a processor, 1 thread"},
                                               "arms": [{"name": "none", "runs": runs}]})
        for run in runs:
            self.write(f"{task}/{run['folder']}/metrics.jsonl", {"kind": "step", "step": 100, "seconds": 45.0})

    def call(self, *words):
        """What the script says; "" when it is content."""
        with contextlib.redirect_stdout(io.StringIO()), unittest.mock.patch.object(suite_docs, "PAGES", [self.page]), \
                unittest.mock.patch.object(sys, "argv", ["suite_docs", str(self.suite), *words]):
            try:
                suite_docs.main()
            except SystemExit as end:
                return str(end.code)
        return ""

    def figure(self, path):
        """What is drawn with a figure there: file and drawing."""
        self.write(path, {})
        with unittest.mock.patch.object(suite_docs.figures, "draw") as draw:
            self.assertEqual(self.call(), "")
        return [(str(given.args[0].relative_to(self.suite)), str(given.args[1].relative_to(self.page.parent)))
                for given in draw.call_args_list]

    def test_puts_the_table_between_the_comments(self):
        self.assertEqual(self.call(), "")
        text = self.page.read_text(encoding="utf-8")
        self.assertTrue(text.startswith("# Tasks\n\nbefore\n\n<!-- begin small: made by a test -->\n| task | none |\n"), text)
        self.assertIn("\nMean over 2 seeds.\n\n4 trainings, 3.0 minutes added up; commit 0123456, a processor, 1 thread.\n"
                      "<!-- end small -->\n\nafter\n", text)
        self.assertNotIn("old", text)
        self.assertEqual(self.call("--page", str(self.page), "--section", "small"), "")
        self.assertEqual(self.page.read_text(encoding="utf-8"), text)

    def test_titles_of_further_tables_are_no_headings(self):
        (self.suite / "suite.md").write_text(TABLE + AGGREGATES, encoding="utf-8")
        self.assertEqual(self.call(), "")
        self.assertIn("\nMean over 2 seeds.\n\n**All tasks**\n\n| measure | none |\n", self.page.read_text(encoding="utf-8"))

    def test_trainings_may_be_too_short_for_a_line(self):
        for task in ("copy", "needle"):
            for seed in (1, 2):
                self.write(f"{task}/none-seed{seed}/metrics.jsonl", {"kind": "eval", "step": 3})
        self.assertEqual(self.call(), "")
        self.assertIn("4 trainings, 0.0 minutes added up", self.page.read_text(encoding="utf-8"))

    def test_draws_depths_and_delays(self):
        self.assertEqual(self.figure("needle/report/figures/depth-valid.vl.json"),
                         [("needle/report/figures/depth-valid.vl.json", "figures/small_needle_depth.svg")])
        self.assertIn("](figures/small_needle_depth.svg)\n<!-- end small -->", self.page.read_text(encoding="utf-8"))
        (self.suite / "needle/report/figures/depth-valid.vl.json").unlink()
        self.assertEqual(self.figure("copy/report/figures/delay-valid.vl.json"),
                         [("copy/report/figures/delay-valid.vl.json", "figures/small_copy_delay.svg")])

    def test_draws_the_measure_over_bytes_and_operations(self):
        self.page.write_text(PAGE.replace(" small", " capacity_mqar"), encoding="utf-8")
        self.suite_json(kind="capacity", file="configs/capacity/mqar.toml")
        self.assertEqual(self.figure("figures/capacity.vl.json"),
                         [("figures/capacity.vl.json", "figures/capacity_mqar.svg")])
        self.assertIn("![Accuracy over bytes of state, a line for each memory](figures/capacity_mqar.svg)\n<!-- end",
                      self.page.read_text(encoding="utf-8"))
        self.page.write_text(PAGE.replace(" small", " scale_text"), encoding="utf-8")
        self.suite_json(kind="scale", file="configs/scale/text.toml",
                        tasks=[{"name": "size-1x", "folder": "copy", "measure": "loss"}])
        self.write("figures/scale-seconds.vl.json", {})
        self.assertEqual(self.figure("figures/scale-operations.vl.json"),
                         [(f"figures/scale-{cost}.vl.json", f"figures/scale_text_{cost}.svg") for cost in ("operations", "seconds")])
        page = self.page.read_text(encoding="utf-8")
        self.assertIn("![Loss over operations of the training", page)
        self.assertIn("![Loss over seconds of the training", page)

    def test_refuses_a_suite_that_is_not_finished(self):
        self.comparison("needle", state="failed")
        self.assertIn("none-seed1: expected a finished run, got failed; run the same mneme compare again", self.call())
        self.assertEqual(self.page.read_text(encoding="utf-8"), PAGE)
        (self.suite / "needle/comparison.json").unlink()
        self.assertIn("comparison.json: expected what mneme compare writes with --suite, --capacity or --scale", self.call())

    def test_refuses_a_page_without_the_comments(self):
        self.page.write_text("# Tasks\n", encoding="utf-8")
        self.assertIn("expected <!-- begin small: made by scripts/reproduce/suite_docs.py --> in ", self.call())
        self.assertIn("expected one <!-- begin small --> and <!-- end small -->, got 0", self.call("--page", str(self.page)))

    def test_every_suite_has_a_section(self):
        configs = experiment_runs.ROOT / "configs"
        names = [file.stem for file in (configs / "suite").glob("*.toml") if "\n[[task]]" in file.read_text(encoding="utf-8")]
        names += [f"{kind}_{file.stem}" for kind in ("capacity", "scale") for file in (configs / kind).glob("*.toml")]
        self.assertGreater(len(names), 6)
        for name in names:
            with self.subTest(name):
                experiment_runs.split_section(suite_docs.page_of(name, suite_docs.PAGES), name)


if __name__ == "__main__":
    unittest.main()
