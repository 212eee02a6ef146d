"""What the scripts reproduce_*.py share: trainings that are skipped when finished and resumed when stopped, their
results as a CSV file, tables made from it, and the part of a page of docs/ that shows them. Needs Python 3.9.
"""
import argparse
import collections
import concurrent.futures
import csv
import dataclasses
import json
import math
import pathlib
import re
import shutil
import signal
import statistics
import subprocess
import threading

ROOT = pathlib.Path(__file__).resolve().parents[2]
MNEME = ROOT / "build/release/bin/mneme"
PLACE = ("--threads", "1")  # where mneme computes
PAGE = ROOT / "docs/reproducing.md"
# Student's t, 97.5 %, of 1, 2, ... degrees of freedom; beyond them that of the normal distribution is at most 2 % too small.
T975 = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131, 2.120, 2.110,
        2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042)
SETTINGS = "settings.json"  # in a folder of runs: what --set was


class Failure(Exception):
    """What the user is told."""


class Programs:
    """The running processes of mneme. When the script is told to stop, so are they: a training then saves its state."""

    def __init__(self):
        self._lock = threading.Lock()
        self._running = set()
        self._is_stopping = False

    def run(self, command):
        """The ended process with its output. Failure when the script stops."""
        with self._lock:
            if self._is_stopping:
                raise Failure("stopped")
            process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            self._running.add(process)
        try:
            out, errors = process.communicate()
        finally:
            with self._lock:
                self._running.discard(process)
        return subprocess.CompletedProcess(command, process.returncode, out, errors)

    def stop(self, number, _frame):
        """A handler of signals: hands the signal on and starts no other process."""
        self._is_stopping = True
        for process in list(self._running):  # without the lock, which the interrupted thread may hold
            process.send_signal(number)
        raise Failure(f"stopped by {signal.Signals(number).name}; the same command goes on where it was")


PROGRAMS = Programs()


def handle_signals():
    """From now on SIGTERM, SIGINT and SIGHUP end the script with a Failure, and first what it has started."""
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, PROGRAMS.stop)


@dataclasses.dataclass(frozen=True)
class Arm:
    """A memory of a comparison. Settings are KEY=VALUE, for the training; those of `eval_settings` make its tiers report
    more of themselves, in an evaluation of its own."""
    name: str
    memory: pathlib.Path
    settings: tuple = ()
    eval_settings: tuple = ()

    @property
    def file_name(self):
        return self.name.replace(", ", "_").replace(" ", "")


@dataclasses.dataclass(frozen=True)
class Run:
    """One training and its evaluation on the test split: DIR/name is the run, which keeps the loss of every target,
    DIR/name.json the result."""
    runs: pathlib.Path
    name: str
    experiment: pathlib.Path
    arm: Arm
    seed: int
    settings: tuple = ()

    @property
    def folder(self):
        return self.runs / self.name

    @property
    def result_file(self):
        return self.runs / (self.name + ".json")

    @property
    def is_done(self):
        return self.result_file.exists()

    @property
    def has_losses(self):
        """Whether the finished run was evaluated."""
        return True

    def command(self):
        if (self.folder / "experiment.toml").exists():
            return ["train", "--resume", self.folder]
        settings = (f"train.seed={self.seed}", *self.arm.settings, *self.settings)
        return ["train", self.experiment, "--memory", self.arm.memory, "--run", self.folder, *_options(settings)]

    def execute(self):
        call([*self.command(), *PLACE, "--quiet"])
        evaluation = self._evaluate("part", ())
        if self.arm.eval_settings:  # other settings are another memory, whose losses mneme report passes over
            evaluation["reported"] = self._evaluate("reported", (*_options(self.arm.eval_settings), "--no-store"))
        self.keep(evaluation)

    def keep(self, evaluation):
        """Writes the result: the run is done."""
        unfinished = self.result_file.with_suffix(".part")
        unfinished.write_text(json.dumps(evaluation), encoding="utf-8")
        unfinished.rename(self.result_file)
        print(f"{self.name}: loss {self.result()['loss']:.4f}", flush=True)

    def _evaluate(self, suffix, options):
        """What `mneme eval` says of the run's memory."""
        file = self.result_file.with_suffix("." + suffix)
        call(["eval", self.folder, "--split", "test", *PLACE, "--quiet", "--json", file, *options])
        evaluation = json.loads(file.read_text(encoding="utf-8"))["memories"][0]
        file.unlink()
        return evaluation

    def evaluation(self):
        return json.loads(self.result_file.read_text(encoding="utf-8"))

    def result(self):
        return self.evaluation()["result"]

    def metric(self, name):
        """A number that a tier reported at evaluation, or ""; the first tier that has it counts."""
        result = self.evaluation().get("reported", self.evaluation())["result"]
        reported = {**result.get("losses", {}), **result.get("metrics", {})}
        return next((v for k, v in reported.items() if k.rsplit(".", 1)[-1] == name), "")

    def train_seconds(self):
        steps = [line for line in map(json.loads, _lines(self.folder / "metrics.jsonl")) if line["kind"] == "step"]
        return round(steps[-1]["seconds"], 1) if steps else ""

    def commit(self):
        path = self.folder / "run.json"
        if not path.exists():
            return ""
        run = json.loads(path.read_text(encoding="utf-8"))
        return run["commit"][:12] + ("+" if run["dirty"] else "")


