"""Questions about texts, in files that experiments read (docs/tasks.md, "Text tasks").

    from mneme import questions
    questions.write("data/needles", ["needle_multikey_1", "world_where_2"], test=100, length=[1024, 4096], books="books")

On the command line: python -m mneme questions TASK... --out DIR --test N
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Optional, Union

from ..files import PathLike
from .files import write_files
from .maker import TASKS, Maker

__all__ = ["TASKS", "Maker", "write"]


def write(
    out: PathLike,
    tasks: Union[str, Sequence[str]],
    *,
    train: int = 0,
    valid: int = 0,
    test: int = 0,
    length: Union[int, Sequence[int]] = 4096,
    books: Optional[PathLike] = None,
    tokenizer: Optional[PathLike] = None,
    seed: int = 1,
    choices: bool = False,
) -> dict[str, Path]:
    """Writes train.jsonl, valid.jsonl and test.jsonl into the folder `out`. Returns the path of each split that is written.

    `tasks`: names of tasks or families. `train`, `valid`, `test`: questions of each task in each length. The other arguments
    are those of Maker. Errors: MnemeError; nothing is written then.
    """
    maker = Maker(
        [tasks] if isinstance(tasks, str) else tasks,
        [length] if isinstance(length, int) else length,
        books=books,
        tokenizer=tokenizer,
        seed=seed,
        has_choices=choices,
    )
    return write_files(maker, out, {"train": train, "valid": valid, "test": test})
