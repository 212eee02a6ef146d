#!/usr/bin/env python3
"""Follows docs/plugin-authoring.md in an empty folder, with an installed SDK and `mneme` in the PATH.

    tests/install/guide.py GUIDE FOLDER PREFIX

Runs what its blocks say, in their order:
  ```LANGUAGE file=NAME   writes that file
  ```diff file=NAME       changes it: the lines without '+' must stand there once
  ```sh                   runs the lines with bash; with `fails` they must fail
  ```text prints          each line stands in what the block before has printed, white space aside; "... " begins a
                          line's end
Comparisons and trainings have few steps and a small split: what they measure is not what is tested. Exit status 1 and the
reason when something is not as the guide says.
"""
import os
import pathlib
import re
import subprocess
import sys

BLOCK = re.compile(r"^```(\w+)([^\n]*)\n(.*?)^```$", re.S | re.M)
FEW_STEPS = " --set train.steps=6 --set train.warmup=0 --set train.log_every=2 --set data.valid_sequences=100"


def flat(text):
    return " ".join(text.split())


class Follower:
    def __init__(self, folder, prefix):
        self.folder = folder
        self.environment = {**os.environ, "PREFIX": str(prefix), "COLUMNS": "80", "OMP_NUM_THREADS": "1"}
        self.printed = ""
        self.counts = {"files": 0, "changes": 0, "commands": 0, "lines": 0}

    def write(self, name, text):
        (self.folder / name).write_text(text, encoding="utf-8")
        self.counts["files"] += 1

    def change(self, name, diff):
        lines = diff.splitlines()
        old = "".join(line[1:] + "\n" for line in lines if not line.startswith("+"))
        new = "".join(line[1:] + "\n" for line in lines if not line.startswith("-"))
        path = self.folder / name
        text = path.read_text(encoding="utf-8")
        if text.count(old) != 1:
            sys.exit(f"{name} does not hold once what is changed:\n{old}")
        path.write_text(text.replace(old, new), encoding="utf-8")
        self.counts["changes"] += 1

    def run(self, script, fails):
        script = re.sub(r"^(mneme (?:compare|train) .*)$", lambda found: found[1] + FEW_STEPS, script, flags=re.M)
        place = self.folder / ".place"
        done = subprocess.run(["bash", "-e", "-c", f"{script}\npwd > '{place}'"], cwd=self.folder, env=self.environment,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
        self.printed = done.stdout
        print(f"$ {script}{done.stdout}", flush=True)
        if (done.returncode != 0) != fails:
            sys.exit(f"exit status {done.returncode} of\n{script}")
        if not fails:
            self.folder = pathlib.Path(place.read_text(encoding="utf-8").strip())
            place.unlink()
        self.counts["commands"] += len(script.splitlines())

    def expect(self, text):
        printed = flat(self.printed)
        # A paragraph of the terminal is one line of what is looked for.
        for line in re.sub(r"\n {4,}", " ", text).splitlines():
            line = line.removeprefix("... ")
            if flat(line) not in printed:
                sys.exit(f"not printed: {flat(line)}")
            self.counts["lines"] += 1


def main():
    guide, folder, prefix = (pathlib.Path(argument).resolve() for argument in sys.argv[1:4])
    folder.mkdir(parents=True, exist_ok=True)
    if any(folder.iterdir()):
        sys.exit(f"{folder} is not empty")
    follower = Follower(folder, prefix)
    for language, more, body in BLOCK.findall(guide.read_text(encoding="utf-8")):
        words = more.split()
        name = next((word[len("file="):] for word in words if word.startswith("file=")), None)
        if language == "diff":
            follower.change(name, body)
        elif name:
            follower.write(name, body)
        elif language == "sh":
            follower.run(body, "fails" in words)
        elif language == "text" and "prints" in words:
            follower.expect(body)
    report = folder / "far_cache/runs/compare/report/index.html"
    if not report.exists() or "far_cache" not in report.read_text(encoding="utf-8"):
        sys.exit(f"no report of the memory: {report}")
    counts = follower.counts
    if min(counts.values()) == 0:
        sys.exit(f"the guide has blocks of each kind; found {counts}")
    print(f"followed: {counts}")


if __name__ == "__main__":
    main()
