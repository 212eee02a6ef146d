"""scripts/reproduce/experiment_verdicts.py with the built program on stored losses: verdicts_test.py MNEME REPORT_FIXTURE, where
REPORT_FIXTURE (tests/report) writes runs of known differences."""
import json
import pathlib
import subprocess
import sys
import tempfile
import unittest
import unittest.mock

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "scripts/reproduce"))

import experiment_runs
import experiment_verdicts as verdicts


class StoredRun:
    """A run folder of the fixture; with `is_done` False one that was never trained."""

    def __init__(self, folder, is_done=True):
        self.folder, self.name, self.is_done, self.has_losses = folder, folder.name, is_done, True


class Verdicts(unittest.TestCase):
    FAMILIES = (verdicts.Family("none", ("xl_cache", "compressive")), verdicts.Family("xl_cache", ("compressive",)))

    @classmethod
    def setUpClass(cls):
        cls.scratch = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.scratch.cleanup)
        cls.folder = pathlib.Path(cls.scratch.name)
        for patch in (unittest.mock.patch.object(experiment_runs, "MNEME", pathlib.Path(sys.argv[1])),
                      unittest.mock.patch.object(verdicts, "SPLIT", "valid")):  # the one that the fixture stores
            patch.start()
            cls.addClassCleanup(patch.stop)
        subprocess.run([sys.argv[2], cls.folder], check=True, stdout=subprocess.DEVNULL)

    def runs(self, **absent):
        names = ("none", "xl_cache", "compressive")
        return {(name, seed): StoredRun(self.folder / "text" / f"{name}-seed{seed}", seed not in absent.get(name, ()))
                for name in names for seed in (1, 2, 3)}

    def compare(self, runs, measure="loss"):
        return verdicts.write(self.folder / "differences.csv",
                              verdicts.compare(self.FAMILIES, runs, self.folder / "reports", measure))

    def test_rows_are_the_report_of_each_baseline(self):
        rows = self.compare(self.runs())
        self.assertEqual([(row["baseline"], row["memory"], row["arms"]) for row in rows],
                         [("none", "xl_cache", "2"), ("none", "compressive", "2"), ("xl_cache", "compressive", "1")])
        report = json.loads((self.folder / "reports/none/report.json").read_text())
        self.assertEqual(report["arms"][0]["name"], "none")
        for row, difference in zip(rows, report["differences"]):
            self.assertEqual(row["memory"], difference["arm"])
            for column, key in (("difference",) * 2, ("low",) * 2, ("high",) * 2, ("p_holm",) * 2, ("detectable",) * 2,
                                ("mean", "other"), ("baseline_mean", "first")):
                self.assertEqual(float(row[column]), difference[key], column)
        # The fixture's xl_cache is .1 to .5 nats better than none, its compressive .002.
        self.assertEqual([row["verdict"] for row in rows], ["better", "no difference shown", "worse"])
        self.assertEqual((rows[0]["seeds"], rows[0]["units"], rows[0]["unit"]), ("1 2 3", "24", "document"))
        self.assertTrue((self.folder / "reports/xl_cache/index.html").exists())
        text = verdicts.section(rows)
        self.assertIn("- **Better than none:** xl_cache. No difference to none is shown: compressive.\n"
                      "- **Worse than xl_cache:** compressive.", text)
        self.assertIn(f"| xl_cache | compressive | {float(rows[2]['difference']):+.4f} |", text)

    def test_seeds_of_some_memories(self):
        rows = self.compare(self.runs(xl_cache=(1, 2, 3), compressive=(3,)))
        self.assertEqual([row["verdict"] for row in rows], ["not run", "no difference shown", "not run"])
        self.assertEqual([row["notes"] for row in rows],
                         ["xl_cache: seeds 1, 2, 3 not trained", "compressive: seed 3 not trained",
                          "xl_cache: seeds 1, 2, 3 not trained | compressive: seed 3 not trained"])
        self.assertEqual((rows[1]["seeds"], rows[1]["arms"]), ("1 2", "1"))

    def test_runs_without_stored_losses(self):
        losses = self.folder / "text/xl_cache-seed2/evaluations"
        losses.rename(losses.with_name("away"))
        try:
            rows = self.compare(self.runs())
        finally:
            losses.with_name("away").rename(losses)
        self.assertEqual(rows[0]["seeds"], "1 3")
        self.assertIn("xl_cache-seed2 has no stored losses: mneme eval xl_cache-seed2 --split valid makes them", rows[0]["notes"])
        self.assertEqual(rows[1]["notes"], "")

    def test_other_splits_do_not_count(self):
        with unittest.mock.patch.object(verdicts, "SPLIT", "test"):
            rows = self.compare(self.runs())
        self.assertEqual([row["verdict"] for row in rows], ["unknown"] * 3)
        self.assertIn("none-seed1 has no stored losses: mneme eval none-seed1 --split test makes them", rows[0]["notes"])


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
