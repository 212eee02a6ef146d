"""Calls of a memory's `setup` with many sizes and options: what it declares, and on which conditions."""

from __future__ import annotations

import contextlib
import itertools
import signal
import time
from dataclasses import dataclass, field
from typing import Any, Iterator, Optional, Sequence

from ..memory import Memory
from ..options import Required
from ..runtime import options_of
from ..setup import DTYPES, WANTS, Setup
from .traced import Expression, Following, Path, Question, traced

MOST_CALLS = 500
MOST_SECONDS = 60.0
"""No call begins after them, and one that has not ended by then is left."""
MOST_ITEMS = 300
"""Of one call: one that loops over a large option may declare any number."""


@dataclass(frozen=True)
class Variable:
    """An option, or a size of the backbone."""

    name: str
    cpp: str
    kind: str  #: of Option.type
    values: tuple[Any, ...]  #: to try; the first is what the others are compared with
    low: float = -float("inf")
    high: float = float("inf")
    is_closed: bool = False  #: no other values exist

    @property
    def expression(self) -> Expression:
        return Expression("variable", (self.name, self.cpp, self.kind in ("real", "reals")))

    def candidates(self, near: list[Any]) -> Iterator[Any]:
        """Values to try, those at the constants that it is compared with too."""
        numbers = [n for n in near if isinstance(n, (int, float)) and not isinstance(n, bool)]
        found = list(self.values)
        if not self.is_closed and self.kind == "integer":
            found += [int(n) + step for n in numbers for step in (0, 1, -1)]
        elif not self.is_closed and self.kind == "real":
            found += [float(n) + step for n in numbers for step in (0.0, 0.125, -0.125)]
        elif not self.is_closed and self.kind == "text":
            found += [n for n in near if isinstance(n, str)]
        for value in dict.fromkeys(found):
            if not isinstance(value, (int, float)) or self.low <= value <= self.high:
                yield value


SIZES = (
    Variable("width", "s.width()", "integer", (48, 80, 56), 1), Variable("heads", "s.heads()", "integer", (4, 8, 12), 1),
    Variable("head_width", "s.head_width()", "integer", (12, 20, 14), 1),
    Variable("kv_heads", "s.kv_heads()", "integer", (2, 1, 4), is_closed=True),
    Variable("layers", "s.layers()", "integer", (3, 5, 2), 1), Variable("segment", "s.segment()", "integer", (22, 36, 18), 1),
    Variable("bptt_segments", "s.bptt_segments()", "integer", (2, 1, 7), 1),
    Variable("served", "s.served()", "integers", ((0, 1, 2), (1,), (0, 2)), is_closed=True),
    Variable("position", "s.position()", "choice", ("relative", "disentangled", "rotary", "alibi", "learned", "none"),
             is_closed=True),
    Variable("compute_dtype", "s.compute_dtype()", "choice", ("f32", "bf16", "f64"), is_closed=True),
    Variable("attention_dropout", "s.attention_dropout()", "real", (0.125, 0.0, 0.25), 0.0, 0.9375),
    Variable("is_evaluation", "s.is_evaluation()", "boolean", (False, True), is_closed=True),
    Variable("is_pre_norm", "s.is_pre_norm()", "boolean", (True, False), is_closed=True),
)
"""What Setup says of the backbone. No two numbers are the same, nor simple multiples, more often than they have to be."""


def variables_of(cls: type[Memory]) -> list[Variable]:
    """Options of the class, then sizes."""
    found = []
    for key, option in options_of(cls):
        low, high = option.low, option.high
        values: list[Any]
        if option.type == "choice":
            values = list(option.choices)
        elif option.type == "boolean":
            values = [False, True]
        elif option.type == "text":
            values = ["", "a"]
        elif option.type in ("integers", "reals"):
            one = [2, 3, 5] if option.type == "integers" else [0.25, 0.5, 0.75]
            one = [n for n in one if low <= n <= high] or [n for n in (low, high) if abs(n) < 2**53]
            values = [tuple(one), tuple(one[:1]), ()]
        else:
            values = _numbers(option.type, low, high)
        if not isinstance(option.default, Required):
            values.insert(0, option.default)
        closed = option.type in ("choice", "boolean", "integers", "reals")
        found.append(Variable(key, f"{key}_", option.type, tuple(dict.fromkeys(values)), low, high, closed))
    return [*found, *SIZES]


