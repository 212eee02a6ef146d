#!/usr/bin/env python3
"""What benchmarks printed, as docs/performance/NAME.csv, and the tables of docs/performance.md made from these files.

    scripts/bench/bench_tables.py NAME LOG --command TEXT --processor TEXT --commit TEXT [--page PAGE]
    scripts/bench/bench_tables.py --check [--page PAGE]

The first form, which scripts/bench.sh calls, reads what the benchmark NAME printed, writes the CSV file beside PAGE and draws
PAGE's place for NAME again: between <!-- begin NAME ... --> and <!-- end NAME -->. --check says whether every place of PAGE
holds what its CSV file gives. A line that no rule below knows is kept whole, in the column "text". Needs Python 3.9.
"""
import argparse
import csv
import re
import sys
import textwrap
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
ORIGIN = ("command", "processor", "commit")
WIDTH = 135  # of the page's lines
NOISE = re.compile(r"Run on|Running |Load Average|20..-..-..T|CPU Caches|  L[123] |\*\*\*WARNING|[0-9:]{8} info |-+$|Benchmark +Time ")

N = r" +([\d.]+(?:e-?\d+)?)"  # a number, with the spaces before it
P = N + " %"
PASS = r" +(forward, backward|forward)"

# Of each benchmark the lines that it prints: a pattern and the columns of its groups; no columns: a heading. Of several
# patterns the first that fits counts. A column that begins with > is carried to the lines below.
RULES = {
    "ops_bench": [(rf"(\w+){N} ns{N} ns{N} direct_ns=(\S+) op_ns=(\S+) over_ns=(\S+) ratio=(\S+)",
                   "operation|time ns|CPU ns|iterations|LibTorch ns|op ns|difference ns|ratio")],
    "linear_bench": [(rf"{N}{N}{N}{N}{N}{N}{N}", "rows|inputs|outputs|/ oneDNN|/ MKL|GEMM %|copy %"), (" *rows inputs", "")],
    "attention_bench": [(rf"(.+?) +(forward|training){N}{N}{N}", "tokens/rows|pass|/ LibTorch|GEMM %|LibTorch %"), ("tokens/rows", "")],
    "softmax_bench": [(rf"{N}{N}{N}{N}", "tokens|/ LibTorch|peak MiB, LibTorch|peak MiB, mneme"), ("tokens ", "")],
    "stack_bench": [(rf"{N} +(\S+) +(training|evaluation){N} layers,{N} lane\(s\), +(\S+){P}",
                     "threads|model|pass|layers|lanes|tokens/rows|GEMM %"), ("threads ", "")],
    "growth_bench": [(rf"(.+?) +(training|evaluation){N}{N}", "size|pass|exponent of time|exponent of operations"), ("exponent of", "")],
    "small_ops_bench": [(rf"(.+), (.+?) +(training|evaluation){N}{N}{P}{P}",
                         "memory|sizes|pass|operations|short|in short %|outside %"), (" +ops ", "")],
    "generation_bench": [(r"samples at once(?:, without a memory)?: (\d+)", ">samples"),
                         (rf" *(kept|open):{N} times the tokens a second of official,{N} times those of all rows",
                          "way|/ official|/ all rows"),
                         (rf" *(recorded):{N} times the tokens a second of steps that grow", "way|/ growing steps")],
    "attention_length_bench": [
        (rf"{N}{N}{N}{N}{N}{N}{N}{N}", "length|window s a token|T=100 ms a token|T=100|T=1 ms a token|T=1|window of peak|T=100 of peak"),
        (rf"{N}{N}{N}{N}{N}", "length|T=100|T=1|window of peak|T=100 of peak"), (" *length| *a token", "")],
    "digit_decoding_bench": [(rf"(without memory|with memory){N} s{N} tokens fed", "model|s|tokens fed")],
    "layer_bench": [(rf"{N} +(yes|no){N}{N}{P}{P}{P}{P}",
                     "threads|gate|forward|forward and backward|released %, forward|released %, both|plugin %, forward|plugin %, both"),
                    (rf"memory, gate (yes|no): peak of a step{N} MiB released,{N} MiB plugin \(gradients that stay:{N} and{N}\), ratio{N}; "
                     rf"forward and backward without those,{N}",
                     "gate|peak MiB, released|peak MiB, plugin|gradients MiB, released|gradients MiB, plugin|peak, ratio|"
                     "peak without gradients, ratio"), ("threads ", "")],
    "expectation_bench": [(rf"{N} (wide|mixed|narrow){PASS}{N}{N}{N}{P}{N}", "threads|spread|pass|ops ms|kernel ms|ratio|of peak %|gain of skipping"),
                          (rf"{N} (wide|mixed|narrow){PASS}{N}{P}{N}", "threads|spread|pass|ratio|of peak %|gain of skipping"),
                          ("threads ", "")],
    "length_bench": [(rf"{N}{N}{N}{N}", "tokens absorbed|read / read of a fresh one|read of a token / product of 256^3|state bytes"),
                     (" +(tokens|absorbed) ", "")],
    "compression_bench": [(rf"{N} (plain, projects all|plain, reuses|plugin){N}{N}{P}{P}",
                           "threads|program|forward|forward and backward|of peak %, forward|of peak %, both"),
                          (rf"memory, (.+?) +peak of a step{N} MiB \(gradients that stay:{N}\),{N} times the plugin's; without those{N}",
                           "program|peak MiB|gradients MiB|peak, ratio|peak without gradients, ratio"),
                          (rf"(\d+) threads, whole training step of 2 layers: with loss{N}, without{N} times that of an xl_cache .*",
                           "threads|/ xl_cache, with loss|/ xl_cache, without"), ("threads ", "")],
    "reconstruction_bench": [(rf"{N} (B=.*?){PASS}{N}{N}{N}{N}{N}{P}", "threads|sizes|pass|ops ms|fused ms|kernel ms|ratio|/ fused|of peak %"),
                             (rf"{N} (B=.*?){PASS}{N}{N}{P}", "threads|sizes|pass|ratio|/ fused|of peak %"), ("threads ", "")],
    "lamemo_bench": [(rf"(\d+) threads, (.+):{N} times faster; shares of the peak: official{P}, mneme{P}",
                      "threads|case|/ official|official %|mneme %"),
                     (rf"(.+): peak of allocated memory, official{N} MiB, mneme{N} MiB:{N} times",
                      "case|peak MiB, official|peak MiB, mneme|peak, ratio")],
    "look_ahead_bench": [(rf"{N} (B=.*?){PASS}{N}{P}{P}{N}{N}", "threads|sizes|pass|ratio|ops %|kernel %|workspace MiB|MiB of [M,R]"),
                         ("threads ", "")],
    "recurrence_bench": [(rf"{N} (.+?) +(B=.*?){PASS}{N} ms{N}{P}", "threads|recurrence|sizes|pass|ms|Gflop/s|GEMM %"),
                         ("threads ", "")],
    "threads_bench.py": [(rf"{N}{N} MF{N}{N}", "width|largest product MF|2 threads / 1|the same, spinning"), ("width +largest ", "")],
    "ranks_bench.py": [(r"(two .+?) {2,}(\d+) % +\((.+)\)", "case|%|rounds")],
    "official": [(rf"(.+), (f32|bf16){N}{N}{N} +(\S+){N} +(\S+)", "case|precision|threads|lanes|loop|program|memory|loss differs"),
                 (" +threads lanes", "")],
}


