"""A run that scores and continues texts in one program: `mneme serve` (docs/serve.md)."""

from __future__ import annotations

import collections
import json
import subprocess
import threading
import weakref
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from os import PathLike, fspath
from typing import IO, Any, NoReturn, Optional, Union

from .errors import UsageError, program_error
from .launch import _message, check_version, environment, program

Text = Union[str, Sequence[int]]  #: a text, or its ids

_STATUS = {"run": 1, "usage": 2, "plugin": 3, "device": 4}
_REQUESTS = 1024  # on one line, at most
_BYTES = 1 << 24  # of one line, about
_SECONDS = 5.0  # for a program to end


@dataclass(frozen=True)
class Score:
    """Of a text: the sum of its tokens' log-probabilities in nats, their number, and whether each is the likeliest one.

    `tokens` of the text's `text_tokens` are scored: all of them behind a context, or in a session that has begun; else all
    but the first, which nothing predicts. `logprobs`: of each scored token, where they were asked for.
    """

    logprob: float
    tokens: int
    is_greedy: bool
    logprobs: Optional[tuple[float, ...]] = None
    text_tokens: int = 0


@dataclass(frozen=True)
class Continuation:
    """A generated text, its ids, and why it ended: "stop", "eos" or "tokens"."""

    text: str
    ids: tuple[int, ...]
    end: str

    def __str__(self) -> str:
        return self.text