def _numbers(kind: str, low: float, high: float) -> list[Any]:
    """Some of the range, small ones first."""
    some = [7, 5, 11, 1, 2, 0] if kind == "integer" else [0.5, 0.25, 1.0, 0.0, 2.0]
    ends = [low, high, low + 1, high - 1] if kind == "integer" else [low, high, (low + high) / 2]
    found = [n for n in some + ends if low <= n <= high and abs(n) <= 4096]  # a loop over more may take long
    found = found or [low if abs(low) != float("inf") else high]
    return [int(n) if kind == "integer" else float(n) for n in found]


# ---- one call ----


@dataclass
class Item:
    """Something that `setup` declares or sets. `key`: its kind and name."""

    key: tuple[str, str]
    fields: dict[str, Any] = field(default_factory=dict)


@dataclass(eq=False)
class Call:
    """A call of `setup`: its values, what it asked, and what it declared. `refused`: it failed."""

    values: dict[str, Any]
    questions: list[Question]
    items: list[Item]
    refused: Optional[BaseException] = None
    known: dict[str, Optional[bool]] = field(default_factory=dict)

    @property
    def answers(self) -> tuple[tuple[str, bool], ...]:
        return tuple((one.condition.statement, one.answer) for one in self.questions)

    def says(self, condition: Expression) -> Optional[bool]:
        """What the condition is with the call's values; None where it cannot be computed, as behind a division by 0."""
        if condition.statement not in self.known:
            self.known[condition.statement] = said(condition, self.values)
        return self.known[condition.statement]


class TooMany(BaseException):
    """More than MOST_ITEMS: none of the memory's errors."""


class TooLong(BaseException):
    """A call that takes longer than it may: none of the memory's errors."""


@contextlib.contextmanager
def _limited(seconds: float) -> Iterator[None]:
    """Errors: TooLong. 0 = without a limit."""
    def end(*_: Any) -> None:
        raise TooLong

    before = signal.signal(signal.SIGALRM, end)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, before)


class _Host:
    """Takes declarations in the program's place."""

    def __init__(self) -> None:
        self.items: list[Item] = []
        self.parameters: list[str] = []

    def _add(self, kind: str, name: str, fields: dict[str, Any]) -> int:
        """The number of items. Errors: TooMany."""
        if len(self.items) == MOST_ITEMS:
            raise TooMany
        self.items.append(Item((kind, name), fields))
        return len(self.items)

    def log(self, level: int, text: str) -> None:
        pass

    def add_parameter(self, name: str, scope: int, shape: tuple[Any, ...], rule: int, value: Any, mean: Any, deviation: Any,
                      low: Any, high: Any, gain: Any, fan_in: Any, lr_factor: Any, group: Optional[str]) -> int:
        numbers = {1: (value,), 2: (mean, deviation), 3: (low, high), 4: (gain,), 5: (fan_in,)}.get(rule, ())
        self._add("parameter", name, {"shape": shape, "rule": rule, "numbers": numbers, "scope": scope, "lr_factor": lr_factor,
                                      "group": group})
        self.parameters.append(name)
        return len(self.parameters)

    def add_slot(self, name: str, is_counts: int, scope: int, dtype: int, gradient: int, lifetime: int, revision: Any,
                 shape: tuple[Any, ...], rule: int, parameter: int, value: Any) -> int:
        if is_counts:
            return self._add("counts", name, {"scope": scope, "revision": revision})
        start = self.parameters[parameter - 1] if rule == 2 else None
        return self._add("slot", name, {"shape": shape, "rule": rule, "value": value, "start": start, "dtype": dtype,
                                        "scope": scope, "gradient": gradient, "lifetime": lifetime, "revision": revision})

    def add_queue(self, name: str, scope: int, kind: int, attributes: int, revision: Any, start_rows: Any, capacity: Any) -> int:
        return self._add("queue", name, {"kind": kind, "scope": scope, "attributes": attributes, "revision": revision,
                                         "start_rows": start_rows, "capacity": capacity})


