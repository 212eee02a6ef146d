#!/usr/bin/env python3
"""Speed and memory of evaluation and training: mneme against the official code of Transformer-XL and LaMemo, in one run.

    python3 -m venv /tmp/official && /tmp/official/bin/pip install torch==2.11.0 numpy safetensors
    /tmp/official/bin/python scripts/bench/compare_official.py CHECKOUT [CHECKOUT] [--rounds N] [--threads N ...]
        [--cases NAME ...] [--precisions f32 bf16] [--layers N] [--lanes N]
        [--device DEVICE] [--mneme PROGRAM] [--json FILE]

A CHECKOUT is a clone of kimiyoung/transformer-xl or of thu-coai/LaMemo; it is not changed. The models have the sizes of configs/
and random weights, which mneme imports; words are drawn with frequencies like those of a text. In each round the sides take
turns, and the ratio of a round is formed of its own two numbers; printed are medians over the rounds:

  loop      tokens/s of the segments or steps alone, mneme / official; of a training those after the first two steps
  program   the same of the whole process: start, weights read, segments, losses written (evaluation alone)
  memory    peak resident memory of the process, mneme / official

Before anything is timed the results are compared: of an evaluation the loss of every token, of a training without dropout
the losses of three steps. Needs Python 3.11. bf16 is for mneme's training; the official code has none on the CPU and runs in f32.

With --device cuda both sides compute on the GPU, one of `--threads` is enough, and rounds have eight times as many segments.
"""
import argparse
import json
import os
import statistics
import sys
import tempfile
import tomllib
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file

from program import MNEME, ROOT, Failure, call, call_for_json, processor

OFFICIAL = Path(__file__).resolve().parent / "rivals/official_code.py"
MOST_DIFFERENCE = {"f32": 1e-3, "bf16": 5e-2}  # nats, of a token's loss, or of a step's mean
CHECKED_STEPS = 3
UNTIMED_STEPS = 2  # until the memory is full and the optimiser has its moments
LONGER_ON_CUDA = 8  # a round's segments: those of the CPU would be over within a second


@dataclass
class Case:
    name: str
    code: str  # "transformer-xl" or "LaMemo"
    experiment: str  # in configs/
    plugin: str
    task: str  # "evaluate" or "train"
    lanes: int
    segment: int
    rows: int  # of the memory
    segments: int  # of a round; many more than fill the memory, as in a whole test set
    vocabulary: int
    settings: dict  # of the model in this task


# The published evaluations: run_wt103_base.sh and run_enwik8_base.sh of the official code; LaMemo's with as many rows.
WT103 = {"same_length": True, "clamp_distance": 400}
ENWIK8 = {"same_length": True, "clamp_distance": 820}
CASES = (
    Case("wt103 evaluation 64/640", "transformer-xl", "wt103_base.toml", "xl_cache", "evaluate", 4, 64, 640, 80, 267735, WT103),
    Case("enwik8 evaluation 80/2100", "transformer-xl", "enwik8.toml", "xl_cache", "evaluate", 1, 80, 2100, 160, 204, ENWIK8),
    Case("wt103 training 150/150", "transformer-xl", "wt103_base.toml", "xl_cache", "train", 4, 150, 150, 7, 267735, {}),
    Case("lamemo evaluation 64/640", "LaMemo", "lamemo/wt103.toml", "lamemo", "evaluate", 4, 64, 640, 40, 267735, {}),
    Case("lamemo evaluation 80/2100", "LaMemo", "lamemo/enwik8.toml", "lamemo", "evaluate", 1, 80, 2100, 80, 204, {}),
    Case("lamemo training 150/150", "LaMemo", "lamemo/wt103.toml", "lamemo", "train", 4, 150, 150, 7, 267735, {}),
)


def code_of(checkout):
    module = checkout / "pytorch/mem_transformer.py"
    if not module.exists():
        raise Failure(f"{checkout}: there is no pytorch/mem_transformer.py; give a clone of kimiyoung/transformer-xl or of "
                      "thu-coai/LaMemo")
    return "LaMemo" if "LaMemo" in module.read_text() else "transformer-xl"


