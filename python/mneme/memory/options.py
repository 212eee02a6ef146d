"""Options of a memory: keys of its `[[memory.tier]]`, declared as attributes of the class."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, Sequence, Union

UNLIMITED = math.inf
"""In place of a bound."""


class Required:
    """Type of REQUIRED."""

    def __repr__(self) -> str:
        return "mneme.REQUIRED"


REQUIRED = Required()
"""In place of a default: the memory file must give the option."""

TYPES = ("integer", "real", "boolean", "text", "choice", "integers", "reals")
"""Names of the types, in the order of the ABI's numbers, which begin at 1."""


def _is_int64(value: float) -> bool:
    return -2**63 <= value < 2**63


@dataclass(frozen=True)
class Option:
    """One option. In an instance the attribute of its name is its value.

    Made by the functions below."""

    type: str
    default: Any
    help: str
    low: float = -UNLIMITED
    high: float = UNLIMITED
    choices: tuple[str, ...] = ()
    at_evaluation: bool = False
    trained: bool = False
    key: str = field(default="", compare=False)

    def __post_init__(self) -> None:
        if self.at_evaluation and self.trained:
            raise ValueError("an option is either at_evaluation or trained: what is trained with one value has no other")
        if math.isnan(self.low) or math.isnan(self.high):
            raise ValueError("a bound is NaN: use mneme.UNLIMITED for none")
        if self.type in ("integer", "integers"):
            for bound in (self.low, self.high):
                if not math.isinf(bound) and not _is_int64(bound):
                    raise ValueError(f"the bound {bound!r} does not fit into 64 bits: use mneme.UNLIMITED for none")
        if isinstance(self.default, Required):
            return
        number = (int, float)
        expected: Any = {"integer": int, "real": number, "boolean": bool, "text": str, "choice": str}.get(self.type)
        if expected is not None:
            self._check(self.default, expected)
        elif not isinstance(self.default, tuple):
            raise TypeError(f"a default of {self.type} is a list of numbers, got {self.default!r}")
        else:
            for entry in self.default:
                self._check(entry, int if self.type == "integers" else number)
        if self.type == "choice" and self.default not in self.choices:
            raise ValueError(f"the default {self.default!r} is none of the choices {', '.join(self.choices)}")

    def _check(self, value: Any, expected: Any) -> None:
        if not isinstance(value, expected) or (expected is not bool and isinstance(value, bool)):
            raise TypeError(f"a default of type {self.type} was expected, got {value!r}")
        if self.type in ("real", "reals") and not math.isfinite(value):
            raise ValueError(f"the default {value!r} is not finite")
        if self.type in ("integer", "integers") and not _is_int64(value):
            raise ValueError(f"the default {value!r} does not fit into 64 bits")
        if self.type in ("integer", "integers", "real", "reals") and not self.low <= value <= self.high:
            raise ValueError(f"the default {value!r} is not from {self.low} to {self.high}")

    def description(self) -> dict[str, Any]:
        """The option as JSON says it: bounds and default are null where there are none."""
        is_required = isinstance(self.default, Required)
        return {
            "key": self.key,
            "type": self.type,
            "help": self.help,
            "default": None if is_required else list(self.default) if isinstance(self.default, tuple) else self.default,
            "required": is_required,
            "low": None if math.isinf(self.low) else self.low,
            "high": None if math.isinf(self.high) else self.high,
            "choices": list(self.choices),
            "at_evaluation": self.at_evaluation,
            "trained": self.trained,
        }


Whole = Union[int, Required]
Number = Union[float, Required]


def integer(default: Whole, low: float, high: float, help: str, *, at_evaluation: bool = False, trained: bool = False) -> Any:
    """A whole number from `low` to `high`, both included.

    `at_evaluation`: the key eval_<option> may give another value at evaluation. `trained`: trained parameters and saved
    state mean something with this value alone, and are not given to a tier with another one."""
    return Option("integer", default, help, low, high, at_evaluation=at_evaluation, trained=trained)


def real(default: Number, low: float, high: float, help: str, *, at_evaluation: bool = False, trained: bool = False) -> Any:
    """A number from `low` to `high`, both included; otherwise as `integer`."""
    return Option("real", default, help, low, high, at_evaluation=at_evaluation, trained=trained)


def boolean(default: Union[bool, Required], help: str, *, at_evaluation: bool = False, trained: bool = False) -> Any:
    """true or false."""
    return Option("boolean", default, help, at_evaluation=at_evaluation, trained=trained)


def text(default: Union[str, Required], help: str, *, at_evaluation: bool = False, trained: bool = False) -> Any:
    """Any text."""
    return Option("text", default, help, at_evaluation=at_evaluation, trained=trained)


def choice(default: Union[str, Required], choices: Union[str, Sequence[str]], help: str, *, at_evaluation: bool = False,
           trained: bool = False) -> Any:
    """One of the words of `choices`, a list or "linear|delta"."""
    words = tuple(choices.split("|")) if isinstance(choices, str) else tuple(choices)
    return Option("choice", default, help, choices=words, at_evaluation=at_evaluation, trained=trained)


def integers(default: Union[Sequence[int], Required], help: str, low: float = -UNLIMITED, high: float = UNLIMITED, *,
             at_evaluation: bool = False, trained: bool = False) -> Any:
    """A list of whole numbers, each from `low` to `high`."""
    values = default if isinstance(default, Required) else tuple(default)
    return Option("integers", values, help, low, high, at_evaluation=at_evaluation, trained=trained)


def reals(default: Union[Sequence[float], Required], help: str, low: float = -UNLIMITED, high: float = UNLIMITED, *,
          at_evaluation: bool = False, trained: bool = False) -> Any:
    """A list of numbers, each from `low` to `high`."""
    values = default if isinstance(default, Required) else tuple(default)
    return Option("reals", values, help, low, high, at_evaluation=at_evaluation, trained=trained)
