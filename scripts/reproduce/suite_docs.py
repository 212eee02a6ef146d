#!/usr/bin/env python3
"""Puts the table of a finished suite (`mneme compare --suite FILE --run DIR`) into docs/tasks.md, with what it was made
by, and draws the accuracy by the needle's depth. Needs Python 3.9, and vl_convert for the drawing.

    scripts/reproduce/suite_docs.py runs/suite-small
"""
import argparse
import json
import pathlib
import sys

import experiment_runs
import figures

PAGE = experiment_runs.ROOT / "docs/tasks.md"
SECTION = "suite"
HEAT_MAP = "depth-valid.vl.json"  # of a needle's report
PICTURE = "needle_depth.svg"


def read_json(path):
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise experiment_runs.Failure(f"{path}: expected what mneme compare --suite writes: {error}") from error


def tasks_of(folder):
    """Folder and comparison of each task."""
    folders = [folder / task["folder"] for task in read_json(folder / "suite.json")["tasks"]]
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
    """Of a run's training, all processes that it took together."""
    lines = map(json.loads, (folder / "metrics.jsonl").read_text(encoding="utf-8").splitlines())
    return max(line["seconds"] for line in lines if line["kind"] == "step")


def made_by(tasks):
    runs = [folder / run["folder"] for folder, comparison in tasks for arm in comparison["arms"] for run in arm["runs"]]
    minutes = sum(map(seconds_of, runs)) / 60
    said = {(one["commit"][:7], one["machine"]["device"]) for _, one in tasks}
    programs = "; ".join(f"commit {commit}, {device}" for commit, device in sorted(said))
    return f"{len(runs)} trainings, {minutes:.1f} minutes added up; {programs}."


def section(folder, tasks, has_picture):
    table = (folder / "suite.md").read_text(encoding="utf-8").split("\n", 1)[1].strip()
    parts = [table, made_by(tasks)]
    if has_picture:
        parts.append(f"![Accuracy by the needle's depth, a row for each memory](figures/{PICTURE})")
    return "\n\n".join(parts)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path, metavar="DIR", help="of the suite")
    parser.add_argument("--page", type=pathlib.Path, default=PAGE, help="default: docs/tasks.md")
    options = parser.parse_args()
    try:
        tasks = tasks_of(options.folder)
        check(tasks)
        drawn = [task / "report/figures" / HEAT_MAP for task, _ in tasks]
        drawn = [path for path in drawn if path.exists()]
        text = section(options.folder, tasks, bool(drawn))
        experiment_runs.split_section(options.page, SECTION)
        if drawn:
            (options.page.parent / "figures").mkdir(exist_ok=True)
            figures.draw(drawn[0], options.page.parent / "figures" / PICTURE)
        experiment_runs.write_section(options.page, SECTION, text)
    except (experiment_runs.Failure, OSError) as error:
        sys.exit(f"error: {error}")


if __name__ == "__main__":
    main()
