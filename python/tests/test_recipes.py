"""The recipe of docs/weights.md for a recurrent tier in a decoder, with the commands and files as they are printed, a small llama
and few steps. It needs the program: MNEME_PROGRAM, or the one on PATH."""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path

import pytest

import mneme

SMALL = """\
[model]
backbone = "decoder"
layers = 4
heads = 2
head_width = 8
width = 16
feed_forward = "swiglu"
ff = 24
norm_kind = "rms"
final_norm = true
dropout = 0.0
[data]
task = "text"
train = "train.txt"
valid = "valid.txt"
vocabulary = "byte"
[train]
segment = 16
lanes = 2
steps = 1
"""


@pytest.fixture
def recipe() -> list[tuple[str, str]]:
    """Language and text of each block of the section."""
    page = (Path(__file__).resolve().parents[2] / "docs/weights.md").read_text(encoding="utf-8")
    section = page.split("## A recurrent tier in a decoder\n")[1].split("\n## ")[0]
    return re.findall(r"```(\w+)\n(.*?)```", section, re.DOTALL)


def test_a_recurrent_tier_in_a_decoder_works_as_printed(program: Path, recipe: list[tuple[str, str]], tmp_path: Path) -> None:
    assert [language for language, _ in recipe] == ["toml", "toml", "sh", "sh"]
    (experiment, memory, import_and_train, compare) = (text for _, text in recipe)
    small = {"steps": 2, "warmup": 2, "segment": 16}
    experiment, changes = re.subn(r"(steps|warmup|segment) = \d+", lambda key: f"{key[1]} = {small[key[1]]}", experiment)
    assert changes == 4
    experiment = experiment.replace('task = "text"', 'task = "text"\nvocabulary = "byte"')  # a real folder has a tokenizer
    compare, changes = re.subn(r"train\.steps=\d+", "train.steps=4", compare)
    assert changes == 1
    for name, text in (("my.toml", experiment), ("hybrid.toml", memory), ("small.toml", SMALL)):
        (tmp_path / name).write_text(text, encoding="utf-8")
    for name in ("train.txt", "valid.txt", "test.txt"):
        (tmp_path / name).write_text("".join(f"{i} dogs ran to house {7 * i % 17}.\n" for i in range(40)), encoding="utf-8")
    script = "\n".join(('mneme() { "$MNEME" "$@" || exit 1; }', "mneme train small.toml --run runs/small --quiet",
                        "mneme export runs/small --family llama --to models/small", import_and_train, compare))
    done = subprocess.run(["bash", "-euc", script], cwd=tmp_path, capture_output=True, text=True, check=False,
                          env={**os.environ, "MNEME": str(program), "OMP_NUM_THREADS": "1"})
    assert done.returncode == 0, done.stdout + done.stderr
    plan = json.loads((tmp_path / "plan.json").read_text(encoding="utf-8"))
    for one in plan["parameters"]:
        assert one["name"].startswith("memory.0.org.mneme.gated_deltanet.") == (one["rate"] != "frozen"), one
    frozen, trained = (mneme.Run(tmp_path / "runs" / name) for name in ("frozen", "all"))
    assert frozen.experiment["train"]["freeze"] == "backbone"
    assert trained.experiment["memory"]["tier"][0]["lr"] == 1e-3
    assert (tmp_path / "runs/report/index.html").is_file() and (tmp_path / "runs/all/certificate.json").is_file()