@dataclass(frozen=True)
class Shown:
    """Of a benchmark's rows those that the page's table has. `across` puts the values of a column side by side."""

    by: str  # columns that name a row, joined by |
    values: str
    where: str = ""  # COLUMN=VALUE,VALUE... joined by |
    across: str = ""


# Benchmarks that are not named here show the smallest and the largest value of the columns of RANGES, or their lines of text.
SHOWN = {
    "official": Shown("case|precision|lanes", "loop", where="threads=2", across="processor"),
    "ranks_bench.py": Shown("case", "%|rounds"),
    "threads_bench.py": Shown("width|largest product MF", "2 threads / 1|the same, spinning", where="width=16,32,64,128,256"),
    "linear_bench": Shown("rows", "/ oneDNN|/ MKL|GEMM %|copy %", where="inputs=410|outputs=2100|rows=1,4,16,64,256"),
    "attention_bench": Shown("tokens/rows", "/ LibTorch|GEMM %|LibTorch %", across="pass"),
    "softmax_bench": Shown("tokens", "/ LibTorch|peak MiB, LibTorch|peak MiB, mneme"),
    "stack_bench": Shown("model|pass|layers|lanes|tokens/rows", "GEMM %", across="threads"),
    "generation_bench": Shown("samples|way", "/ official|/ all rows"),
    "layer_bench": Shown("gate", "forward|forward and backward|released %, both|plugin %, both", where="threads=2"),
    "compression_bench": Shown("program", "forward|forward and backward|of peak %, both", where="threads=2"),
    "lamemo_bench": Shown("case", "/ official|official %|mneme %", across="threads"),
}
RANGES = {
    "ops_bench": "ratio",
    "growth_bench": "exponent of time|exponent of operations",
    "small_ops_bench": "in short %|outside %",
    "attention_length_bench": "T=100|T=1|window of peak|T=100 of peak",
    "expectation_bench": "ratio|of peak %|gain of skipping",
    "length_bench": "tokens absorbed|read / read of a fresh one|state bytes",
    "reconstruction_bench": "ratio|/ fused|of peak %",
    "look_ahead_bench": "ratio|ops %|kernel %",
    "recurrence_bench": "GEMM %",
}


