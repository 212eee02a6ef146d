"""Questions as lines: a task's facts hidden in a haystack of a given length, the question, and the answer."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Optional, Union

from ..errors import MnemeError
from ..files import PathLike
from . import frequencies, needles, phonebook, world_questions
from .draws import Draws
from .haystack import Books, Noise, hide
from .length import unit_of
from .task import Hay, Question, Setting, Task
from .words import UsedUpError

_LONGEST = 16_777_216
TASKS = (*needles.TASKS, *frequencies.TASKS, *world_questions.TASKS, *phonebook.TASKS)


class Maker:
    """Makes questions of tasks, each in every one of the lengths.

    `tasks`: names of tasks or of families (ruler, world, phonebooks). `lengths`: the most words, or tokens of `tokenizer`, of
    a prompt with its answer; 0 is the facts without a haystack. `books`: a text file, or a folder of .txt files, whose
    sentences are the haystack of the tasks that have one; without it six sentences of our own are. `has_choices`: choices
    in place of free answers. Errors: MnemeError, FormatError, MissingPackageError.
    """

    def __init__(
        self,
        tasks: Sequence[str],
        lengths: Sequence[int] = (4096,),
        *,
        books: Optional[PathLike] = None,
        tokenizer: Optional[PathLike] = None,
        seed: int = 1,
        has_choices: bool = False,
    ) -> None:
        self.tasks = _tasks_of(tasks)
        self.lengths = list(dict.fromkeys(lengths))
        if not self.lengths or min(self.lengths) < 0 or max(self.lengths) > _LONGEST:
            got = ", ".join(map(str, lengths)) or "none"
            raise MnemeError(f"length: expected numbers from 0 to {_LONGEST}, got {got}")
        if has_choices and (without := [task.name for task in self.tasks if task.family != "world"]):
            raise MnemeError(f"choices: {without[0]} has free answers alone; the tasks of the family world have choices")
        if books is not None and all(task.hay != "books" for task in self.tasks):
            raise MnemeError(f"books: {self.tasks[0].name} hides nothing in books; leave them out")
        self.unit = unit_of(tokenizer)
        self._seed, self._has_choices = seed, has_choices
        self._noise = Noise(self.unit)
        self._books: Union[Books, Noise] = self._noise if books is None else Books(books, self.unit)

    def lines(self, split: str, count: int, counts: Optional[Mapping[str, int]] = None) -> Iterator[dict[str, Any]]:
        """Questions 0 .. count - 1 of each task in each length: question by question, then by length, then by task.

        A line has `id`, `prompt`, `answer`, `choices` where they were asked for, `groups`, and `unit`, which question i has in
        all lengths. Errors: MnemeError for a length that is too small, which says what suffices for all splits of `counts`,
        and for books that are shorter than the haystack.
        """
        for i in range(count):
            for length in self.lengths:
                for task in self.tasks:
                    yield self._line(split, task, i, length, {**(counts or {}), split: count})

    def _line(self, split: str, task: Task, i: int, length: int, counts: Mapping[str, int]) -> dict[str, Any]:
        draws = self._draws(split, task, i)
        question = self._question(task, draws)
        if length and self._least(question) > length:
            least, name, largest = max(
                (self._least(self._question(one, self._draws(of, one, j))), one.name, of)
                for of, count in counts.items()
                for one in self.tasks
                for j in range(count)
            )
            raise MnemeError(
                f"{name}: with no haystack the questions of {largest} have up to {least} {self.unit.name}, more than the "
                f"length {length}; give at least {least}, or 0 for no haystack"
            )
        stream = draws.stream("depths")
        depths = sorted(stream.unit() for _ in question.facts)
        try:
            prompt = self._prompt(question, depths, self._hay(task, question, draws), length)
        except UsedUpError:
            raise MnemeError(
                f"{task.name}: {length} {self.unit.name} need more names than can be made up; give a smaller length"
            ) from None
        needed = [depth for fact, depth in zip(question.facts, depths) if fact.is_needed]
        answer: dict[str, Any] = {"answer": f" {question.answer}"}
        if self._has_choices:
            choices = [f" {choice}" for choice in question.choices]
            answer = {"choices": choices, "answer": question.choices.index(question.answer)}
        groups = {
            "task": task.name,
            "length": str(length),
            "depth": _tenth(min(needed)) if needed else "all",
            "facts": str(len(needed)) if needed else "all",
        }
        unit = f"{split}/{task.name}/{i}"  # the same question in another length is no other unit of statistics
        return {"id": f"{split}/{task.name}/{length}/{i}", "prompt": prompt, **answer, "groups": groups, "unit": unit}

    def _draws(self, split: str, task: Task, i: int) -> Draws:
        return Draws(f"mneme questions/{self._seed}/{split}/{task.name}/{i}")

    def _question(self, task: Task, draws: Draws) -> Question:
        return task.make(draws.stream("facts"), Setting(self.unit.size, lambda: self._haystack(task).words))

    def _haystack(self, task: Task) -> Union[Books, Noise]:
        return self._books if task.hay == "books" else self._noise

    def _hay(self, task: Task, question: Question, draws: Draws) -> Hay:
        return question.hay or (lambda room: self._haystack(task).take(draws.stream("hay"), room))

    def _prompt(self, question: Question, depths: Sequence[float], hay: Hay, length: int) -> str:
        """The longest prompt that has, with its answer, at most `length`, but for less than a sentence."""
        room = question.least_hay + (length - self._least(question) if length else 0)
        while True:
            prompt = _around(hide(question.facts, depths, hay(room) if room else []), question)
            excess = self._size(question, prompt) - length
            if excess <= 0 or length == 0:
                return prompt
            room = max(question.least_hay, room - excess)  # tokens reach over the borders of sentences

    def _least(self, question: Question) -> int:
        """The size of the question with the least hay."""
        hay = question.hay(question.least_hay) if question.hay and question.least_hay else []
        return self._size(question, _around(hide(question.facts, [0.0] * len(question.facts), hay), question))

    def _size(self, question: Question, prompt: str) -> int:
        return self.unit.size(prompt) + self.unit.size(f" {question.answer}")


def _around(text: str, question: Question) -> str:
    cue = f" {question.cue}" if question.cue else ""
    return f"{question.intro}\n\n{text}\n\nQuestion: {question.ask}\nAnswer:{cue}"


def _tenth(depth: float) -> str:
    tenth = int(10 * depth)
    return f"{tenth / 10:.1f}-{(tenth + 1) / 10:.1f}"


def _tasks_of(names: Sequence[str]) -> list[Task]:
    """Tasks by name, or all of a family. Errors: MnemeError."""
    known = [*dict.fromkeys(task.family for task in TASKS), *(task.name for task in TASKS)]
    for name in names:
        if name not in known:
            near = difflib.get_close_matches(name, known, 1)
            hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(known)}"
            raise MnemeError(f"{name} is no task of questions ({hint})")
    if not names:
        raise MnemeError(f"no task of questions is named; there are {', '.join(known)}")
    return [task for task in TASKS if task.name in names or task.family in names]
