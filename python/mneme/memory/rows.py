"""Rows: hidden vectors, or keys and values, of every lane."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Optional, Sequence

from .errors import HostError

if TYPE_CHECKING:
    from torch import Tensor

RowsKind = Literal["hidden", "normed", "keys_values"]
KINDS: tuple[RowsKind, ...] = ("hidden", "normed", "keys_values")
"""Layer inputs before the layer's norm; behind it; keys and values before any position term."""


@dataclass
class Rows:
    """m rows of each lane, oldest first. What is not known of them is None."""

    kind: RowsKind = "hidden"
    count: int = 0  #: m, the same for all lanes
    hidden: Optional[Tensor] = None  #: [B,m,D] in the compute dtype; not of "keys_values"
    k: Optional[Tensor] = None  #: [B,m,H,d], of "keys_values" alone
    v: Optional[Tensor] = None  #: as k
    valid: Optional[Tensor] = None  #: [B,m] bool; None = every row of every lane is valid
    position: Optional[Tensor] = None  #: [B,m] i64, the row's absolute place in its lane
    mass: Optional[Tensor] = None  #: [B,m] f32, attention mass
    counts: Optional[Sequence[int]] = None  #: [B] valid rows of each lane; None = m, or not counted

    @staticmethod
    def of_hidden(hidden: Tensor, valid: Optional[Tensor] = None) -> Rows:
        """Hidden rows [B,m,D], all valid unless `valid` [B,m] says otherwise. They are inputs of a layer, like those of its tokens:
        where the host reads them it makes the norm before attention (of a pre-norm model) and projects them to keys and values."""
        return Rows("hidden", hidden.shape[1], hidden, valid=valid)

    @staticmethod
    def of_keys_values(k: Tensor, v: Tensor, valid: Optional[Tensor] = None) -> Rows:
        """Keys and values [B,m,H,d] before any position term."""
        return Rows("keys_values", k.shape[1], k=k, v=v, valid=valid)

    @staticmethod
    def _from_host(given: tuple[Any, ...]) -> Rows:
        return Rows(KINDS[given[0]], *given[1:])


def given_rows(rows: Any, call: str, expected: str = "mneme.Rows") -> tuple[Any, ...]:
    """`rows` as the program takes them. Errors: HostError, which names `call` where they are something else."""
    if not isinstance(rows, Rows):
        raise HostError(f"{call} got a {type(rows).__name__}: expected {expected}; mneme.Rows.of_hidden(tensor) makes rows of a "
                        "tensor [B,m,D]")
    if rows.kind not in KINDS:
        raise HostError(f"rows are of kind {rows.kind!r}: expected one of {', '.join(KINDS)}")
    counts = None if rows.counts is None else tuple(rows.counts)
    return (KINDS.index(rows.kind), rows.count, rows.hidden, rows.k, rows.v, rows.valid, rows.position, rows.mass, counts)
