"""Numbers that depend on names alone, on every machine and in every version of Python."""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Sequence
from typing import TypeVar

T = TypeVar("T")


class Draws:
    """A stream of draws, uniform and independent.

    Block b of a stream is the SHA-256 of "NAME/b": four integers of 64 bits, big-endian. A draw takes the next one.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._block = 0
        self._left: list[int] = []

    def stream(self, name: str) -> Draws:
        """Another stream, from its beginning. It does not depend on what was drawn from this one."""
        return Draws(f"{self._name}/{name}")

    def bits(self) -> int:
        """An integer in [0, 2^64)."""
        if not self._left:
            digest = hashlib.sha256(f"{self._name}/{self._block}".encode()).digest()
            self._left = list(reversed(struct.unpack(">4Q", digest)))
            self._block += 1
        return self._left.pop()

    def below(self, count: int) -> int:
        """An integer in [0, count), each with a probability of 1 / count to within 2^-64."""
        return self.bits() * count >> 64

    def unit(self) -> float:
        """A multiple of 2^-53 in [0, 1)."""
        return (self.bits() >> 11) * 2.0**-53

    def pick(self, items: Sequence[T]) -> T:
        return items[self.below(len(items))]

    def sample(self, items: Sequence[T], count: int) -> list[T]:
        """`count` of the items without replacement, in random order: the first steps of a Fisher-Yates shuffle."""
        moved: dict[int, int] = {}
        taken = []
        for first in range(count):
            other = first + self.below(len(items) - first)
            taken.append(items[moved.get(other, other)])
            moved[other] = moved.get(first, first)
        return taken

    def shuffled(self, items: Sequence[T]) -> list[T]:
        return self.sample(items, len(items))
