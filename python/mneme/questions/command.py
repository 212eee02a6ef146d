"""`python -m mneme questions`."""

from __future__ import annotations

import argparse
import os
import signal
import sys
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

from ..errors import MnemeError
from . import TASKS, write
from .files import NotWrittenError

_STOPS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def run(words: Sequence[str]) -> int:
    """The exit status: 0; with the error on stderr 1 where something could not be written, else 2; 128 + N after the signal N of
    SIGINT, SIGTERM and SIGHUP, without those that the parent process ignores; 141 with the files written, but their paths
    unread."""
    given = vars(_parser().parse_args(words))
    before = {one: signal.signal(one, _stop) for one in _STOPS if signal.getsignal(one) is not signal.SIG_IGN}
    try:
        return _write(given.pop("out"), given.pop("task"), given)
    except KeyboardInterrupt as stop:
        number = signal.Signals(stop.args[0] if stop.args else signal.SIGINT)
        print(f"mneme: stopped by {number.name}", file=sys.stderr)
        return 128 + number
    finally:
        for one, handler in before.items():
            signal.signal(one, handler)


def _stop(number: int, _: object) -> NoReturn:
    for one in _STOPS:
        signal.signal(one, signal.SIG_IGN)  # files are being removed
    raise KeyboardInterrupt(number)


def _write(out: str, tasks: Sequence[str], given: Mapping[str, Any]) -> int:
    try:
        paths = write(out, tasks, **given)
    except MnemeError as error:
        print(f"mneme: error: questions: {error}", file=sys.stderr)
        return 1 if isinstance(error, NotWrittenError) else 2
    try:
        for path in paths.values():
            print(path)
        sys.stdout.flush()
    except OSError as error:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # for the interpreter, which flushes stdout when it ends
        if isinstance(error, BrokenPipeError):
            return 141
        print(f"mneme: error: questions: the files are written, their paths are not printed: {error}", file=sys.stderr)
        return 1
    return 0


def _parser() -> argparse.ArgumentParser:
    families = "\n".join(
        f"  {family}: {' '.join(task.name for task in TASKS if task.family == family)}"
        for family in dict.fromkeys(task.family for task in TASKS)
    )
    parser = argparse.ArgumentParser(
        prog="python -m mneme questions",
        description='Writes questions about texts that are made from a seed, for data.task = "questions".',
        epilog=f"families and tasks (docs/tasks.md, Text tasks):\n{families}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("task", nargs="+", metavar="TASK", help="a task, or a family of tasks")
    parser.add_argument("--out", required=True, type=_path, metavar="DIR", help="gets train.jsonl, valid.jsonl and test.jsonl")
    for split in ("train", "valid", "test"):
        parser.add_argument(
            f"--{split}", type=int, default=0, metavar="N", help=f"questions of {split}, for each task and length"
        )
    parser.add_argument(
        "--length",
        type=_lengths,
        default=[4096],
        metavar="N,...",
        help="the most words of a prompt and its answer; 0: no haystack (default: 4096)",
    )
    parser.add_argument(
        "--books", type=_path, metavar="PATH", help="the haystack: a text, or a folder with .txt files (default: six sentences)"
    )
    parser.add_argument(
        "--tokenizer", type=_path, metavar="PATH", help="counts lengths in tokens of this tokenizer.json, folder or run"
    )
    parser.add_argument("--seed", type=int, default=1, help="(default: 1)")
    parser.add_argument("--choices", action="store_true", help="choices in place of free answers, in the family world")
    return parser


def _lengths(text: str) -> list[int]:
    try:
        return [int(one) for one in text.split(",")]
    except ValueError:
        raise argparse.ArgumentTypeError(f"expected numbers with commas between them, got '{text}'") from None


def _path(text: str) -> str:
    if not text:
        raise argparse.ArgumentTypeError("an empty text is no path")
    return text
