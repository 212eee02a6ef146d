#!/usr/bin/env python3
"""Training and generation on one GPU: mneme against pages of compiled PyTorch, in one run.

    scripts/bench/compare_gpu.py [--only PART ...] [--steps N] [--official CHECKOUT] [--python PROGRAM] [--mneme PROGRAM]
        [--device cuda|cuda:N|cpu] [--small] [--json FILE]

Parts, each under 90 seconds on an H100:

  enwik8      configs/enwik8.toml: 12 layers, 22 lanes, 512 tokens and 512 rows
  wt103       configs/wt103_base.toml: 16 layers of 410, 60 lanes, 150 + 150, adaptive softmax
  gpt2        configs/speed/gpt2.toml: 124 M parameters, 16 x 1,024
  smollm      configs/speed/smollm.toml: the shape of SmolLM2-135M, grouped keys, 16 x 1,024
  gpt2_cache  GPT-2 with a cache of 1,024 rows over itself without memory
  sorting     configs/sorting/4000.toml with each memory, over itself without one
  generation  GPT-2, 1 and 16 samples at once, with recorded steps over itself without, and against PyPI transformers with its
              default and its static cache
  official    enwik8 against kimiyoung/transformer-xl in a CHECKOUT, eager and compiled, which --official adds

The rival of a training is rivals/one_page_of_pytorch.py under torch.compile. All train in bf16, with the same weights (a
checkpoint of mneme), ids, optimiser and dropout. Before anything is timed, the losses of three steps without dropout are
compared, in f32 and in bf16, with two lanes; of a generation the agreeing tokens are counted, because rounding decides where
two are equally likely. A step is the median of the second half of --steps (default 20), so that compilation and the filling of
the memory are not counted. MFU is that of docs/runs.md for both sides, with the operations and the peak that mneme measures.

Trainings have a row of mneme with train.replay = "on" too, whose steps are launches of CUDA graphs.

Needs a built mneme (default build/cuda/bin/mneme) and a Python with PyTorch (--python, default this one; for the part
generation also transformers, for the part official NumPy and safetensors). --device cpu --small tries the script at tiny sizes.
"""
import argparse
import array
import json
import random
import statistics
import struct
import subprocess
import sys
import tempfile
import tomllib
from dataclasses import dataclass, replace
from pathlib import Path

from program import ROOT, Failure, call, call_for_json, processor

RIVALS = Path(__file__).resolve().parent / "rivals"
PROGRAM = ROOT / "build/cuda/bin/mneme"
CHECKED_STEPS, CHECKED_LANES = 3, 2  # without dropout; in f32 all lanes might not fit
MOST_DIFFERENCE = {"f32": 1e-3, "bf16": 5e-2}  # nats, of a step's mean loss
PROMPT, GENERATED, SAMPLES = 128, 256, (1, 16)
SMALL = {"layers": 2, "heads": 4, "head_width": 16, "width": 64, "ff": 128}


@dataclass
class Case:
    part: str
    experiment: str  # in configs/
    vocabulary: int
    rows: int  # of the experiment's memory
    code: str = "transformer-xl"  # for compare_official.official_model
    segment: int = 0  # of the experiment


CASES = (Case("enwik8", "enwik8.toml", 204, 512), Case("wt103", "wt103_base.toml", 267735, 150),
         Case("gpt2", "speed/gpt2.toml", 50257, 0), Case("smollm", "speed/smollm.toml", 49152, 0))
TRAININGS = {case.part: case for case in CASES}
PARTS = (*TRAININGS, "gpt2_cache", "sorting", "generation", "official")


def toml(table, name=""):
    """Text of tables, for values that TOML writes as JSON does."""
    plain, tables = [], []
    for key, value in table.items():
        if isinstance(value, dict):
            tables += [f"[{name}{key}]", toml(value, f"{name}{key}.")]
        elif isinstance(value, list) and value and isinstance(value[0], dict):
            tables += [text for each in value for text in (f"[[{name}{key}]]", toml(each, f"{name}{key}."))]
        else:
            plain.append(f"{key} = {json.dumps(value)}")
    return "\n".join(plain + tables)


