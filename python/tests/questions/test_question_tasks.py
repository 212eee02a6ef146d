"""Every task of questions: golden lines, a reader of the prompt who answers all of them, and what a guess is worth."""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from pathlib import Path

import pytest
from golden import FILE, golden
from solvers import solve

from mneme.questions import TASKS, Maker, words
from mneme.questions.world import CONTAINERS, OBJECTS, PERSONS

NAMES = [task.name for task in TASKS]
WITH_CHOICES = [task.name for task in TASKS if task.family == "world"]

# Sentences that would mislead a reader if the world's names were not chosen apart from theirs.
TRAPS = """A HEADING

He went to the kitchen. The abacus is in the cellar! Renzo picked up the
abacus. "Is Renzo in the attic?" she asked. Mr. Renzo put down the abacus.

Renzo gave the abacus to Tamsin. The lamp is in the suitcase. Nobody is in the garden. Old Kaveh went to the pantry.
"""


@pytest.fixture
def book(tmp_path: Path) -> Path:
    path = tmp_path / "book.txt"
    path.write_text(TRAPS * 40, encoding="utf-8")
    return path


@pytest.mark.parametrize("task", NAMES)
def test_first_lines_are_golden(task: str) -> None:
    assert golden(task) == json.loads(FILE.read_text(encoding="utf-8"))[task]


@pytest.mark.parametrize("task", NAMES)
def test_reader_of_the_prompt_answers_all(task: str, book: Path) -> None:
    has_books = next(one.hay == "books" for one in TASKS if one.name == task)
    for line in Maker([task], [0, 300, 600], books=book if has_books else None).lines("valid", 6):
        assert line["answer"] == f" {solve(line['prompt'])}", line["id"]


def test_misspelt_name_has_no_other_neighbour_among_many() -> None:
    """Of each 20,000 names 2.8 would differ from the spelling in one letter at most, on average, if they were not left out."""
    for line in Maker(["phonebook_fuzzy"], [60_000]).lines("test", 2):
        assert line["answer"] == f" {solve(line['prompt'])}"


def test_question_depends_on_seed_split_task_and_number_alone() -> None:
    alone = {line["id"]: line for line in Maker(["needle_single_2"], [300]).lines("test", 3)}
    among = {line["id"]: line for line in Maker(["ruler"], [400, 300]).lines("test", 5)}
    assert len(alone) == 3 and alone.items() <= among.items()
    prompts = {
        next(Maker(["needle_single_2"], [300], seed=seed).lines(split, 1))["prompt"]
        for seed, split in ((1, "test"), (2, "test"), (1, "valid"))
    }
    assert len(prompts) == 3


def test_lengths_and_haystacks_ask_the_same_of_the_same_facts(book: Path) -> None:
    lines = [
        *Maker(["needle_multiquery"], [0, 100, 400]).lines("test", 1),
        *Maker(["needle_multiquery"], [400], books=book).lines("test", 1),
    ]
    assert len({line["answer"] for line in lines}) == 1
    assert len({tuple(re.findall(r"A secret code of .*?\.", line["prompt"])) for line in lines}) == 1
    assert len({line["groups"]["depth"] for line in lines}) == 1


@pytest.mark.parametrize("task", NAMES)
def test_length_is_reached_and_not_exceeded(task: str) -> None:
    for line in Maker([task], [300, 700]).lines("test", 4):
        length = int(line["groups"]["length"])
        assert length - 12 < len((line["prompt"] + line["answer"]).split()) <= length
        assert set(line["groups"]) == {"task", "length", "depth", "facts"}


def test_depth_says_where_the_first_needed_fact_is() -> None:
    lines = list(Maker(["needle_single_1"], [2000]).lines("test", 60))
    for line in lines:
        text = line["prompt"].split("\n\n")[1]
        low, high = (float(end) for end in line["groups"]["depth"].split("-"))
        assert low - 0.01 <= text.index("A secret") / len(text) <= high + 0.01
    assert len({line["groups"]["depth"] for line in lines}) == 10


@pytest.mark.parametrize("task", WITH_CHOICES)
def test_guesses_are_at_chance(task: str) -> None:
    """The best constant guess of a place among the choices is within 4 standard errors of 1 / choices."""
    lines = list(Maker([task], [0], has_choices=True).lines("test", 50))
    for size in {len(line["choices"]) for line in lines}:
        answers = Counter(line["answer"] for line in lines if len(line["choices"]) == size)
        count, chance = answers.total(), 1 / size
        assert set(answers) <= set(range(size))
        assert max(answers.values()) / count < chance + 4 * math.sqrt(chance * (1 - chance) / count)

    if "_where_" in task:
        text_and_rooms = [(line["prompt"], [room.strip() for room in line["choices"]], line["answer"]) for line in lines]
        newest = [[w for w in re.findall(r"\w+", text) if w in rooms][-1] == rooms[i] for text, rooms, i in text_and_rooms]
        assert sum(newest) / len(lines) < 1 / 6 + 4 * math.sqrt(5 / 36 / len(lines))


@pytest.mark.parametrize("task", WITH_CHOICES)
def test_choices_have_the_free_answer(task: str) -> None:
    free, chosen = (list(Maker([task], [0], has_choices=has).lines("test", 5)) for has in (False, True))
    assert [line["choices"][line["answer"]] for line in chosen] == [line["answer"] for line in free]
    assert all(len(set(line["choices"])) == len(line["choices"]) for line in chosen)


def test_number_of_facts_is_the_number_of_hops() -> None:
    for hops in range(1, 6):
        (line,) = Maker([f"world_where_{hops}"], [0]).lines("test", 1)
        assert line["groups"]["facts"] == str(hops)


def test_world_is_named_apart_from_the_books(tmp_path: Path) -> None:
    path = tmp_path / "names.txt"
    path.write_text(" ".join(f"{name} sleeps." for name in (*PERSONS, *OBJECTS, *CONTAINERS)) + " Nobody wakes." * 200)
    for line in Maker(["world_where_5", "world_count"], [600], books=path).lines("test", 2):
        told = [part for part in line["prompt"].split(". ") if not part.endswith(("sleeps", "wakes"))]
        assert not {*PERSONS, *OBJECTS, *CONTAINERS} & set(re.findall(r"\w+", " ".join(told)))
        assert line["answer"] == f" {solve(line['prompt'])}"


def test_lists_of_words_have_no_word_twice() -> None:
    for listed in (words.NOUNS, words.ADJECTIVES, PERSONS, (*OBJECTS, *CONTAINERS)):
        assert len(set(listed)) == len(listed)
