"""Memories in Python: the class Memory, options, starts of parameters, and what hooks return.

Nothing here imports torch: hooks do, in the program, which runs them (docs/python-memories.md)."""

from .errors import HostError, MemoryFileError
from .memory import Memory, Read, Riders, add, gate, lse, nothing, replace
from .options import REQUIRED, UNLIMITED, boolean, choice, integer, integers, real, reals, text
from .rows import Rows
from .segment import Finish, Layer, Local, Queries, Queue, Ride, Segment
from .setup import ANY, LANES, Setup
from .starts import Start, constant, fan_in_uniform, normal, uniform, xavier_uniform, zeros

__all__ = [
    "ANY", "LANES", "REQUIRED", "UNLIMITED", "Finish", "HostError", "Layer", "Local", "Memory", "MemoryFileError", "Queries",
    "Queue", "Read", "Ride", "Riders", "Rows", "Segment", "Setup", "Start", "add", "boolean", "choice", "constant",
    "fan_in_uniform", "gate", "integer", "integers", "lse", "normal", "nothing", "real", "reals", "replace", "text", "uniform",
    "xavier_uniform", "zeros",
]
