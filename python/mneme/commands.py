"""The program's commands as functions. Each runs the program, shows its progress, and returns what the program made.

Every option of a command is an argument of its name: `--force` is `force=True`, `--jobs 2` is `jobs=2`, and a list
gives an option several times; `mneme COMMAND --help` lists them. Errors of all functions: ProgramNotFoundError, VersionError,
and the ProgramError of the exit status with the program's own text. KeyboardInterrupt reaches the program, which saves what it has.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Optional, Union

from .comparison import Comparison
from .errors import MnemeError, VerificationError, program_error
from .evaluation import Evaluation
from .files import PathLike
from .outcomes import Generated, Plan, Validation, Verification
from .launch import Finished, report_program, run_program
from .run import Run
from .tables import table_of_rows

Value = Union[str, int, float, Path, bool, None]
Option = Union[Value, Sequence[Union[str, int, float, Path]]]
Settings = Mapping[str, Any]
Tunes = Mapping[str, Union[str, Sequence[Any]]]
Folder = Union[str, "os.PathLike[str]"]


def train(
    experiment: Optional[PathLike] = None,
    *,
    memory: Optional[PathLike] = None,
    run: Optional[Folder] = None,
    settings: Optional[Settings] = None,
    resume: Optional[Folder] = None,
    progress: bool = True,
    **options: Option,
) -> Run:
    """Trains an experiment, or continues a run with `resume`. Returns the run.

    `memory`: a memory file in place of the experiment's [memory]. `run`: the folder to make.
    `settings`: keys of the experiment, `{"train.steps": 100}`.
    """
    _refuse("train", options)
    words = [] if experiment is None else [str(experiment)]
    given = {"memory": memory, "run": run, "resume": resume, **options}
    finished, info = _run(["train", *words, *_words(given), *_settings(settings)], progress)
    if finished.status != 0 or info is None:
        raise program_error(finished.text, finished.status, ["train", *words])
    return Run(info["run"])


def compare(
    experiment: Union[PathLike, Sequence[Folder]],
    memories: Union[PathLike, Sequence[PathLike]] = (),
    *,
    seeds: Optional[int] = None,
    run: Optional[Folder] = None,
    settings: Optional[Settings] = None,
    tune: Optional[Tunes] = None,
    tune_together: Optional[Tunes] = None,
    jobs: Optional[int] = None,
    progress: bool = True,
    **options: Option,
) -> Comparison:
    """Trains one model with each of the memories, the first the baseline, and compares them.

    Finished runs of the folder are used again; a call that would leave some of them out is a UsageError, and needs another `run`.

    `memories`: memory files, each perhaps with settings of its own, "my_memory.toml,tier.0.rows=64". `run`: the comparison's
    folder, by default runs/compare-<experiment>. `jobs`: runs side by side. `tune`: values that every arm tries before it is
    compared, `{"train.lr": [1e-3, 3e-3]}`, or a range, `{"train.lr": "log:1e-4:1e-2"}`, with `tune_trials=N`; `tune_together`:
    the same with one value for all arms. `Comparison.trials` has what was tried. Errors: ProgramError, whose `result` is the
    Comparison where there is one, such as after a run that failed or a memory that failed a check.
    """
    if not isinstance(experiment, (str, Path)):
        raise MnemeError(
            "compare: expected an experiment file; runs that are trained are compared by `mneme report RUN1 RUN2 --out DIR` "
            "and read by mneme.Comparison(DIR)"
        )
    _refuse("compare", options)
    folder = Path(run) if run is not None else Path("runs") / f"compare-{Path(experiment).stem}"
    arms = [memories] if isinstance(memories, (str, Path)) else list(memories)
    given = {"memory": arms, "seeds": seeds, "jobs": jobs, "run": folder, **options}
    tunes = [*_tunes("--tune", tune), *_tunes("--tune-together", tune_together)]
    words = ["compare", str(experiment), *_words(given), *tunes, *_settings(settings)]
    finished = run_program(words, progress)
    if finished.status != 0:
        has_result = (folder / "report" / "report.json").is_file() and (folder / "comparison.json").is_file()
        result = Comparison(folder) if has_result and finished.status == 1 else None
        raise program_error(finished.text or finished.out.strip(), finished.status, words, result)
    return Comparison(folder)


def plan(
    path: Union[Folder, Sequence[Folder]],
    memories: Union[PathLike, Sequence[PathLike]] = (),
    *,
    pilot: Optional[int] = None,
    difference: Optional[float] = None,
    split: Optional[str] = None,
    run: Optional[Folder] = None,
    settings: Optional[Settings] = None,
    jobs: Optional[int] = None,
    progress: bool = True,
    **options: Option,
) -> Plan:
    """Says what a larger comparison than a pilot could show, and what it would cost.

    `path`: the folder of a comparison of two seeds or more, or run folders; the program mneme-report, which needs no torch,
    reads them. With `pilot` it is an experiment, and a pilot of so many seeds is trained first with each of `memories`, in
    `run`, by default runs/pilot-<experiment>. `difference`: also the seeds that a difference of so many nats a token needs.
    Errors: ProgramError, whose `result` is the Plan where there is one, such as after a run that failed.
    """
    _refuse("plan", options)
    paths = [path] if isinstance(path, (str, os.PathLike)) else list(path)
    arms = [memories] if isinstance(memories, (str, Path)) else list(memories)
    given = {"memory": arms, "pilot": pilot, "run": run, "jobs": jobs, **options}
    more = [*_words(given), *_settings(settings)]
    words = ["plan", *(os.fspath(one) for one in paths), *_words({"difference": difference, "split": split}), *more]
    finished, info = _run(words, progress, None if more else report_program())
    result = None if info is None else Plan(info)
    if finished.status != 0 or result is None:
        raise program_error(finished.text, finished.status, words, result)
    return result


def evaluate(
    run: Folder,
    *,
    split: str = "valid",
    memory: Optional[PathLike] = None,
    settings: Optional[Settings] = None,
    progress: bool = True,
    **options: Option,
) -> Evaluation:
    """Evaluates a run's last weights, or those of `checkpoint`, on a split. Returns the evaluation.

    The run's folder keeps it.

    `memory`: a memory file in place of the run's own.
    """
    _refuse("evaluate", options)
    words = ["eval", os.fspath(run), *_words({"split": split, "memory": memory, **options}), *_settings(settings)]
    before = _written(run, split)
    finished, _ = _run(words, progress)
    if finished.status != 0:
        raise program_error(finished.text, finished.status, words)
    stored = {path: time for path, time in _written(run, split).items() if before.get(path) != time}
    if not stored:
        raise MnemeError(f"{os.fspath(run)}: the evaluation was not stored; {finished.text or 'see the options'}")
    return Evaluation(max(stored, key=lambda path: stored[path]).parent)


def generate(
    run: Folder,
    prompt: Optional[str] = None,
    *,
    tokens: int = 256,
    prompt_ids: Optional[Sequence[int]] = None,
    progress: bool = True,
    **options: Option,
) -> Generated:
    """Continues a prompt, a text or ids, by `tokens` tokens.

    Options: `greedy`, `temperature`, `top_p`, `seed`, `samples`, ...
    """
    _refuse("generate", options)
    ids = None if prompt_ids is None else ",".join(map(str, prompt_ids))
    words = ["generate", os.fspath(run), *_words({"prompt": prompt, "prompt_ids": ids, "tokens": tokens, **options})]
    finished, info = _run(words, progress)
    if finished.status != 0 or info is None:
        raise program_error(finished.text, finished.status, words)
    return Generated(info)


def validate(plugin: PathLike, *, settings: Optional[Settings] = None, progress: bool = True, **options: Option) -> Validation:
    """Checks a plugin in small models. A check that fails is no error: see `Validation.passed` and `.failures`.

    `settings`: options of the plugin, `{"rows": 8}`. Options: `only`, `exclude`, `seed`, `jobs`, ...
    """
    _refuse("validate", options)
    words = ["plugins", "validate", str(plugin), *_words(options), *_settings(settings)]
    finished, info = _run(words, progress)
    if info is None or "checks" not in info or finished.status < 0 or finished.status > 128:
        raise program_error(finished.text, finished.status, words)
    return Validation(info)


def pair_samples(baseline: Folder, other: Folder, *, metric: Optional[str] = None, progress: bool = True) -> Any:
    """Compares two models on the tasks of lm-evaluation-harness, from the folders of its `--log_samples --output_path`.

    Returns a table with a row for each task and metric that both have, or for `metric` alone: means, difference, its 95 %
    interval `low` to `high`, `p`, `p_holm`, `verdict`, ... (docs/report.md). Errors: MnemeError for a folder without samples,
    ProgramError where those of both differ.
    """
    for folder in (Path(baseline), Path(other)):  # of runs the program would write a report
        if not any(next(folder.glob(form), None) for form in ("samples_*_*.jsonl", "*/samples_*_*.jsonl")):
            raise MnemeError(f"{folder}: no samples of lm-evaluation-harness: expected samples_TASK_DATE.jsonl")
    words = ["report", "--pairs", os.fspath(baseline), os.fspath(other), *_words({"metric": metric})]
    finished, info = _run(words, progress)
    if finished.status != 0 or info is None:
        raise program_error(finished.text, finished.status, words)
    return table_of_rows(info["pairs"])


def verify(bundle: PathLike) -> Verification:
    """Computes the report of a bundle anew from its losses, with the program mneme-report, which needs no torch.

    Errors: VerificationError where something differs; UsageError for a file that is no bundle, is cut, or has another version.
    """
    words = ["verify", os.fspath(bundle)]
    finished, info = _run(words, False, report_program())
    if info is None:
        raise program_error(finished.text, finished.status, words)
    result = Verification(info)
    if finished.status != 0:
        text = "\n".join([f"{os.fspath(bundle)} does not verify:", *result.findings])
        raise VerificationError(text, finished.status, words, result)
    return result


def _written(run: Folder, split: str) -> dict[Path, int]:
    """The stored evaluations of a split, and when they were written."""
    return {path: path.stat().st_mtime_ns for path in Path(run).glob(f"evaluations/{split}-*/evaluation.json")}


_WITHOUT_RESULT = {
    "train": ("dry_run", "json"),
    "compare": ("dry_run", "suite", "capacity", "scale", "json"),
    "evaluate": ("no_store", "watch", "extrapolate", "json"),
    "generate": ("chat", "json"),
    "validate": ("json",),
    "plan": ("json",),
}


def _refuse(function: str, options: Mapping[str, Option]) -> None:
    """Errors: MnemeError for options with which the program makes nothing that could be returned, or writes it elsewhere."""
    command = {"evaluate": "eval", "validate": "plugins validate"}.get(function, function)
    for name in _WITHOUT_RESULT[function]:
        if options.get(name):
            raise MnemeError(
                f"mneme.{function} cannot return what {name} gives; use the command line: "
                f"mneme {command} --{name.replace('_', '-')}"
            )


def _run(words: list[str], is_shown: bool, program: Optional[Path] = None) -> tuple[Finished, Optional[dict[str, Any]]]:
    """Runs the program with --json. The object is None where the program wrote none."""
    with tempfile.TemporaryDirectory(prefix="mneme-") as folder:
        path = Path(folder) / "out.json"
        finished = run_program([*words, "--json", str(path)], is_shown, program)
        return finished, json.loads(path.read_text(encoding="utf-8")) if path.is_file() else None


def _words(options: Mapping[str, Any]) -> list[str]:
    """Options as the words of a command line. None and False leave one out."""
    words: list[str] = []
    for name, value in options.items():
        option = "--" + name.replace("_", "-")
        if value is None or value is False:
            continue
        if value is True:
            words.append(option)
            continue
        for one in value if isinstance(value, (list, tuple)) else [value]:
            words.append(f"{option}={os.fspath(one) if isinstance(one, os.PathLike) else one}")
    return words


def _settings(settings: Optional[Settings]) -> list[str]:
    """Settings as the program reads them: TOML values. None removes a key."""
    words: list[str] = []
    for key, value in (settings or {}).items():
        words.append(f"--unset={key}" if value is None else f"--set={key}={_toml(value)}")
    return words


def _tunes(option: str, tunes: Optional[Tunes]) -> list[str]:
    """Values to be tried, as the program reads them: TOML values between commas, or a range."""
    words: list[str] = []
    for key, values in (tunes or {}).items():
        listed = [values] if isinstance(values, str) else [_toml([one])[1:-1] for one in values]
        words.append(f"{option}={key}={','.join(listed)}")
    return words


def _toml(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (list, tuple)):
        return (
            "[" + ", ".join(json.dumps(one, ensure_ascii=False) if isinstance(one, str) else _toml(one) for one in value) + "]"
        )
    return str(value)
