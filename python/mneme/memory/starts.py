"""How parameters and slots begin. Values of parameters depend on the run's seed and their name alone."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Start:
    """A rule, with the numbers that it needs; made by the functions below."""

    rule: int = 0
    value: float = 0.0
    mean: float = 0.0
    deviation: float = 0.0
    low: float = 0.0
    high: float = 0.0
    gain: float = 0.0
    fan_in: int = 0


def zeros() -> Start:
    """Zeros."""
    return Start()


def constant(value: float) -> Start:
    """`value` everywhere."""
    return Start(1, value=value)


def normal(mean: float, deviation: float) -> Start:
    """The normal law. Of parameters alone."""
    return Start(2, mean=mean, deviation=deviation)


def uniform(low: float, high: float) -> Start:
    """The uniform law from `low` to `high`. Of parameters alone."""
    return Start(3, low=low, high=high)


def xavier_uniform(gain: float = 1.0) -> Start:
    """torch.nn.init.xavier_uniform_; the last two extents are fan out, fan in. Of parameters alone."""
    return Start(4, gain=gain)


def fan_in_uniform(fan_in: int = 0) -> Start:
    """From -1/sqrt(fan_in) to 1/sqrt(fan_in), as torch.nn.Linear begins; 0 = the product of all extents but the first.
    Of parameters alone."""
    return Start(5, fan_in=fan_in)
