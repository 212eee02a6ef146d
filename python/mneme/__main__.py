"""The console script `mneme`, and `python -m mneme`: becomes the program, which runs memories in this interpreter."""

from __future__ import annotations

import os
import sys

from .errors import MnemeError
from .launch import environment, program


def main() -> int:
    try:
        path, variables = program(), environment()
    except MnemeError as error:
        print(f"mneme: error: {error}", file=sys.stderr)
        return 2
    os.execve(path, [str(path), *sys.argv[1:]], variables)


if __name__ == "__main__":
    sys.exit(main())
