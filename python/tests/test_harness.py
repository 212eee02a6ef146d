"""Runs as a model of lm-evaluation-harness. They need lm_eval; scripts/check/check_harness.sh computes with a model."""

from __future__ import annotations

from typing import Any

import pytest

import mneme

pytest.importorskip("lm_eval")
from mneme.harness import MnemeLM, _without_device  # noqa: E402

TEMPLATE = (
    "{% for one in messages %}{% if one.role == 'tool' %}{{ raise_exception('no tools') }}{% endif %}"
    "{{ bos_token }}{{ one.role }}\n{{ one.content }}{{ eos_token }}\n{% endfor %}"
    "{% if add_generation_prompt %}{{ bos_token }}assistant\n{% endif %}"
)
TURNS = [{"role": "user", "content": "two"}, {"role": "assistant", "content": "one, "}]


class Asked:
    """In place of the program: keeps the requests, and gives every one the same answer."""

    def __init__(self, answer: dict[str, Any]) -> None:
        self.answer = answer
        self.requests: list[dict[str, Any]] = []

    def ask(self, requests: list[dict[str, Any]]) -> list[dict[str, Any]]:
        self.requests += requests
        return [self.answer for _ in requests]


def model(answer: dict[str, Any], **description: Any) -> MnemeLM:
    made = MnemeLM.__new__(MnemeLM)
    super(MnemeLM, made).__init__()
    made._service = Asked(answer)
    made._windows, made._prefix, made._max_tokens = "carried", None, 256
    made.__dict__["description"] = {
        "beginning": "<s>",
        "end": "</s>",
        "beginning_ids": [],
        "end_ids": [7],
        "vocabulary": {"sha256": "ab"},
        **description,
    }
    return made


class Request:
    def __init__(self, *args: Any) -> None:
        self.args = args


def test_refuses_other_windows() -> None:
    with pytest.raises(mneme.MnemeError, match='windows: expected "carried" or "separate", got "both"'):
        MnemeLM("run", windows="both")


def test_spaces_belong_to_the_words_behind_them() -> None:
    lm = model({"logprob": -1.5, "is_greedy": True})
    found = lm.loglikelihood([Request("a b ", "c"), Request("", "c"), Request("  ", "c")])
    assert found == [(-1.5, True)] * 3
    assert [(one["context"], one["text"]) for one in lm._service.requests] == [("a b", " c"), ([7], "c"), ([7], "  c")]


def test_rolling_requests_name_the_windows() -> None:
    lm = model({"logprob": -2.0})
    assert lm.loglikelihood_rolling([Request("a b")]) == [-2.0]
    assert lm._service.requests == [{"request": "score", "context": [7], "text": "a b", "windows": "carried"}]


def test_generates_greedily_unless_asked_to_sample() -> None:
    lm = model({"text": "one"})
    given = [Request("a", {"until": ["\n", ""], "max_gen_toks": 3}), Request("a", {"do_sample": True, "temperature": 0.5})]
    assert lm.generate_until(given) == ["one", "one"]
    greedy, drawn = lm._service.requests
    assert greedy == {"request": "generate", "prompt": "a", "tokens": 3, "until": ["\n"], "greedy": True}
    assert drawn["temperature"] == 0.5 and drawn["tokens"] == 256 and "greedy" not in drawn


def test_chat_templates() -> None:
    lm = model({}, chat_template=TEMPLATE)
    assert lm.chat_template(False) == "" and lm.chat_template(True) == TEMPLATE and lm.tokenizer_name == "ab"
    assert lm.apply_chat_template(TURNS[:1]) == "<s>user\ntwo</s>\n<s>assistant\n"
    assert lm.apply_chat_template(TURNS, add_generation_prompt=False) == "<s>user\ntwo</s>\n<s>assistant\none, "
    trimmed = model({}, chat_template=TEMPLATE.replace("one.content", "one.content | trim"))
    assert trimmed.apply_chat_template(TURNS, add_generation_prompt=False) == "<s>user\ntwo</s>\n<s>assistant\none,"
    with pytest.raises(mneme.MnemeError, match='none of the name "tool_use"'):
        lm.chat_template("tool_use")
    with pytest.raises(mneme.MnemeError, match="chat_template: no tools"):
        lm.apply_chat_template([{"role": "tool", "content": "x"}])
    with pytest.raises(mneme.MnemeError, match="does not write the last turn as it is"):
        model({}, chat_template="{{ messages[0].content | upper }}").apply_chat_template(TURNS, add_generation_prompt=False)
    with pytest.raises(mneme.MnemeError, match="the run has none"):
        model({}, chat_template=None).chat_template(True)


def test_the_device_is_not_that_of_lm_eval() -> None:
    assert _without_device({"device": "cuda", "batch_size": 4}) == {"batch_size": 4}
    assert _without_device(None) == {}
