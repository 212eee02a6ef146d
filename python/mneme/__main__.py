"""The console script `mneme`, and `python -m mneme`: becomes the program, which runs memories in this interpreter.

The command `questions` is this package's own.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path
    from typing import NoReturn


def _become(path: Path, variables: Mapping[str, str]) -> NoReturn:
    import signal

    # Python ignores the signal, which the program would inherit: it ends by it where its reader has ended.
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    os.execve(path, [str(path), *sys.argv[1:]], variables)


def main() -> int:
    try:
        return _main()
    except KeyboardInterrupt:  # also while modules are imported, which is why none is above
        print("mneme: stopped by SIGINT", file=sys.stderr)
        return 130


def _main() -> int:
    if sys.argv[1:2] == ["questions"]:
        from .questions.command import run

        return run(sys.argv[2:])
    from .errors import MnemeError
    from .launch import environment, program

    try:
        path, variables = program(), environment()
    except MnemeError as error:
        print(f"mneme: error: {error}", file=sys.stderr)
        return 2
    _become(path, variables)


def report() -> int:
    """The console script `mneme-report`, which needs no torch."""
    from .errors import MnemeError
    from .launch import report_program

    try:
        path = report_program()
    except MnemeError as error:
        print(f"mneme-report: error: {error}", file=sys.stderr)
        return 2
    _become(path, os.environ)


if __name__ == "__main__":
    sys.exit(main())
