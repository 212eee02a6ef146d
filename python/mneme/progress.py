"""Progress of the program: a bar in notebooks, a line in terminals, notes alone elsewhere."""

from __future__ import annotations

import json
import sys
from html import escape
from typing import Any, Optional


ERROR = "mneme: error: "


class Display:
    """Shows the lines that the program writes to stderr, and keeps those that are text: warnings and errors."""

    def __init__(self, is_shown: bool) -> None:
        self.text: list[str] = []  #: lines that are neither progress nor notes
        self._is_shown = is_shown
        self._is_terminal = sys.stderr.isatty()
        self._has_line = False
        self._rest = b""
        self._notes: list[str] = []
        self._handle = _notebook_handle() if is_shown else None

    def feed(self, piece: bytes) -> None:
        """A piece of stderr."""
        *lines, self._rest = (self._rest + piece).split(b"\n")
        for line in lines:
            self.line(line.decode("utf-8", "replace"))

    def line(self, line: str) -> None:
        """A line of stderr, JSON where the program tells of progress."""
        try:
            value = json.loads(line)
        except json.JSONDecodeError:
            value = None
        if isinstance(value, dict) and "progress" in value:
            self._progress(value["progress"])
        elif isinstance(value, dict) and "note" in value:
            self._note(str(value["note"]))
            if str(value["note"]).startswith(ERROR):  # of a run of a comparison, which goes on
                self.text.append(str(value["note"]))
        elif line.strip():
            self.text.append(line)
            if not line.startswith(ERROR):
                self._note(line)

    def close(self) -> None:
        self.line(self._rest.decode("utf-8", "replace"))
        if self._has_line:
            print(file=sys.stderr)
            self._has_line = False

    def _progress(self, progress: dict[str, Any]) -> None:
        step, of = progress.get("step", 0), progress.get("of", 0)
        text = f"{progress.get('title', '')} {step}/{of}"
        if isinstance(progress.get("loss"), (int, float)):
            text += f"  loss {progress['loss']:.4f}"
        if not self._is_shown:
            return
        if self._handle is not None:
            self._draw(f"<progress value='{int(step)}' max='{max(int(of), 1)}'></progress> {escape(text)}")
        elif self._is_terminal:
            print(f"\r\033[K{text}", end="", file=sys.stderr, flush=True)
            self._has_line = True

    def _note(self, note: str) -> None:
        if not self._is_shown:
            return
        self._notes.append(note)
        if self._handle is not None:
            self._draw("")
            return
        print(f"{chr(13)}\033[K{note}" if self._has_line else note, file=sys.stderr, flush=True)
        self._has_line = False

    def _draw(self, bar: str) -> None:
        notes = "".join(f"<div>{escape(note)}</div>" for note in self._notes)
        assert self._handle is not None
        self._handle.update({"text/html": notes + f"<div>{bar}</div>", "text/plain": "\n".join(self._notes)}, raw=True)


def _notebook_handle() -> Optional[Any]:
    """What a notebook's cell shows and may be drawn anew; None outside notebooks."""
    if "IPython" not in sys.modules:
        return None
    shell = sys.modules["IPython"].get_ipython()
    if shell is None or not hasattr(shell, "kernel"):
        return None
    from IPython.display import display

    return display({"text/plain": ""}, raw=True, display_id=True)
