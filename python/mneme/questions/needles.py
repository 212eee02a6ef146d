"""RULER's eight searches for needles [Hsieh et al. 2024], and its variable tracking."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from . import words
from .draws import Draws
from .task import Fact, Question, Setting, Task, fill


@dataclass(frozen=True)
class _Needles:
    """`keys`: needles of that number of keys are hidden, `values`: with that number of values for each key, `asked`: keys
    that the question names. `is_hay`: the haystack is other needles."""

    key: Callable[[Draws], str] = words.pair
    value: Callable[[Draws], str] = words.number
    keys: int = 1
    values: int = 1
    asked: int = 1
    is_hay: bool = False

    def __call__(self, draws: Draws, setting: Setting) -> Question:
        used: set[str] = set()
        keys = [words.new(self.key, draws, used) for _ in range(self.keys)]
        values: set[str] = set()
        needles = [(key, words.new(self.value, draws, values)) for key in keys for _ in range(self.values)]
        needles = draws.shuffled(needles)
        asked = draws.sample(keys, self.asked)
        answers = [value for key in asked for one, value in needles if one == key]
        facts = [Fact(_needle(key, value), key in asked) for key, value in needles]
        hay = fill(lambda: self._other_needles(draws.stream("hay"), set(used)), setting.size) if self.is_hay else None
        if self.values > 1:
            ask = f"What are the {self.values} secret codes of {keys[0]}, in the order of the text?"
            cue = f"The secret codes of {keys[0]} are"
        elif self.asked > 1:
            named = f"{', '.join(asked[:-1])} and {asked[-1]}"
            ask, cue = f"What are the secret codes of {named}, in this order?", f"The secret codes of {named} are"
        else:
            ask, cue = f"What is the secret code of {asked[0]}?", f"The secret code of {asked[0]} is"
        return Question(facts, ask, cue, ", ".join(answers), hay=hay)

    def _other_needles(self, draws: Draws, used: set[str]) -> Callable[[], str]:
        return lambda: _needle(words.new(self.key, draws, used), self.value(draws))


def _needle(key: str, value: str) -> str:
    return f"A secret code of {key} is {value}."


def _variables(draws: Draws, setting: Setting) -> Question:
    """Two chains of five variables, each of which gets the value of the one before it. The first chain is asked for."""
    used: set[str] = set()
    chains = [[words.new(words.made_up, draws, used).upper() for _ in range(5)] for _ in range(2)]
    values = [words.new(_five_digits, draws, used) for _ in chains]
    told = [
        iter([Fact(f"Let {name} be {given}.", names is chains[0]) for name, given in zip(names, [value, *names])])
        for names, value in zip(chains, values)
    ]
    facts = [next(told[turn]) for turn in draws.shuffled([0] * 5 + [1] * 5)]
    ask = f"Which five variables have the value {values[0]}, in the order of the text?"
    return Question(facts, ask, f"The variables with the value {values[0]} are", ", ".join(chains[0]))


def _five_digits(draws: Draws) -> str:
    return str(10_000 + draws.below(90_000))


TASKS = (
    Task("needle_single_1", "ruler", "noise", _Needles()),
    Task("needle_single_2", "ruler", "books", _Needles()),
    Task("needle_single_3", "ruler", "books", _Needles(value=words.uuid)),
    Task("needle_multikey_1", "ruler", "books", _Needles(keys=4)),
    Task("needle_multikey_2", "ruler", "own", _Needles(is_hay=True)),
    Task("needle_multikey_3", "ruler", "own", _Needles(words.uuid, words.uuid, is_hay=True)),
    Task("needle_multivalue", "ruler", "books", _Needles(values=4)),
    Task("needle_multiquery", "ruler", "books", _Needles(keys=4, asked=4)),
    Task("variable_tracking", "ruler", "noise", _variables),
)
