"""`python -m mneme.memory describe FILE [SECONDS]`: prints the declaration of the memory in FILE as JSON, or {"error": ...}
with exit status 1; `port` in place of `describe` the C++ source of its port. SIGALRM ends it when the import takes longer than
SECONDS, that of torch not counted."""

from __future__ import annotations

import ctypes
import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

from .declaration import describe
from .errors import MemoryFileError


PARENT = "MNEME_PARENT"
"""The process that reads the answer, by its number."""
PR_SET_PDEATHSIG = 1


def _end_with_parent() -> None:
    """An import that hangs ends with the program that waits for it."""
    parent = os.environ.pop(PARENT, "")
    if parent:
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != int(parent):
            sys.exit(1)


def main(arguments: list[str]) -> int:
    if len(arguments) not in (2, 3) or arguments[0] not in ("describe", "port"):
        print("usage: python -m mneme.memory describe|port FILE [SECONDS]", file=sys.stderr)
        return 2
    _end_with_parent()
    # What the file prints while it is imported is no part of the answer.
    answer = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    out: dict[str, Any]
    try:
        function = describe
        if arguments[0] == "port":
            from .port import port as function
        out = function(Path(arguments[1]), float(arguments[2]) if len(arguments) > 2 else 0.0)
    except MemoryFileError as error:
        out = {"error": {"message": str(error), "file": error.file, "line": error.line}}
    with answer:
        json.dump(out, answer, indent=1, allow_nan=False)
        answer.write("\n")
    return 1 if "error" in out else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
