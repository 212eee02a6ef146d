#!/usr/bin/env python3
"""scripts/bench/bench_tables.py: rows and columns of what benchmarks print, the page that it draws, and that docs/performance.md holds
what the files of docs/performance give. Exit status 0 when all holds."""
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "scripts/bench"))
import bench_tables

SCRIPT = ROOT / "scripts/bench/bench_tables.py"
LINEAR = """AMD EPYC, 2 threads; medians of 3 rounds
 rows inputs outputs   / oneDNN     / MKL  GEMM % copy %
    1    410    2100       1.41      3.14       6    113
    2    410    2100       1.06      3.69       9     94
    1    512    2048       1.27      3.13       6    131
"""


class Rows(unittest.TestCase):
    def test_a_table_gives_a_row_a_line_and_its_heading_none(self):
        rows = bench_tables.rows_of("linear_bench", LINEAR)
        self.assertEqual(rows[0], {"text": "AMD EPYC, 2 threads; medians of 3 rounds"})
        self.assertEqual(rows[1], {"rows": "1", "inputs": "410", "outputs": "2100", "/ oneDNN": "1.41", "/ MKL": "3.14",
                                   "GEMM %": "6", "copy %": "113"})
        self.assertEqual(len(rows), 4)

    def test_a_line_that_no_rule_knows_is_kept(self):
        self.assertEqual(bench_tables.rows_of("linear_bench", "  1 something new\n"), [{"text": "1 something new"}])
        self.assertEqual(bench_tables.rows_of("another_bench", "7 apples\n"), [{"text": "7 apples"}])

    def test_a_carried_value_is_in_the_lines_below(self):
        text = "samples at once: 16\n  open: 30.4 times the tokens a second of official, 9.7 times those of all rows\n"
        self.assertEqual(bench_tables.rows_of("generation_bench", text),
                         [{"samples": "16", "way": "open", "/ official": "30.4", "/ all rows": "9.7"}])
        text = "samples at once, without a memory: 1\n  recorded: 0.98 times the tokens a second of steps that grow\n"
        self.assertEqual(bench_tables.rows_of("generation_bench", text),
                         [{"samples": "1", "way": "recorded", "/ growing steps": "0.98"}])

    def test_lines_as_benchmarks_print_them_now_and_printed_them_before(self):
        new = bench_tables.rows_of("expectation_bench", "      1 wide    forward, backward      3.7       77 %     1.03\n")
        old = bench_tables.rows_of("expectation_bench", "      1 wide    forward, backward     73.24     20.03      3.7       77 %     1.03\n")
        self.assertEqual(new, [{"threads": "1", "spread": "wide", "pass": "forward, backward", "ratio": "3.7", "of peak %": "77",
                                "gain of skipping": "1.03"}])
        self.assertEqual({**new[0], "ops ms": "73.24", "kernel ms": "20.03"}, old[0])


class Page(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.page = Path(self.folder.name) / "page.md"
        self.log = Path(self.folder.name) / "log"

    def run_script(self, *arguments):
        return subprocess.run([sys.executable, "-B", SCRIPT, *arguments, "--page", self.page], capture_output=True, text=True)

    def take(self, name, text, processor="A"):
        self.log.write_text(text)
        return self.run_script(name, self.log, "--command", name, "--processor", processor, "--commit", "1")

    def test_the_place_holds_the_chosen_rows_and_names_the_file(self):
        self.page.write_text("before\n<!-- begin linear_bench made by scripts/bench.sh -->\nold\n<!-- end linear_bench -->\nafter\n")
        self.assertEqual(self.take("linear_bench", LINEAR).returncode, 0)
        self.assertEqual(self.page.read_text(), """before
<!-- begin linear_bench made by scripts/bench.sh -->
`linear_bench`, A, commit 1 ([linear_bench.csv](page/linear_bench.csv)):

| rows | / oneDNN | / MKL | GEMM % | copy % |
|--:|--:|--:|--:|--:|
| 1 | 1.41 | 3.14 | 6 | 113 |
<!-- end linear_bench -->
after
""")
        self.assertEqual(self.run_script("--check").returncode, 0)
        self.page.write_text(self.page.read_text().replace("1.41", "1.42"))
        refused = self.run_script("--check")
        self.assertEqual(refused.returncode, 1)
        self.assertIn("the place of linear_bench is not what", refused.stdout)

    def test_a_page_without_the_place_is_refused(self):
        self.page.write_text("nothing\n")
        refused = self.take("linear_bench", LINEAR)
        self.assertIn("has no place for linear_bench", refused.stderr)
        self.assertFalse((self.page.with_suffix("") / "linear_bench.csv").exists())

    def test_evaluations_against_official_code_are_kept_by_processor(self):
        self.page.write_text("<!-- begin official made by scripts/bench.sh -->\n<!-- end official -->\n")
        line = "wt103 evaluation 64/640, f32           2     4   {}     4.96    0.56     4.8e-06\n"
        for processor, loop in (("A", 5.21), ("B", 3.69), ("A", 5.5)):
            self.assertEqual(self.take("official", line.format(loop), processor).returncode, 0)
        self.assertIn("| wt103 evaluation 64/640 | f32 | 4 | 3.69 | 5.5 |", self.page.read_text())


class Documentation(unittest.TestCase):
    def test_the_page_holds_what_the_files_give(self):
        self.assertEqual(bench_tables.check(ROOT / "docs/performance.md"), [])

    def test_every_benchmark_has_a_file(self):
        names = subprocess.run(["bash", ROOT / "scripts/bench.sh", "--list"], capture_output=True, text=True, check=True).stdout.split()
        for name in [*names, "official"]:
            self.assertTrue(bench_tables.csv_path(ROOT / "docs/performance.md", name).exists(), name)


if __name__ == "__main__":
    unittest.main()
