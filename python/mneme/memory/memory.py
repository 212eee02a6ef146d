"""The class that a memory derives from, and what its hooks return."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, Optional, Sequence

from .errors import HostError
from .rows import Rows
from .segment import Finish, Layer, Queries, Ride, Segment
from .setup import Names, Setup

if TYPE_CHECKING:
    import torch
    from torch import Tensor

HOOKS = ("begin", "absorb", "context", "ride", "read", "finish")
"""In the order of the payload's bits (python/bridge/payload.h)."""

LOG_LEVELS = ("debug", "info", "warning", "error")


@dataclass
class Riders:
    """What `begin` gives: rows that pass the layers with the tokens."""

    rows: Tensor  #: [B,M,D], as embedded: after embedding scale and dropout
    valid: Optional[Tensor] = None  #: [B,M] bool; None = all
    unseen: int = 0  #: the first `unseen` are seen by no token, and may attend to tokens


class Read(NamedTuple):
    """What `read` gives: a result and how it joins the local one. Made by the functions below."""

    merge: int
    out: Optional[Tensor] = None
    gate: Optional[Tensor] = None
    lse: Optional[Tensor] = None


def _given(value: Any, what: str) -> Any:
    if value is None:
        raise HostError(f"{what} is None: expected a tensor")
    return value


def nothing() -> Read:
    """Reads nothing this time."""
    return Read(0)


def add(out: Tensor) -> Read:
    """local + out. `out`: at "heads" [B,T,H,d] or [B,T,H*d], at "out" [B,T,D]; extents of 1 broadcast over B and T."""
    return Read(1, _given(out, "out"))


def gate(out: Tensor, a: Tensor) -> Read:
    """a * out + (1 - a) * local; where a = 0 out is not looked at. `a` broadcasts to out's whole shape."""
    return Read(2, _given(out, "out"), _given(a, "a"))


def lse(out: Tensor, log_sum: Tensor) -> Read:
    """At "heads" alone: exact joint softmax with the extra keys that out and log_sum [B,H,T] summarise; a query whose
    log_sum is -inf reads nothing."""
    return Read(3, _given(out, "out"), None, _given(log_sum, "log_sum"))


def replace(out: Tensor) -> Read:
    """out in place of the local result."""
    return Read(4, _given(out, "out"))


class _Declared(NamedTuple):
    """Names of what an instance declared."""

    parameters: Names
    slots: Names
    counts: Names
    queues: Names
    modules: dict[str, tuple[torch.nn.Module, list[tuple[str, int]]]]


class Memory:
    """A memory. Derive one class of a file from it, declare options as attributes, declare parameters and state in `setup`,
    and write the hooks that the memory needs: the host calls those that the class has and no others.

    An instance holds configuration and nothing that a hook computes: state lives in slots and queues, which the host
    resets, copies and saves. So no attribute can be set after `setup`. What a hook may never do, when each hook runs,
    and what is trained: docs/python-memories.md of the manual (`mneme.manual()`).

        class DecayedMean(mneme.Memory):
            id = "org.example.decayed_mean"
            decay = mneme.real(0.9, 0.0, 1.0, "weight of the past")

            def setup(self, s):
                s.slot("mean", [mneme.LANES, s.width])
    """

    id: str = ""
    """Letters, digits, ".", "_" and "-": "org.example.decayed_mean"."""
    version: str = "0.1.0"
    summary: str = ""
    """One sentence with the mechanism's source."""
    losses: Sequence[str] = ()
    """Names that hooks give to `aux`."""

    _host: Any
    _wants: int
    _dtypes: Sequence[torch.dtype]
    _names: _Declared

    def setup(self, s: Setup) -> None:
        """Declares parameters and state, and says what the memory is."""

    def begin(self, segment: Segment) -> Optional[Riders]:
        """Stage 1, once a segment, before the first layer. Sees state of the model alone."""
        return None

    def absorb(self, layer: Layer, rows: Rows) -> None:
        """Stage 2 or 7 of each layer served: takes rows into memory, detached, at least one. An invalid row (`rows.valid`)
        holds numbers of no meaning, even NaN."""

    def context(self, layer: Layer) -> None:
        """Stage 3 of each layer served: emits blocks of rows that the tokens may attend to."""

    def ride(self, layer: Layer, ride: Ride) -> Optional[Tensor]:
        """Stage 5 of each layer, in segments with riders: the result of their attention, [B,M,H,d]."""
        return None

    def read(self, layer: Layer, queries: Queries) -> Optional[Read]:
        """Stage 6 of each layer served, for each site: reads memory for the tokens. None reads nothing."""
        return None

    def finish(self, segment: Segment, finish: Finish) -> None:
        """Stage 8, once a segment, after the last layer. Sees state of the model alone."""

    def log(self, text: str, level: str = "info") -> None:
        """A line of the program's log, which names the memory; `level` is one of LOG_LEVELS."""
        self._host.log(LOG_LEVELS.index(level) + 1, text)

    def __setattr__(self, name: str, value: Any) -> None:
        if "_names" in self.__dict__:
            raise HostError(f"self.{name} is set in a hook: an instance holds nothing that a hook computes; keep state in a "
                            "slot (s.slot, layer.set) or a queue, constants in layer.constant")
        super().__setattr__(name, value)

    @classmethod
    def has(cls, hook: str) -> bool:
        """Whether the class, or one between it and Memory, has the hook."""
        return getattr(cls, hook) is not getattr(Memory, hook)
