"""Files of questions, the unit of lengths, and what is refused."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

import mneme
from mneme import questions
from mneme.questions.command import run
from mneme.questions.haystack import sentences_of

TOKENIZER = Path(__file__).parents[3] / "tests/data/tokenizer/golden/tokenizers/gpt2"


def lines_of(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def test_a_file_is_written_for_each_split(tmp_path: Path) -> None:
    paths = questions.write(tmp_path / "new" / "out", ["world", "phonebook"], train=3, test=2, length=[0, 400])
    assert list(paths) == ["train", "test"]
    assert sorted(path.name for path in (tmp_path / "new" / "out").iterdir()) == ["test.jsonl", "train.jsonl"]
    train, test = (lines_of(path) for path in paths.values())
    assert (len(train), len(test)) == (3 * 10 * 2, 2 * 10 * 2)
    assert [line["id"] for line in test[9:11]] == ["test/phonebook/0/0", "test/world_where_1/400/0"]
    assert [line["unit"] for line in test[9:20:10]] == ["test/phonebook/0", "test/phonebook/0"]
    assert len({line["unit"] for line in test}) == 2 * 10
    assert not {line["prompt"] for line in train} & {line["prompt"] for line in test}


def test_command_writes_what_the_function_writes(tmp_path: Path) -> None:
    (tmp_path / "book.txt").write_text(
        "\ufeffIt was late. Nobody spoke; the lamp was out. “Well?” said he.\n" * 9, encoding="utf-8"
    )
    words = [
        "needle_multivalue",
        "--out",
        tmp_path / "a",
        "--valid",
        "2",
        "--length",
        "90,0",
        "--books",
        tmp_path,
        "--seed",
        "3",
    ]
    child = subprocess.run([sys.executable, "-m", "mneme", "questions", *words], capture_output=True, text=True, check=True)
    assert child.stdout == f"{tmp_path / 'a' / 'valid.jsonl'}\n"
    questions.write(tmp_path / "b", "needle_multivalue", valid=2, length=[90, 0], books=tmp_path, seed=3)
    assert (tmp_path / "a/valid.jsonl").read_bytes() == (tmp_path / "b/valid.jsonl").read_bytes()
    assert "“Well?” said he." in lines_of(tmp_path / "a/valid.jsonl")[0]["prompt"]


def test_text_is_cut_at_the_ends_of_sentences() -> None:
    text = 'CHAPTER ONE\n\nMr. J. Bell saw\n it... "Who?" he said. "I!" He left (late.) 7 came.\n\nHe said:\n\n"Come."\n\nA list;\n'
    assert sentences_of(text) == [
        "Mr. J. Bell saw it...",
        '"Who?" he said.',
        '"I!"',
        "He left (late.)",
        "7 came.",
        'He said: "Come."',
        "A list;",
    ]


def vocabulary(folder: Path, **members: Any) -> Path:
    (folder / "vocabulary.json").write_text(json.dumps({"format": "mneme.vocabulary", **members}))
    return folder


@pytest.mark.parametrize(
    ("kind", "unit", "size"),
    [
        ("byte", "bytes", lambda text: len(text.encode())),
        ("char", "characters", len),
        ("word", "words", lambda t: len(t.split())),
    ],
)
def test_lengths_are_counted_by_the_vocabulary_of_a_run(tmp_path: Path, kind: str, unit: str, size: Any) -> None:
    maker = questions.Maker(["needle_single_3"], [500], tokenizer=vocabulary(tmp_path, kind=kind))
    assert maker.unit.name == unit
    for line in maker.lines("test", 3):
        assert 450 < size(line["prompt"]) + size(line["answer"]) <= 500


@pytest.mark.parametrize("is_of_run", [False, True])
def test_lengths_are_counted_in_tokens(tmp_path: Path, is_of_run: bool) -> None:
    tokenizers = pytest.importorskip("tokenizers")
    text = (TOKENIZER / "tokenizer.json").read_text(encoding="utf-8")
    place = vocabulary(tmp_path, kind="tokenizer", files={"tokenizer.json": text}) if is_of_run else TOKENIZER
    tokenizer = tokenizers.Tokenizer.from_str(text)
    for task in questions.TASKS:
        for line in questions.Maker([task.name], [2000], tokenizer=place).lines("test", 1):
            count = sum(len(tokenizer.encode(line[part], add_special_tokens=False).ids) for part in ("prompt", "answer"))
            assert 1800 < count <= 2000, task.name


def test_lengths_in_tokens_need_a_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tokenizers", None)
    with pytest.raises(
        mneme.MissingPackageError, match="need the package tokenizers .*: .* -m pip install tokenizers; without"
    ):
        questions.Maker(["phonebook"], tokenizer=TOKENIZER)


def test_a_tokenizer_that_is_none_is_refused(tmp_path: Path) -> None:
    def refuse(message: str) -> None:
        with pytest.raises(mneme.FormatError, match=message):
            questions.Maker(["phonebook"], tokenizer=tmp_path)

    refuse("the folder has no tokenizer.json, and no vocabulary.json of a run")
    vocabulary(tmp_path, kind="tokenizer", files={"merges.txt": "", "vocab.json": ""})
    refuse("the vocabulary holds merges.txt, vocab.json: lengths are counted by a tokenizer.json")
    (tmp_path / "vocabulary.json").write_text("[")
    refuse("vocabulary.json: no JSON")
    (tmp_path / "vocabulary.json").write_text("version https://git-lfs.github.com/spec/v1\n")
    refuse("the file is a pointer of Git LFS: .* expected a tokenizer.json, or a run's vocabulary.json, got a text of 43 bytes")
    with pytest.raises(mneme.FormatError, match="there is no such file; name a tokenizer.json"):
        questions.Maker(["phonebook"], tokenizer=tmp_path / "none.json")
    pytest.importorskip("tokenizers")
    (tmp_path / "vocabulary.json").write_text("{}")
    refuse("no tokenizer: ")


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"tasks": "needle_multkey_1"}, r"needle_multkey_1 is no task of questions \(did you mean needle_multikey_1\?\)"),
        ({"tasks": "zzz"}, r"zzz is no task of questions \(there are ruler, world, phonebooks, needle_single_1, "),
        ({"tasks": []}, "no task of questions is named; there are ruler, "),
        ({"length": -1}, "length: expected numbers from 0 to 16777216, got -1"),
        ({"length": [64, 16_777_217]}, "length: expected numbers from 0 to 16777216, got 64, 16777217"),
        ({"length": []}, "length: expected numbers from 0 to 16777216, got none"),
        (
            {"length": [300, 20]},
            "needle_single_1: with no haystack the questions of test have up to 29 words, more than the "
            "length 20; give at least 29, or 0 for no haystack",
        ),
        (
            {"tasks": "common_words", "length": 40},
            r"common_words: .* up to 80 words, more than the length 40; give at least 80",
        ),
        (
            {"tasks": "needle_multikey_2", "length": 400_000},
            "needle_multikey_2: 400000 words need more names than can be made up",
        ),
        (
            {"tasks": ["needle_single_1", "common_words"], "length": 20, "train": 2},
            "^common_words: with no haystack the questions of (train|test) have up to 80 words, more than the length 20; "
            "give at least 80",
        ),
        ({"choices": True}, "choices: needle_single_1 has free answers alone; the tasks of the family world have choices"),
        ({"books": "."}, "books: needle_single_1 hides nothing in books; leave them out"),
        ({"test": 0}, "^expected a number of questions for train, valid or test, got none"),
        ({"valid": -2}, "^expected a number of questions for train, valid or test, got -2 for valid"),
    ],
)
def test_wrong_arguments_are_refused(tmp_path: Path, given: dict[str, Any], message: str) -> None:
    with pytest.raises(mneme.MnemeError, match=message):
        questions.write(**{"out": tmp_path / "out", "tasks": "needle_single_1", "test": 3, **given})
    assert not list(tmp_path.glob("**/*.jsonl*"))


def test_books_that_cannot_be_a_haystack_are_refused(tmp_path: Path) -> None:
    def refuse(name: str, message: str) -> None:
        with pytest.raises(mneme.MnemeError, match=message):
            questions.write(tmp_path / "out", "needle_single_2", test=2, length=200, books=tmp_path / name)
        assert not list(tmp_path.glob("out/*")) and not list(tmp_path.glob("out/.*"))

    refuse("none", "there is no such file or folder; name a text file, or a folder with .txt files")
    refuse("", "the folder has no .txt file")
    (tmp_path / "short.txt").write_text("It was late. " * 50)
    refuse("short.txt", "short.txt: the books have 150 words, and the haystack needs 171; add books, or give a smaller length")
    (tmp_path / "empty.txt").write_text(" \n")
    refuse("empty.txt", "no sentence was found: expected text with points")
    (tmp_path / "latin1.txt").write_bytes("Ein Käse. Zwei.".encode("latin-1"))
    refuse("latin1.txt", "latin1.txt: cannot be read as a text in UTF-8")
    expected = "expected a text in UTF-8, got"
    for name, begin, packer, hint in (
        ("a.gz", b"\x1f\x8b\x08", "gzip", "gunzip -k .*a.gz$"),
        ("b.txt", b"\xfd7zXZ\0", "xz", "xz -dc .*b.txt > .*b.txt.unpacked$"),
        ("c.zst", b"\x28\xb5\x2f\xfd", "zstd", "zstd -d .*c.zst$"),
        ("d.tar.bz2", b"BZh91AY", "bzip2", "tar -xf .*d.tar.bz2$"),
        ("e e.txt", b"PK\x03\x04", "zip", "unzip '.*e e.txt'$"),
    ):
        (tmp_path / name).write_bytes(begin)
        refuse(name, f"{name}: the file is packed: {expected} data packed by {packer}; unpack it: {hint}")
    for begin, name, hint in (
        ("version https://git-lfs.github.com/spec/v1\noid", "Git LFS", "git lfs pull --include f.txt; or download"),
        ("/annex/objects/x", "git-annex", "git annex get f.txt"),
    ):
        (tmp_path / "f.txt").write_text(begin)
        refuse(
            "f.txt",
            f"f.txt: the file is a pointer of {name}: its contents were not fetched: {expected} a text of {len(begin)} bytes "
            f"that names them; fetch them in the repository: {hint}",
        )


def test_hidden_books_are_left_out_and_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in (".old.txt", "._a.txt", ".#a.txt"):
        (tmp_path / name).write_bytes(b"\xff Old. ")
    with pytest.raises(mneme.FormatError, match="the folder has no .txt file"):
        questions.Maker(["needle_single_2"], books=tmp_path)
    (tmp_path / "a.txt").write_text("It was late. " * 99)
    capsys.readouterr()
    questions.write(tmp_path / "out", "needle_single_2", test=1, length=200, books=tmp_path)
    assert capsys.readouterr().err == (
        f"mneme: warning: {tmp_path}: hidden files are left out: .#a.txt, ._a.txt, .old.txt; name a file itself to read it\n"
    )


def test_books_that_are_no_files_are_refused_or_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "a.txt").write_text("It was late. " * 99)
    (tmp_path / ".#a.txt").symlink_to("user@host.1")  # Emacs' lock
    os.mkfifo(tmp_path / "pipe.txt")
    questions.write(tmp_path / "out", "needle_single_2", test=1, length=200, books=tmp_path)
    assert capsys.readouterr().err == (
        f"mneme: warning: {tmp_path}: hidden files are left out: .#a.txt; name a file itself to read it\n"
        f"mneme: warning: {tmp_path}: pipes, sockets and devices are left out: pipe.txt; copy their contents into files to "
        "read them\n"
    )
    (tmp_path / "b.txt").symlink_to("/mnt/gone/b.txt")
    for books in (tmp_path, tmp_path / "b.txt"):
        with pytest.raises(mneme.FormatError, match="/b.txt: a symbolic link to /mnt/gone/b.txt, which is not there; mount"):
            questions.Maker(["needle_single_2"], books=books)
    (tmp_path / "tokenizer.json").symlink_to("gone.json")
    for tokenizer in (tmp_path, tmp_path / "tokenizer.json"):
        with pytest.raises(mneme.FormatError, match="/tokenizer.json: a symbolic link to gone.json, which is not there"):
            questions.Maker(["needle_single_2"], tokenizer=tokenizer)


def test_files_that_are_there_stay(tmp_path: Path) -> None:
    (tmp_path / "test.jsonl").write_text("mine")
    with pytest.raises(mneme.MnemeError, match="test.jsonl is there already; remove it, or name another folder"):
        questions.write(tmp_path, "phonebook", train=1, test=1, length=50)
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [("test.jsonl", "mine")]


def test_a_place_that_cannot_be_written_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(mneme.MnemeError, match="file: the questions cannot be written: .*File exists"):
        questions.write(tmp_path / "file", "phonebook", test=1, length=50)

    def full(*_: Any, **__: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("mneme.questions.files.json.dumps", full)
    with pytest.raises(mneme.MnemeError, match="out: the questions cannot be written: .*No space left on device"):
        questions.write(tmp_path / "out", "phonebook", test=1, length=50)
    assert not list((tmp_path / "out").iterdir())


# A file in the way is wrong use; on a full disk the work failed (docs/runs.md, "Exit statuses").
def test_what_cannot_be_written_has_its_exit_status(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["phonebook", "--test", "1", "--length", "0", "--out"]
    (tmp_path / "file").write_text("")
    assert run([*words, str(tmp_path / "file")]) == 2

    def full(*_: Any, **__: Any) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("mneme.questions.files.json.dumps", full)
        assert run([*words, str(tmp_path / "out")]) == 1
    assert "No space left" in capsys.readouterr().err
    with open("/dev/full", "w") as stdout:
        child = subprocess.run(
            [sys.executable, "-m", "mneme", "questions", *words, str(tmp_path / "out")],
            stdout=stdout,
            stderr=subprocess.PIPE,
            check=False,
        )
    assert (child.returncode, b"their paths are not printed" in child.stderr) == (1, True)
    assert len(lines_of(tmp_path / "out/test.jsonl")) == 1


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["phonebok", "--out", "x", "--test", "1"], "mneme: error: questions: phonebok is no task of questions (did you mean"),
        (
            ["phonebook", "--out", "x", "--length", "1k"],
            "argument --length: expected numbers with commas between them, got '1k'",
        ),
        (["phonebook", "--out", ""], "argument --out: an empty text is no path"),
        (["phonebook"], "the following arguments are required: --out"),
    ],
)
def test_wrong_words_end_with_status_2(capsys: pytest.CaptureFixture[str], words: list[str], message: str) -> None:
    try:
        status = run(words)
    except SystemExit as end:
        status = end.code
    assert status == 2 and message in capsys.readouterr().err


def test_a_reader_that_ends_leaves_the_files(tmp_path: Path) -> None:
    words = ["phonebook", "--out", str(tmp_path / "out"), "--test", "1", "--length", "0"]
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "w") as stdout:
        child = subprocess.run(
            [sys.executable, "-m", "mneme", "questions", *words], stdout=stdout, stderr=subprocess.PIPE, check=False
        )
    assert (child.returncode, child.stderr) == (141, b"")
    assert len(lines_of(tmp_path / "out/test.jsonl")) == 1


def test_an_interrupt_leaves_no_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def stop(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("mneme.questions.files.json.dumps", stop)
    assert run(["phonebook", "--out", str(tmp_path / "out"), "--test", "1", "--length", "0"]) == 130
    assert capsys.readouterr() == ("", "mneme: stopped by SIGINT\n")
    assert not list((tmp_path / "out").iterdir())


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_leaves_no_file(tmp_path: Path, number: signal.Signals) -> None:
    other = tmp_path / ".test.jsonl.1"  # of a program that was killed
    other.touch()
    ignored = signal.SIGTERM if number == signal.SIGHUP else signal.SIGHUP

    def dispositions() -> None:
        signal.signal(number, signal.SIG_DFL)
        signal.signal(ignored, signal.SIG_IGN)  # as nohup does

    words = ["world", "--out", str(tmp_path), "--test", "1000000", "--length", "400"]
    child = subprocess.Popen(
        [sys.executable, "-m", "mneme", "questions", *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=dispositions,
    )
    with child:
        begun = tmp_path / f".test.jsonl.{child.pid}"
        while not begun.exists() and child.poll() is None:
            time.sleep(0.01)
        for one in (ignored, number):
            os.kill(child.pid, one)
        out, err = child.communicate(timeout=60)
    assert (child.returncode, out, err) == (128 + number, "", f"mneme: stopped by {number.name}\n")
    assert list(tmp_path.iterdir()) == [other]


@pytest.mark.parametrize(("words", "module"), [(["questions", "world"], "mneme.questions"), (["train"], "mneme.launch")])
def test_an_interrupt_of_the_imports_is_one_line(words: list[str], module: str) -> None:
    code = f"""
import os, signal, sys
class Finder:
    def find_spec(name, *_):
        if name == "{module}":
            os.kill(os.getpid(), signal.SIGINT)
signal.signal(signal.SIGINT, signal.default_int_handler)
sys.meta_path.insert(0, Finder)
sys.argv = ["mneme", *{words}]
from mneme.__main__ import main
sys.exit(main())"""
    child = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (child.returncode, child.stdout, child.stderr) == (130, "", "mneme: stopped by SIGINT\n")


def test_help_names_all_tasks(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        run(["--help"])
    text = capsys.readouterr().out
    assert all(task.name in text for task in questions.TASKS)
