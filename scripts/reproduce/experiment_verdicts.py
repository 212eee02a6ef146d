"""What `mneme report` says of the runs of the scripts reproduce_*.py: differences with intervals, tests and verdicts, computed
from the stored losses of the runs (docs/statistics.md), as rows of a CSV file and as Markdown made from those rows.
"""
import dataclasses
import json
import math
import pathlib

import experiment_runs as experiment

SPLIT = "test"
COLUMNS = ("group", "baseline", "memory", "measure", "seeds", "units", "unit", "block", "targets", "baseline_mean", "mean",
           "difference", "low", "high", "p", "p_holm", "arms", "detectable", "verdict", "notes")
UNITS = {"loss": "nats a token", "accuracy": "share of right answers"}
NOT_RUN = "not run"
VERDICTS = {"better": "**Better than {}:**", "worse": "**Worse than {}:**",
            "no difference shown": "No difference to {} is shown:", "unknown": "Not compared with {}, see below:",
            NOT_RUN: "Not compared with {} for lack of runs:"}
NOTES = " | "  # between notes


@dataclasses.dataclass(frozen=True)
class Family:
    """Memories that are compared with one baseline; Holm's correction is over them."""
    baseline: str
    memories: tuple

    def of(self, wanted):
        """The family without the memories that `wanted` is false for."""
        return Family(self.baseline, tuple(filter(wanted, self.memories)))


def compare(families, runs, pages, measure="loss", group=""):
    """Rows of COLUMNS, one a memory of a family. runs: {(memory, seed): Run}, of those that are planned. Where a memory, or
    its baseline, has no finished run, the verdict is NOT_RUN. The report of a family with its page stays in a folder
    below `pages`."""
    out = []
    for family in families:
        found = {name: _finished(runs, name) for name in (family.baseline, *family.memories)}
        memories = [name for name in family.memories if found[name] and found[family.baseline]]
        report = {"arms": [], "differences": []}
        if memories:
            folder = pages / experiment.Arm(" ".join(filter(None, (group, family.baseline))), None).file_name
            report = _report([run for name in (family.baseline, *memories) for run in found[name]], folder)
        out += [_row(report, family.baseline, name, found if name in memories else None, runs, len(memories), measure, group)
                for name in family.memories]
    return out


def _finished(runs, name):
    return [run for (memory, _), run in runs.items() if memory == name and run.is_done and run.has_losses]


def _report(runs, folder):
    """What mneme says of runs; the first one's arm is the baseline."""
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / "all.json"
    experiment.call(["report", *(run.folder for run in runs), "--out", folder, "--json", file, "--quiet"])
    report = json.loads(file.read_text(encoding="utf-8"))
    file.unlink()  # report.json is the same
    return report


def _row(report, baseline, name, found, runs, arms, measure, group):
    difference, notes = {}, _absent(runs, (baseline, name))
    if found:
        arm = _arm(report, found[name])
        difference = next((one for one in report["differences"] if arm and one["arm"] == arm["name"]
                           and one["split"] == SPLIT and one["measure"] == measure), {})
        notes += _without_losses(report, found[baseline] + found[name])
    if difference.get("reason"):
        notes.append(difference["reason"])
    numbers = {column: _cell(difference.get(key)) for column, key in
               (("baseline_mean", "first"), ("mean", "other"), ("difference", "difference"), ("low", "low"),
                ("high", "high"), ("p", "p"), ("p_holm", "p_holm"), ("detectable", "detectable"))}
    row = {"group": group, "baseline": baseline, "memory": name, "measure": measure,
           "seeds": " ".join(map(str, difference.get("seeds", []))), "units": difference.get("units", 0),
           "unit": difference.get("unit", ""), "block": difference.get("block") or "",
           "targets": difference.get("targets", 0), **numbers, "arms": arms,
           "verdict": difference.get("verdict", "unknown" if found else NOT_RUN), "notes": NOTES.join(notes)}
    return {column: row[column] for column in COLUMNS}


def _cell(number):
    return "" if number is None else number


def _name(run):
    """Of a report's run: the name of its folder. A report that others may see has no more of the path."""
    return pathlib.Path(run["folder"]).name


def _arm(report, runs):
    """The arm of the report that holds these runs."""
    folders = {run.folder.name for run in runs}
    return next((arm for arm in report["arms"] if any(_name(run) in folders for run in arm["runs"])), None)


def _without_losses(report, runs):
    """Which runs have no stored losses, and how to make them."""
    has = {_name(run) for arm in report["arms"] for run in arm["runs"]
           if any(one["split"] == SPLIT for one in run["evaluations"])}
    return [f"{run.name} has no stored losses: mneme eval {run.name} --split {SPLIT} makes them"
            for run in runs if run.folder.name not in has]


