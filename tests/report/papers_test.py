"""papers_test.py PROGRAM SCRIPT --latex | --csv: files of reports with made-up losses in the programs that they are for.

--latex: SCRIPT (scripts/sample_paper.py) typesets all tables and a paper of two pages without a box that is too wide; exit
code 77: there is no pdflatex. --csv: pandas reads every CSV file, whose columns are what docs/report.md says; exit code 77:
pandas cannot be imported.
"""

import importlib.util
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile


def expect(condition, message):
    if not condition:
        print("failed:", message, file=sys.stderr)
        sys.exit(1)


def check_latex(script, root):
    for folder in sorted(path.parent for path in root.glob("*/report")):
        done = subprocess.run([sys.executable, "-B", script, folder / "report", folder / "paper"], text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
        if done.returncode == 77:
            print(done.stdout)
            sys.exit(77)
        expect(done.returncode == 0, f"{folder.name}: {done.stdout}")
        expect(re.search(r"paper\.pdf: 2 pages", done.stdout), f"{folder.name}: no paper of two pages: {done.stdout}")
        print(done.stdout.strip())


# Columns that hold numbers or nothing.
NUMBERS = {
    "results": ["seeds", "mean", "deviation", "difference", "difference_deviation", "ratio", "ratio_deviation", "share_read"],
    "runs": ["seed", "value"],
    "differences": ["difference", "low", "high", "p", "p_holm", "family", "effect_size", "detectable", "seeds", "units",
                    "block_targets", "targets", "arm_mean", "baseline_mean", "share_read"],
    "perplexity": ["perplexity", "ratio", "ratio_low", "ratio_high", "bits_per_byte_difference", "bits_per_byte_low",
                   "bits_per_byte_high", "share_read"],
    "depths": ["length", "accuracy", "correct", "targets", "loss", "seeds"],
    "diagnostics": ["seed", "layer", "place", "value"],
    "plugins": ["tier"],
}
KEYS = {  # that tell rows apart
    "results": ["split", "measure", "arm"],
    "runs": ["split", "measure", "arm", "seed"],
    "differences": ["arm", "baseline", "split", "measure"],
    "perplexity": ["arm", "baseline", "split"],
    "settings": ["key", "arm"],
}


def check_csv(root):
    import pandas
    seen = set()
    for path in sorted(root.glob("*/report/*.csv")):
        name = path.stem
        table = pandas.read_csv(path)
        seen.add(name)
        where = f"{path.parent.parent.name}/{path.name}"
        expect(len(table) > 0, f"{where}: no rows")
        for column in table.columns:
            expect(re.fullmatch(r"[a-z][a-z0-9_]*", column), f"{where}: the column {column!r} has no name for programs")
        for column in NUMBERS.get(name, []):
            expect(pandas.api.types.is_numeric_dtype(table[column]), f"{where}: {column} holds more than numbers")
        if name in KEYS:
            expect(not table.duplicated(KEYS[name]).any(), f"{where}: {KEYS[name]} do not tell its rows apart")
    expect(set(NUMBERS) | set(KEYS) <= seen, f"the reports have no {sorted((set(NUMBERS) | set(KEYS)) - seen)}")
    # What one asks of the tables of a paper.
    results = pandas.read_csv(root / "text" / "report" / "results.csv")
    runs = pandas.read_csv(root / "text" / "report" / "runs.csv")
    loss = results[(results.split == "valid") & (results.measure == "loss")].set_index("arm")
    by_hand = runs[(runs.split == "valid") & (runs.measure == "loss")].groupby("arm").value.agg(["mean", "std"])
    for arm in loss.index:
        expect(abs(loss["mean"][arm] - by_hand["mean"][arm]) < 1e-12, f"{arm}: another mean than that of its runs")
        expect(abs(loss["deviation"][arm] - by_hand["std"][arm]) < 1e-12, f"{arm}: another deviation than that of its runs")
    print("read:", ", ".join(sorted(seen)))


def missing(what):
    """What is not there for the test, before reports are written for it; "" = nothing."""
    if what == "--csv":
        return "" if importlib.util.find_spec("pandas") else "pandas cannot be imported"
    return "" if shutil.which("pdflatex") else "no pdflatex (Debian: texlive-latex-base, texlive-latex-recommended)"


def main():
    program, script, what = sys.argv[1:]
    if missing(what):
        print("skipped:", missing(what))
        sys.exit(77)
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder)
        subprocess.run([program, root], check=True, stdout=subprocess.DEVNULL)
        check_latex(script, root) if what == "--latex" else check_csv(root)


if __name__ == "__main__":
    main()
