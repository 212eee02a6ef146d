"""Stored evaluations: the loss of every target, as arrays (docs/runs.md, "Stored evaluations")."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .errors import FormatError
from .files import PathLike, map_columns, read_json, read_lines
from .tables import html_table, table, table_of_rows

if TYPE_CHECKING:
    import numpy
    from numpy.typing import NDArray


@dataclass(frozen=True)
class Losses:
    """The columns of an evaluation, one entry a target, sorted by document, position, lane. Mapped into memory, read-only.

    Arrays have the shape [n]. Ids of tokens are those of the run's vocabulary.
    """

    columns: dict[str, Any]  #: all columns by name; those below, and of generated tasks `predicted`
    nll: NDArray[numpy.floating[Any]]  #: negative log-likelihood, nats; f32 or f64, exact
    target: NDArray[numpy.int32]  #: id of the token that was predicted
    document: NDArray[numpy.int32]  #: its document's number in the split, or a task's sequence; -1 = unknown
    position: NDArray[numpy.int32]  #: tokens of that document before it; -1 = unknown
    lane: NDArray[numpy.int32]  #: lane that read it
    place: NDArray[numpy.int32]  #: place of the predicting token in its segment, from 0
    segment: NDArray[numpy.int32]  #: number of the segment in the stream, from 0
    correct: NDArray[numpy.uint8]  #: 1 = it was the arg max

    def __len__(self) -> int:
        return int(self.nll.shape[0])

    def __getitem__(self, name: str) -> Any:
        return self.columns[name]

    def mean(self) -> float:
        """Mean loss of a target, nats, summed in f64."""
        return float(self.nll.mean(dtype="f8"))

    def table(self) -> Any:
        """All columns as a pandas.DataFrame, or as plain columns where pandas is missing."""
        return table(self.columns)

    def __repr__(self) -> str:
        return f"<losses of {len(self):,} targets: {', '.join(self.columns)}>"

    def _repr_html_(self) -> str:
        return (
            html_table(self.columns, list(zip(*(column[:20].tolist() for column in self.columns.values()))))
            + f"<p>{len(self):,} targets</p>"  # their mean would read a file of any size
        )


_COLUMNS = ("nll", "target", "document", "position", "lane", "place", "segment", "correct")


class Evaluation:
    """One evaluation of a run that its folder keeps."""

    def __init__(self, path: PathLike) -> None:
        """`path`: RUN/evaluations/<name>. Errors: FormatError, VersionError."""
        self.path = Path(path)
        self.info = read_json(self.path / "evaluation.json", "mneme-evaluation", 1)  #: all of evaluation.json

    @property
    def split(self) -> str:
        return str(self.info["split"])

    @property
    def step(self) -> int:
        """Training steps of the evaluated weights."""
        return int(self.info["step"])

    @property
    def result(self) -> dict[str, Any]:
        """The numbers: `loss` (nats a target), `perplexity`, `accuracy`, `tokens`, ... (docs/evaluation.md)."""
        return dict(self.info["result"])

    @property
    def loss(self) -> float:
        """Mean loss, nats a target."""
        return float(self.info["result"]["loss"])

    @cached_property
    def losses(self) -> Losses:
        """The loss of every target."""
        columns = map_columns(self.path / "nll.safetensors")
        missing = [name for name in _COLUMNS if name not in columns]
        if missing:
            raise FormatError(f"{self.path / 'nll.safetensors'}: has no column {', '.join(missing)}")
        return Losses(columns=columns, **{name: columns[name] for name in _COLUMNS})

    def samples(self) -> Any:
        """The sums of every document, sequence, question or lane: `id`, `targets`, `nll` (nats), `correct`, ... as a table."""
        return table_of_rows(read_lines(self.path / "samples.jsonl"))

    def __repr__(self) -> str:
        return f"<evaluation of {self.split} after {self.step} steps: loss {self.loss:.4f}>"

    def _repr_html_(self) -> str:
        numbers = [(name, value) for name, value in self.result.items() if isinstance(value, (int, float))]
        return f"<p>{self.split} after {self.step} steps</p>" + html_table(("", ""), numbers)
