"""Runs that score and continue texts without starting the program again. They need the program."""

from __future__ import annotations

import gc
import os
import signal
import threading
import time
from pathlib import Path

import pytest

import mneme

TEXT = "one two , three\nfour five .\n"
SETTINGS = {
    "train.steps": 12,
    "train.warmup": 2,
    "train.lanes": 4,
    "train.segment": 8,
    "eval.segment": 8,
    "eval.lanes": 4,
    "model.layers": 2,
    "model.heads": 2,
    "model.width": 16,
    "model.ff": 32,
}


@pytest.fixture(scope="module")
def run(program: Path, tmp_path_factory: pytest.TempPathFactory) -> mneme.Run:
    folder = tmp_path_factory.mktemp("service")
    (folder / "train.txt").write_text(TEXT * 60)
    (folder / "valid.txt").write_text(TEXT * 4)
    (folder / "experiment.toml").write_text(
        '[memory]\n[data]\ntask = "text"\ntrain = "train.txt"\nvalid = "valid.txt"\nvocabulary = "char"\n'
    )
    memory = mneme.configs() / "memory/xl_cache.toml"
    return mneme.train(
        folder / "experiment.toml", memory=memory, run=folder / "run", settings=SETTINGS, threads=1, progress=False
    )


def test_scores(run: mneme.Run) -> None:
    texts = [TEXT, "one two", TEXT * 3]
    scores = run.score(texts)
    child = run.service
    assert [one.tokens for one in scores] == [len(text) - 1 for text in texts]
    assert [one.text_tokens for one in scores] == [len(text) for text in texts]
    assert all(one.logprob < 0 for one in scores)
    behind = run.score(["two"], "one ")[0]
    assert (behind.tokens, behind.text_tokens) == (3, 3)
    assert run.service is child
    each = child.score([TEXT], logprobs=True)[0]
    assert each.logprobs is not None and sum(each.logprobs) == pytest.approx(scores[0].logprob, abs=1e-4)


@pytest.mark.parametrize("text", ["one two", [1, 2], b"one"])
def test_one_text_is_no_list_of_texts(text: object) -> None:
    with pytest.raises(ValueError, match=r"expected a list of texts, .* got one text: write \[text\]"):
        mneme.Service.score(None, text)  # type: ignore[arg-type]  # refused before the program is asked


def test_a_session_has_the_sums_of_the_whole_text(run: mneme.Run) -> None:
    parts = [TEXT[:5], TEXT[5:18], TEXT[18:]]
    run.service.reset()
    carried = run.score(parts, carry=True)
    assert sum(one.logprob for one in carried) == pytest.approx(run.score([TEXT])[0].logprob, abs=1e-4)
    assert run.service.describe()["session_tokens"] == len(TEXT)


def test_many_requests_are_answered_in_order(run: mneme.Run) -> None:
    texts = [TEXT[: 2 + i % 20] for i in range(2500)]
    assert [one.tokens for one in run.score(texts)] == [len(text) - 1 for text in texts]


def test_generates_and_talks(run: mneme.Run) -> None:
    once = run.generate("one", tokens=8, greedy=True)
    assert len(once.ids) == 8 and once.end == "tokens" and str(once) == once.text
    chat = run.chat(greedy=True, tokens=4)
    assert chat.say("one") + chat.say("") == once.text
    chat.reset()
    assert chat.say("one") == once.text[:4]


def test_errors_are_those_of_the_request(run: mneme.Run) -> None:
    with pytest.raises(mneme.UsageError, match="the vocabulary lacks") as wrong:
        run.score(["one", "XYZ"])
    assert wrong.value.status == 2
    assert run.score(["one"])[0].tokens == 2
    with pytest.raises(mneme.UsageError, match="did you mean"):
        run.generate("one", tokens=1, gredy=True)


@pytest.mark.parametrize("text", ["one \ud800", "two"])
def test_a_line_that_is_no_json_has_one_answer(run: mneme.Run, text: str) -> None:
    keys = {"temperature": float("nan")} if text == "two" else {}
    with pytest.raises(mneme.UsageError, match="no JSON"):
        run.service.score(["one", text], **keys)
    assert run.score(["one", "two"])[1].tokens == 2


def test_a_program_that_ended_says_why(run: mneme.Run, tmp_path: Path) -> None:
    with pytest.raises(mneme.UsageError, match="nothing"):
        mneme.Service(tmp_path / "nothing").describe()
    service = mneme.Service(run, memory=mneme.configs() / "memory/none.toml")
    assert service.describe()["plugins"] == []
    os.kill(service._child.pid, signal.SIGKILL)
    service._child.wait()
    with pytest.raises(mneme.StoppedError):
        service.describe()
    assert not service.is_open
    with pytest.raises(mneme.UsageError, match="closed"):
        service.describe()


def test_outlives_the_thread_that_opened_it(run: mneme.Run) -> None:
    opened: list[mneme.Service] = []
    thread = threading.Thread(target=lambda: opened.append(mneme.Service(run)))
    thread.start()
    thread.join()
    time.sleep(0.5)
    assert opened[0].is_open
    assert opened[0].score(["one two"])[0].tokens > 0
    opened[0].close()


def test_the_program_ends_with_its_object(run: mneme.Run) -> None:
    service = mneme.Service(run)
    service.describe()
    child = service._child
    del service
    gc.collect()
    assert child.poll() is not None
    with mneme.Service(run) as other:
        child = other._child
    assert child.poll() is not None
