"""A task is a function from draws to facts, a question and its answer."""

from __future__ import annotations

from collections.abc import Callable, Sequence, Set
from dataclasses import dataclass
from typing import Optional

from .draws import Draws

Size = Callable[[str], int]
Hay = Callable[[int], list[str]]


@dataclass(frozen=True)
class Fact:
    """A sentence. `is_needed`: the answer depends on it."""

    text: str
    is_needed: bool = False


@dataclass(frozen=True)
class Question:
    """A question before its facts are hidden.

    `facts`: in the order of the text. `cue`: the words after "Answer:" with which the answer begins. `choices`: the answers
    between which the question leaves the choice, or none. `hay`: the sentences around the facts where they are the task's
    own, as a function of the room that they may take; `least_hay`: the least such room.
    """

    facts: Sequence[Fact]
    ask: str
    cue: str
    answer: str
    choices: Sequence[str] = ()
    hay: Optional[Hay] = None
    least_hay: int = 0
    intro: str = "Read the text. A question follows."


@dataclass(frozen=True)
class Setting:
    """`size`: of a text, in the unit of lengths. `words`: those of the books, in lower case, which no made-up name may be."""

    size: Size
    words: Callable[[], Set[str]]


@dataclass(frozen=True)
class Task:
    """`family`: the name under which it is asked for with others. `hay`: "books", "noise", or "own" of each question."""

    name: str
    family: str
    hay: str
    make: Callable[[Draws, Setting], Question]


def fill(begin: Callable[[], Callable[[], str]], size: Size) -> Hay:
    """Hay of sentences that are drawn one after another. `begin` gives the draw of a hay, from its first sentence on."""

    def take(room: int) -> list[str]:
        draw = begin()
        sentences: list[str] = []
        while True:
            sentence = draw()
            room -= size(f" {sentence}")
            if room < 0:
                return sentences
            sentences.append(sentence)

    return take
