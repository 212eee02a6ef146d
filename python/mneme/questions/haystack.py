"""The sentences between which facts are hidden."""

from __future__ import annotations

import re
import sys
from bisect import bisect_right
from collections.abc import Sequence, Set
from functools import cached_property
from itertools import accumulate, chain, cycle
from pathlib import Path

from ..errors import FormatError, MnemeError
from ..files import PathLike, check_is_text, check_link
from .draws import Draws
from .length import Unit
from .task import Fact

_NOISE = (
    "Rain falls on the roof.",
    "A cart rolls down the lane.",
    "The kettle hums on the stove.",
    "Nobody is in a hurry.",
    "The wind turns, and the leaves turn with it.",
    "Soon it will be evening.",
)
# A word before a point that ends no sentence.
_SHORT = re.compile(r"(?:^|\W)(?:Mr|Mrs|Ms|Dr|St|Mme|Mlle|M|Messrs|Prof|Rev|Capt|Col|Gen|Lieut|Vol|No|[A-Z])\.$")
_END = re.compile(r"[.!?…]+[\"'”’»)\]_*]*\s+(?=\S)")
_NEXT_SENTENCES = 50  # that may fill what the last whole one left


def sentences_of(text: str) -> list[str]:
    """The sentences of a text, white space in them made single spaces.

    The end of a paragraph ends a sentence, too. One behind a colon does not, and a paragraph's last words are left out where
    they end with a letter or a digit, as headings do: a fact behind them would be read as their end.
    """
    sentences = []
    for paragraph in re.split(r"(?<!:)(?<!:--)(?<!:—)\n\s*\n", text):
        paragraph = " ".join(paragraph.split())
        begin = 0
        for end in _END.finditer(paragraph):
            sentence, following = paragraph[begin : end.end()].rstrip(), paragraph[end.end() :][:3].lstrip("\"'“‘«([_*")
            if following[:1].islower() or _SHORT.search(sentence):
                continue
            sentences.append(sentence)
            begin = end.end()
        if begin < len(paragraph) and not paragraph[-1].isalnum():
            sentences.append(paragraph[begin:])
    return sentences


class Noise:
    """Six sentences of our own, over and over, from the first one."""

    words: Set[str] = frozenset()

    def __init__(self, unit: Unit) -> None:
        self._sizes = [unit.size(f" {sentence}") for sentence in _NOISE]

    def take(self, draws: Draws, room: int) -> list[str]:
        sentences = []
        for sentence, size in cycle(zip(_NOISE, self._sizes)):
            room -= size
            if room < 0:
                break
            sentences.append(sentence)
        return sentences


class Books:
    """The sentences of a text file, or of a folder's .txt files in the order of their names.

    Hidden ones and pipes, sockets and devices are left out and named on stderr. Errors: FormatError for a path that is
    neither, a link to what is not there, a folder without such files, a file that is packed, a pointer or no UTF-8, and no
    sentences.
    """

    def __init__(self, path: PathLike, unit: Unit) -> None:
        self._path, self._unit = Path(path), unit
        check_link(self._path)
        paths = [self._path] if self._path.is_file() else _listed(self._path)
        if not paths:
            raise FormatError(
                f"{path}: the folder has no .txt file"
                if self._path.is_dir()
                else f"{path}: there is no such file or folder; name a text file, or a folder with .txt files"
            )
        self._sentences = list(chain.from_iterable(sentences_of(_text(one)) for one in paths))
        if not self._sentences:
            raise FormatError(f"{path}: no sentence was found: expected text with points at the ends of sentences")
        sizes = [unit.size(f" {sentence}") for sentence in self._sentences]
        self._sizes, self._ends = sizes, [0, *accumulate(sizes)]

    @cached_property
    def words(self) -> Set[str]:
        """All words, in lower case."""
        return frozenset(word for sentence in self._sentences for word in re.findall(r"\w+", sentence.lower()))

    def take(self, draws: Draws, room: int) -> list[str]:
        """Sentences one after another, from one that is drawn on, and of the next fifty those that still fit.

        Errors: MnemeError where the books are shorter than the room.
        """
        if self._ends[-1] < room:
            raise MnemeError(
                f"{self._path}: the books have {self._ends[-1]} {self._unit.name}, and the haystack needs {room}; "
                "add books, or give a smaller length"
            )
        first = draws.below(bisect_right(self._ends, self._ends[-1] - room))
        last = bisect_right(self._ends, self._ends[first] + room) - 1
        room -= self._ends[last] - self._ends[first]
        taken = self._sentences[first:last]
        for sentence, size in zip(self._sentences[last : last + _NEXT_SENTENCES], self._sizes[last : last + _NEXT_SENTENCES]):
            if size <= room:
                room -= size
                taken.append(sentence)
        return taken


def _listed(folder: Path) -> list[Path]:
    paths = sorted(folder.glob("*.txt"))
    hidden = [path for path in paths if path.name.startswith(".")]
    others = [path for path in paths if path not in hidden and path.exists() and not (path.is_file() or path.is_dir())]
    for what, left_out, hint in (
        ("hidden files", hidden, "name a file itself to read it"),
        ("pipes, sockets and devices", others, "copy their contents into files to read them"),
    ):
        if left_out:
            names = ", ".join(path.name for path in left_out)
            print(f"mneme: warning: {folder}: {what} are left out: {names}; {hint}", file=sys.stderr)
    return [path for path in paths if path not in hidden and path not in others]


def _text(path: Path) -> str:
    check_link(path)
    check_is_text(path, "a text in UTF-8")
    try:
        return path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise FormatError(f"{path}: cannot be read as a text in UTF-8: {error}") from None


def hide(facts: Sequence[Fact], depths: Sequence[float], hay: Sequence[str]) -> str:
    """The text of facts and hay: a fact of depth d in [0, 1) is behind floor(d (n + 1)) of the n sentences of hay.

    Depths rise, so that the facts keep their order.
    """
    parts: list[str] = []
    done = 0
    for fact, depth in zip(facts, depths):
        place = int(depth * (len(hay) + 1))
        parts += hay[done:place]
        parts.append(fact.text)
        done = place
    return " ".join([*parts, *hay[done:]])
