#!/usr/bin/env python3
"""What a data-parallel training costs on n ranks: bytes, messages, seconds, efficiency. docs/scaling.md has the equations.

    scripts/bench/scaling_model.py wt103 enwik8 decoder [--memories NAME ...] [--tables NAME ...]
    scripts/bench/scaling_model.py PLAN.json --lanes 64 --tokens-per-second 30000
    scripts/bench/scaling_model.py PLAN.json --lanes 4 --measured STEPS.txt --link cores=2.5,5

A training is one of the built-in ones, with each memory, or what `mneme train EXP --dry-run --json PLAN.json` wrote; that file
does not hold the lanes, so --lanes says how many the experiment has. Compute time is --tokens-per-second of one rank, or
operations a token over --peak-tflops times --utilisation. Tables, of which --tables chooses:

  summary        a line a training: sizes, compute time of one rank, efficiency of weak scaling on the most of --ranks
  communication  bytes and messages a step of a rank, and the seconds that they take
  strong         the experiment's lanes are divided by the ranks
  weak           every rank has as many lanes (--lanes-a-rank): the batch grows with the ranks
  states         what the lanes' memories hold, and what moving lanes to other ranks costs
  end            where data parallelism ends

--measured FILE compares instead. Its lines are "RANKS SECONDS [BYTES]": seconds of a step, and bytes that the rank which sends
most has sent in it; # begins a comment. The line of one rank gives the compute time. Needs Python 3.9.
"""
import argparse
import csv
import json
import math
import sys
from dataclasses import asdict, dataclass, replace
from pathlib import Path

BACKWARD = 2 / 3  # of the seconds of a window: backward has twice the products of forward
UPDATE_BYTES = 28  # of one parameter: Adam reads p, g, m, v and writes p, m, v, 4 bytes each
PARAMETER_BYTES = 4
MOMENT_BYTES = 8
ALGORITHMS = ("ring", "rabenseifner", "binomial")
TABLES = ("summary", "communication", "strong", "weak", "states", "end")


class Failure(Exception):
    """Ends the script with its text."""


@dataclass(frozen=True)
class Training:
    name: str
    memory: str
    lanes: int
    segment: int
    windows: int  # of a step: train.accumulate
    window_segments: int  # train.bptt_segments
    early: int  # parameters whose gradients are complete while backward runs
    late: int  # parameters whose gradients are complete at its end: the embedding's
    state_bytes: int  # of a lane
    flops: float  # of a token in training; 0: unknown
    has_loss: bool  # the memory has an auxiliary loss
    lanes_a_rank: int  # of weak scaling

    @property
    def parameters(self):
        return self.early + self.late

    @property
    def tokens(self):
        return self.lanes * self.segment * self.windows * self.window_segments


@dataclass(frozen=True)
class Link:
    name: str
    bytes_per_second: float  # in one direction, both at a time
    latency: float


@dataclass(frozen=True)
class Settings:
    algorithm: str = "ring"
    gradient_bytes: int = 4  # of a number: 4, or 2 with train.gradients = "bf16"
    shards: bool = False  # train.shard_optimizer
    bucket_bytes: float = 25e6  # train.bucket_mb
    hidden: float = 1.0  # part of the communication beside backward that takes nothing from it
    memory_bytes_per_second: float = 2.7e12  # for the optimiser's pass
    least_window: float = 0.0  # seconds of a window with next to no lanes


# Nominal bytes a second in one direction: PCI Express 4.0 (16 lanes of 16 GT/s, 128b/130b), NVLink 4 (18 links of 25 GB/s),
# Ethernet or InfiniBand of 100 and 400 Gbit/s. That 0.8 of it is reached, and the latencies, are assumptions of docs/scaling.md.
REACHED = 0.8
LINKS = {link.name: link for link in (Link("pcie4", 31.5e9 * REACHED, 5e-6), Link("nvlink4", 450e9 * REACHED, 5e-6),
                                      Link("100g", 12.5e9 * REACHED, 10e-6), Link("400g", 50e9 * REACHED, 10e-6))}


# --- Communication ---

def log2_above(ranks):
    return (ranks - 1).bit_length()


@dataclass(frozen=True)
class Pattern:
    """A sum over ranks of one buffer, in units of the buffer."""

    path: float  # what passes one link after another
    sent: float  # by the rank that sends most; as much is received by the one that receives most
    rounds: int  # of messages, one after another
    messages: int  # of the rank that sends most


