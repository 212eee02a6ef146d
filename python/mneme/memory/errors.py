"""Errors of memories, with the codes of the ABI (mneme/abi.h)."""

from __future__ import annotations

import inspect
from typing import Any

INVALID_ARGUMENT = 1
UNSUPPORTED = 2
SHAPE = 3
DTYPE = 4
OUT_OF_MEMORY = 6
STATE = 9
INTERNAL = 13


WORDS = {"use cast/1": "write .to(dtype)"}
"""What the program tells to plugins in C and C++, and what a memory in Python writes there."""


class HostError(RuntimeError):
    """The program, or this package, refused a call of a memory. `code` is the ABI's; `place` are file and line, where the
    traceback does not lead to them."""

    def __init__(self, message: str, code: int = INVALID_ARGUMENT, place: tuple[str, int] = ("", 0)) -> None:
        for of_abi, here in WORDS.items():
            message = message.replace(of_abi, here)
        super().__init__(message)
        self.code = code
        self.place = place


def first_line(function: Any) -> tuple[str, int]:
    """File and line of the function that decorators may wrap; ("", 0) where no code of Python is found."""
    while hasattr(function, "func"):  # of functools.partial
        function = function.func
    code = getattr(inspect.unwrap(function), "__code__", None)
    return (code.co_filename, code.co_firstlineno) if code else ("", 0)


class MemoryFileError(ValueError):
    """A file is no memory: `file` and `line` say where, line 0 where no line is at fault."""

    def __init__(self, message: str, file: str, line: int = 0) -> None:
        super().__init__(message)
        self.file = file
        self.line = line