def draw_words(case, generator):
    """Ids [lanes, segments * segment + 1] with Zipf-like frequencies: 93 % are among the first 20,000 of 267,735."""
    frequencies = (torch.arange(case.vocabulary) + 2.7) ** -1.2
    count = case.segments * case.segment + 1
    return torch.multinomial(frequencies, case.lanes * count, replacement=True, generator=generator).view(case.lanes, count)


def in_order(losses, case):
    """Losses [lanes, segments * segment] of each segment by size: the official adaptive softmax gives those of a segment
    cluster by cluster, and not in the order of its tokens."""
    return losses.unflatten(1, (case.segments, case.segment)).transpose(0, 1).flatten(1).sort(-1).values


def official_model(model, case):
    """Arguments of MemTransformerLM for a [model] table."""
    adaptive = model.get("adaptive", {})
    arguments = {"n_token": case.vocabulary, "n_layer": model["layers"], "n_head": model["heads"], "d_model": model["width"],
                 "d_head": model["head_width"], "d_inner": model["ff"], "dropout": model["dropout"],
                 "dropatt": model["attention_dropout"], "tie_weight": model["tie_embedding"], "d_embed": model["width"],
                 "div_val": adaptive.get("div", 1), "cutoffs": adaptive.get("cutoffs", []),
                 "tie_projs": adaptive.get("tie_projection", [False]), "pre_lnorm": model["norm"] == "pre",
                 "tgt_len": case.segment, "ext_len": 0, "mem_len": case.rows}
    return {**arguments, "attn_type": 3} if case.code == "LaMemo" else arguments


