"""A small world of persons, rooms and things that is simulated step by step, and told in a sentence for each event."""

from __future__ import annotations

from collections.abc import Callable, Set
from dataclasses import dataclass, field

from . import words
from .draws import Draws

PERSONS = tuple(
    """Tamsin Renzo Yusra Kaveh Zofia Ingmar Thandi Bexley Oriane Joaquin Nilufar Tomasz Anouk Keanu Solveig Mirembe Dashiell
    Saoirse Farouk Lupita Wendell Ximena Bogdan Aiko""".split()
)
ROOMS = tuple("kitchen cellar attic hallway library garage workshop bathroom office pantry nursery laundry".split())
OBJECTS = tuple(
    """abacus boomerang calculator drone flashlight frisbee headset joystick kazoo laptop metronome microphone ocarina pager
    protractor skateboard smartphone stapler stopwatch tambourine ukulele vuvuzela webcam xylophone zither dictaphone""".split()
)
CONTAINERS = tuple("backpack lunchbox shoebox suitcase toolbox wastebasket rucksack briefcase handbag cooler tote bin".split())

Support = frozenset[int]


@dataclass
class World:
    """Who and what is where, and by which events that is known. Events are numbered from 0 in the order of the text."""

    rooms: list[str]
    persons: list[str]
    containers: list[str]
    things: list[str]  # containers too
    events: list[tuple[str, ...]] = field(default_factory=list)
    sentences: list[str] = field(default_factory=list)
    holder: dict[str, str] = field(default_factory=dict)  # of a person a room; of a thing a room, person or container
    reasons: dict[str, Support] = field(default_factory=dict)  # the events that tell the holder
    trail: dict[str, list[tuple[str, Support]]] = field(default_factory=dict)  # rooms one after another, and why

    def room(self, name: str) -> str:
        while (holder := self.holder[name]) not in self.rooms:
            name = holder
        return holder

    def support(self, name: str) -> Support:
        """The events from which the room follows: those that tell the holder, its holder, and so on."""
        support = self.reasons[name]
        while (name := self.holder[name]) not in self.rooms:
            support |= self.reasons[name]
        return support

    def tell(self, sentence: str, moved: str, holder: str, *event: str, reasons: Support = frozenset()) -> None:
        """Adds an event that gives `moved` a holder. `reasons`: other events that are needed to know this holder."""
        number = len(self.events)
        self.events.append(event)
        self.sentences.append(sentence)
        self.holder[moved] = holder
        self.reasons[moved] = reasons | {number}
        for name in self.holder:
            trail = self.trail.setdefault(name, [])
            if not trail or trail[-1][0] != self.room(name):
                trail.append((self.room(name), self.support(name)))

    def held(self, person: str) -> list[str]:
        return [thing for thing in self.things if self.holder[thing] == person]

    def within_reach(self, person: str) -> list[str]:
        """The things in a person's hands, and those that lie in the same room."""
        places = (person, self.holder[person])
        return [thing for thing in self.things if self.holder[thing] in places]


def begin(draws: Draws, known: Set[str], persons: int, objects: int, containers: int) -> World:
    """A world of six rooms in which everybody and everything is told to be somewhere.

    `known`: words in lower case that no person or thing may be named by, since other sentences have them.
    """
    containing = _named(draws, CONTAINERS, known, containers)
    things = [*_named(draws, OBJECTS, known, objects), *containing]
    world = World(draws.sample(ROOMS, 6), _named(draws, PERSONS, known, persons), containing, things)
    for name in draws.shuffled([*world.persons, *world.things]):
        room = draws.pick(world.rooms)
        subject = name if name in world.persons else f"The {name}"
        world.tell(f"{subject} is in the {room}.", name, room, "is", name, room)
    return world


def _named(draws: Draws, names: tuple[str, ...], known: Set[str], count: int) -> list[str]:
    """Names that are not known, made up where too few are left."""
    free = [name for name in names if name.lower() not in known]
    chosen = draws.sample(free, min(count, len(free)))
    is_capital = names[0][0].isupper()
    while len(chosen) < count:
        word = words.made_up(draws)
        name = word.capitalize() if is_capital else word
        if word not in known and name not in chosen:
            chosen.append(name)
    return chosen


def step(world: World, draws: Draws, is_nesting: bool) -> None:
    """One event: its kind is drawn from those that are possible now, then the event from those of the kind.

    `is_nesting`: things are picked up twice and put into others three times as often, and are not taken out.
    """
    kinds = _NESTING_KINDS if is_nesting else _KINDS
    while not (events := draws.pick(kinds)(world)):  # somebody can always go somewhere
        pass
    draws.pick(events)()


_Events = list[Callable[[], None]]


def _moves(world: World) -> _Events:
    def move(person: str, room: str) -> Callable[[], None]:
        return lambda: world.tell(f"{person} went to the {room}.", person, room, "move", person, room)

    return [move(one, room) for one in world.persons for room in world.rooms if room != world.holder[one]]


def _takes(world: World) -> _Events:
    def take(person: str, thing: str) -> Callable[[], None]:
        return lambda: world.tell(f"{person} picked up the {thing}.", thing, person, "take", person, thing)

    return [take(one, thing) for one in world.persons for thing in world.things if world.holder[thing] == world.holder[one]]


def _drops(world: World) -> _Events:
    def drop(person: str, thing: str) -> Callable[[], None]:
        return lambda: world.tell(
            f"{person} put down the {thing}.",
            thing,
            world.holder[person],
            "drop",
            person,
            thing,
            reasons=world.reasons[person],
        )

    return [drop(one, thing) for one in world.persons for thing in world.held(one)]


def _gives(world: World) -> _Events:
    def give(person: str, thing: str, other: str) -> Callable[[], None]:
        return lambda: world.tell(f"{person} gave the {thing} to {other}.", thing, other, "give", person, thing, other)

    return [
        give(one, thing, other)
        for one in world.persons
        for other in world.persons
        if other != one and world.holder[other] == world.holder[one]
        for thing in world.held(one)
    ]


def _puts(world: World) -> _Events:
    def put(person: str, thing: str, container: str) -> Callable[[], None]:
        return lambda: world.tell(
            f"{person} put the {thing} into the {container}.", thing, container, "put", person, thing, container
        )

    return [
        put(one, thing, container)
        for one in world.persons
        for thing in world.held(one)
        for container in world.within_reach(one)
        if container in world.containers and container != thing
    ]


def _takes_out(world: World) -> _Events:
    def take_out(person: str, thing: str, container: str) -> Callable[[], None]:
        return lambda: world.tell(
            f"{person} took the {thing} out of the {container}.", thing, person, "out", person, thing, container
        )

    return [
        take_out(one, thing, container)
        for one in world.persons
        for container in world.within_reach(one)
        for thing in world.things
        if world.holder[thing] == container
    ]


_KINDS = (_moves, _takes, _drops, _gives, _puts, _takes_out)
_NESTING_KINDS = (_moves, _takes, _takes, _drops, _gives, _puts, _puts, _puts)