def call_setup(cls: type[Memory], variables: list[Variable], values: dict[str, Any]) -> Call:
    """`setup` with these values. Its errors, and its exit, are in `refused`, but for TooMany."""
    host, path = _Host(), Path()
    cls._host = host
    memory = cls()
    given = {one.name: traced(values[one.name], one.expression) for one in variables}
    options = [key for key, _ in options_of(cls)]
    for key in options:
        setattr(memory, key, given[key])
    s = Setup(host, (0, given["width"], given["heads"], given["head_width"], given["layers"], given["served"], given["segment"],
                     given["bptt_segments"], given["position"], DTYPES.index(values["compute_dtype"]) + 1,
                     given["attention_dropout"], given["kv_heads"]))
    s.compute_dtype, s.is_evaluation, s.is_pre_norm = given["compute_dtype"], given["is_evaluation"], given["is_pre_norm"]
    refused: Optional[BaseException] = None
    try:
        with Following(path):
            memory.setup(s)
    except (Exception, SystemExit) as error:
        refused = error
    items = host.items + _traits(s)
    for name, value in vars(memory).items():
        if name not in options or value is not given[name]:
            items.append(_member(name, value))
    return Call(values, list(path.questions.values()), [] if refused else items, refused)


def _traits(s: Setup) -> list[Item]:
    found = [Item(("module", f"{name} ({type(module).__module__}.{type(module).__qualname__})"))
             for name, (module, _) in s._modules.items()]
    for name, rows in (("context_rows", s._context_rows), ("read_rows", s._read_rows), ("max_segment", s._max_segment)):
        if type(rows) is not int or rows != 0:
            found.append(Item(("rows", name), {"rows": rows}))
    if s._absorb:
        found.append(Item(("trait", ("absorbs_before_reading", "absorbs_after_segment")[s._absorb - 1])))
    for bit, name in ((1, "releases"), (4, "emits_token_bias"), (8, "is_cut_invariant"), (16, "takes_grouped_keys")):
        if s._flags & bit:
            found.append(Item(("trait", name)))
    if s._flags & 32:
        found.append(Item(("widths", "replaces_attention"), {"keys": s._key_width, "values": s._value_width}))
    if not s._rides:
        found.append(Item(("trait", "has_no_riders")))
    found += [Item(("site", name)) for place, name in enumerate(("heads", "out")) if s._sites >> place & 1]
    return found + [Item(("want", name)) for name, bit in WANTS.items() if s._wants >> bit & 1]


def _member(name: str, value: Any) -> Item:
    is_plain = isinstance(value, (bool, float, str)) or (isinstance(value, int) and -2**63 <= int.__int__(value) < 2**63)
    is_name = name.isascii() and "__" not in name and name[:1].islower()
    kind = "member" if is_plain and is_name else "other"
    return Item((kind, name), {"value": value} if kind == "member" else {"type": type(value).__qualname__})


# ---- many calls ----