class Sides:
    """Both programs for one case, in a folder of their own."""

    def __init__(self, case, checkout, options, folder):
        self.case, self.options, self.folder = case, options, folder
        self.experiment = ROOT / "configs" / case.experiment
        tables = tomllib.loads(self.experiment.read_text())
        self.model = {**tables["model"], **({"layers": options.layers} if options.layers else {})}
        self.train = tables["train"]
        self.weights, self.tokens, self.memory = folder / "weights.safetensors", folder / "tokens.safetensors", folder / "memory.toml"
        self.job = {"checkout": str(checkout), "weights": str(self.weights), "tokens": str(self.tokens), "threads": os.cpu_count(),
                    "device": options.device, "segment": case.segment, "memory": case.rows, "losses": str(folder / "official.safetensors"),
                    "model": official_model(self.model, case)}
        self.write_inputs()

    def write_inputs(self):
        ids = draw_words(self.case, torch.Generator().manual_seed(2))
        save_file({"input": ids}, self.tokens)
        words = " ".join(f"w{i}" for i in ids.flatten().tolist())
        (self.folder / "text.txt").write_text(words)
        (self.folder / "vocabulary.json").write_text(json.dumps({
            "format": "mneme.vocabulary", "revision": 1, "kind": "word", "add_eos": False,
            "symbols": [*(f"w{i}" for i in range(self.case.vocabulary - 1)), "<unk>"], "counts": [1] * self.case.vocabulary}))
        self.memory.write_text(f'[memory]\n[[memory.tier]]\nplugin = "{self.case.plugin}"\nrows = {self.case.rows}\n')
        self.official("weights", {})

    def official(self, task, changes):
        job, result = self.folder / "job.json", self.folder / "official.json"
        job.write_text(json.dumps({**self.job, **changes}))
        return call_for_json([sys.executable, OFFICIAL, task, job, result], result)

    def settings(self, changes):
        text, vocabulary = self.folder / "text.txt", self.folder / "vocabulary.json"
        given = {"model.layers": self.model["layers"], "data.train": text, "data.valid": text, "data.vocabulary": "word",
                 "data.vocabulary_file": vocabulary, "data.add_eos": "false", **changes}
        unset = [key for key in ("prepared", "test", "vocabulary_size") if key in tomllib.loads(self.experiment.read_text())["data"]]
        return [*(f"--unset=data.{key}" for key in unset), *(f"--set={key}={value}" for key, value in given.items())]

    def mneme(self, *arguments):
        result = self.folder / "mneme.json"
        return call_for_json([self.options.mneme, *arguments, "--device", self.options.device, "--json", result, "--quiet"], result)

    def import_run(self):
        run = self.folder / "imported"
        call([self.options.mneme, "import", self.weights, self.experiment, "--memory", self.memory, "--run", run, "--vocabulary",
              self.folder / "vocabulary.json", *self.settings({})])
        return run

    # Each gives the losses, the seconds of the timed part, and what the process used.

    def evaluate_official(self, threads):
        model = {"clamp": self.case.settings.get("clamp_distance", -1), "same_length": self.case.settings.get("same_length", False)}
        result, used = self.official("evaluate", {"threads": threads, **model})
        return load_file(self.job["losses"])["nll"], result["seconds"], used

    def evaluate_mneme(self, run, threads):
        dump = self.folder / "mneme.safetensors"
        model = [f"--set=model.{key}={str(value).lower()}" for key, value in self.case.settings.items()]
        result, used = self.mneme("score", run, "--tokens", self.tokens, "--dump", dump, "--threads", threads,
                                  f"--set=eval.segment={self.case.segment}", f"--set=eval.lanes={self.case.lanes}",
                                  "--set=eval.precision=f32", *model)
        return load_file(dump)["nll"].float(), result["seconds"], used

    def train_official(self, threads, steps, dropout):
        model = {**self.job["model"], "dropout": self.model["dropout"] * dropout}
        result, used = self.official("train", {"threads": threads, "steps": steps, "model": model, "lr": 2.5e-4, "clip": 0.25})
        return torch.tensor(result["losses"]), sum(result["step_seconds"][UNTIMED_STEPS:]), used

    def train_mneme(self, threads, steps, dropout, precision):
        run = self.folder / "trained"
        call(["rm", "-rf", run])
        settings = self.settings({
            "model.dropout": self.model["dropout"] * dropout, "train.segment": self.case.segment, "train.lanes": self.case.lanes,
            "train.steps": steps, "train.lr": "2.5e-4", "train.schedule": "constant", "train.warmup": 0,
            "train.precision": precision, "train.log_every": 1, "train.eval_every": 0, "train.save_every": 0})
        _, used = self.mneme("train", self.experiment, "--memory", self.memory, "--init", self.weights, "--run", run,
                             "--threads", threads, *settings)
        lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
        found = [line for line in lines if line["kind"] == "step"]
        timed = found[-1]["seconds"] - found[UNTIMED_STEPS - 1]["seconds"]
        return torch.tensor([line["loss"] for line in found]), timed, used

    def calls(self, threads, precision):
        """{side: call} of a check without dropout, and of a round."""
        case = self.case
        if case.task == "evaluate":
            run = self.folder / "imported"
            run = run if run.exists() else self.import_run()
            calls = {"official": lambda: self.evaluate_official(threads), "mneme": lambda: self.evaluate_mneme(run, threads)}
            return calls, calls
        def both(steps, dropout):
            return {"official": lambda: self.train_official(threads, steps, dropout),
                    "mneme": lambda: self.train_mneme(threads, steps, dropout, precision)}
        return both(CHECKED_STEPS, 0), both(case.segments, 1)


