"""RULER's common and frequent words [Hsieh et al. 2024]."""

from __future__ import annotations

from collections.abc import Callable
from typing import Union

from . import words
from .draws import Draws
from .task import Hay, Question, Setting, Size, Task

_COMMON, _COMMON_TIMES, _RARE_TIMES = 10, 30, 3
_LEAST_COMMON, _LEAST_FREQUENT = 40, 30  # words with which the answer is unique
_INTRO = "Read the words. A question follows."


def _common(draws: Draws, setting: Setting) -> Question:
    """Of n words ten occur f = min(30, floor(n / 20)) times each, and the others max(1, floor(f / 10)) times each."""
    common: set[str] = set()
    order = [words.new(words.made_up, draws, common) for _ in range(_COMMON)]

    def listed(count: int) -> list[str]:
        hay, used = draws.stream("hay"), set(common)
        times = min(_COMMON_TIMES, count // (2 * _COMMON))
        rare_times = max(1, times * _RARE_TIMES // _COMMON_TIMES)
        drawn: list[Union[int, str]] = [*range(_COMMON)] * times
        while len(drawn) < count:
            drawn += [words.new(words.made_up, hay, used)] * min(rare_times, count - len(drawn))
        # Common words are numbers until their order is known: the first to occur is order[0], and so on.
        place: dict[int, int] = {}
        return [one if isinstance(one, str) else order[place.setdefault(one, len(place))] for one in hay.shuffled(drawn)]

    hay, least = _words_for(listed, _LEAST_COMMON, setting.size)
    ask = "Which ten words occur most often, in the order in which they first occur?"
    cue = "The ten words that occur most often are"
    return Question((), ask, cue, ", ".join(order), hay=hay, least_hay=least, intro=_INTRO)


def _frequent(draws: Draws, setting: Setting) -> Question:
    """Of n words the k-th most frequent one occurs floor(6 n / (pi k)^2) times, and words that occur once fill the rest."""
    first: set[str] = set()
    order = [words.new(words.made_up, draws, first) for _ in range(3)]

    def listed(count: int) -> list[str]:
        hay, used = draws.stream("hay"), set(first)
        drawn: list[str] = []
        rank = 1
        while len(drawn) < count:
            times = max(1, 607_927 * count // (1_000_000 * rank * rank))
            word = order[rank - 1] if rank <= len(order) else words.new(words.made_up, hay, used)
            drawn += [word] * min(times, count - len(drawn))
            rank += 1
        return hay.shuffled(drawn)

    hay, least = _words_for(listed, _LEAST_FREQUENT, setting.size)
    ask, cue = "Which three words occur most often, the most frequent first?", "The three words that occur most often are"
    return Question((), ask, cue, ", ".join(order), hay=hay, least_hay=least, intro=_INTRO)


def _words_for(listed: Callable[[int], list[str]], least: int, size: Size) -> tuple[Hay, int]:
    """The longest list that fits a room, or one of a few words less, and the room of the shortest one."""

    def of(text: list[str]) -> int:
        return size(" " + " ".join(text))

    def take(room: int) -> list[str]:
        count = max(least, room)
        while (taken := of(text := listed(count))) > room and count > least:
            count = max(least, min(count - 1, count * room // taken))
        return text

    return take, of(listed(least))


TASKS = (
    Task("common_words", "ruler", "own", _common),
    Task("frequent_words", "ruler", "own", _frequent),
)
