"""Readers that answer the questions from a prompt alone, by rules. They share nothing with the generators but the sentences."""

from __future__ import annotations

import re
from collections import Counter


def solve(prompt: str) -> str:
    """The answer, without its leading space."""
    _, text, end = prompt.split("\n\n")
    question = end.split("\n")[0].removeprefix("Question: ")
    for form, solver in _SOLVERS:
        if found := re.fullmatch(form, question):
            return solver(text, *found.groups())
    raise AssertionError(f"no solver for: {question}")


def _codes(text: str, named: str, *_: str) -> str:
    told = re.findall(r"A secret code of (\S+) is (\S+)\.", text)
    return ", ".join(value for name in re.split(", | and ", named) for key, value in told if key == name)


def _variables(text: str, value: str) -> str:
    values: dict[str, str] = {}
    for name, given in re.findall(r"Let ([A-Z]+) be (\w+)\.", text):
        values[name] = values.get(given, given)
    return ", ".join(name for name in values if values[name] == value)


def _common(text: str) -> str:
    counts = Counter(text.split())
    most = {word for word, _ in counts.most_common(10)}
    assert min(counts[word] for word in most) > counts.most_common(11)[10][1]
    return ", ".join(word for word in counts if word in most)


def _frequent(text: str) -> str:
    (first, a), (second, b), (third, c), (_, d) = Counter(text.split()).most_common(4)
    assert a > b > c > d
    return f"{first}, {second}, {third}"


def _number(text: str, name: str) -> str:
    (number,) = [number for one, number in _entries(text) if one == name]
    return number


def _nearest_number(text: str, name: str) -> str:
    by_distance = sorted((sum(a != b for a, b in zip(one, name)), number) for one, number in _entries(text))
    assert len(by_distance) == 1 or by_distance[0][0] < by_distance[1][0]
    return by_distance[0][1]


def _entries(text: str) -> list[tuple[str, str]]:
    return re.findall(r"([^.:]+): (\d+-\d+)\. ?", text)


class _World:
    """The rooms of all names after each sentence."""

    def __init__(self, text: str) -> None:
        self.holder: dict[str, str] = {}
        self.gifts: list[tuple[str, str, str, str]] = []
        self.trails: dict[str, list[str]] = {}
        for sentence in re.split(r"(?<=\.) ", text):
            self._read(sentence)
            for name in self.holder:
                trail = self.trails.setdefault(name, [])
                if trail[-1:] != [self.room(name)]:
                    trail.append(self.room(name))

    def _read(self, sentence: str) -> None:
        if found := re.search(r"(?:(\w+)|The (\w+)) (?:is in|went to) the (\w+)\.$", sentence):
            self.holder[found[1] or found[2]] = found[3]
        elif found := re.search(r"(\w+) picked up the (\w+)\.$", sentence):
            self.holder[found[2]] = found[1]
        elif found := re.search(r"(\w+) put down the (\w+)\.$", sentence):
            self.holder[found[2]] = self.room(found[1])
        elif found := re.search(r"(\w+) took the (\w+) out of the (\w+)\.$", sentence):
            self.holder[found[2]] = found[1]
        elif found := re.search(r"(\w+) put the (\w+) into the (\w+)\.$", sentence):
            self.holder[found[2]] = found[3]
        elif found := re.search(r"(\w+) gave the (\w+) to (\w+)\.$", sentence):
            self.holder[found[2]] = found[3]
            self.gifts.append((found[1], found[2], found[3], self.room(found[1])))

    def room(self, name: str) -> str:
        while name in self.holder:
            name = self.holder[name]
        return name


def _where(text: str, name: str) -> str:
    return _World(text).room(name)


def _before(text: str, thing: str, room: str) -> str:
    trail = _World(text).trails[thing]
    assert trail.count(room) == 1
    return trail[trail.index(room) - 1]


def _gift(text: str, giver: str | None = None, thing: str = "", other: str | None = None) -> tuple[str, str, str, str]:
    (gift,) = [
        gift
        for gift in _World(text).gifts
        if gift[0] == (giver or gift[0]) and gift[1] == thing and gift[2] == (other or gift[2])
    ]
    return gift


def _count(text: str, person: str) -> str:
    return ("zero", "one", "two", "three")[list(_World(text).holder.values()).count(person)]


def _is_in(text: str, name: str, room: str) -> str:
    return "yes" if _World(text).room(name) == room else "no"


_SOLVERS = (
    (r"What is the secret code of (\S+)\?", _codes),
    (r"What are the 4 secret codes of (\S+), in the order of the text\?", _codes),
    (r"What are the secret codes of (.+), in this order\?", _codes),
    (r"Which five variables have the value (\d+), in the order of the text\?", _variables),
    (r"Which ten words occur most often, in the order in which they first occur\?", _common),
    (r"Which three words occur most often, the most frequent first\?", _frequent),
    (r"What is the number of the name that is spelled most like (\w+)\?", _nearest_number),
    (r"What is the number of ([\w ]+)\?", _number),
    (r"In which room is (?:the )?(\w+) at the end\?", _where),
    (r"In which room was the (\w+) just before it came into the (\w+)\?", _before),
    (r"Who gave the (\w+) to (\w+)\?", lambda text, thing, other: _gift(text, None, thing, other)[0]),
    (r"To whom did (\w+) give the (\w+)\?", lambda text, giver, thing: _gift(text, giver, thing)[2]),
    (r"In which room did (\w+) give the (\w+) to (\w+)\?", lambda text, *gift: _gift(text, *gift)[3]),
    (r"How many things does (\w+) hold at the end\?", _count),
    (r"Is (?:the )?(\w+) in the (\w+) at the end, yes or no\?", _is_in),
)
