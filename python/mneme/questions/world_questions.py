"""Questions about the simulated world, as in bAbI [Weston et al. 2015] and BABILong [Kuratov et al. 2024].

Each takes a world that has ended, and returns None where the world gives no such question.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Optional

from .draws import Draws
from .task import Fact, Question, Setting, Task
from .world import Support, World, begin, step

_INTRO = (
    "Read the text. Notes about persons and things are mixed into it, in the order of time. A note names them by their names. "
    "A thing that is held, or inside another thing, goes with it. A question follows."
)
_ROOM = "The room is the"
_NUMBERS = ("zero", "one", "two", "three")


@dataclass(frozen=True)
class _Asked:
    ask: str
    cue: str
    answer: str
    choices: Sequence[str]
    support: Support


_Ask = Callable[[World, Draws], Optional[_Asked]]


def _pick(draws: Draws, asked: Sequence[_Asked]) -> Optional[_Asked]:
    return draws.pick(asked) if asked else None


def _where(hops: int) -> _Ask:
    """In which room somebody or something is, which follows from `hops` facts: who or what holds it, where that is, ...

    A thing that is asked for is not where it was first. The newest room of the text is the answer as often as any other one,
    once in six questions.
    """

    def ask(world: World, draws: Draws) -> Optional[_Asked]:
        is_newest = draws.stream("newest").below(len(world.rooms)) == 0  # the same for all worlds that are tried
        newest = next(event[-1] for event in reversed(world.events) if event[0] in ("is", "move"))
        names = world.persons if hops == 1 else world.things
        return _pick(
            draws,
            [
                _Asked(f"In which room is {_named(world, name)} at the end?", _ROOM, world.room(name), world.rooms, support)
                for name in names
                if len(support := world.support(name)) == hops
                and (name in world.persons or world.room(name) != world.trail[name][0][0])
                and (world.room(name) == newest) == is_newest
            ],
        )

    return ask


def _before(world: World, draws: Draws) -> Optional[_Asked]:
    """In which room something was before it came into another one, in which it was once; not the room in which it was first."""
    asked = []
    for thing in world.things:
        trail = world.trail[thing]
        rooms = [room for room, _ in trail]
        for (earlier, reasons), (room, later) in zip(trail, trail[1:]):
            if rooms.count(room) == 1 and earlier != rooms[0]:
                ask = f"In which room was the {thing} just before it came into the {room}?"
                asked.append(_Asked(ask, _ROOM, earlier, world.rooms, reasons | later))
    return _pick(draws, asked)


def _gave(world: World, draws: Draws) -> Optional[_Asked]:
    """Who gave something to somebody, to whom somebody gave it, or in which room; each happened once."""
    gifts = [event[1:] for event in world.events if event[0] == "give"]
    asked = []
    for number, event in enumerate(world.events):
        if event[0] != "give":
            continue
        giver, thing, other = event[1:]
        if sum(gift[1:] == (thing, other) for gift in gifts) == 1:
            ask = f"Who gave the {thing} to {other}?"
            asked.append(_Asked(ask, "This was", giver, world.persons, frozenset({number})))
        if sum(gift[:2] == (giver, thing) for gift in gifts) == 1:
            ask = f"To whom did {giver} give the {thing}?"
            asked.append(_Asked(ask, f"{giver} gave it to", other, world.persons, frozenset({number})))
        if gifts.count((giver, thing, other)) == 1:
            told = max(i for i in range(number) if world.events[i][0] in ("is", "move") and world.events[i][1] == giver)
            ask = f"In which room did {giver} give the {thing} to {other}?"
            asked.append(_Asked(ask, _ROOM, world.events[told][2], world.rooms, frozenset({number, told})))
    return _pick(draws, asked)


def _count(world: World, draws: Draws) -> Optional[_Asked]:
    """How many things somebody holds: all events of taking, giving and putting down of that person are needed."""
    count = draws.stream("count").below(len(_NUMBERS))  # the same for all worlds that are tried
    asked = []
    for person in world.persons:
        support = frozenset(i for i, event in enumerate(world.events) if event[0] not in ("is", "move") and person in event)
        if support and len(world.held(person)) == count:
            ask = f"How many things does {person} hold at the end?"
            asked.append(_Asked(ask, "The number is", _NUMBERS[count], _NUMBERS, support))
    return _pick(draws, asked)


def _yes_no(world: World, draws: Draws) -> Optional[_Asked]:
    """Whether somebody or something that has moved is in its last room, or in one in which it was before."""
    is_yes = draws.stream("answer").below(2) == 1  # the same for all worlds that are tried
    asked = []
    for name in [*world.persons, *world.things]:
        trail = [room for room, _ in world.trail[name]]
        earlier = [room for room in trail if room != trail[-1]]
        if earlier:
            ask = f"Is {_named(world, name)} in the {trail[-1] if is_yes else draws.pick(earlier)} at the end, yes or no?"
            asked.append(_Asked(ask, "", "yes" if is_yes else "no", ("yes", "no"), world.support(name)))
    return _pick(draws, asked)


def _named(world: World, name: str) -> str:
    return name if name in world.persons else f"the {name}"


def _task(name: str, ask: _Ask, persons: int, objects: int, containers: int, steps: int) -> Task:
    """Worlds of these numbers of persons, objects, containers and steps are simulated until one gives the question."""

    def make(draws: Draws, setting: Setting) -> Question:
        while True:
            world = begin(draws, setting.words(), persons, objects, containers)
            for _ in range(steps):
                step(world, draws, containers > 2)
            asked = ask(world, draws)
            if asked is not None:
                facts = [Fact(sentence, i in asked.support) for i, sentence in enumerate(world.sentences)]
                return Question(facts, asked.ask, asked.cue, asked.answer, asked.choices, intro=_INTRO)

    return Task(name, "world", "books", make)


TASKS = (
    _task("world_where_1", _where(1), 4, 0, 0, 6),
    _task("world_where_2", _where(2), 3, 3, 0, 9),
    _task("world_where_3", _where(3), 3, 2, 2, 12),
    _task("world_where_4", _where(4), 3, 2, 3, 16),
    _task("world_where_5", _where(5), 2, 1, 5, 20),
    _task("world_before", _before, 3, 3, 0, 12),
    _task("world_gave", _gave, 3, 3, 0, 14),
    _task("world_count", _count, 3, 4, 0, 12),
    _task("world_yes_no", _yes_no, 3, 3, 0, 9),
)