def all_reduce(algorithm, ranks):
    if ranks == 1:
        return Pattern(0.0, 0.0, 0, 0)
    if algorithm == "binomial":
        depth = log2_above(ranks)
        return Pattern(2 * depth, depth, 2 * depth, depth)
    share = 2 * (ranks - 1) / ranks
    if algorithm == "ring":
        return Pattern(share, share, 2 * (ranks - 1), 2 * (ranks - 1))
    if ranks & (ranks - 1):
        raise Failure(f"rabenseifner: the model knows powers of two alone, not {ranks} ranks; choose them with --ranks")
    return Pattern(share, share, 2 * log2_above(ranks), 2 * log2_above(ranks))


def half_of(algorithm, ranks):
    """The reduction of an all-reduce without its distribution, or the reverse: ZeRO's two halves. Roots of trees take turns, so
    that all ranks send alike."""
    whole = all_reduce(algorithm, ranks)
    messages = min(1, whole.messages) if algorithm == "binomial" else whole.messages // 2
    return Pattern(whole.path / 2, (ranks - 1) / ranks, whole.rounds // 2, messages)


def seconds_of(pattern, size, buffers, link):
    return buffers * pattern.rounds * link.latency + pattern.path * size / link.bytes_per_second


@dataclass(frozen=True)
class Communication:
    """Of one rank in one step."""

    sent_bytes: float  # by the rank that sends most
    mean_bytes: float
    messages: int
    early_seconds: float  # may run beside backward
    late_seconds: float  # the last bucket, at the end of backward
    after_seconds: float  # after the update, and small sums

    @property
    def seconds(self):
        return self.early_seconds + self.late_seconds + self.after_seconds


def communicate(training, ranks, link, settings):
    total = training.parameters * settings.gradient_bytes
    late = min(total, max(training.late * settings.gradient_bytes, settings.bucket_bytes))
    early = total - late
    buckets = math.ceil(early / settings.bucket_bytes)
    gradients = half_of(settings.algorithm, ranks) if settings.shards else all_reduce(settings.algorithm, ranks)
    # An agreement a step, the norm of pieces of gradients, and for an auxiliary loss one sum a segment.
    small = 1 + settings.shards + training.has_loss * training.windows * training.window_segments
    rounds = 2 * log2_above(ranks)
    after = small * rounds * link.latency
    sent = gradients.sent * total
    messages = (buckets + 1) * gradients.messages + small * rounds
    share = (ranks - 1) / ranks
    mean = (1 if settings.shards else 2) * share * total
    if settings.shards:
        parameters = training.parameters * PARAMETER_BYTES
        after += seconds_of(gradients, parameters, buckets + 1, link)
        sent += gradients.sent * parameters
        mean += share * parameters
        messages += (buckets + 1) * gradients.messages
    return Communication(sent, mean, messages, seconds_of(gradients, early, buckets, link), seconds_of(gradients, late, 1, link), after)


# --- A step ---

@dataclass(frozen=True)
class Step:
    ranks: int
    lanes_a_rank: float
    compute_seconds: float
    communication: Communication
    exposed_seconds: float

    @property
    def seconds(self):
        return self.compute_seconds + self.exposed_seconds


def update_seconds(training, ranks, settings):
    pieces = ranks if settings.shards else 1
    return UPDATE_BYTES * training.parameters / settings.memory_bytes_per_second / pieces


def step_of(training, ranks, lanes, one_rank_seconds, link, settings):
    """A step on `ranks` with `lanes` each, when one rank with all lanes of the training takes `one_rank_seconds`."""
    products = one_rank_seconds - update_seconds(training, 1, settings)
    if products <= 0:
        raise Failure(f"{training.name}: the update alone takes {update_seconds(training, 1, settings):.3g} s, and the whole step "
                      f"of one rank {one_rank_seconds:.3g} s; give the memory's bandwidth with --memory-gbytes")
    window = max(settings.least_window, products / training.windows * lanes / training.lanes)
    compute = window * training.windows + update_seconds(training, ranks, settings)
    communication = communicate(training, ranks, link, settings)
    beside = settings.hidden * min(communication.early_seconds, BACKWARD * window)
    return Step(ranks, lanes, compute, communication, communication.seconds - beside)


def strong_steps(training, counts, one_rank_seconds, link, settings):
    return [step_of(training, n, training.lanes / n, one_rank_seconds, link, settings) for n in counts]


def weak_steps(training, counts, one_rank_seconds, link, settings):
    return [step_of(training, n, training.lanes_a_rank, one_rank_seconds, link, settings) for n in counts]


def strong_efficiency(one, step):
    return one.seconds / (step.ranks * step.seconds)


def weak_efficiency(one, step):
    return one.seconds / step.seconds


def divisors(number, most=None):
    return [n for n in range(1, min(number, most or number) + 1) if number % n == 0]


def end_of(training, one_rank_seconds, link, settings):
    """The most ranks whose efficiency is at least a half, of all that divide the lanes."""
    counts = [n for n in divisors(training.lanes) if settings.algorithm != "rabenseifner" or n & (n - 1) == 0]
    steps = strong_steps(training, counts, one_rank_seconds, link, settings)
    return max(step.ranks for step in steps if strong_efficiency(steps[0], step) >= 0.5)


# --- Trainings ---

# What `mneme train EXP --memory FILE --set train.lanes=1 --dry-run --json FILE` gives (docs/scaling.md says which files). It counts
# no operations of large layers: enwik8's and the decoder's are those of one and two layers, continued to all; the decoder's layers
# had a quarter of its width, segment and rows, and their operations are taken times 16.
NAMES = ("none", "xl_cache", "compressive", "continuous_ltm", "lamemo")
LOSSES = ("compressive", "continuous_ltm")
BUILT_IN = {
    "wt103": ({"lanes": 60, "segment": 150, "windows": 1, "window_segments": 1, "lanes_a_rank": 15}, {
        "none": (41_336_188, 109_771_350, 0, 307.7e6),
        "xl_cache": (41_336_188, 109_771_350, 3_936_000, 357.6e6),
        "compressive": (52_101_148, 109_771_350, 7_872_000, 418.7e6),
        "continuous_ltm": (57_485_148, 109_771_350, 7_872_256, 428.0e6),
        "lamemo": (41_336_598, 109_771_350, 3_936_000, 554.6e6),
    }),
    "enwik8": ({"lanes": 22, "segment": 512, "windows": 1, "window_segments": 1, "lanes_a_rank": 11}, {
        "none": (40_950_988, 104_448, 0, 296.4e6),
        "xl_cache": (40_950_988, 104_448, 12_582_912, 390.8e6),
        "compressive": (53_540_044, 104_448, 25_165_824, 495.2e6),
        "continuous_ltm": (59_843_788, 104_448, 25_166_016, 482.2e6),
        "lamemo": (40_951_500, 104_448, 12_582_912, 577.9e6),
    }),
    "decoder": ({"lanes": 64, "segment": 2048, "windows": 8, "window_segments": 1, "lanes_a_rank": 1}, {
        "none": (1_209_632_768, 102_926_336, 0, 9082.7e6),
        "xl_cache": (1_209_632_768, 102_926_336, 402_653_184, 11498.6e6),
        "compressive": (1_612_335_104, 102_926_336, 402_653_184, 12467.5e6),
        "continuous_ltm": (1_813_760_000, 102_926_336, 805_306_752, 12059.4e6),
        "lamemo": (1_310_302_208, 102_926_336, 402_653_184, 19506.4e6),
    }),
}


def built_in(name, memory):
    shape, sizes = BUILT_IN[name]
    early, late, state, flops = sizes[memory]
    return Training(name, memory, early=early, late=late, state_bytes=state, flops=flops, has_loss=memory in LOSSES, **shape)


def count_of(parameter):
    return math.prod(parameter["shape"])


def read_plan(path, options):
    try:
        plan = json.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise Failure(f"{path}: {error}; expected what mneme train EXP --dry-run --json FILE writes") from None
    if not isinstance(plan, dict) or plan.get("format") != "mneme-dry-run":
        raise Failure(f"{path}: expected what mneme train EXP --dry-run --json FILE writes")
    if not options.lanes:
        raise Failure(f"{path}: a dry run's file does not say the number of lanes; give train.lanes with --lanes")
    windows = plan["schedule"][0]["accumulate"] if plan["schedule"] else 1
    tokens, rest = divmod(plan["tokens_per_step"], options.lanes * windows * options.window_segments)
    if rest:
        raise Failure(f"{path}: {plan['tokens_per_step']} tokens a step are not {options.lanes} lanes x {windows} windows x "
                      f"{options.window_segments} segments of whole tokens; correct --lanes or --window-segments")
    late = sum(count_of(p) for p in plan["parameters"] if p["name"].startswith("model.embedding."))
    uses = {use["name"]: use["bytes"] for use in plan["memory_estimate"]["uses"]}
    flops = plan["flops_per_token"]
    # Tiers without parameters are not named in the file.
    memory = "+".join(plan["memory"]) or ("a memory" if uses.get("memory state") else "none")
    return Training(path.stem, memory, options.lanes, tokens, windows, options.window_segments,
                    sum(map(count_of, plan["parameters"])) - late, late, uses.get("memory state", 0) // options.lanes,
                    flops["training"] if flops else 0, options.auxiliary_loss, options.lanes_a_rank or options.lanes)


def one_rank_seconds(training, options):
    if options.tokens_per_second:
        return training.tokens / options.tokens_per_second
    if not training.flops:
        raise Failure(f"{training.name}: its operations were not counted; give --tokens-per-second")
    return (training.tokens * training.flops / (options.peak_tflops * 1e12 * options.utilisation)
            + update_seconds(training, 1, settings_of(options)))


# --- Tables ---

@dataclass(frozen=True)
class Table:
    name: str  # of TABLES
    title: str
    heads: list
    rows: list
    training: object = None  # of a table whose rows are not trainings

    def __str__(self):
        """Right-aligned columns; the first is left-aligned."""
        cells = [self.heads, *([str(cell) for cell in row] for row in self.rows)]
        widths = [max(map(len, column)) for column in zip(*cells)]
        lines = ["  ".join(cell.ljust(width) if i == 0 else cell.rjust(width) for i, (cell, width) in enumerate(zip(row, widths)))
                 for row in cells]
        return "\n".join([self.title, *(line.rstrip() for line in lines), ""])

    def csv_rows(self):
        """Training and memory in front; numbers without commas."""
        if self.training:
            own = [self.training.name, self.training.memory]
            rows, heads = [[*own, *row] for row in self.rows], self.heads
        else:
            rows, heads = [[*row[0].split(", ", 1), *row[1:]] for row in self.rows], self.heads[1:]
        return [["training", "memory", *heads], *([str(cell).replace(",", "") for cell in row] for row in rows)]


def write_csv(folder, tables):
    """A file for each name; tables of the same name have the same columns."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in dict.fromkeys(each.name for each in tables):
        rows = [each.csv_rows() for each in tables if each.name == name]
        with (folder / f"{name}.csv").open("w", encoding="utf-8", newline="") as file:
            csv.writer(file, lineterminator="\n").writerows([rows[0][0], *(row for lines in rows for row in lines[1:])])


def number(value):
    """Three digits, or all before the point, and at most four behind it."""
    digits = 2 - math.floor(math.log10(value)) if value > 0 else 0
    return f"{value:,.{max(0, min(digits, 4))}f}"


def communication_table(training, options):
    settings, counts = settings_of(options), [n for n in options.ranks if n > 1]
    rows = []
    for n in counts:
        costs = [communicate(training, n, link, settings) for link in options.links]
        rows.append([n, number(costs[0].sent_bytes / 1e6), number(costs[0].mean_bytes / 1e6), costs[0].messages,
                     *(number(cost.seconds * 1e3) for cost in costs)])
    return Table("communication", f"{title_of(training)}: communication a step",
                 ["ranks", "MB sent", "mean", "messages", *(f"{link.name} ms" for link in options.links)], rows, training)


def title_of(training):
    return f"{training.name}, {training.memory}, {training.parameters / 1e6:.1f} M parameters"


def summary_table(trainings, options):
    settings, most, rows = settings_of(options), max(options.ranks), []
    for training in trainings:
        seconds = one_rank_seconds(training, options)
        efficiencies = []
        for link in options.links:
            one, step = weak_steps(training, [1, most], seconds, link, settings)
            efficiencies.append(f"{100 * weak_efficiency(one, step):.0f}")
        rows.append([f"{training.name}, {training.memory}", number(training.parameters / 1e6), f"{100 * training.late / training.parameters:.0f}",
                     number(training.flops / 1e6), number(training.parameters * settings.gradient_bytes / 1e6), number(seconds * 1e3),
                     number(one.seconds * 1e3), *efficiencies])
    return Table("summary", f"trainings, and the efficiency of {most} ranks in weak scaling",
                 ["", "M parameters", "late %", "MFLOP/token", "MB gradients", "all lanes ms", "a rank's ms",
                  *(f"{link.name} %" for link in options.links)], rows)


def scaling_table(training, options, is_strong):
    settings, seconds = settings_of(options), one_rank_seconds(training, options)
    counts = divisors(training.lanes, max(options.ranks)) if is_strong else options.ranks
    counts = [n for n in counts if settings.algorithm != "rabenseifner" or n & (n - 1) == 0]
    make, efficiency = (strong_steps, strong_efficiency) if is_strong else (weak_steps, weak_efficiency)
    by_link = [make(training, sorted({1, *counts}), seconds, link, settings) for link in options.links]
    rows = []
    for steps in zip(*by_link):
        rows.append([steps[0].ranks, f"{steps[0].lanes_a_rank:g}", number(bytes_a_rank(training, steps[0], settings) / 1e9),
                     number(steps[0].compute_seconds * 1e3), *(number(step.exposed_seconds * 1e3) for step in steps),
                     *(f"{100 * efficiency(of_link[0], step):.0f}" for of_link, step in zip(by_link, steps))])
    name = "strong" if is_strong else "weak"
    return Table(name, f"{title_of(training)}: {name} scaling",
                 ["ranks", "lanes", "GB", "compute ms", *(f"+{link.name}" for link in options.links),
                  *(f"{link.name} %" for link in options.links)], rows, training)


def bytes_a_rank(training, step, settings):
    """Parameters, gradients, moments and memory states; activations come on top."""
    moments = MOMENT_BYTES / (step.ranks if settings.shards else 1)
    return training.parameters * (2 * PARAMETER_BYTES + moments) + training.state_bytes * step.lanes_a_rank


def states_table(trainings, options):
    settings, rows = settings_of(options), []
    for training in trainings:
        states = training.state_bytes * training.lanes
        rows.append([f"{training.name}, {training.memory}", number(training.state_bytes / 1e6), number(states / 1e6),
                     number(states / (training.parameters * settings.gradient_bytes)),
                     *(number(training.state_bytes / link.bytes_per_second * 1e3) for link in options.links),
                     *(number(states / link.bytes_per_second * 1e3) for link in options.links)])
    return Table("states", "memory states", ["", "MB a lane", "MB", "/ gradients", *(f"lane {link.name} ms" for link in options.links),
                                             *(f"all {link.name}" for link in options.links)], rows)


def end_table(trainings, options):
    settings, rows = settings_of(options), []
    for training in trainings:
        seconds = one_rank_seconds(training, options)
        rows.append([f"{training.name}, {training.memory}", training.lanes,
                     *(end_of(training, seconds, link, settings) for link in options.links)])
    return Table("end", "the most ranks with an efficiency of at least 50 %, of those that divide the lanes",
                 ["", "lanes", *(link.name for link in options.links)], rows)


def read_measured(path):
    """{ranks: (seconds, bytes or None)}"""
    rows = {}
    for place, line in enumerate(path.read_text().splitlines(), 1):
        words = line.split("#")[0].replace(",", " ").split()
        if not words:
            continue
        try:
            ranks, seconds, sent = int(words[0]), float(words[1]), float(words[2]) if len(words) > 2 else None
            if ranks < 1 or not 0 < seconds < math.inf or len(words) > 3 or ranks in rows:
                raise ValueError
        except (ValueError, IndexError):
            raise Failure(f"{path}:{place}: expected RANKS SECONDS [BYTES], each number of ranks once, got '{line.strip()}'") from None
        rows[ranks] = seconds, sent
    if 1 not in rows:
        raise Failure(f"{path}: there is no line of 1 rank, from which the compute time is taken")
    return rows


def compare(training, measured, link, settings, is_strong):
    """Rows of ranks, measured and modelled seconds and efficiencies, and bytes."""
    lanes = training.lanes if is_strong else training.lanes_a_rank
    one = measured[1][0] if is_strong else measured[1][0] * training.lanes / training.lanes_a_rank
    for n in measured if is_strong else ():
        if lanes % n:
            raise Failure(f"{n} ranks do not divide {lanes} lanes; give --lanes, or --weak when every rank has as many lanes")
    make, efficiency = (strong_steps, strong_efficiency) if is_strong else (weak_steps, weak_efficiency)
    steps = make(training, sorted(measured), one, link, settings)
    rows = []
    for step in steps:
        seconds, sent = measured[step.ranks]
        perfect = measured[1][0] / (step.ranks if is_strong else 1)
        rows.append({"ranks": step.ranks, "measured_seconds": seconds, "model_seconds": step.seconds,
                     "measured_efficiency": perfect / seconds, "model_efficiency": efficiency(steps[0], step),
                     "measured_bytes": sent, "model_bytes": step.communication.sent_bytes})
    return rows


def comparison_table(training, rows, link):
    cells = [[row["ranks"], number(row["measured_seconds"] * 1e3), number(row["model_seconds"] * 1e3),
              f"{row['measured_seconds'] / row['model_seconds']:.2f}", f"{100 * row['measured_efficiency']:.0f}",
              f"{100 * row['model_efficiency']:.0f}", "-" if row["measured_bytes"] is None else number(row["measured_bytes"] / 1e6),
              number(row["model_bytes"] / 1e6)] for row in rows]
    return Table("measured", f"{title_of(training)}, {link.name} ({number(link.bytes_per_second / 1e9)} GB/s, {number(link.latency * 1e6)} us)",
                 ["ranks", "measured ms", "model ms", "ratio", "measured %", "model %", "measured MB", "model MB"], cells, training)


# --- The command ---

def own_link(text):
    try:
        name, values = text.split("=")
        gbytes, microseconds = map(float, values.split(","))
        if not (0 < gbytes < math.inf and 0 <= microseconds < math.inf):
            raise ValueError
    except ValueError:
        raise argparse.ArgumentTypeError(f"expected NAME=GBYTES_PER_SECOND,MICROSECONDS, got '{text}'") from None
    return Link(name, gbytes * 1e9, microseconds * 1e-6)


def settings_of(options):
    return Settings(options.algorithm, 2 if options.bf16_gradients else 4, options.shard_optimizer, options.bucket_mb * 1e6,
                    options.hidden, options.memory_gbytes * 1e9, options.least_ms * 1e-3)


def parse(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("trainings", nargs="+", metavar="TRAINING", help="of: " + ", ".join(BUILT_IN) + "; or a dry run's JSON")
    parser.add_argument("--memories", nargs="+", choices=NAMES, default=["xl_cache"], help="of built-in trainings")
    parser.add_argument("--tables", nargs="+", choices=TABLES, default=TABLES)
    parser.add_argument("--ranks", type=int, nargs="+", default=[1, 2, 4, 8, 16, 32, 64])
    parser.add_argument("--lanes", type=int, help="train.lanes of a dry run's JSON; of built-in trainings another number than theirs")
    parser.add_argument("--lanes-a-rank", type=int, help="of weak scaling")
    parser.add_argument("--window-segments", type=int, default=1, help="train.bptt_segments of a dry run's JSON")
    parser.add_argument("--auxiliary-loss", action="store_true", help="the memory of a dry run's JSON has one")
    parser.add_argument("--links", nargs="+", choices=list(LINKS), default=list(LINKS))
    parser.add_argument("--link", type=own_link, action="append", metavar="NAME=GBYTES,MICROSECONDS",
                        help="another one, in place of --links; GBYTES a second in one direction")
    parser.add_argument("--algorithm", choices=ALGORITHMS, default="ring")
    parser.add_argument("--bf16-gradients", action="store_true", help='train.gradients = "bf16"')
    parser.add_argument("--shard-optimizer", action="store_true", help="train.shard_optimizer = true")
    parser.add_argument("--bucket-mb", type=float, default=25.0)
    parser.add_argument("--hidden", type=float, default=1.0, metavar="SHARE",
                        help="of the communication beside backward; 0 where the cores that compute also copy")
    parser.add_argument("--tokens-per-second", type=float, help="measured, of one rank with all lanes")
    parser.add_argument("--peak-tflops", type=float, default=989.0, help="default: bf16 of an H100, 989")
    parser.add_argument("--utilisation", type=float, default=0.4)
    parser.add_argument("--memory-gbytes", type=float, default=2700.0, help="a second; default: 0.8 of an H100's")
    parser.add_argument("--least-ms", type=float, default=0.0, help="of a window, however few lanes it has")
    parser.add_argument("--measured", type=Path, metavar="FILE")
    parser.add_argument("--weak", action="store_true", help="the measured ranks had as many lanes each")
    parser.add_argument("--json", type=Path, help="write all numbers here")
    parser.add_argument("--csv", type=Path, metavar="FOLDER", help="write the tables here, one file each")
    options = parser.parse_args(arguments)
    positive = ("lanes", "lanes_a_rank", "window_segments", "bucket_mb", "tokens_per_second", "peak_tflops", "utilisation", "memory_gbytes")
    for name in positive:
        value = getattr(options, name)
        if value is not None and not 0 < value < math.inf:
            parser.error(f"--{name.replace('_', '-')} must be above 0, got {value:g}")
    if min(options.ranks) < 1 or not 0 <= options.hidden <= 1 or not 0 <= options.least_ms < math.inf:
        parser.error("--ranks must be at least 1, --hidden between 0 and 1, --least-ms at least 0")
    options.ranks = sorted(set(options.ranks))
    options.links = options.link or [LINKS[name] for name in options.links]
    return options


def trainings_of(options):
    out = []
    for name in options.trainings:
        if name not in BUILT_IN:
            if not name.endswith(".json"):
                raise Failure(f"no training is called '{name}'; expected {', '.join(BUILT_IN)} or a dry run's JSON")
            out.append(read_plan(Path(name), options))
            continue
        for memory in options.memories:
            training = built_in(name, memory)
            out.append(replace(training, lanes=options.lanes or training.lanes,
                               lanes_a_rank=options.lanes_a_rank or training.lanes_a_rank))
    return out


def numbers_of(training, options):
    """All that the tables show of a training, for programs."""
    settings, seconds = settings_of(options), one_rank_seconds(training, options)
    counts = {"strong": divisors(training.lanes, max(options.ranks)), "weak": options.ranks}
    out = {"training": asdict(training), "one_rank_seconds": seconds, "links": []}
    for link in options.links:
        entry = {"link": asdict(link), "end": end_of(training, seconds, link, settings)}
        for name, make, efficiency in (("strong", strong_steps, strong_efficiency), ("weak", weak_steps, weak_efficiency)):
            ranks = [n for n in sorted({1, *counts[name]}) if settings.algorithm != "rabenseifner" or n & (n - 1) == 0]
            steps = make(training, ranks, seconds, link, settings)
            entry[name] = [{**asdict(step), "seconds": step.seconds, "efficiency": efficiency(steps[0], step)} for step in steps]
        out["links"].append(entry)
    return out


def model(trainings, options):
    tables = []
    if "summary" in options.tables:
        tables.append(summary_table(trainings, options))
    for training in trainings:
        if "communication" in options.tables:
            tables.append(communication_table(training, options))
        tables += [scaling_table(training, options, name == "strong") for name in ("strong", "weak") if name in options.tables]
    if "states" in options.tables:
        tables.append(states_table(trainings, options))
    if "end" in options.tables:
        tables.append(end_table(trainings, options))
    print(*tables, sep="\n")
    if options.csv:
        write_csv(options.csv, tables)
    return [numbers_of(training, options) for training in trainings] if options.json else None


def against_measured(trainings, options):
    if len(trainings) != 1:
        raise Failure("--measured holds steps of one training; name one, with one of --memories")
    measured, out = read_measured(options.measured), []
    for link in options.links:
        rows = compare(trainings[0], measured, link, settings_of(options), not options.weak)
        print(comparison_table(trainings[0], rows, link))
        out.append({"link": asdict(link), "rows": rows})
    return out


def main():
    options = parse()
    trainings = trainings_of(options)
    numbers = (against_measured if options.measured else model)(trainings, options)
    if options.json:
        options.json.write_text(json.dumps({"settings": asdict(settings_of(options)), "numbers": numbers}, indent=1) + "\n")


if __name__ == "__main__":
    try:
        main()
    except (Failure, OSError) as failure:
        sys.exit(f"error: {failure}")
