"""Look-ups of a number by a name: the phone book [Jelassi et al. 2024], in which nothing but entries is to be read."""

from __future__ import annotations

from collections.abc import Callable
from math import isqrt

from . import words
from .draws import Draws
from .task import Fact, Hay, Question, Setting, Task, fill


def _name(draws: Draws) -> str:
    return words.made_up(draws).capitalize()


def _entry(name: str, number: str) -> str:
    return f"{name}: {number}."


def _entries(draws: Draws, used: set[str], name: Callable[[Draws], str]) -> Callable[[], str]:
    """Entries of names that are not among those used."""
    return lambda: _entry(words.new(name, draws, used), words.phone_number(draws))


def _question(facts: list[Fact], named: str, number: str, hay: Hay) -> Question:
    ask, cue = f"What is the number of {named}?", f"The number of {named} is"
    return Question(facts, ask, cue, number, hay=hay, intro="Read the entries. A question follows.")


def _single(draws: Draws, setting: Setting) -> Question:
    name, number = _name(draws), words.phone_number(draws)
    hay = fill(lambda: _entries(draws.stream("hay"), {name}, _name), setting.size)
    return _question([Fact(_entry(name, number), True)], name, number, hay)


def _pair(draws: Draws, setting: Setting) -> Question:
    """Two words name a number together. Each of the two is part of at least one other name."""
    parts: set[str] = set()
    first, last, other_first, other_last = (words.new(_name, draws, parts) for _ in range(4))
    names = [f"{first} {last}", f"{first} {other_last}", f"{other_first} {last}"]
    numbers = [words.phone_number(draws) for _ in names]
    facts = [Fact(_entry(name, number), name == names[0]) for name, number in zip(names, numbers)]

    def take(room: int) -> list[str]:
        def begin() -> Callable[[], str]:
            hay, used = draws.stream("hay"), set(parts)
            firsts, lasts = (
                [*given, *(words.new(_name, hay, used) for _ in range(isqrt(room)))]
                for given in ([first, other_first], [last, other_last])
            )
            return _entries(hay, set(names), lambda draw: f"{draw.pick(firsts)} {draw.pick(lasts)}")

        return fill(begin, setting.size)(room)

    return _question(draws.shuffled(facts), names[0], numbers[0], take)


def _fuzzy(draws: Draws, setting: Setting) -> Question:
    """The name is asked for with another letter in one place. All other names differ from that spelling in two or more."""
    name, number = words.made_up(draws), words.phone_number(draws)
    wrong, near = words.misspelt(draws, name)
    used = {one.capitalize() for one in near}
    hay = fill(lambda: _entries(draws.stream("hay"), set(used), _name), setting.size)
    named = f"the name that is spelled most like {wrong.capitalize()}"
    return _question([Fact(_entry(name.capitalize(), number), True)], named, number, hay)


TASKS = (
    Task("phonebook", "phonebooks", "own", _single),
    Task("phonebook_pair", "phonebooks", "own", _pair),
    Task("phonebook_fuzzy", "phonebooks", "own", _fuzzy),
)