def split(names):
    return names.split("|") if names else []


def rows_of(name, text):
    """One a line of `text`: a value for each column."""
    rules = [(re.compile(pattern), split(columns)) for pattern, columns in RULES.get(name, [])]
    rows, carried = [], {}
    for line in text.splitlines():
        if not line.strip() or NOISE.match(line):
            continue
        for pattern, columns in rules:
            match = pattern.fullmatch(line.rstrip()) if columns else pattern.match(line)
            if match is None:
                continue
            values = dict(zip(columns, (re.sub(" +", " ", group) for group in match.groups())))
            if columns and columns[0].startswith(">"):
                carried = {column[1:]: value for column, value in values.items()}
            elif columns:
                rows.append({**carried, **values})
            break
        else:
            rows.append({**carried, "text": line.strip()})
    return rows


def columns_of(rows):
    columns = list(dict.fromkeys(column for row in rows for column in row))
    return [column for column in columns if column != "text"] + ["text"] * ("text" in columns)


def csv_path(page, name):
    return page.with_suffix("") / f"{name.removesuffix('.py')}.csv"


def read_csv(path):
    with path.open(encoding="utf-8", newline="") as file:
        return [{column: value for column, value in row.items() if value} for row in csv.DictReader(file)]


def write_csv(path, rows):
    path.parent.mkdir(exist_ok=True)
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, columns_of(rows), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


# --- The page ---

def cell(value):
    return value.replace("|", "\\|")


def markdown(heads, rows, texts):
    """The first `texts` columns are aligned left."""
    aligned = ["---" if i < texts else "--:" for i in range(len(heads))]
    head, *lines = ["| " + " | ".join(map(cell, line)) + " |" for line in [heads, *rows]]
    return [head, "|" + "|".join(aligned) + "|", *lines]


def table(shown, rows):
    by, values = split(shown.by), split(shown.values)
    wanted = {column: values.split(",") for column, values in (pair.split("=") for pair in split(shown.where))}
    rows = [row for row in rows if all(row.get(column) in allowed for column, allowed in wanted.items())
            and all(column in row for column in by) and any(value in row for value in values)]
    sides = list(dict.fromkeys(row[shown.across] for row in rows)) if shown.across else [""]
    heads = by + [value if not side else side if len(values) == 1 and not side.isdigit() else
                  f"{value}, threads {side}" if shown.across == "threads" else f"{value}, {side}" for side in sides for value in values]
    lines = {}
    for row in rows:
        line = lines.setdefault(tuple(row[column] for column in by), {})
        line.update({(row.get(shown.across, ""), value): row.get(value, "") for value in values})
    cells = [[*key, *(line.get((side, value), "") for side in sides for value in values)] for key, line in lines.items()]
    return markdown(heads, cells, sum(not re.fullmatch(r"[\d.,]+", key) for key in next(iter(lines))))