class Calls:
    """Calls of one memory's `setup`, as long as there is time for them."""

    def __init__(self, cls: type[Memory], variables: list[Variable]) -> None:
        self.cls, self.variables = cls, variables
        self.all: list[Call] = []
        self.answered: set[tuple[str, bool]] = set()
        self.left_out = 0  #: for want of time
        self._end = time.monotonic() + MOST_SECONDS

    def add(self, values: dict[str, Any]) -> None:
        """One more call, which is left out when the time is over, or where it declares too much. Errors: TooLong of the
        first."""
        left = self._end - time.monotonic()
        if self.all and left <= 0:
            self.left_out += 1
            return
        try:
            with _limited(max(left, 0.0)):
                call = call_setup(self.cls, self.variables, values)
        except TooMany:
            return
        except TooLong:
            if not self.all:
                raise
            self.left_out += 1
            return
        self.all.append(call)
        self.answered.update(call.answers)


def explore(calls: Calls) -> None:
    """Makes calls that give each question of `setup` both answers, where values for that are found, and calls that change
    one value of each of these. The first has the options' defaults. Errors: TooMany and TooLong of the first."""
    by_name = {one.name: one for one in calls.variables}
    calls.add({one.name: one.values[0] for one in calls.variables})
    if not calls.all:
        raise TooMany
    for place in range(MOST_CALLS // 2):
        if place == len(calls.all):
            break
        for number, (text, answer) in enumerate(calls.all[place].answers):
            values = _other_values(calls.all[place], number, by_name) if (text, not answer) not in calls.answered else None
            if values is not None:
                calls.add(values)
    distinct = {one.answers: one for one in reversed(calls.all)}
    for before in reversed(distinct.values()):
        for one in calls.variables:
            for value in _others(one, before):
                if value != before.values[one.name] and len(calls.all) < MOST_CALLS:
                    calls.add({**before.values, one.name: value})


def _others(one: Variable, call: Call) -> Iterator[Any]:
    """Values to try in place of the call's."""
    yield from one.values[:3] if one.kind in ("integer", "real") else one.values
    if any(one.name in question.condition.variables() for question in call.questions):
        yield from one.candidates([call.values[one.name]])


def _other_values(call: Call, place: int, variables: dict[str, Variable]) -> Optional[dict[str, Any]]:
    """Values with which the question at `place` has the other answer, and those before it have the same."""
    question = call.questions[place]
    before = [(one.condition, one.answer) for one in call.questions[:place]]
    return values_for([*before, (question.condition, not question.answer)], call.values, variables)


def values_for(wanted: list[tuple[Expression, bool]], values: dict[str, Any], variables: dict[str, Variable],
               refusals: Sequence[Sequence[tuple[Expression, bool]]] = ()) -> Optional[dict[str, Any]]:
    """These values, but for one or two, such that the conditions have these answers: above all the last one. None of
    `refusals` is so with them."""
    near = [value for condition, _ in wanted for value in condition.constants()]
    asked = sorted(wanted[-1][0].variables())
    others = sorted({name for condition, _ in wanted for name in condition.variables()})
    for names in [*((name,) for name in asked), *itertools.product(asked, others)]:
        pools = [list(variables[name].candidates(near)) for name in names]
        for chosen in itertools.islice(itertools.product(*pools), 2000):
            found = {**values, **dict(zip(names, chosen))}
            if all_hold(wanted, found) and not any(all_hold(term, found) for term in refusals):
                return found
    return None


def said(condition: Expression, values: dict[str, Any]) -> Optional[bool]:
    """As Call.says."""
    try:
        return bool(condition.value(values))
    except (ArithmeticError, IndexError, ValueError, TypeError):
        return None


def all_hold(conditions: Sequence[tuple[Expression, bool]], values: dict[str, Any]) -> bool:
    """Where the conditions can be computed, they have these answers."""
    return all(said(condition, values) in (answer, None) for condition, answer in conditions)


def unanswered(calls: list[Call], files: set[str]) -> list[Question]:
    """Questions of these files that had one answer in all calls, without those of sizes alone."""
    sizes = {one.name for one in SIZES}
    questions = {question.condition.statement: question for call in calls for question in call.questions
                 if question.file in files and not question.condition.variables() <= sizes}
    return [question for question in questions.values()
            if not any(call.says(question.condition) is (not question.answer) for call in calls)]