def _options(settings):
    return [part for setting in settings for part in ("--set", setting)]


def _lines(path):
    return path.read_text(encoding="utf-8").splitlines() if path.exists() else []


def call(arguments):
    """Runs mneme. Failure with its message when it ends with another status than 0."""
    command = [str(MNEME), *map(str, arguments)]
    done = PROGRAMS.run(command)
    if done.returncode != 0:
        raise Failure(f"mneme {' '.join(command[1:])} ended with {done.returncode}:\n{done.stderr.strip()}")


def train(runs, jobs):
    """Executes what is not done, `jobs` at once; a failure lets the running ones end and starts no other."""
    waiting = [run for run in runs if not run.is_done]
    print(f"{len(runs) - len(waiting)} of {len(runs)} runs are finished", flush=True)
    pool = concurrent.futures.ThreadPoolExecutor(jobs)
    try:
        for done in concurrent.futures.as_completed([pool.submit(run.execute) for run in waiting]):
            done.result()
    finally:
        pool.shutdown(cancel_futures=True)


def device(text):
    """The value of --device, which mneme would refuse when the first run begins."""
    if not re.fullmatch(r"cpu|cuda(:\d+)?", text):
        raise argparse.ArgumentTypeError(f"expected cpu, cuda or cuda:N, got {text!r}")
    return text


def add_place(parser):
    """The options that say where the runs are made."""
    parser.add_argument("--device", type=device, metavar="DEVICE", help="cpu, cuda or cuda:N, as of mneme train; default: cpu")
    parser.add_argument("--jobs", type=int, metavar="N", help="runs at once, of one thread each; default: 2, on a GPU 1")


def arguments(description, runs_folder, arms, page=PAGE):
    """The options that the scripts share. `page`: where --write-docs writes without a PAGE."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=pathlib.Path, metavar="DIR", help=f"default: {runs_folder}")
    parser.add_argument("--program", type=pathlib.Path, metavar="FILE", help="mneme; default: build/release/bin/mneme")
    parser.add_argument("--seeds", type=int, default=3, metavar="N")
    add_place(parser)
    parser.add_argument("--memories", nargs="+", metavar="NAME", choices=list(arms), default=list(arms),
                        help="train these only: " + "; ".join(arms))
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE",
                        help="for a trial: a key of the experiment; needs --runs")
    parser.add_argument("--table", action="store_true", help="train nothing")
    parser.add_argument("--write-docs", nargs="?", type=pathlib.Path, const=page, metavar="PAGE",
                        help=f"put table and figures into {page.relative_to(ROOT)}, or into PAGE")
    return parser


def check(parser, options, runs_folder):
    """Refuses what would mix trials with results or with other trials, and makes the folder of the runs."""
    if options.set and not options.runs:
        parser.error("--set makes a trial: give it a folder of its own with --runs")
    if options.set and options.write_docs:
        parser.error("--set makes a trial, whose numbers are not for --write-docs")
    global MNEME, PLACE
    MNEME = options.program.resolve() if options.program else MNEME
    PLACE = ("--threads", "1", *(("--device", options.device) if options.device else ()))
    options.jobs = options.jobs or (2 if options.device in (None, "cpu") else 1)
    if not MNEME.exists():
        parser.error(f"{MNEME} is not there: build it with scripts/quickstart.sh or scripts/test.sh, or name another with "
                     "--program")
    handle_signals()
    options.runs = options.runs or ROOT / runs_folder
    options.runs.mkdir(parents=True, exist_ok=True)
    trained = _settings_of(options.runs)
    if trained is None:
        (options.runs / SETTINGS).write_text(json.dumps(options.set), encoding="utf-8")
    elif trained != options.set:
        parser.error(f"{options.runs} has runs that were trained {_sets(trained)}: they do not go on {_sets(options.set)}; "
                     "give the same, or another folder with --runs")


def _settings_of(runs):
    """What --set was when the folder's first run began; None where there is no run."""
    if not any((*runs.glob("*/experiment.toml"), *runs.glob("*-seed*.json"))):
        return None
    note = runs / SETTINGS
    return json.loads(note.read_text(encoding="utf-8")) if note.exists() else []


