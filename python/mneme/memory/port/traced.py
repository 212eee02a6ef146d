"""Numbers and words that know how `setup` computed them from options and sizes: what a port writes down of them."""

from __future__ import annotations

import functools
import math
import operator
import sys
import types
from dataclasses import dataclass
from typing import Any, Callable, Iterator, Mapping

Values = Mapping[str, Any]
"""Of the variables, by name."""


@dataclass(frozen=True)
class Expression:
    """A variable, a constant, or an operation on two of them or one.

    `op`: "variable" with its name, its C++ and whether that is a double, "constant" with its value, a key of OPERATIONS, or a
    name of FUNCTIONS."""

    op: str
    parts: tuple[Any, ...]

    def value(self, values: Values) -> Any:
        """Errors: those of the operation."""
        if self.op == "constant":
            return self.parts[0]
        if self.op == "variable":
            return _entry(values, self.parts[0])
        numbers = [part.value(values) for part in self.parts]
        if self.op in FUNCTIONS:
            return getattr(math, self.op)(*numbers)
        return OPERATIONS[self.op](*numbers)

    def variables(self) -> set[str]:
        """Names, without the place in a list."""
        if self.op == "constant":
            return set()
        if self.op == "variable":
            return {self.parts[0].partition("[")[0]}
        return set().union(*(part.variables() for part in self.parts))

    def constants(self) -> Iterator[Any]:
        if self.op == "constant":
            yield self.parts[0]
        elif self.op != "variable":
            for part in self.parts:
                yield from part.constants()

    @property
    def is_real(self) -> bool:
        """Whether it is a double in C++."""
        if self.op == "constant":
            return isinstance(self.parts[0], float)
        if self.op == "variable":
            return bool(self.parts[2])
        return self.op in ("/", "**") or self.op in FUNCTIONS or any(part.is_real for part in self.parts)

    @property
    def cpp(self) -> str:
        """In C++, in parentheses where it may stand in another one."""
        text = self.statement
        is_operation = self.op in OPERATIONS and self.op not in ("**", "true")
        return f"({text})" if is_operation else text

    @functools.cached_property
    def statement(self) -> str:
        """In C++."""
        if self.op == "constant":
            return literal(self.parts[0])
        if self.op == "variable":
            return str(self.parts[1])
        words: list[str] = [part.cpp for part in self.parts]
        if self.op in FUNCTIONS or self.op == "**":
            # The SDK's numbers are whole ones too, for which some functions have no form.
            words = [part.statement if part.is_real else f"static_cast<double>({part.statement})" for part in self.parts]
            return f"std::{FUNCTIONS.get(self.op, 'pow')}({', '.join(words)})"
        if self.op == "true":
            return words[0]
        if self.op == "negative":
            return f"-{words[0]}"
        if self.op == "/" and not any(part.is_real for part in self.parts):
            is_constant = self.parts[0].op == "constant"
            return (f"{words[0]}.0" if is_constant else f"static_cast<double>({self.parts[0].statement})") + f" / {words[1]}"
        if self.parts[0].op == "variable" and self.parts[0].parts[0] == "compute_dtype":
            words[1] = f"mneme::DType::k{self.parts[1].parts[0].capitalize().replace('Bf', 'BF')}"
        return f"{words[0]} {'/' if self.op == '//' else self.op} {words[1]}"


OPERATIONS: dict[str, Callable[..., Any]] = {
    "+": operator.add, "-": operator.sub, "*": operator.mul, "/": operator.truediv, "//": operator.floordiv, "%": operator.mod,
    "**": operator.pow, "negative": operator.neg, "==": operator.eq, "!=": operator.ne, "<": operator.lt, "<=": operator.le,
    ">": operator.gt, ">=": operator.ge, "true": bool,
}
FUNCTIONS = {"log": "log", "log2": "log2", "log10": "log10", "log1p": "log1p", "exp": "exp", "expm1": "expm1", "sqrt": "sqrt",
             "tanh": "tanh", "sin": "sin", "cos": "cos", "pow": "pow"}
"""Of math, and of <cmath>."""


def _entry(values: Values, name: str) -> Any:
    """The value of "rows" or of "rates[1]". Errors: IndexError."""
    key, _, place = name.partition("[")
    return values[key][int(place[:-1])] if place else values[key]


def literal(value: Any) -> str:
    """A constant of Python in C++."""
    if value is None:
        return "nullptr"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(int(value)) if value > -2**63 else "(-9223372036854775807 - 1)"
    if isinstance(value, float):
        if math.isinf(value):
            return "mneme::kUnlimited" if value > 0 else "-mneme::kUnlimited"
        if math.isnan(value):
            return "NAN"
        return repr(float(value))
    return quoted(value)


def quoted(text: str) -> str:
    """A text in C++, where two question marks begin a trigraph."""
    escapes = {"?": "\\?" if "??" in text else "?", '"': '\\"', "\\": "\\\\", "\n": "\\n", "\t": "\\t"}
    return '"' + "".join(escapes.get(c, c if c >= " " and c != "\x7f" else f"\\{ord(c):03o}") for c in text) + '"'


def constant(value: Any) -> Expression:
    return Expression("constant", (value,))


# ---- what `setup` has asked ----


@dataclass
class Question:
    """A comparison that `setup`, or a function that it calls, has made."""

    condition: Expression
    answer: bool
    file: str
    line: int


class Path:
    """The questions of one call of `setup`, each once, in their order."""

    def __init__(self) -> None:
        self.questions: dict[str, Question] = {}

    def ask(self, condition: Expression, answer: bool, depth: int) -> bool:
        frame = sys._getframe(depth + 1)
        question = Question(condition, answer, frame.f_code.co_filename, frame.f_lineno)
        self.questions.setdefault(condition.statement, question)
        return answer


