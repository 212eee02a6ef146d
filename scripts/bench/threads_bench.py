#!/usr/bin/env python3
"""What the default number of threads costs, alone on the machine and beside other work; and from which size of a model on two
threads are worth it.

    scripts/bench/threads_bench.py [ROUNDS]

Seconds are those of whole programs, start and a short evaluation included. In each round the compared programs take turns. "spinning"
is libgomp's own setting, with which a thread that waits looks for work in a loop for milliseconds. "Beside other work": one busy
loop a core.
"""
import contextlib
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from program import MNEME, ROOT, Failure, call, processor

CORES = len(os.sched_getaffinity(0))
DEFAULT, ONE, ALL = [], ["--threads", 1], ["--threads", CORES]
SPINNING = {"GOMP_SPINCOUNT": "300000"}
WIDTHS = (16, 32, 64, 128, 256)
ROWS = 1024  # tokens of a step


@contextlib.contextmanager
def busy_cores():
    loops = [subprocess.Popen(["sh", "-c", "while :; do :; done"]) for _ in range(CORES)]
    try:
        yield
    finally:
        for loop in loops:
            loop.kill()
            loop.wait()


def seconds(folder, threads, environment=None, settings=()):
    """Of a training of configs/quickstart.toml with the cache."""
    run = tempfile.mkdtemp(dir=folder)
    command = [MNEME, "train", ROOT / "configs/quickstart.toml", "--memory", ROOT / "configs/memory/xl_cache.toml", "--run",
               Path(run) / "run", "--quiet", "--set=train.log_every=1000", "--set=eval.steps=2", *threads,
               *(f"--set={setting}" for setting in settings)]
    variables = (f"{name}={value}" for name, value in (environment or {}).items())
    return call(["env", "-u", "OMP_NUM_THREADS", *variables, *command]).seconds


def ratio(folder, rounds, first, second, **both):
    """The median, over the rounds, of the first program's seconds divided by the second's."""
    return statistics.median(seconds(folder, *first, **both) / seconds(folder, *second, **both) for _ in range(rounds))


def of_widths(folder, rounds):
    print(f"{'width':>5} {'largest product':>16} {CORES} threads / 1 {'the same, spinning':>19}")
    for width in WIDTHS:
        settings = [f"model.width={width}", f"model.ff={4 * width}", "model.head_width=16", f"model.heads={width // 16}",
                    f"train.steps={max(20, int(4000 / width))}", "train.warmup=0"]
        few = ratio(folder, rounds, (ALL,), (ONE,), settings=settings)
        many = ratio(folder, rounds, (ALL, SPINNING), (ONE,), settings=settings)
        flops = 2 * ROWS * width * 4 * width
        print(f"{width:>5} {flops / 1e6:>13.1f} MF {few:>13.2f} {many:>19.2f}", flush=True)


def main(rounds):
    print(f"{processor()}; {CORES} usable cores; {rounds} rounds")
    with tempfile.TemporaryDirectory(dir=ROOT / "build") as name:
        folder = Path(name)
        of_widths(folder, rounds)
        large = ["model.width=256", "model.ff=1024", "model.heads=16", "train.steps=30", "train.warmup=0"]
        for size, settings in (("quickstart", ["train.steps=300"]), ("width 256", large)):
            alone = ratio(folder, rounds, (DEFAULT,), (ALL, SPINNING), settings=settings)
            print(f"{size}, alone: default / {CORES} threads, spinning {alone:.2f}")
            with busy_cores():
                beside = ratio(folder, rounds, (DEFAULT,), (ONE,), settings=settings)
                print(f"{size}, beside other work: default / one thread {beside:.2f}")
                spinning = ratio(folder, 1, (ALL, SPINNING), (ONE,), settings=settings)
                print(f"{size}, beside other work: {CORES} threads, spinning / one thread {spinning:.2f}", flush=True)


if __name__ == "__main__":
    try:
        main(int(sys.argv[1]) if len(sys.argv) > 1 else 3)
    except Failure as failure:
        sys.exit(f"error: {failure}")
