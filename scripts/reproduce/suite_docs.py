#!/usr/bin/env python3
"""Puts the table of a finished suite (`mneme compare` with --suite, --capacity or --scale, and --run DIR) into the page of docs/
that has a section for it, with what it was made by, and draws its figures: of a suite the accuracy by the needle's depth and by the
delay of retention, of numbers of bytes and of sizes the measure over them. The section is named after the suite's file (`recall`),
or after the experiment with what was varied (`capacity_mqar`, `scale_text`). Needs Python 3.9, and vl_convert for the drawing.

    scripts/reproduce/suite_docs.py runs/recall
"""
import argparse
import json
import pathlib
import re
import sys

import experiment_runs
import figures

PAGES = [experiment_runs.ROOT / "docs" / name for name in ("tasks.md", "suites.md")]
# Of a task's report: the figure, the ending of its drawing, and what it shows.
TASK_FIGURES = [("depth-valid", "depth", "accuracy by the needle's depth, a row for each memory"),
                ("delay-valid", "delay", "accuracy by the segments since the value was told, a line for each memory")]
# Of points: the figure in the folder, how its drawing is called behind the section's name, and what it shows.
FIGURES = {"capacity": [("capacity", "", "{} over bytes of state, a line for each memory")],
           "scale": [("scale-operations", "_operations", "{} over operations of the training, a line for each memory"),
                     ("scale-bytes", "_bytes", "{} over bytes of parameters and state, a line for each memory"),
                     ("scale-seconds", "_seconds", "{} over seconds of the training, a line for each memory")]}


def read_json(path):
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise experiment_runs.Failure(f"{path}: expected what mneme compare writes with --suite, --capacity or --scale: "
                                      f"{error}") from error


def section_name(suite):
    """Of suite.json."""
    kind, stem = suite.get("kind", "suite"), pathlib.PurePath(suite["file"]).stem
    return stem if kind == "suite" else f"{kind}_{stem}"


def page_of(section, pages):
    """The page that has the section."""
    for page in pages:
        if f"<!-- begin {section}:" in page.read_text(encoding="utf-8"):
            return page
    raise experiment_runs.Failure(f"expected <!-- begin {section}: made by scripts/reproduce/suite_docs.py --> in "
                                  f"{' or '.join(map(str, pages))}; docs have no section for this suite: add one, or name "
                                  "another with --section")


def tasks_of(folder, suite):
    """Folder and comparison of each task."""
    folders = [folder / task["folder"] for task in suite["tasks"]]
    return [(task, read_json(task / "comparison.json")) for task in folders]


def check(tasks):
    """A table with gaps would be taken for a result."""
    for folder, comparison in tasks:
        for arm in comparison["arms"]:
            for run in arm["runs"]:
                if run["state"] != "done":
                    raise experiment_runs.Failure(f"{folder / run['folder']}: expected a finished run, got "
                                                  f"{run['state']}; run the same mneme compare again")


def seconds_of(folder):
    """Of a run's training, all processes that it took together; 0 where it was too short for a line."""
    lines = map(json.loads, (folder / "metrics.jsonl").read_text(encoding="utf-8").splitlines())
    return max((line["seconds"] for line in lines if line["kind"] == "step"), default=0.0)


def made_by(tasks):
    runs = [folder / run["folder"] for folder, comparison in tasks for arm in comparison["arms"] for run in arm["runs"]]
    minutes = sum(map(seconds_of, runs)) / 60
    said = {(one["commit"][:7], one["machine"]["device"]) for _, one in tasks}
    programs = "; ".join(f"commit {commit}, {device}" for commit, device in sorted(said))
    return f"{len(runs)} trainings, {minutes:.1f} minutes added up; {programs}."


def figures_of(folder, suite, section, tasks):
    """Of each figure its file, the name of its drawing, and what it shows."""
    kind = suite.get("kind", "suite")
    if kind in FIGURES:
        measure = "Loss" if suite["tasks"][0]["measure"] == "loss" else "Accuracy"
        all_figures = [(folder / f"figures/{key}.vl.json", f"{section}{ending}.svg", text.format(measure))
                       for key, ending, text in FIGURES[kind]]
    else:
        all_figures = [(task / f"report/figures/{key}.vl.json", f"{section}_{task.name}_{ending}.svg", f"{task.name}: {text}")
                       for task, _ in tasks for key, ending, text in TASK_FIGURES]
    return [one for one in all_figures if one[0].exists()]


def section_text(folder, tasks, drawings):
    """Headings inside the section are bold lines: the page has headings of its own."""
    tables = (folder / "suite.md").read_text(encoding="utf-8").split("\n", 1)[1].strip()
    parts = [re.sub(r"^#+ (.*)$", r"**\1**", tables, flags=re.MULTILINE), made_by(tasks)]
    parts += [f"![{text}](figures/{name})" for _, name, text in drawings]
    return "\n\n".join(parts)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path, metavar="DIR", help="of the suite")
    parser.add_argument("--section", metavar="NAME", help="of the page; default: after the suite's file or experiment")
    parser.add_argument("--page", type=pathlib.Path, help="default: the page of docs that has the section")
    options = parser.parse_args()
    try:
        suite = read_json(options.folder / "suite.json")
        section = options.section or section_name(suite)
        page = options.page or page_of(section, PAGES)
        experiment_runs.split_section(page, section)
        tasks = tasks_of(options.folder, suite)
        check(tasks)
        drawings = figures_of(options.folder, suite, section, tasks)
        text = section_text(options.folder, tasks, drawings)
        for specification, name, _ in drawings:
            (page.parent / "figures").mkdir(exist_ok=True)
            figures.draw(specification, page.parent / "figures" / name)
        experiment_runs.write_section(page, section, text)
    except (experiment_runs.Failure, OSError) as error:
        sys.exit(f"error: {error}")


if __name__ == "__main__":
    main()