_paths: list[Path] = []
"""The one of the call of `setup` that runs."""


class Following:
    """While it is entered, comparisons of traced values are written down in `path`."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __enter__(self) -> None:
        _paths.append(self.path)

    def __exit__(self, *_: Any) -> None:
        _paths.pop()


def _ask(condition: Expression, answer: bool) -> bool:
    return _paths[-1].ask(condition, answer, 2) if _paths else answer


# ---- traced values ----


def expression_of(value: Any) -> Expression:
    """How the value was computed; a constant where that is not known."""
    found = getattr(value, "expression", None)
    if isinstance(found, Expression):
        return found
    if isinstance(value, (bool, int, float, str)) or value is None:
        return constant(value)
    return constant(str(value))


def traced(value: Any, expression: Expression) -> Any:
    """The value, with what is known of it. Lists become tuples of traced values."""
    kind: Any = {bool: Flag, int: Whole, float: Real, str: Word}.get(type(value))
    if kind is not None:
        made = kind.__new__(kind, value)
        made.expression = expression
        return made
    if isinstance(value, (tuple, list)):
        name, cpp, is_real = expression.parts
        return tuple(traced(each, Expression("variable", (f"{name}[{i}]", f"{cpp}.at({i})", is_real)))
                     for i, each in enumerate(value))
    return value


def _plain(value: Any) -> Any:
    """The number without its history."""
    return bool(int.__int__(value)) if isinstance(value, Flag) else int.__int__(value) if isinstance(value, Whole) else (
        float.__float__(value) if isinstance(value, Real) else str.__str__(value) if isinstance(value, Word) else value)


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float))


def _arithmetic(op: str, is_reflected: bool = False) -> Callable[[Any, Any], Any]:
    def method(self: Any, other: Any) -> Any:
        if not _is_number(other):
            return NotImplemented
        pair = (other, self) if is_reflected else (self, other)
        left, right = map(_plain, pair)
        result = OPERATIONS[op](left, right)
        # C++ rounds towards zero, and a power of whole numbers is a product.
        is_other = op in ("//", "%") and (isinstance(result, float) or left < 0 or right < 0)
        if is_other or isinstance(result, complex) or (op == "**" and isinstance(result, int)):
            squares = op == "**" and right == 2 and not isinstance(right, bool) and expression_of(pair[1]).op == "constant"
            return traced(result, Expression("*", (expression_of(self),) * 2)) if squares else result
        return traced(result, Expression(op, tuple(map(expression_of, pair))))
    return method


def _comparison(op: str, kinds: Any) -> Callable[[Any, Any], Any]:
    def method(self: Any, other: Any) -> Any:
        if not isinstance(other, kinds):
            return NotImplemented
        return _ask(Expression(op, (expression_of(self), expression_of(other))), OPERATIONS[op](_plain(self), _plain(other)))
    return method


def _negative(self: Any) -> Any:
    return traced(-_plain(self), Expression("negative", (expression_of(self),)))


def _absolute(self: Any) -> Any:
    return -self if self < 0 else self


def _is_true(self: Any) -> bool:
    compared = {Word: "", Whole: 0, Real: 0.0}.get(type(self))
    own = expression_of(self)
    return _ask(Expression("true", (own,)) if compared is None else Expression("!=", (own, constant(compared))), bool(_plain(self)))


class Whole(int):
    """A whole number."""


class Real(float):
    """A number."""


class Word(str):
    """A text."""


class Flag(int):
    """True or false: bool has no classes below it."""

    def __int__(self) -> int:
        return int(_is_true(self))

    __index__ = __int__

    def __repr__(self) -> str:
        return repr(_plain(self))

    __str__ = __repr__


def _add_methods() -> None:
    for kind in (Whole, Real):
        for name, op in (("add", "+"), ("sub", "-"), ("mul", "*"), ("truediv", "/"), ("floordiv", "//"), ("mod", "%"),
                         ("pow", "**")):
            setattr(kind, f"__{name}__", _arithmetic(op))
            setattr(kind, f"__r{name}__", _arithmetic(op, True))
        setattr(kind, "__neg__", _negative)
        setattr(kind, "__abs__", _absolute)
    kinds: tuple[tuple[Any, Any, Any], ...] = ((Whole, (int, float), int.__hash__), (Real, (int, float), float.__hash__),
                                               (Word, (str,), str.__hash__), (Flag, (int,), int.__hash__))
    for kind, others, hashed in kinds:
        for name, op in (("eq", "=="), ("ne", "!="), ("lt", "<"), ("le", "<="), ("gt", ">"), ("ge", ">=")):
            if name in ("eq", "ne") or kind in (Whole, Real):
                setattr(kind, f"__{name}__", _comparison(op, others))
        setattr(kind, "__bool__", _is_true)
        setattr(kind, "__hash__", hashed)


_add_methods()


# ---- the functions of math ----


def _function(name: str) -> Callable[..., Any]:
    own = getattr(math, name)

    def call(*numbers: Any) -> Any:
        result = own(*map(_plain, numbers))
        if not any(hasattr(number, "expression") for number in numbers):
            return result
        return traced(result, Expression(name, tuple(map(expression_of, numbers))))
    return call


def follow_math(module: types.ModuleType) -> None:
    """Lets what the module computes with `math` know how."""
    functions: dict[Any, Callable[..., Any]] = {getattr(math, name): _function(name) for name in FUNCTIONS}
    own = types.SimpleNamespace(**{name: functions.get(value, value) if callable(value) else value
                                   for name, value in vars(math).items()})
    for name, value in list(vars(module).items()):
        if value is math:
            setattr(module, name, own)
        elif isinstance(value, types.BuiltinFunctionType) and value in functions:
            setattr(module, name, functions[value])