def _sets(settings):
    return " ".join(["with", *_options(settings)]) if settings else "without --set"


def write_rows(path, rows, columns=None):
    """Rows are dicts with equal keys, `columns`; without these there must be a row. Returns them as read_rows does."""
    if not rows and columns is None:
        raise Failure("no run is finished")
    with open(path, "w", newline="", encoding="utf-8") as file:
        out = csv.DictWriter(file, columns or list(rows[0]), lineterminator="\n")
        out.writeheader()
        out.writerows(rows)
    return read_rows(path)


def finished_rows(options, runs, row):
    """Trains what is not trained of --memories, without --table, and writes results.csv. `runs`: {key: Run}; `row(key, run)`: a
    dict. Gives the rows of all runs that are done, as read_rows does."""
    if not options.table:
        train([run for run in runs.values() if run.arm.name in options.memories], options.jobs)
    return write_rows(options.runs / "results.csv", [row(key, run) for key, run in runs.items() if run.is_done])


def read_rows(path):
    with open(path, newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def pick(rows, **wanted):
    return [row for row in rows if all(row[key] == str(value) for key, value in wanted.items())]


def spread(rows, column, digits=3):
    """"mean +- standard deviation (number of seeds)"."""
    values = [float(row[column]) for row in rows if row[column]]
    if not values:
        return "not run"
    deviation = f" +- {statistics.stdev(values):.{digits}f}" if len(values) > 1 else ""
    return f"{statistics.mean(values):.{digits}f}{deviation} ({len(values)})"


def interval(values):
    """Mean and half of its 95 % t interval."""
    if len(values) < 2:
        return statistics.fmean(values), math.inf
    t = T975[len(values) - 2] if len(values) - 2 < len(T975) else 1.96
    return statistics.fmean(values), t * statistics.stdev(values) / math.sqrt(len(values))


def differences(rows, memory, other, column):
    """memory minus other, of every seed that both have."""
    numbers = [{row["seed"]: float(row[column]) for row in pick(rows, memory=name)} for name in (memory, other)]
    return [numbers[0][seed] - numbers[1][seed] for seed in sorted(numbers[0].keys() & numbers[1].keys(), key=int)]


def commits(rows):
    """A line that says what the runs were trained with; "" when it is not known."""
    got = collections.Counter(row["commit"] for row in rows if row["commit"])
    changed = "; +: with changes that were not committed" if any(commit.endswith("+") for commit in got) else ""
    listed = ", ".join(f"{commit} ({number})" for commit, number in sorted(got.items()))
    return f"Commits of these runs (number of runs): {listed}{changed}" if got else ""


def table(header, lines):
    out = ["| " + " | ".join(header) + " |", "|---" * len(header) + "|"]
    return "\n".join(out + ["| " + " | ".join(map(str, line)) + " |" for line in lines])


def copy_results(runs, page, name):
    """Puts the CSV files of a folder of runs beside the page: figures/NAME.csv and NAME_differences.csv. The folder."""
    folder = page.parent / "figures"
    folder.mkdir(exist_ok=True)
    shutil.copyfile(runs / "results.csv", folder / f"{name}.csv")
    shutil.copyfile(runs / "differences.csv", folder / f"{name}_differences.csv")
    return folder


def write_section(page, name, text):
    """Puts text between the page's comments `<!-- begin NAME... -->` and `<!-- end NAME -->`."""
    before, _, after = split_section(page, name)
    page.write_text(before + text.strip() + after, encoding="utf-8")


def split_section(page, name):
    """The page up to the section, the section, and the rest."""
    text = page.read_text(encoding="utf-8")
    parts = re.split(rf"(<!-- begin {name}\b[^>]*-->\n)(.*?)(\n<!-- end {name} -->)", text, flags=re.DOTALL)
    if len(parts) != 5:
        raise Failure(f"{page}: expected one <!-- begin {name} --> and <!-- end {name} -->, got {len(parts) // 4}")
    return parts[0] + parts[1], parts[2], parts[3] + parts[4]
