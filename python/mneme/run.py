"""A run's folder (docs/runs.md)."""

from __future__ import annotations

import json
import tomllib
from functools import cached_property
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Optional, Sequence, get_args

from .choice import own_evaluation
from .errors import FormatError
from .evaluation import Evaluation, Losses
from .files import PathLike, no_folder, read_json, read_lines, read_text
from .tables import flat, html_table, table_of_rows

if TYPE_CHECKING:
    from .service import Chat, Continuation, Score, Service, Text

Kind = Literal["step", "eval", "curve"]
_SPLITS = ("valid", "test")


class Run:
    """A run: what was trained, its curves and its evaluations, while it may be at work; and what it says of texts."""

    def __init__(self, path: PathLike) -> None:
        """`path`: the run's folder. Errors: FormatError where it holds no run, VersionError where the run is newer."""
        self.path = Path(path)
        if not self.path.is_dir():
            raise FormatError(f"{self.path}: no run of mneme: {no_folder(self.path)}")
        if not (self.path / "experiment.toml").is_file():
            kind = (
                "a comparison: mneme.Comparison reads it"
                if (self.path / "comparison.json").is_file()
                else "expected experiment.toml and run.json; name a folder that mneme.train or `mneme train --run` wrote"
            )
            raise FormatError(f"{self.path}: no run of mneme: {kind}")
        self.info = read_json(self.path / "run.json", "mneme.run", 1, "revision")  #: all of run.json
        self._service: Optional[Service] = None

    @cached_property
    def experiment(self) -> dict[str, Any]:
        """The experiment with every key, as tables: `run.experiment["train"]["segment"]`."""
        try:
            return tomllib.loads(self.experiment_text)
        except tomllib.TOMLDecodeError as error:
            raise FormatError(f"{self.path / 'experiment.toml'}: no TOML: {error}") from None

    @property
    def experiment_text(self) -> str:
        """The same as TOML."""
        return read_text(self.path / "experiment.toml")

    def metrics(self, kind: Kind = "step") -> Any:
        """The training's curves as a table with the column `step`.

        "step": `loss` (nats a target), `grad_norm`, `lr`, `tokens`, `seconds`, `losses.<tier>.<name>`, ... "eval": the
        evaluations while training, `split`, `result.loss`, ... "curve": the learning curve, `split`, `loss`, ...
        """
        return table_of_rows(self.metric_rows(kind))

    def metric_rows(self, kind: Kind = "step") -> list[dict[str, Any]]:
        """The rows of `metrics`, nested keys with points between them."""
        if kind not in get_args(Kind):
            raise ValueError(f"metrics: expected {', '.join(map(repr, get_args(Kind)))}, got {kind!r}")
        lines = read_lines(self.path / "metrics.jsonl")
        return [
            flat({key: value for key, value in line.items() if key != "kind"}) for line in lines if line.get("kind") == kind
        ]

    def evaluations(self) -> list[Evaluation]:
        """The evaluations that the folder keeps, by split, steps and time."""
        folders = sorted((self.path / "evaluations").glob("*/evaluation.json"))
        found = [Evaluation(folder.parent) for folder in folders]
        return sorted(found, key=lambda one: (one.split, one.step, str(one.info.get("written", ""))))

    def evaluation(self, split: str = "valid") -> Evaluation:
        """The one of a split that a report takes: of the run's own memory, model and data, of the most steps.

        Of several of these steps one with the run's own plugins and [eval] comes first. `evaluations()` has all others.
        """
        everything = self.evaluations()
        of_split = [one for one in everything if one.split == split]
        own = own_evaluation(of_split, self.experiment, self.info)
        if own is None:
            has = ", ".join(sorted({one.split for one in everything})) or "none"
            to_do = f"mneme.evaluate(run, split='{split}') makes one" if split in _SPLITS else "a split is valid or test"
            what = " of its own memory, model and data" if of_split else ""
            raise FormatError(f"{self.path}: no stored evaluation of the split '{split}'{what} (there are: {has}); {to_do}")
        return own

    def losses(self, split: str = "valid") -> Losses:
        """The loss of every target in `evaluation(split)`: arrays [n], memory-mapped."""
        return self.evaluation(split).losses

    def checks(self) -> dict[str, Any]:
        """What the checks of the memory found before and after the training (docs/compare.md)."""
        return read_json(self.path / "checks.json", "mneme-checks", 1)

    @property
    def service(self) -> Service:
        """The program that scores and continues texts with this run: one for each Run object, which starts at its first use
        and again where it has ended. mneme.Service takes another memory or other settings."""
        from .service import Service

        if self._service is None or not self._service.is_open:
            self._service = Service(self.path)
        return self._service

    def score(self, texts: Sequence[Text], context: Optional[Text] = None, *, carry: bool = False) -> list[Score]:
        """Of each text the log-probability, behind `context` where there is one; with `carry` each behind the one before.

        A text without either is scored from its second token on: nothing predicts the first.
        """
        return self.service.score(texts, context, carry=carry)

    def generate(self, prompt: Text, *, tokens: int = 256, **keys: Any) -> Continuation:
        """Continues a prompt: greedy=True, until=["\\n"], temperature=0.8, top_k=, top_p=, min_p=, seed=7."""
        return self.service.generate(prompt, tokens=tokens, **keys)

    def chat(self, **keys: Any) -> Chat:
        """A conversation, with a program of its own; `keys` are those of `generate`."""
        from .service import Chat, Service

        return Chat(Service(self.path), **keys)

    def __fspath__(self) -> str:
        return str(self.path)

    def __repr__(self) -> str:
        return f"mneme.Run({str(self.path)!r})"

    def _repr_html_(self) -> str:
        steps = self.metric_rows("step") if (self.path / "metrics.jsonl").is_file() else []
        of = self.experiment.get("train", {}).get("steps", "?")
        done = max((row["step"] for row in steps), default=0)
        memory = ", ".join(plugin["id"] for plugin in self.info.get("plugins", [])) or "none"
        rows = [
            ("memory", memory),
            ("steps", f"{done} of {of}"),
            (
                "parameters",
                f"{self.info.get('backbone_parameters', 0):,} and {self.info.get('memory_parameters', 0):,} of the memory",
            ),
            ("data", json.dumps(self.info.get("data", {}).get("task"))),
            ("device", self.info.get("device", "")),
        ]
        rows += [(f"{one.split} loss after {one.step} steps", one.loss) for one in self.evaluations()]
        return f"<p>run {escape(str(self.path))}</p>" + html_table(("", ""), rows)
