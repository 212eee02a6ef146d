"""Tests of scripts/reproduce/suite_docs.py, on folders as mneme compare --suite writes them."""
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
PAGE = "# Tasks\n\nbefore\n\n<!-- begin suite: made by a test -->\nold\n<!-- end suite -->\n\nafter\n"


class SuiteDocs(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.folder = pathlib.Path(temporary.name)
        self.page = self.folder / "docs/tasks.md"
        self.page.parent.mkdir()
        self.page.write_text(PAGE, encoding="utf-8")
        self.suite = self.folder / "suite"
        self.write("suite.json", {"tasks": [{"name": name, "folder": name} for name in ("copy", "needle")]})
        (self.suite / "suite.md").write_text(TABLE, encoding="utf-8")
        for task in ("copy", "needle"):
            self.comparison(task)

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

    def call(self):
        """What the script says; "" when it is content."""
        with contextlib.redirect_stdout(io.StringIO()), \
                unittest.mock.patch.object(sys, "argv", ["suite_docs", str(self.suite), "--page", str(self.page)]):
            try:
                suite_docs.main()
            except SystemExit as end:
                return str(end.code)
        return ""

    def test_puts_the_table_between_the_comments(self):
        self.assertEqual(self.call(), "")
        text = self.page.read_text(encoding="utf-8")
        self.assertTrue(text.startswith("# Tasks\n\nbefore\n\n<!-- begin suite: made by a test -->\n| task | none |\n"), text)
        self.assertIn("\nMean over 2 seeds.\n\n4 trainings, 3.0 minutes added up; commit 0123456, a processor, 1 thread.\n"
                      "<!-- end suite -->\n\nafter\n", text)
        self.assertNotIn("old", text)
        self.assertEqual(self.call(), "")
        self.assertEqual(self.page.read_text(encoding="utf-8"), text)

    def test_draws_the_needles_depths(self):
        self.write("needle/report/figures/depth-valid.vl.json", {})
        with unittest.mock.patch.object(suite_docs.figures, "draw") as draw:
            self.assertEqual(self.call(), "")
        draw.assert_called_once_with(self.suite / "needle/report/figures/depth-valid.vl.json",
                                     self.page.parent / "figures/needle_depth.svg")
        self.assertIn("](figures/needle_depth.svg)\n<!-- end suite -->", self.page.read_text(encoding="utf-8"))

    def test_refuses_a_suite_that_is_not_finished(self):
        self.comparison("needle", state="failed")
        self.assertIn("none-seed1: expected a finished run, got failed; run the same mneme compare again", self.call())
        self.assertEqual(self.page.read_text(encoding="utf-8"), PAGE)
        (self.suite / "needle/comparison.json").unlink()
        self.assertIn("comparison.json: expected what mneme compare --suite writes", self.call())

    def test_refuses_a_page_without_the_comments(self):
        self.page.write_text("# Tasks\n", encoding="utf-8")
        self.assertIn("expected one <!-- begin suite --> and <!-- end suite -->, got 0", self.call())

    def test_the_page_has_the_comments(self):
        experiment_runs.split_section(suite_docs.PAGE, suite_docs.SECTION)


if __name__ == "__main__":
    unittest.main()