class Service:
    """One program with one run. It ends at close(), with this object, and with the Python process.

    Requests of several threads take turns.
    """

    def __init__(
        self,
        run: Union[str, PathLike[str]],
        *,
        memory: Optional[Union[str, PathLike[str]]] = None,
        settings: Optional[Mapping[str, Any]] = None,
        **options: Any,
    ) -> None:
        """`memory`: a memory file in place of the run's own. `settings`: keys of the experiment, `{"eval.lanes": 16}`.

        Other options of `mneme serve` are arguments of their names. The program starts at once and opens the run beside what
        follows: errors of the run come with the first request. Errors: ProgramNotFoundError, VersionError.
        """
        from .commands import _settings, _words

        given = {"memory": None if memory is None else fspath(memory), **options}
        self._command = ["serve", fspath(run), "--stdio", "--quiet", *_words(given), *_settings(settings)]
        path = program()
        check_version(path)
        self._child = subprocess.Popen(
            [path, *self._command],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={**environment(), "NO_COLOR": "1"},
            process_group=0,
        )
        assert self._child.stderr is not None
        self._messages: collections.deque[str] = collections.deque(maxlen=200)
        self._reader = threading.Thread(target=_read_messages, args=(self._child.stderr, self._messages), daemon=True)
        self._reader.start()
        self._lock = threading.Lock()
        self._end = weakref.finalize(self, _end, self._child)

    @property
    def is_open(self) -> bool:
        """False once it was closed, or its program has ended."""
        return self._end.alive and self._child.poll() is None

    def close(self) -> None:
        """Ends the program."""
        self._end()

    def __enter__(self) -> Service:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def ask(self, requests: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
        """The answers to requests of docs/serve.md, without their `id`, in order.

        Errors: the ProgramError of the first request that failed, once all are answered; of the program where it has ended.
        """
        answers: list[dict[str, Any]] = []
        with self._lock:
            for line in _lines(requests):
                answers += self._answers(line)
        for answer in answers:
            if "error" in answer:
                error = answer["error"]
                raise program_error(error["message"], _STATUS.get(error["kind"], 1), self._command)
        return answers

    def describe(self) -> dict[str, Any]:
        """The model, its memory, segment, vocabulary and versions."""
        return self.ask([{"request": "describe"}])[0]

    def reset(self) -> None:
        """Empties the session."""
        self.ask([{"request": "reset"}])

    def score(
        self, texts: Sequence[Text], context: Optional[Text] = None, *, carry: bool = False, logprobs: bool = False, **keys: Any
    ) -> list[Score]:
        """Of each text how likely it is, behind `context` where there is one; without one its first token is not scored.

        Each text is read from an empty memory; with `carry` each goes on behind the one before it, in the session.
        """
        several = list(texts)
        if isinstance(texts, str) or any(isinstance(text, int) for text in several):
            raise ValueError("score: expected a list of texts, each a str or a list of ids, got one text: write [text]")
        request = {"request": "score", "carry": carry, "logprobs": logprobs, **keys}
        if context is not None:
            request["context"] = context if isinstance(context, str) else list(context)
        given = [{**request, "text": text if isinstance(text, str) else list(text)} for text in several]
        return [
            Score(
                one["logprob"],
                one["tokens"],
                one["is_greedy"],
                tuple(one["logprobs"]) if logprobs else None,
                one["text_tokens"],
            )
            for one in self.ask(given)
        ]

    def generate(self, prompt: Text, *, tokens: int = 256, carry: bool = False, **keys: Any) -> Continuation:
        """Continues a prompt; `keys` are those of the request: greedy=True, until=["\\n"], temperature=0.8, seed=7."""
        request = {"request": "generate", "prompt": prompt if isinstance(prompt, str) else list(prompt), "tokens": tokens}
        answer = self.ask([{**request, "carry": carry, **keys}])[0]
        return Continuation(answer["text"], tuple(answer["ids"]), answer["end"])

    def _answers(self, line: tuple[bytes, int]) -> list[dict[str, Any]]:
        """To the requests of one line, which is written whole before any of its answers is read."""
        assert self._child.stdin is not None and self._child.stdout is not None
        if not self._end.alive:
            raise UsageError("the service is closed; open another one", 2, self._command)
        try:
            self._child.stdin.write(line[0])
            self._child.stdin.flush()
            answers: list[dict[str, Any]] = []
            while len(answers) < line[1]:
                answer = self._child.stdout.readline()
                if not answer.endswith(b"\n"):
                    self._raise_end()
                answers.append(json.loads(answer))
                if answers[-1].pop("id", None) is None:
                    break  # the line is no JSON: no request of it is answered
        except BrokenPipeError:
            self._raise_end()
        except BaseException:
            self.close()  # answers that nobody waits for would be those of later requests
            raise
        return answers

    def _raise_end(self) -> NoReturn:
        status = self._child.wait()
        self._reader.join(_SECONDS)
        self.close()
        text = _message(list(self._messages))
        raise program_error(text or f"mneme serve ended with the status {status}", status or 1, self._command)


class Chat:
    """A conversation with a run: each text is read behind all before it, with the memory carried on."""

    def __init__(self, service: Service, **keys: Any) -> None:
        """`keys`: of every answer, as Service.generate's. The conversation is the service's session, which is emptied."""
        self._service = service
        self._keys = keys
        service.reset()

    def say(self, text: Text, **keys: Any) -> str:
        """The answer to a text."""
        return self._service.generate(text, carry=True, **{**self._keys, **keys}).text

    def reset(self) -> None:
        """Begins again."""
        self._service.reset()


def _lines(requests: Iterable[Mapping[str, Any]]) -> Iterable[tuple[bytes, int]]:
    """Lists of requests as lines, with the number of requests of each."""
    parts: list[bytes] = []
    size = 0
    for number, request in enumerate(requests):
        part = json.dumps({**request, "id": number}).encode()
        if parts and (len(parts) == _REQUESTS or size + len(part) > _BYTES):
            yield b"[" + b",".join(parts) + b"]\n", len(parts)
            parts, size = [], 0
        parts.append(part)
        size += len(part)
    if parts:
        yield b"[" + b",".join(parts) + b"]\n", len(parts)


def _read_messages(stderr: IO[bytes], lines: collections.deque[str]) -> None:
    with stderr:
        for line in stderr:
            lines.append(line.decode("utf-8", "replace").rstrip("\n"))


def _end(child: subprocess.Popen[bytes]) -> None:
    """The end of its input is the end of the program, unless it computes; what it would still say nobody reads."""
    for pipe in (child.stdin, child.stdout):
        try:
            if pipe is not None:
                pipe.close()
        except OSError:
            pass
    try:
        child.wait(_SECONDS)
    except subprocess.TimeoutExpired:
        child.kill()
        child.wait()
