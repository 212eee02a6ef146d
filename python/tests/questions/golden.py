"""The first lines of every task. `PYTHONPATH=python python3 python/tests/questions/golden.py` writes them to golden.json."""

from __future__ import annotations

import hashlib
import itertools
import json
from pathlib import Path
from typing import Any

from mneme.questions import TASKS, Maker

FILE = Path(__file__).with_name("golden.json")
LINES = 20


def golden(task: str) -> dict[str, Any]:
    """The first line, and the SHA-256 of the first 20: questions 0 .. 9 without a haystack and in 300 words."""
    lines = list(itertools.islice(Maker([task], [0, 300]).lines("test", LINES // 2), LINES))
    text = "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines)
    return {"sha256": hashlib.sha256(text.encode()).hexdigest(), "first": lines[0]}


if __name__ == "__main__":
    FILE.write_text(json.dumps({task.name: golden(task.name) for task in TASKS}, indent=1) + "\n", encoding="utf-8")
