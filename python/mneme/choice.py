"""The stored evaluation that counts for a run, as a report chooses it (host/report/comparison/read_run.cpp)."""

from __future__ import annotations

import tomllib
from typing import Any, Optional, Sequence

from .errors import FormatError
from .evaluation import Evaluation

_PATHS = {"files", "file", "path", "prepared", "vocabulary_file"}
_SAME_RESULTS = {"attention_kernel", "row_kernels"}  # keys of [model] that leave the results as they are


def own_evaluation(evaluations: Sequence[Evaluation], experiment: dict[str, Any], info: dict[str, Any]) -> Optional[Evaluation]:
    """Of evaluations of one split that of the run's own memory, model and data, of the most steps; None where there is none.

    Of several of one step those with the run's own plugins, then those with its own [eval] (first but for lanes) come before
    others; then the first by name. `info`: the run's run.json.
    """
    own = []
    for one in sorted(evaluations, key=lambda one: one.path.name):
        used = _experiment_of(one)
        if used.get("memory") != experiment.get("memory") or not _agree(_model_of(used), _model_of(experiment)):
            continue
        if _agree(one.info.get("data") or {}, info.get("data") or {}):
            has_plugins = _checksums_of(one.info) == _checksums_of(info)
            settings, wanted = used.get("eval", {}), experiment.get("eval", {})
            has_settings = _agree({**settings, "lanes": 0}, {**wanted, "lanes": 0})
            own.append(((one.step, has_plugins, has_settings, settings == wanted), one))
    return max(own, key=lambda ranked: ranked[0])[1] if own else None


def _experiment_of(one: Evaluation) -> dict[str, Any]:
    try:
        return tomllib.loads(str(one.info["experiment"]))
    except (KeyError, tomllib.TOMLDecodeError) as error:
        raise FormatError(f"{one.path / 'evaluation.json'}: experiment: no TOML: {error}") from None


def _model_of(experiment: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in experiment.get("model", {}).items() if key not in _SAME_RESULTS}


def _agree(a: Any, b: Any) -> bool:
    """Equal as far as both say, wherever the files lie: an evaluation describes only the splits that it needs, and a run of
    an older version may lack a key of [model]."""
    if not isinstance(a, dict) or not isinstance(b, dict):
        return bool(a == b)
    return all(_agree(a[key], b[key]) for key in a.keys() & b.keys() - _PATHS)


def _checksums_of(info: dict[str, Any]) -> list[str]:
    return [plugin.get("sha256", "") for plugin in info.get("plugins", [])]
