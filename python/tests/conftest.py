"""A run and a comparison written by hand, and, where there is a program, made by it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy
import pytest

import mneme

NLL = [0.5, 1.5, 2.5]


def write_safetensors(path: Path, columns: dict[str, Any]) -> None:
    kinds = {"float32": "F32", "int32": "I32", "uint8": "U8"}
    header, data = {}, b""
    for name, column in columns.items():
        bytes_ = column.tobytes()
        header[name] = {
            "dtype": kinds[str(column.dtype)],
            "shape": list(column.shape),
            "data_offsets": [len(data), len(data) + len(bytes_)],
        }
        data += bytes_
    text = json.dumps(header).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + data)


EXPERIMENT = """[model]
clamp_distance = 0
attention_kernel = "on"

[data]
task = "motif"

[train]
steps = 20
segment = 16
"""


def write_evaluation(folder: Path, split: str, step: int, nll: list[float], **more: Any) -> None:
    folder.mkdir(parents=True)
    info = {
        "format": "mneme-evaluation",
        "version": 1,
        "split": split,
        "step": step,
        "written": "2025-01-01T00:00:00Z",
        "result": {"tokens": len(nll), "loss": sum(nll) / len(nll), "perplexity": 2.0},
        "experiment": EXPERIMENT,
        **more,
    }
    (folder / "evaluation.json").write_text(json.dumps(info))
    (folder / "samples.jsonl").write_text(json.dumps({"id": f"{split}/0", "targets": len(nll), "nll": sum(nll)}) + "\n")
    integers = {
        name: numpy.arange(len(nll), dtype="i4") for name in ("target", "document", "position", "lane", "place", "segment")
    }
    write_safetensors(
        folder / "nll.safetensors", {"correct": numpy.ones(len(nll), "u1"), "nll": numpy.array(nll, "f4"), **integers}
    )


def write_run(folder: Path) -> Path:
    folder.mkdir(parents=True)
    (folder / "experiment.toml").write_text(EXPERIMENT)
    (folder / "run.json").write_text(
        json.dumps(
            {
                "format": "mneme.run",
                "revision": 1,
                "mneme": "0.1.1",
                "plugins": [],
                "backbone_parameters": 1000,
                "memory_parameters": 0,
                "data": {"task": "motif"},
            }
        )
    )
    lines = [
        {"kind": "step", "step": 10, "loss": 2.0, "lr": 0.1, "metrics": {"0": {"gate": 0.5}}},
        {"kind": "eval", "step": 10, "split": "valid", "best": True, "result": {"loss": 1.9, "accuracy": 0.5}},
        {"kind": "step", "step": 20, "loss": 1.0, "lr": 0.05},
        {"kind": "curve", "step": 20, "split": "valid", "loss": 1.8},
    ]
    (folder / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines) + '{"kind": "st')
    write_evaluation(folder / "evaluations" / "valid-step00000010-aaaaaaaa", "valid", 10, [3.0])
    write_evaluation(folder / "evaluations" / "valid-step00000020-aaaaaaaa", "valid", 20, NLL)
    return folder


@pytest.fixture
def run_folder(tmp_path: Path) -> Path:
    return write_run(tmp_path / "first")


@pytest.fixture
def comparison_folder(tmp_path: Path) -> Path:
    folder = tmp_path / "compared"
    write_run(folder / "none-seed1")
    write_run(folder / "cache-seed1")
    arms = [{"name": name, "runs": [{"seed": 1, "folder": f"{name}-seed1", "state": "done"}]} for name in ("none", "cache")]
    (folder / "comparison.json").write_text(
        json.dumps({"format": "mneme-comparison", "version": 1, "seeds": [1], "arms": arms})
    )
    report = folder / "report"
    (report / "figures").mkdir(parents=True)
    difference = {
        "arm": "cache",
        "baseline": "none",
        "split": "valid",
        "measure": "loss",
        "difference": -0.25,
        "low": -0.5,
        "high": -0.125,
        "p_holm": 0.01,
        "verdict": "better",
        "reason": "",
    }
    (report / "report.json").write_text(
        json.dumps(
            {
                "format": "mneme-report",
                "version": 1,
                "seeds": [1],
                "arms": arms,
                "verdict": ["cache has a lower loss <than> none."],
                "differences": [difference],
            }
        )
    )
    (report / "results.csv").write_text(
        "split,measure,arm,seeds,mean,difference\nvalid,loss,none,1,2.5,\nvalid,loss,cache,1,2.25,-0.25\n"
    )
    (report / "samples.csv").write_text("sample,part,arm,text\nvalid/0,expected,,1 2\n")
    (report / "figures" / "place-valid.vl.json").write_text(
        json.dumps({"title": "Loss by place", "mark": "line", "data": {"values": []}})
    )
    return folder


@pytest.fixture(scope="session")
def program() -> Path:
    try:
        return mneme.program()
    except mneme.ProgramNotFoundError as error:
        pytest.skip(f"needs the program: {error}")


@pytest.fixture
def without_pandas(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mneme.tables.has_pandas", lambda: False)
