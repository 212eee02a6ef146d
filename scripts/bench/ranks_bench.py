#!/usr/bin/env python3
"""A training over two ranks against the same training of one process, one thread each.

    scripts/bench/ranks_bench.py [ROUNDS]

The body of configs/wt103_base.toml with a vocabulary of 20,000 words (49 M parameters), a cache of 150 rows and 16 lanes of
150 tokens (the published training has 60). In each round one process trains all lanes, two ranks train half of them each, and two
processes that know nothing of one another train half of them each at the same time. Perfect scaling halves the time of a step.
What the two processes reach of it is what the machine allows: they share its memory and its clock. The time of a step is the
median of those after the second. Losses of one process and of two ranks are compared first. The bytes that a rank sends are
counted by Open MPI (its component pml_monitoring) in a run of its own and compared with the model of docs/scaling.md.
"""
import json
import os
import random
import re
import shutil
import statistics
import struct
import subprocess
import sys
import tempfile
from pathlib import Path

from program import MNEME, ROOT, Failure, processor

LANES, SEGMENT, STEPS = 16, 150, 6
VOCABULARY = 20_000
ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1", "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}


def write_ids(path, count, vocabulary):
    """A split as `mneme data prepare` writes it."""
    generator = random.Random(1)
    ids = [min(vocabulary - 1, int(vocabulary * generator.random() ** 4)) for _ in range(count)]
    width, dtype = ("H", "U16") if vocabulary <= 65536 else ("i", "I32")
    tokens = struct.pack(f"<{count}{width}", *ids)
    header = json.dumps({"documents": {"dtype": "I64", "shape": [1], "data_offsets": [0, 8]},
                         "tokens": {"dtype": dtype, "shape": [count], "data_offsets": [8, 8 + len(tokens)]}}).encode()
    header += b" " * (-len(header) % 8)
    path.write_bytes(struct.pack("<Q", len(header)) + header + struct.pack("<q", 0) + tokens)


def write_experiment(folder, vocabulary):
    text = (ROOT / "configs/wt103_base.toml").read_text()
    body = text[text.index("[model]"):text.index("[model.adaptive]")]
    ids = folder / "ids.safetensors"
    write_ids(ids, LANES * SEGMENT * (STEPS + 2), vocabulary)
    experiment = folder / "experiment.toml"
    experiment.write_text(f"""{body}
[memory]
plugins = ["{MNEME.parent.parent / 'plugins'}"]
[[memory.tier]]
plugin = "xl_cache"
rows = 150
[data]
task = "tokens"
train = "{ids}"
vocabulary_size = {vocabulary}
[train]
segment = {SEGMENT}
lanes = {LANES}
steps = {STEPS}
lr = 2.5e-4
clip = 0.25
log_every = 1
[eval]
segment = {SEGMENT}
lanes = 1
""")
    return experiment


def start(command):
    return subprocess.Popen(list(map(str, command)), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=ENVIRONMENT, text=True)


def finish(process):
    output = process.communicate()[0]
    if process.returncode != 0:
        raise Failure(f"{' '.join(process.args)}\nended with {process.returncode}:\n{output.strip()}")


def steps_of(run):
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    return [line for line in lines if line["kind"] == "step"]


def seconds_of_a_step(run):
    times = [step["seconds"] for step in steps_of(run)]
    return statistics.median(after - before for before, after in zip(times[1:], times[2:]))


def train(experiment, run, *more):
    shutil.rmtree(run, ignore_errors=True)
    return [MNEME, "train", experiment, "--run", run, "--quiet", "--threads=1", "--force", *more]


def mpirun(ranks, *more):
    return ["mpirun", "-n", ranks, "--bind-to", "core", *more]


def bytes_sent(experiment, folder):
    """Bytes that rank 0 sends in a step: of runs of several steps and of one."""
    sent = []
    for steps in (STEPS, 2):
        prefix = folder / f"sent{steps}"
        monitoring = ["--mca", "pml_monitoring_enable", 1, "--mca", "pml_monitoring_enable_output", 3, "--mca",
                      "pml_monitoring_filename", prefix]
        finish(start([*mpirun(2, *monitoring), *train(experiment, folder / "counted", f"--set=train.steps={steps}")]))
        text = Path(f"{prefix}.0.prof").read_text()
        sent.append(sum(int(size) for size in re.findall(r"^[EI]\t0\t1\t(\d+) bytes", text, re.M)))
    return (sent[0] - sent[1]) / (STEPS - 2)


def measure(rounds, folder):
    experiment = write_experiment(folder, VOCABULARY)
    one, two, half, other = (folder / name for name in ("one", "two", "half", "other"))
    ranks_shares, processes_shares = [], []
    for _ in range(rounds):
        finish(start(train(experiment, one)))
        finish(start([*mpirun(2), *train(experiment, two)]))
        lanes = f"--set=train.lanes={LANES // 2}"
        both = [start(["taskset", "-c", core, *train(experiment, run, lanes)]) for core, run in ((0, half), (1, other))]
        for process in both:
            finish(process)
        losses = [[step["loss"] for step in steps_of(run)] for run in (one, two)]
        far = max(abs(a - b) for a, b in zip(*losses))
        if far > 1e-3:
            raise Failure(f"losses of one process and of two ranks differ by {far}")
        whole = seconds_of_a_step(one)
        ranks_shares.append(whole / (2 * seconds_of_a_step(two)))
        processes_shares.append(whole / (2 * max(seconds_of_a_step(half), seconds_of_a_step(other))))
    plan = folder / "plan.json"
    finish(start([MNEME, "train", experiment, "--dry-run", "--json", plan]))
    # The model: of two ranks each sends as many bytes as the gradients have.
    model = 4 * json.loads(plan.read_text())["backbone_parameters"]
    sent = bytes_sent(experiment, folder)
    rows = {"two ranks, of a half of one process's step": ranks_shares, "two processes without communication": processes_shares,
            "two ranks, of two processes": [a / b for a, b in zip(ranks_shares, processes_shares)]}
    for name, shares in rows.items():
        print(f"{name:44}{100 * statistics.median(shares):5.0f} %  ({', '.join(f'{100 * share:.0f}' for share in shares)})")
    print(f"{sent / 2**20:.1f} MiB sent a rank and step: {sent / model:.4f} times what the model says")


def main(rounds):
    if shutil.which("mpirun") is None:
        raise Failure("there is no mpirun")
    print(f"{processor()}; {rounds} rounds; {LANES} lanes of {SEGMENT} tokens, one thread a rank")
    with tempfile.TemporaryDirectory(dir=ROOT / "build") as name:
        measure(rounds, Path(name))


if __name__ == "__main__":
    try:
        main(int(sys.argv[1]) if len(sys.argv) > 1 else 3)
    except Failure as failure:
        sys.exit(f"error: {failure}")
