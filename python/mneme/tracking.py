"""Curves of runs for trackio, Weights & Biases and MLflow, which are used where they are installed."""

from __future__ import annotations

import importlib
from typing import Any, Literal, Optional, Union

from .comparison import Comparison
from .errors import FormatError, MissingPackageError
from .run import Run
from .tables import flat

Tracker = Literal["trackio", "wandb", "mlflow"]
Curves = list[tuple[int, dict[str, float]]]
"""Steps and what was measured at each, in order."""
_MLFLOW_LONGEST_VALUE = 500


def log_to(
    tracker: Tracker, run: Union[Run, Comparison], *, project: str = "mneme", name: Optional[str] = None, **options: Any
) -> int:
    """Logs a run, or every run of a comparison, with its experiment and its curves by step. Returns the number of runs.

    Of a comparison that is at work those are logged that have begun.

    Names are those of TensorBoard (docs/runs.md): `train/loss`, `valid/loss`, ... `project`: in MLflow the experiment.
    `options` go to the tracker's `init`, of MLflow to `start_run`. Errors: MissingPackageError.
    """
    if tracker not in ("trackio", "wandb", "mlflow"):
        raise ValueError(f"log_to: expected 'trackio', 'wandb' or 'mlflow', got '{tracker}'")
    try:
        module = importlib.import_module(tracker)
    except ImportError as error:
        raise MissingPackageError(f"{tracker} cannot be imported ({error}): python3 -m pip install {tracker}") from None
    if isinstance(run, Comparison):
        found = [(f"{arm}-seed{seed}", one) for arm in run.arms for seed in run.seeds if (one := _begun(run, arm, seed))]
        if not found:
            raise FormatError(f"{run.path}: no run has metrics yet")
    else:
        found = [(name or run.path.name, run)]
    for title, one in found:
        (_to_mlflow if tracker == "mlflow" else _to_wandb)(module, one, curves(one), project, title, options)
    return len(found)


def _begun(comparison: Comparison, arm: str, seed: int) -> Optional[Run]:
    """The run, or None where the comparison is at work and the run has no metrics yet."""
    try:
        run = comparison.run(arm, seed)
        curves(run)
    except FormatError:
        if comparison.is_complete:
            raise
        return None
    return run


def curves(run: Run) -> Curves:
    """Steps and what was measured at each, in order."""
    by_step: dict[int, dict[str, float]] = {}
    for row in run.metric_rows("step"):
        _add(by_step, row, "train")
    for row in run.metric_rows("eval"):
        result = {
            key.removeprefix("result."): value for key, value in row.items() if key.startswith("result.") or key == "step"
        }
        _add(by_step, result, str(row["split"]))
    for row in run.metric_rows("curve"):
        _add(by_step, {"step": row["step"], "curve_loss": row["loss"]}, str(row["split"]))
    if not by_step:
        raise FormatError(f"{run.path / 'metrics.jsonl'}: holds no metrics")
    return sorted(by_step.items())


def _add(by_step: dict[int, dict[str, float]], row: dict[str, Any], prefix: str) -> None:
    numbers = {
        f"{prefix}/{key.replace('.', '/')}": float(value)
        for key, value in row.items()
        if key != "step" and isinstance(value, (int, float)) and not isinstance(value, bool)
    }
    by_step.setdefault(int(row["step"]), {}).update(numbers)


def _to_wandb(module: Any, run: Run, measured: Curves, project: str, name: str, options: dict[str, Any]) -> None:
    module.init(project=project, name=name, config=run.experiment, **options)
    try:
        for step, numbers in measured:
            module.log(numbers, step=step)
    finally:
        module.finish()


def _to_mlflow(module: Any, run: Run, measured: Curves, project: str, name: str, options: dict[str, Any]) -> None:
    module.set_experiment(project)
    with module.start_run(run_name=name, **options):
        module.log_params({key: str(value)[:_MLFLOW_LONGEST_VALUE] for key, value in flat(run.experiment).items()})
        for step, numbers in measured:
            module.log_metrics(numbers, step=step)