def span(column, rows):
    found = sorted((row[column] for row in rows if column in row), key=float)
    return f"{column} {found[0]}" + (f" to {found[-1]}" if found[0] != found[-1] else "")


def place_of(page, name, rows):
    """What the page has between the comments of this name."""
    origins = list(dict.fromkeys(tuple(row[column] for column in ORIGIN) for row in rows))
    path = csv_path(page, name)
    origin = f"`{origins[0][0]}`, several processors and commits"
    if len(origins) == 1:
        origin = "`{}`, {}, commit {}".format(*origins[0])
    origin += f" ([{path.name}]({path.parent.name}/{path.name}))"
    if name in SHOWN:
        return [f"{origin}:", "", *table(SHOWN[name], rows)]
    texts = [row["text"] for row in rows if "text" in row][1:]  # the first one names the machine
    spans = [span(column, rows) for column in split(RANGES.get(name))]
    return textwrap.wrap(f"{origin}: {'; '.join(spans or texts)}.", WIDTH, break_long_words=False, break_on_hyphens=False)


def place_in(page, lines, name):
    """The numbers of the lines that begin and end the place."""
    begin = [i for i, line in enumerate(lines) if line.startswith(f"<!-- begin {name} ")]
    end = [i for i, line in enumerate(lines) if line.startswith(f"<!-- end {name} ")]
    if len(begin) != 1 or len(end) != 1 or end[0] < begin[0]:
        raise SystemExit(f"error: {page} has no place for {name}: a line <!-- begin {name} made by scripts/bench.sh --> and one "
                         f"<!-- end {name} -->")
    return begin[0], end[0]


def drawn(page, text, name):
    """The page's text with the place of `name` made from its CSV file."""
    lines = text.splitlines()
    begin, end = place_in(page, lines, name)
    made = place_of(page, name, read_csv(csv_path(page, name)))
    return "\n".join([*lines[:begin + 1], *made, *lines[end:]]) + "\n"


def check(page):
    text, wrong = page.read_text(encoding="utf-8"), []
    for name in re.findall(r"^<!-- begin (\S+) made by scripts/bench\.sh -->$", text, re.M):
        if drawn(page, text, name) != text:
            wrong.append(name)
    return wrong


def take(page, name, log, origin):
    text = page.read_text(encoding="utf-8")
    place_in(page, text.splitlines(), name)  # refuses a page without one before anything is written
    new = [{**origin, **row} for row in rows_of(name, log.read_text(encoding="utf-8"))]
    path = csv_path(page, name)
    # Evaluations against the official code are kept for every processor that they ran on.
    old = [row for row in read_csv(path) if row["processor"] != origin["processor"]] if name == "official" and path.exists() else []
    write_csv(path, old + new)
    page.write_text(drawn(page, text, name), encoding="utf-8")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name", nargs="?", metavar="NAME")
    parser.add_argument("log", nargs="?", type=Path, metavar="LOG")
    for column in ORIGIN:
        parser.add_argument(f"--{column}")
    parser.add_argument("--page", type=Path, default=ROOT / "docs/performance.md")
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    if options.check:
        wrong = check(options.page)
        for name in wrong:
            print(f"{options.page}: the place of {name} is not what {csv_path(options.page, name)} gives")
        sys.exit(1 if wrong else 0)
    if not options.log or not all(getattr(options, column) for column in ORIGIN):
        parser.error("expected NAME LOG --command TEXT --processor TEXT --commit TEXT, or --check")
    take(options.page, options.name, options.log, {column: getattr(options, column) for column in ORIGIN})


if __name__ == "__main__":
    main()
