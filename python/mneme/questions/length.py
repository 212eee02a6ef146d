"""The unit of lengths: words, or the tokens of a tokenizer or of a run's vocabulary."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Optional

from ..errors import FormatError, MissingPackageError
from ..files import PathLike, check_is_text, check_link, read_text


@dataclass(frozen=True)
class Unit:
    """`name`: "words", "tokens", "bytes" or "characters". `size`: how many of them a text has."""

    name: str
    size: Callable[[str], int]


WORDS = Unit("words", lambda text: len(text.split()))
_BY_KIND = {
    "byte": Unit("bytes", lambda text: len(text.encode())),
    "char": Unit("characters", len),
    "word": WORDS,
}


def unit_of(tokenizer: Optional[PathLike]) -> Unit:
    """What a tokenizer.json, a run's vocabulary.json, or a folder with one of them cuts a text into; without one, words.

    Errors: FormatError, MissingPackageError without the package tokenizers.
    """
    if tokenizer is None:
        return WORDS
    path = Path(tokenizer)
    if path.is_dir():
        files = [path / name for name in ("vocabulary.json", "tokenizer.json")]
        found = next((file for file in files if os.path.lexists(file)), None)
        if found is None:
            raise FormatError(f"{path}: the folder has no tokenizer.json, and no vocabulary.json of a run")
        path = found
    check_link(path)
    if not path.is_file():
        raise FormatError(f"{path}: there is no such file; name a tokenizer.json, or a folder or run that has one")
    check_is_text(path, "a tokenizer.json, or a run's vocabulary.json")
    text = read_text(path)
    try:
        value = json.loads(text)
    except json.JSONDecodeError as error:
        raise FormatError(f"{path}: no JSON: {error}") from None
    if isinstance(value, dict) and value.get("format") == "mneme.vocabulary":
        if value.get("kind") in _BY_KIND:
            return _BY_KIND[value["kind"]]
        files_of_run: dict[str, Any] = value.get("files", {})
        if "tokenizer.json" not in files_of_run:
            raise FormatError(
                f"{path}: the vocabulary holds {', '.join(files_of_run) or 'no tokenizer'}: lengths are counted by a "
                "tokenizer.json; name one, or leave --tokenizer out to count words"
            )
        text = files_of_run["tokenizer.json"]
    return _tokens(path, text)


def _tokens(path: Path, text: str) -> Unit:
    try:
        import tokenizers
    except ImportError as error:
        raise MissingPackageError(
            f"lengths in tokens need the package tokenizers ({error}): {sys.executable} -m pip install tokenizers; "
            "without --tokenizer they are counted in words"
        ) from None
    try:
        tokenizer = tokenizers.Tokenizer.from_str(text)
    except Exception as error:  # the package raises no class of its own
        raise FormatError(f"{path}: no tokenizer: {error}") from None
    tokenizer.no_padding()
    tokenizer.no_truncation()
    return Unit("tokens", lambda piece: len(tokenizer.encode(piece, add_special_tokens=False).ids))
