"""Files of questions, one for each split."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import TextIO

from ..errors import MnemeError
from ..files import PathLike
from .maker import Maker

SPLITS = ("train", "valid", "test")


class NotWrittenError(MnemeError):
    """A file could not be written, as on a full disk."""


def write_files(maker: Maker, out: PathLike, counts: Mapping[str, int]) -> dict[str, Path]:
    """Writes `out`/SPLIT.jsonl for each split with a count above 0; all of them, or none where something fails.

    Errors: MnemeError for counts of which none is above 0, for files that are there already and for a folder that cannot be
    made; NotWrittenError; those of Maker.
    """
    wrong = [f"{count} for {split}" for split, count in counts.items() if split not in SPLITS or count < 0]
    if wrong or not any(counts.values()):
        raise MnemeError(f"expected a number of questions for train, valid or test, got {', '.join(wrong) or 'none'}")
    folder = Path(out)
    paths = {split: folder / f"{split}.jsonl" for split in SPLITS if counts.get(split)}
    for path in paths.values():
        if path.exists():
            raise MnemeError(f"{path} is there already; remove it, or name another folder")
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise MnemeError(f"{out}: the questions cannot be written: {error}") from None
    begun: dict[Path, Path] = {}
    try:
        for split, path in paths.items():
            begun[path] = path.with_name(f".{path.name}.{os.getpid()}")
            with begun[path].open("x", encoding="utf-8", newline="\n") as file:
                _write_lines(maker, split, counts, file)
        for path, temporary in begun.items():
            temporary.rename(path)
    except OSError as error:
        raise NotWrittenError(f"{out}: the questions cannot be written: {error}") from None
    finally:
        for temporary in begun.values():
            temporary.unlink(missing_ok=True)
    return paths


def _write_lines(maker: Maker, split: str, counts: Mapping[str, int], file: TextIO) -> None:
    for line in maker.lines(split, counts[split], counts):
        file.write(json.dumps(line, ensure_ascii=False) + "\n")