def write_ids(file, lanes, tokens, vocabulary):
    """Ids `input` [lanes, tokens] with frequencies like those of a text, as safetensors."""
    weights = [(i + 2.7) ** -1.2 for i in range(vocabulary)]
    ids = array.array("i", random.Random(2).choices(range(vocabulary), weights, k=lanes * tokens))
    header = json.dumps({"input": {"dtype": "I32", "shape": [lanes, tokens], "data_offsets": [0, 4 * len(ids)]}}).encode()
    file.write_bytes(struct.pack("<Q", len(header)) + header + ids.tobytes())


def median_step(seconds):
    return statistics.median(seconds[len(seconds) // 2 :])


class Workbench:
    """A folder, and the calls of both sides."""

    def __init__(self, options, folder):
        self.options, self.folder, self.runs, self.torch = options, folder, 0, None

    def mneme(self, *arguments):
        result = self.folder / "mneme.json"
        return call_for_json([self.options.mneme, *arguments, "--device", self.options.device, "--quiet", "--json", result], result)

    def mneme_train(self, experiment, *arguments):
        """A training: "losses" and "step_seconds" as the rivals give them, and how fast the device could be."""
        self.runs += 1
        run = self.folder / f"run{self.runs}"
        summary, used = self.mneme("train", experiment, "--run", run, "--checked", *arguments)
        lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
        steps = [line for line in lines if line["kind"] == "step"]
        ends = [line["seconds"] for line in steps]
        peak = steps[-1].get("peak_device_bytes") if self.options.device != "cpu" else used.peak_bytes
        tokens = steps[-1]["tokens"] / steps[-1]["step"]
        shares = [line["mfu"] for line in steps if "mfu" in line]
        return {"run": run, "losses": [line["loss"] for line in steps], "peak_bytes": peak, "tokens": tokens,
                "mfu": median_step(shares) if shares else None,
                "step_seconds": [b - a for a, b in zip([0.0, *ends], ends)], **summary["utilization"]}

    def python(self, script, task, job):
        file, result = self.folder / "job.json", self.folder / "rival.json"
        job = {"device": self.options.device, "threads": self.options.threads, **job}
        file.write_text(json.dumps(job, default=str))
        out, used = call_for_json([self.options.python, RIVALS / script, task, file, result], result)
        self.torch = out["torch"]
        return out, used

    def prepared(self, case, steps, memory=None, most_lanes=None):
        """The case's experiment with ids of its own, as a file, and its tables."""
        tables = tomllib.loads((ROOT / "configs" / case.experiment).read_text())
        train, model = tables["train"], tables["model"]
        vocabulary, segment, lanes = case.vocabulary, train["segment"], train["lanes"]
        if self.options.small:
            vocabulary, segment, lanes = 500, 32, 2
            model.update(SMALL, **{key: size for key, size in {"kv_heads": 2, "positions": 64}.items() if key in model})
            if "adaptive" in model:
                model["adaptive"]["cutoffs"] = [100, 200, 300]
        rows, lanes = min(case.rows, segment), min(lanes, most_lanes or lanes)
        if memory:
            tables["memory"] = tomllib.loads((ROOT / "configs" / memory).read_text())["memory"]
        for tier in tables["memory"].get("tier", []):
            tier.pop("eval_rows", None)
            tier["rows"] = min(tier["rows"], segment)
        name = f"{case.part}-{steps}-{lanes}" + ("-memory" if memory else "")
        ids, valid = self.folder / f"{name}.safetensors", self.folder / f"{name}-valid.safetensors"
        write_ids(ids, lanes, steps * segment + 1, vocabulary)
        write_ids(valid, 1, segment + 1, vocabulary)
        tables["data"] = {"task": "tokens", "train": str(ids), "valid": str(valid), "vocabulary_size": vocabulary,
                          "reset": "never"}
        rates = {"lr": train["lr"], "clip": train["clip"]}
        tables["train"] = {"segment": segment, "lanes": lanes, "steps": steps, "optimizer": "adam", "schedule": "constant",
                           "precision": "bf16", "log_every": 1, "eval_every": 0, "save_every": 0, "tensorboard": False, **rates}
        tables["eval"] = {"segment": segment, "lanes": 1}
        file = self.folder / f"{name}.toml"
        file.write_text(toml(tables))
        return file, {"tokens": ids, "segment": segment, "rows": rows, "vocabulary": vocabulary, **rates}

    def start_of(self, experiment):
        """A run of one step, with whose weights all sides begin; its folder, its checkpoint, and [model] with all defaults."""
        run = self.mneme_train(experiment, "--set=train.steps=1", "--set=train.precision=f32", "--set=train.lanes=1")["run"]
        model = tomllib.loads((run / "experiment.toml").read_text())["model"]
        return run, next((run / "checkpoints").glob("*1.safetensors")), model


REPLAY = "--set=train.replay=on"
NO_DROPOUT = {"dropout": 0.0, "attention_dropout": 0.0}


def page_side(bench, job, model, checkpoint):
    """A rival: a function that makes trainings, each with keys of its own, and gives what training.py gives."""
    def run(trainings):
        asked = {**job, "model": model, "checkpoint": checkpoint, "trainings": trainings}
        out, used = bench.python("page_code.py", "train", asked)
        return [{**each, "peak_bytes": each.get("peak_bytes", used.peak_bytes)} for each in out["trainings"]]
    return run


def official_side(bench, case, job, model, run):
    try:
        from compare_official import official_model
    except ImportError as error:
        raise Failure(f"--official needs a Python with PyTorch, NumPy and safetensors for this script itself: {error}") from None
    weights = bench.folder / "official.safetensors"
    call([bench.options.mneme, "export", run, weights])
    shape = replace(case, vocabulary=job["vocabulary"], rows=job["rows"], segment=job["segment"])

    def side(trainings):
        results = []
        for training in trainings:
            changes = training.pop("model_changes", {})
            asked = {**job, "checkout": bench.options.official, "weights": weights, "memory": job["rows"],
                     "model": official_model({**model, **changes}, shape), **training}
            out, used = bench.python("official_code.py", "train", asked)
            results.append({**out, "peak_bytes": out.get("peak_bytes", used.peak_bytes)})
        return results
    return side


def differences(ours, theirs):
    """The largest difference of two lists of losses; NaN where one has a NaN."""
    if len(ours) != len(theirs):
        raise Failure(f"mneme gives {len(ours)} losses, its rival {len(theirs)}; nothing was timed")
    return max((abs(a - b) for a, b in zip(ours, theirs)), key=lambda d: d if d == d else float("inf"))


def check_losses(bench, name, experiment, tokens, run, rival):
    """The largest difference by precision; Failure where it is too large. `experiment` has the ids `tokens`."""
    precisions = list(MOST_DIFFERENCE)
    theirs = rival([{"precision": p, "steps": CHECKED_STEPS, "tokens": tokens, "model_changes": NO_DROPOUT} for p in precisions])
    found = {}
    for precision, result in zip(precisions, theirs):
        settings = {"train.precision": precision, "model.dropout": 0, "model.attention_dropout": 0}
        ours = bench.mneme_train(experiment, "--init", run, *(f"--set={key}={value}" for key, value in settings.items()))
        found[precision] = differences(ours["losses"], result["losses"])
        if not found[precision] <= MOST_DIFFERENCE[precision]:
            raise Failure(f"{name}, {precision}: losses differ by {found[precision]:.2g} nats, expected at most "
                          f"{MOST_DIFFERENCE[precision]:g}; nothing was timed")
    return found


def row(part, side, tokens, seconds, ours=None, **more):
    """One line of the table. `ours`: mneme's training, over whose operations and peak MFU is formed."""
    rate = tokens / seconds
    flops, peak = (ours.get("training_flops_per_token"), ours.get("product_flops_per_second")) if ours else (None, None)
    return {"part": part, "side": side, "tokens_per_second": rate, "step_ms": 1e3 * seconds, "peak_bytes": None,
            "mfu": flops * rate / peak if flops and peak else None, "ratio": None, **more}


def row_of_training(part, side, result, **more):
    return row(part, side, result["tokens"], median_step(result["step_seconds"]), result, peak_bytes=result["peak_bytes"],
               step_seconds=result["step_seconds"], **more)


def compare_training(bench, case, variants):
    """mneme and its rivals; variants(job, model, run, checkpoint) gives {name: (side, keys of its timed training)}."""
    experiment, job = bench.prepared(case, bench.options.steps)
    check, of_check = bench.prepared(case, CHECKED_STEPS, most_lanes=CHECKED_LANES)
    run, checkpoint, model = bench.start_of(check)
    sides = variants(job, model, run, checkpoint)
    checked = {}
    for name, (side, _) in sides.items():
        if id(side) not in checked:
            checked[id(side)] = check_losses(bench, f"{case.part}, {name}", check, of_check["tokens"], run, side)
    ours = bench.mneme_train(experiment, "--init", run)
    rows = [row_of_training(case.part, "mneme", ours, mfu=ours["mfu"])]
    graph = bench.mneme_train(experiment, "--init", run, REPLAY)
    rows.append(row_of_training(case.part, "mneme, replay", graph, mfu=graph["mfu"]))
    rows[1]["ratio"] = rows[0]["tokens_per_second"] / rows[1]["tokens_per_second"]
    for name, (side, changes) in sides.items():
        result, = side([{"precision": "bf16", "steps": bench.options.steps, **changes}])
        theirs = row_of_training(case.part, name, {**ours, **result}, difference=checked[id(side)])
        rows.append({**theirs, "ratio": rows[0]["tokens_per_second"] / theirs["tokens_per_second"]})
    return rows


def against_page(bench, case):
    compiles = not bench.options.small
    return compare_training(bench, case, lambda job, model, run, checkpoint: {
        "page, compiled" if compiles else "page": (page_side(bench, job, model, checkpoint), {"compile": compiles, "fused": True})})


def against_official(bench):
    case = replace(TRAININGS["enwik8"], part="official")

    def variants(job, model, run, checkpoint):
        side = official_side(bench, case, job, model, run)
        compiled = {} if bench.options.small else {"official, compiled": (side, {"compile": True})}
        return {"official, eager": (side, {}), **compiled}
    return compare_training(bench, case, variants)


def with_memory(bench):
    """GPT-2 with a cache over itself without one; the ratio is that of the first over the second."""
    none, _ = bench.prepared(TRAININGS["gpt2"], bench.options.steps)
    cached, _ = bench.prepared(TRAININGS["gpt2"], bench.options.steps, "speed/memory/xl_cache.toml")
    results = {"mneme, no memory": bench.mneme_train(none), "mneme, xl_cache": bench.mneme_train(cached)}
    return over_first("gpt2_cache", results)


def over_first(part, results):
    rows = [row_of_training(part, side, each, mfu=each["mfu"]) for side, each in results.items()]
    for each in rows[1:]:
        each["ratio"] = each["tokens_per_second"] / rows[0]["tokens_per_second"]
    return rows


def sorting(bench):
    """Each memory of configs/sorting over none."""
    results, folder = {}, ROOT / "configs/sorting/memory"  # of a step the tokens of its sequences, most without a target
    small = "small_" if bench.options.small else ""
    experiment = ROOT / "configs/sorting" / ("small_1000.toml" if small else "4000.toml")
    tables = tomllib.loads(experiment.read_text())
    stems = [file.stem for file in sorted(folder.glob("*.toml")) if "no_loss" not in file.stem]
    names = [stem for stem in stems if stem.startswith("small_") == bool(small)]
    unset = ["--unset", "train.epochs", "--unset", "train.eval_every"] if not small else []
    for name in [None, *names]:
        memory = ["--memory", folder / f"{name}.toml"] if name else []
        settings = {"data.train_sequences": 64, "data.valid_sequences": 8, "train.steps": bench.options.steps, "train.warmup": 0,
                    "train.schedule": "constant", "train.log_every": 1, "train.precision": "bf16", "train.tensorboard": "false",
                    **({} if small else {"data.test_sequences": 8})}
        given = [f"--set={key}={value}" for key, value in settings.items()]
        tokens = tables["train"]["lanes"] * (tables["data"]["length"] + tables["data"]["alphabet"])
        for mode, replay in {"": [], ", replay": [REPLAY]}.items():
            result = bench.mneme_train(experiment, *memory, *unset, *given, *replay)
            results[f"mneme, {name.removeprefix('small_') if name else 'no memory'}{mode}"] = {**result, "tokens": tokens}
    return over_first("sorting", results)


def agreeing(ours, theirs):
    """How many tokens the samples have in common before one of them parts."""
    return min(next((i for i, pair in enumerate(zip(a, b)) if pair[0] != pair[1]), min(len(a), len(b))) for a, b in zip(ours, theirs))


def generation(bench):
    """Greedy continuations of a prompt by GPT-2, in bf16; a step is a token of every sample, the prompt is not timed."""
    experiment, job = bench.prepared(TRAININGS["gpt2"], 1)
    run, checkpoint, model = bench.start_of(experiment)
    length, tokens = (8, 16) if bench.options.small else (PROMPT, GENERATED)
    prompt = random.Random(3).choices(range(job["vocabulary"]), k=length)
    rows, results, own = [], {}, {}
    for samples in SAMPLES:
        for replay in ("off", "on"):
            result, used = bench.mneme("generate", run, "--prompt-ids", ",".join(map(str, prompt)), "--tokens", tokens, "--samples",
                                       samples, "--greedy", "--segment", length + tokens, "--set=eval.precision=bf16",
                                       f"--set=generate.replay={replay}")
            peak = result.get("peak_device_bytes") if bench.options.device != "cpu" else used.peak_bytes
            ids = [each["ids"] for each in result["samples"]]
            ours = row("generation", f"mneme, {'recorded, ' if replay == 'on' else ''}{samples}", samples, result["seconds"] / tokens,
                       peak_bytes=peak, bandwidth_share=result.get("speed", {}).get("bandwidth_share"))
            if replay == "on":
                ours["ratio"] = ours["tokens_per_second"] / own[samples]["tokens_per_second"]
                ours["agreeing_tokens"] = agreeing(results[samples], ids)
            else:
                own[samples], results[samples] = ours, ids
            rows.append(ours)
    if subprocess.run([bench.options.python, "-c", "import transformers"], capture_output=True).returncode != 0:
        print(f"generation: {bench.options.python} has no transformers, so mneme has no rival", flush=True)
        return rows
    asked = {**job, "model": model, "checkpoint": checkpoint, "prompt": prompt, "tokens": tokens, "samples": SAMPLES,
             "precision": "bf16", "caches": ["dynamic"] if bench.options.small else ["dynamic", "static"]}
    out, used = bench.python("page_code.py", "generate", asked)
    for each in out["generations"]:
        samples = each["samples"]
        theirs = row("generation", f"transformers, {each['cache']} cache, {samples}", samples, each["seconds"] / (tokens - 1),
                     peak_bytes=each["peak_bytes"] or used.peak_bytes, agreeing_tokens=agreeing(results[samples], each["ids"]))
        rows.append({**theirs, "ratio": own[samples]["tokens_per_second"] / theirs["tokens_per_second"]})
    return rows


def compare(bench, part):
    if part in TRAININGS:
        return against_page(bench, TRAININGS[part])
    others = {"gpt2_cache": with_memory, "sorting": sorting, "generation": generation, "official": against_official}
    return others[part](bench)


def line(each):
    def text(value, form):
        return "-" if value is None else form.format(value)
    peak = each["peak_bytes"] / 2**30 if each["peak_bytes"] else None
    found = each.get("difference")
    checked = " ".join(f"{p} {d:.1e}" for p, d in found.items()) if found else "-"
    if each["part"] == "generation":
        checked = (text(each["agreeing_tokens"], "{} tokens agree") if "agreeing_tokens" in each
                   else text(each.get("bandwidth_share"), "{:.2f} of the bandwidth"))
    return (f"{each['part']:11}{each['side']:32}{each['tokens_per_second']:10,.0f}{each['step_ms']:10.2f}{text(peak, '{:.2f}'):>10}"
            f"{text(each['mfu'], '{:.3f}'):>8}{text(each['ratio'], '{:.2f}'):>7}  {checked}")


HEADER = f"{'':43}  tokens/s   ms/step  peak GiB     MFU  ratio  losses differ"


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", action="append", metavar="PART", help="may be given several times")
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--official", type=Path, metavar="CHECKOUT")
    parser.add_argument("--python", default=sys.executable, help="has PyTorch")
    parser.add_argument("--mneme", type=Path, default=PROGRAM)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--threads", type=int, default=2, help="of the rivals on the CPU")
    parser.add_argument("--small", action="store_true", help="tiny sizes, nothing compiled: to try this script")
    parser.add_argument("--json", type=Path, help="write all steps here")
    options = parser.parse_args()
    for part in options.only or []:
        if part not in PARTS:
            parser.error(f"--only: there is no part '{part}'; expected one of: {', '.join(PARTS)}")
    if options.steps < 2 or options.threads < 1:
        parser.error("--steps must be at least 2, and --threads at least 1")
    if "official" in (options.only or []) and not options.official:
        parser.error("--only official needs --official CHECKOUT, a clone of kimiyoung/transformer-xl")
    if options.official and not (options.official / "pytorch/mem_transformer.py").exists():
        parser.error(f"{options.official}: there is no pytorch/mem_transformer.py; give a clone of kimiyoung/transformer-xl")
    if not options.mneme.exists():
        parser.error(f"there is no {options.mneme}: build mneme with CUDA (scripts/check/check_cuda.sh does), or name the program "
                     "by --mneme")
    options.official = options.official and options.official.resolve()
    return options


def place_of(options):
    """GPU and driver, or the processor; Failure where a side cannot compute there."""
    probe = "import torch; print(torch.__version__, torch.cuda.is_available())"
    found = subprocess.run([options.python, "-c", probe], capture_output=True, text=True)
    if found.returncode != 0:
        raise Failure(f"{options.python} has no PyTorch; make one with: python3 -m venv DIR && DIR/bin/pip install torch==2.11.0, "
                      f"and give --python DIR/bin/python\n{found.stderr.strip().splitlines()[-1]}")
    if options.device == "cpu":
        return processor()
    try:
        query = ["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"]
        gpu = subprocess.run(query, capture_output=True, text=True)
        names = gpu.stdout.splitlines() if gpu.returncode == 0 else []
    except FileNotFoundError:
        names = []
    if not names:
        raise Failure("nvidia-smi lists no GPU; --device cpu --small tries the script without one")
    if not found.stdout.split()[1] == "True":
        raise Failure(f"{options.python}: PyTorch {found.stdout.split()[0]} finds no GPU; it needs a build for CUDA that fits the "
                      "driver")
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "doctor.json"
        subprocess.run([options.mneme, "doctor", "--json", file], capture_output=True)
        findings = json.loads(file.read_text())["findings"] if file.exists() else []
    cuda = next((each for each in findings if each["subject"] == "CUDA in LibTorch"), None)
    if not cuda or cuda["state"] != "fine":
        raise Failure(f"{options.mneme} cannot use the GPU: {cuda['text'] if cuda else 'mneme doctor says nothing about CUDA'}")
    return names[int(options.device.partition(":")[2] or 0)]


def main():
    options = parse()
    place = place_of(options)
    parts = options.only or [part for part in PARTS if part != "official" or options.official]
    rows, failures, torch = [], [], None
    for part in parts:
        with tempfile.TemporaryDirectory() as folder:
            bench = Workbench(options, Path(folder))
            try:
                found = compare(bench, part)
            except Failure as failure:
                failures.append(f"{part}: {failure}")
                print(f"{part} failed: {failure}", file=sys.stderr, flush=True)
                continue
        torch = bench.torch or torch
        rows += found
        print("\n".join(map(line, found)), flush=True)
    version = subprocess.run([options.mneme, "--version"], capture_output=True, text=True).stdout.strip()
    print(f"\n{place}; {version}; torch {torch or '-'}; {options.steps} steps\n{HEADER}\n" + "\n".join(map(line, rows)), flush=True)
    if options.json:
        found = {"device": place, "mneme": version, "torch": torch, "steps": options.steps, "rows": rows, "failures": failures}
        options.json.write_text(json.dumps(found, indent=1) + "\n")
    sys.exit(bool(failures))


if __name__ == "__main__":
    try:
        main()
    except Failure as failure:
        sys.exit(f"error: {failure}")
