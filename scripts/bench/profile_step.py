#!/usr/bin/env python3
"""The kernels of one training step on a GPU by time, as NVIDIA's ncu measures them.

    scripts/bench/profile_step.py enwik8|wt103|gpt2|smollm [--steps N] [--top N] [--mneme PROGRAM] [--ncu PROGRAM] [--json FILE]

Runs a training of compare_gpu.py's part of this name under ncu twice, of N (default 2) and of N + 1 steps, and subtracts: what is
left are the launches of step N + 1. The sum over the kernels is larger than the step's wall time, because ncu serialises launches.
Shares are given by kind too: products, attention, softmax and loss, elementwise, copies, others. Needs no PyTorch.
"""
import argparse
import collections
import csv
import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from types import SimpleNamespace

from compare_gpu import PROGRAM, TRAININGS, Workbench
from program import Failure

NANOSECONDS = {"ns": 1, "nsecond": 1, "us": 1e3, "usecond": 1e3, "ms": 1e6, "msecond": 1e6, "s": 1e9, "second": 1e9}
# The first that fits a kernel's name.
KINDS = (("attention", r"flash|fmha|attention"),
         ("softmax and loss", r"softmax|nll|cross_entropy|log_?sum_?exp"),
         ("products", r"gemm|gemv|nvjet|cutlass|cublas|splitk|xmma"),
         ("copies", r"copy|memcpy|memset|fill|gather|index_?select|catarray|transpose"),
         ("elementwise", r"elementwise|dropout|multi_tensor|gelu|masked_scale|residual|activation|adam"))


def kind_of(kernel):
    return next((kind for kind, pattern in KINDS if re.search(pattern, kernel, re.IGNORECASE)), "others")


def short_name(kernel):
    """Without return type, namespaces and arguments."""
    name = re.sub(r"\b(?:at|native|cub|thrust|std|detail|<unnamed>|\(anonymous namespace\))::", "", kernel.removeprefix("void "))
    return name if len(name) <= 100 else name[:97] + "..."


def read_launches(text):
    """{kernel: [launches, nanoseconds]} of the output of ncu --csv --metrics gpu__time_duration.sum."""
    lines = text.splitlines()
    begin = next((i for i, line in enumerate(lines) if line.startswith('"ID"')), None)
    if begin is None:
        raise Failure("ncu printed no table: " + (lines[-1] if lines else "it printed nothing"))
    launches = collections.defaultdict(lambda: [0, 0.0])
    for entry in csv.DictReader(line for line in lines[begin:] if line.startswith('"')):
        if entry["Metric Name"] == "gpu__time_duration.sum":
            found = launches[entry["Kernel Name"]]
            found[0] += 1
            found[1] += float(entry["Metric Value"].replace(",", "")) * NANOSECONDS[entry["Metric Unit"]]
    return launches


def difference(longer, shorter):
    """What the longer training launched more, most time first: (kernel, launches, milliseconds)."""
    rows = []
    for kernel, (launches, time) in longer.items():
        before, time_before = shorter.get(kernel, (0, 0.0))
        if launches > before:
            rows.append((kernel, launches - before, max(time - time_before, 0.0) / 1e6))
    return sorted(rows, key=lambda row: -row[2])


def by_kind(rows):
    """[(kind, launches, milliseconds, share)], most time first."""
    sums = collections.defaultdict(lambda: [0, 0.0])
    for kernel, launches, time in rows:
        sums[kind_of(kernel)][0] += launches
        sums[kind_of(kernel)][1] += time
    total = sum(time for _, _, time in rows) or 1.0
    return [(kind, launches, time, time / total) for kind, (launches, time) in sorted(sums.items(), key=lambda item: -item[1][1])]


def table(part, rows, top):
    total = sum(time for _, _, time in rows)
    lines = [f"{part}: {sum(launches for _, launches, _ in rows)} launches, {total:.2f} ms in kernels",
             f"{'ms':>8} {'%':>5} {'launches':>8}  kind"]
    lines += [f"{time:8.2f} {100 * share:5.1f} {launches:8}  {kind}" for kind, launches, time, share in by_kind(rows)]
    lines.append(f"{'ms':>8} {'%':>5} {'launches':>8}  kernel")
    lines += [f"{time:8.2f} {100 * time / (total or 1):5.1f} {launches:8}  {short_name(kernel)}" for kernel, launches, time in rows[:top]]
    return "\n".join(lines)


def profile(options, bench, experiment, steps):
    """Launches of a whole training of so many steps; the program's own output goes into the log beside."""
    log = bench.folder / f"ncu{steps}.csv"
    command = [options.ncu, "--csv", "--log-file", log, "--clock-control", "none", "--cache-control", "none", "--metrics",
               "gpu__time_duration.sum", options.mneme, "train", experiment, "--run", bench.folder / f"profiled{steps}", "--checked",
               "--quiet", "--device", options.device, "--set", f"train.steps={steps}"]
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True)
    text = log.read_text() if log.exists() else ""
    if done.returncode != 0:
        raise Failure(f"ncu ended with {done.returncode}: {(text + done.stdout + done.stderr).strip()[-600:]}")
    return read_launches(text)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("part", choices=list(TRAININGS))
    parser.add_argument("--steps", type=int, default=2)
    parser.add_argument("--top", type=int, default=25, help="kernels of the table")
    parser.add_argument("--mneme", type=Path, default=PROGRAM)
    parser.add_argument("--ncu", default="ncu")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--json", type=Path, help="write all kernels here")
    options = parser.parse_args()
    if options.steps < 1 or options.top < 1:
        parser.error("--steps and --top must be at least 1")
    if not options.mneme.exists():
        parser.error(f"there is no {options.mneme}: build mneme with CUDA, or name the program by --mneme")
    with tempfile.TemporaryDirectory() as folder:
        bench = Workbench(SimpleNamespace(small=False, mneme=options.mneme, device=options.device), Path(folder))
        experiment, _ = bench.prepared(TRAININGS[options.part], options.steps + 1)
        try:
            shorter, longer = (profile(options, bench, experiment, steps) for steps in (options.steps, options.steps + 1))
        except FileNotFoundError:
            raise Failure(f"there is no program '{options.ncu}'; it comes with the CUDA toolkit (nsight-compute)") from None
    rows = difference(longer, shorter)
    print(table(options.part, rows, options.top))
    if options.json:
        options.json.write_text(json.dumps({
            "part": options.part, "kinds": [dict(zip(("kind", "launches", "ms", "share"), each)) for each in by_kind(rows)],
            "kernels": [{**dict(zip(("kernel", "launches", "ms"), each)), "kind": kind_of(each[0])} for each in rows]}, indent=1) + "\n")


if __name__ == "__main__":
    try:
        main()
    except Failure as failure:
        sys.exit(f"error: {failure}")