def compare(sides, threads, precision, rounds):
    case = sides.case
    check, timed = sides.calls(threads, precision)
    losses = {side: run()[0] for side, run in check.items()}
    if losses["mneme"].shape != losses["official"].shape:
        raise Failure(f"{case.name}: mneme gives losses of the shape {tuple(losses['mneme'].shape)}, the official code "
                      f"{tuple(losses['official'].shape)}; nothing was timed")
    if case.task == "evaluate" and "adaptive" in sides.model:
        losses = {side: in_order(values, case) for side, values in losses.items()}
    difference = (losses["mneme"] - losses["official"]).abs().max().item()
    if not difference <= MOST_DIFFERENCE[precision]:
        raise Failure(f"{case.name}, {precision}: losses differ by {difference:.2g} nats, expected at most "
                      f"{MOST_DIFFERENCE[precision]:g}; nothing was timed")
    rows = []
    for _ in range(rounds):
        seconds, used = {}, {}
        for side, run in timed.items():
            _, seconds[side], used[side] = run()
        rows.append({"loop": seconds["official"] / seconds["mneme"],
                     "program": used["official"].seconds / used["mneme"].seconds if case.task == "evaluate" else None,
                     "memory": used["mneme"].peak_bytes / used["official"].peak_bytes, "seconds": seconds})
    median = {key: statistics.median(row[key] for row in rows) if rows[0][key] else None for key in ("loop", "program", "memory")}
    return {"case": case.name, "precision": precision, "threads": threads, "lanes": case.lanes, "difference": difference,
            **median, "rounds": rows}


def line(row):
    program = f"{row['program']:.2f}" if row["program"] else "-"
    return (f"{row['case'] + ', ' + row['precision']:32} {row['threads']:7} {row['lanes']:5} {row['loop']:6.2f} {program:>8} "
            f"{row['memory']:7.2f} {row['difference']:11.1e}")


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkouts", type=Path, nargs="+", metavar="CHECKOUT")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, nargs="+", default=sorted({1, os.cpu_count()}))
    parser.add_argument("--cases", nargs="+", choices=[case.name for case in CASES], metavar="NAME",
                        default=[case.name for case in CASES], help="of: " + ", ".join(case.name for case in CASES))
    parser.add_argument("--precisions", nargs="+", choices=list(MOST_DIFFERENCE), default=["f32"])
    parser.add_argument("--layers", type=int, help="fewer for a quick trial")
    parser.add_argument("--lanes", type=int, help="other than the cases say")
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--mneme", type=Path, default=MNEME)
    parser.add_argument("--json", type=Path, help="write all rounds here")
    options = parser.parse_args()
    given = [number for number in (options.layers, options.lanes) if number is not None]
    if min(options.rounds, *options.threads, *given) < 1:
        parser.error("--rounds, --threads, --layers and --lanes must be at least 1")
    if options.device == "cuda" and not torch.cuda.is_available():
        parser.error("--device cuda: PyTorch finds no GPU here")
    if not options.mneme.exists():
        parser.error(f"there is no {options.mneme}: build mneme, or name the program by --mneme")
    return options


def main():
    options = parse()
    checkouts = {code_of(checkout): checkout.resolve() for checkout in options.checkouts}
    cases = [case for case in CASES if case.code in checkouts and case.name in options.cases]
    if not cases:
        raise Failure("none of the cases belongs to these checkouts")
    if options.lanes:
        cases = [replace(case, lanes=options.lanes) for case in cases]
    if options.device == "cuda":
        cases = [replace(case, segments=case.segments * LONGER_ON_CUDA) for case in cases]
    place = torch.cuda.get_device_name() if options.device == "cuda" else processor()
    print(f"{place}; torch {torch.__version__}; {options.rounds} rounds, medians\n"
          f"{'':32} threads lanes   loop  program  memory  loss differs", flush=True)
    rows = []
    for case in cases:
        with tempfile.TemporaryDirectory() as folder:
            sides = Sides(case, checkouts[case.code], options, Path(folder))
            for precision in options.precisions if case.task == "train" else ["f32"]:
                for threads in options.threads:
                    rows.append(compare(sides, threads, precision, options.rounds))
                    print(line(rows[-1]), flush=True)
    if options.json:
        options.json.write_text(json.dumps({"processor": place, "torch": torch.__version__, "rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    try:
        main()
    except Failure as failure:
        sys.exit(f"error: {failure}")
