from __future__ import annotations

import sys
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any, Iterator

import pytest

import mneme
from mneme.tracking import curves

CURVES = [
    (10, {"train/loss": 2.0, "train/lr": 0.1, "train/metrics/0/gate": 0.5, "valid/loss": 1.9, "valid/accuracy": 0.5}),
    (20, {"train/loss": 1.0, "train/lr": 0.05, "valid/curve_loss": 1.8}),
]


class Tracker(ModuleType):
    """Stands for wandb, trackio and mlflow: keeps what it is told."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.said: list[Any] = []

    def init(self, **given: Any) -> None:
        self.said.append((given["project"], given["name"]))
        assert given["config"]["train"]["steps"] == 20

    def log(self, numbers: dict[str, float], step: int) -> None:
        self.said.append((step, numbers))

    log_metrics = log

    def finish(self) -> None:
        self.said.append("finished")

    def set_experiment(self, name: str) -> None:
        self.said.append(name)

    @contextmanager
    def start_run(self, run_name: str) -> Iterator[None]:
        self.said.append(run_name)
        yield

    def log_params(self, values: dict[str, str]) -> None:
        assert values["data.task"] == "motif"


def test_orders_curves_by_step(run_folder: Path) -> None:
    assert curves(mneme.Run(run_folder)) == CURVES


@pytest.mark.parametrize("name", ["wandb", "trackio"])
def test_logs_a_run(name: Any, run_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tracker = Tracker(name)
    monkeypatch.setitem(sys.modules, name, tracker)
    assert mneme.log_to(name, mneme.Run(run_folder), project="p") == 1
    assert tracker.said == [("p", "first"), *CURVES, "finished"]


def test_logs_a_comparison_to_mlflow(comparison_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tracker = Tracker("mlflow")
    monkeypatch.setitem(sys.modules, "mlflow", tracker)
    assert mneme.log_to("mlflow", mneme.Comparison(comparison_folder)) == 2
    assert tracker.said == ["mneme", "none-seed1", *CURVES, "mneme", "cache-seed1", *CURVES]


def test_logs_the_runs_of_a_comparison_that_have_begun(comparison_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tracker = Tracker("wandb")
    monkeypatch.setitem(sys.modules, "wandb", tracker)
    path = comparison_folder / "comparison.json"
    path.write_text(path.read_text().replace('"done"', '"waiting"'))
    (comparison_folder / "cache-seed1" / "run.json").unlink()
    comparison = mneme.Comparison(comparison_folder)
    with pytest.raises(mneme.FormatError, match="the run of arm 'cache' and seed 1 has not begun"):
        comparison.run("cache")
    assert mneme.log_to("wandb", comparison) == 1
    assert tracker.said == [("mneme", "none-seed1"), *CURVES, "finished"]
    (comparison_folder / "none-seed1" / "metrics.jsonl").write_text("")
    with pytest.raises(mneme.FormatError, match="no run has metrics yet"):
        mneme.log_to("wandb", comparison)


def test_says_what_is_not_installed(run_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "wandb", None)
    with pytest.raises(mneme.MissingPackageError, match="pip install wandb"):
        mneme.log_to("wandb", mneme.Run(run_folder))