def _absent(runs, names):
    out = []
    for name in names:
        for what, is_absent in (("not trained", lambda run: not run.is_done),
                                ("diverged", lambda run: run.is_done and not run.has_losses)):
            seeds = [str(seed) for (memory, seed), run in runs.items() if memory == name and is_absent(run)]
            if seeds:
                out.append(f"{name}: seed{'s' if len(seeds) > 1 else ''} {', '.join(seeds)} {what}")
    return out


def write(path, rows):
    """Writes the rows, also when there are none; returns them as read() does."""
    experiment.write_rows(path, rows, COLUMNS)
    return read(path)


def read(path):
    """The rows of a file; none where there is no file."""
    return experiment.read_rows(path) if path.exists() else []


def section(rows):
    """The comparisons as Markdown, and where there are none what that means."""
    if not rows:
        return ("**No intervals.** These runs were trained before runs kept the loss of every target, so no difference is "
                "tested: the numbers are means over seeds. They say what these runs gave, and not which memory is better.")
    measure = rows[0]["measure"]
    out = [f"Differences in {measure} to a baseline, {UNITS[measure]}, from the stored losses of the test split, computed by "
           "`mneme report` ([statistics.md](statistics.md)). Intervals are 95 %. Arms with one baseline are a family, over "
           "which p is corrected by Holm's method; *detectable* is the true difference that 80 % of such experiments would "
           "find:",
           _table(rows), "\n".join(_sentences(rows)), _notes(rows)]
    return "\n\n".join(part for part in out if part)


def link(name, rows):
    """Where a page has the rows, after other words; "" without rows."""
    return f", the differences: [figures/{name}_differences.csv](figures/{name}_differences.csv)" if rows else ""


def _table(rows):
    grouped = any(row["group"] for row in rows)
    header = ["baseline", "memory", "difference", "interval", "p (Holm, arms)", "detectable", "seeds, units", "verdict"]
    lines = [[*([row["group"]] if grouped else []), row["baseline"], row["memory"], *_cells(row), f"**{row['verdict']}**"]
             for row in rows]
    return experiment.table([*(["data"] if grouped else []), *header], lines)


def _cells(row):
    if not row["difference"]:
        return ["", "", "", "", ""]
    seeds, units = row["seeds"].split(), f"{int(row['units']):,} {row['unit']}s"
    if row["block"]:
        units += f" of {row['block']} targets"
    return [signed(row["difference"]), f"{signed(row['low'], '-inf')} to {signed(row['high'], '+inf')}",
            f"{p_text(row['p_holm'])} ({row['arms']})", _detectable(row) or "none", f"{len(seeds)}, {units}"]


def _detectable(row):
    return f"{float(row['detectable']):.4f}" if row["detectable"] and math.isfinite(float(row["detectable"])) else ""


def signed(text, otherwise=""):
    """A difference with its sign; `otherwise` of one that is not finite."""
    return f"{float(text):+.4f}" if text else otherwise


def p_text(text):
    value = float(text)
    return "< 0.0001" if value < 1e-4 else f"{value:.4f}"


def _sentences(rows):
    """A line a family: its memories by verdict."""
    families = {}
    for row in rows:
        families.setdefault((row["group"], row["baseline"]), []).append(row)
    out = []
    for (group, baseline), family in families.items():
        parts = []
        for verdict, words in VERDICTS.items():
            found = [row for row in family if row["verdict"] == verdict]
            if found:
                parts.append(f"{words.format(baseline)} {'; '.join(row['memory'] + _aside(row) for row in found)}.")
        out.append("- " + " ".join([f"{group}:"] * bool(group) + parts))
    return out


def _aside(row):
    """What the verdict does not say."""
    if not row["difference"]:
        return ""
    asides = ["equal numbers"] * (not any(map(float, (row["low"] or 1, row["high"] or 1))))
    asides += ["one seed"] * (len(row["seeds"].split()) == 1)
    return f" ({', '.join(asides)})" if asides else ""


def _notes(rows):
    """What is missing, and what the statistics warn of, each once, with the comparisons that it is about."""
    about = {}
    for row in rows:
        for note in filter(None, row["notes"].split(NOTES)):
            about.setdefault(note, []).append(f"{row['memory']} against {row['baseline']}"
                                              + (f" ({row['group']})" if row["group"] else ""))

    def where(pairs):
        if len(pairs) == len(rows):
            return "all rows"
        return ", ".join(pairs) if len(pairs) < 3 else f"{len(pairs)} of {len(rows)} rows"

    return "\n".join(f"- Note: {note} ({where(pairs)})." for note, pairs in about.items())
