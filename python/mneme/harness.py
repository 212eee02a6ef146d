"""Runs as a model of lm-evaluation-harness (PyPI lm_eval), with any memory.

    python -m mneme.harness --model mneme --model_args run=runs/first,memory=memory.toml --tasks ...

is its command line with the model `mneme` added; in Python, `lm_eval.simple_evaluate(model=mneme.harness.MnemeLM(run))`.
"""

from __future__ import annotations

import datetime
import functools
from collections.abc import Sequence
from os import PathLike
from typing import Any, Optional, Union

from .errors import MissingPackageError, MnemeError
from .service import Service

try:
    from lm_eval.api.model import LM
    from lm_eval.api.registry import register_model
    from lm_eval.models.utils import normalize_gen_kwargs
except ImportError as error:
    raise MissingPackageError(f"mneme.harness needs lm-evaluation-harness: pip install 'lm_eval>=0.4.13' ({error})") from None

_DRAWS = ("temperature", "top_k", "top_p", "min_p")


@register_model("mneme")
class MnemeLM(LM):  # type: ignore[misc]
    """A run, in one program (docs/serve.md)."""

    def __init__(
        self,
        run: Union[str, PathLike[str]],
        memory: Optional[Union[str, PathLike[str]]] = None,
        windows: str = "carried",
        prefix_token_id: Optional[int] = None,
        max_gen_toks: int = 256,
        segment: Optional[int] = None,
        batch_size: Union[int, str, None] = None,
        max_batch_size: Optional[int] = None,
        **options: Any,
    ) -> None:
        """`windows`: "carried" reads a text of loglikelihood_rolling as one, with the memory carried over its segments;
        "separate" in windows that know nothing of each other, as the harness' own models do.

        `prefix_token_id`: before texts without a context; by default what the tokenizer begins a text with, else the id of
        its end. `segment`: eval.segment. `batch_size`: texts side by side. `options`: those of `mneme serve`.
        """
        super().__init__()
        if windows not in ("carried", "separate"):
            raise MnemeError(f'windows: expected "carried" or "separate", got "{windows}"')
        settings: dict[str, Any] = {}
        if segment is not None:
            settings["eval.segment"] = int(segment)
        if batch_size is not None and str(batch_size).isdecimal() and int(batch_size) > 1:
            settings["eval.lanes"] = int(batch_size)
        self._service = Service(run, memory=memory, settings=settings, **options)
        self._windows = windows
        self._prefix = prefix_token_id
        self._max_tokens = int(max_gen_toks)

    @classmethod
    def create_from_arg_string(cls, arg_string: str, additional_config: Optional[dict[str, Any]] = None) -> MnemeLM:
        """From --model_args."""
        made: MnemeLM = super().create_from_arg_string(arg_string, _without_device(additional_config))
        return made

    @classmethod
    def create_from_arg_obj(cls, arg_dict: dict[str, Any], additional_config: Optional[dict[str, Any]] = None) -> MnemeLM:
        """The same from a dict."""
        made: MnemeLM = super().create_from_arg_obj(arg_dict, _without_device(additional_config))
        return made

    @functools.cached_property
    def description(self) -> dict[str, Any]:
        """What `mneme serve` says of itself; results hold it as the model's configuration."""
        return self._service.describe()

    @functools.cached_property
    def prefix_ids(self) -> list[int]:
        """Before texts without a context; a run whose vocabulary has no such token has none."""
        if self._prefix is not None:
            return [int(self._prefix)]
        return list(self.description["beginning_ids"][:1] or self.description["end_ids"][:1])

    def get_model_info(self) -> dict[str, Any]:
        """Kept with the results."""
        return {"mneme": self.description, "windows": self._windows}

    def loglikelihood(self, requests: Sequence[Any], disable_tqdm: bool = False) -> list[tuple[float, bool]]:
        """Each continuation behind its context, which is read from an empty memory."""
        answers = self._service.ask([self._scored(*request.args) for request in requests])
        found = [(float(one["logprob"]), bool(one["is_greedy"])) for one in answers]
        self._keep("loglikelihood", requests, found)
        return found

    def _scored(self, context: str, text: str) -> dict[str, Any]:
        if not context:
            return {"request": "score", "context": self.prefix_ids, "text": text}
        kept = context.rstrip()  # spaces belong to the words behind them, as in the harness
        if not kept:
            return {"request": "score", "context": self.prefix_ids, "text": context + text}
        return {"request": "score", "context": kept, "text": context[len(kept) :] + text}

    def loglikelihood_rolling(self, requests: Sequence[Any], disable_tqdm: bool = False) -> list[float]:
        """Each text alone."""
        given = [
            {"request": "score", "context": self.prefix_ids, "text": request.args[0], "windows": self._windows}
            for request in requests
        ]
        found = [float(one["logprob"]) for one in self._service.ask(given)]
        self._keep("loglikelihood_rolling", requests, found)
        return found

    def generate_until(self, requests: Sequence[Any], disable_tqdm: bool = False) -> list[str]:
        """Each prompt from an empty memory; a text ends before a text of `until`, and at the model's end of text."""
        given = []
        for request in requests:
            prompt, kwargs = request.args
            keys = normalize_gen_kwargs(kwargs, self._max_tokens)
            one = {"request": "generate", "prompt": prompt, "tokens": keys["max_gen_toks"]}
            one["until"] = [text for text in keys["until"] if text]
            if keys["do_sample"]:
                one.update({name: keys[name] for name in _DRAWS if name in keys})
            else:
                one["greedy"] = True
            given.append(one)
        found = [str(one["text"]) for one in self._service.ask(given)]
        self._keep("generate_until", requests, found)
        return found

    def _keep(self, kind: str, requests: Sequence[Any], found: Sequence[Any]) -> None:
        for request, one in zip(requests, found, strict=True):
            self.cache_hook.add_partial(kind, request.args, one)

    @property
    def tokenizer_name(self) -> str:
        """Of the caches of requests."""
        return str(self.description["vocabulary"].get("sha256", "ids"))

    def chat_template(self, chat_template: Union[bool, str] = False) -> str:
        """The text of the model folder's template. Errors: MnemeError where there is none, or a named one is asked for."""
        if isinstance(chat_template, str) and chat_template not in ("", "default"):
            raise MnemeError(f'chat_template: the run has one template at most, none of the name "{chat_template}"')
        if chat_template is False:
            return ""
        text = self.description.get("chat_template")
        if not text:
            raise MnemeError("chat_template: the run has none: it did not begin with a model folder that has one")
        return str(text)

    def apply_chat_template(self, chat_history: list[dict[str, str]], add_generation_prompt: bool = True) -> str:
        """The turns as the model's template writes them; without a prompt for an answer the last turn stays open.

        Errors: MnemeError where the template refuses the turns, or does not write the last one as it is.
        """
        from jinja2.sandbox import ImmutableSandboxedEnvironment

        # As transformers renders templates.
        environment = ImmutableSandboxedEnvironment(
            trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols"]
        )
        environment.globals["raise_exception"] = _raise
        environment.globals["strftime_now"] = lambda form: datetime.datetime.now().strftime(form)
        text = environment.from_string(self.chat_template(True)).render(
            messages=chat_history,
            add_generation_prompt=add_generation_prompt,
            bos_token=self.description["beginning"],
            eos_token=self.description["end"],
        )
        if add_generation_prompt or not chat_history:
            return text
        # The last turn goes on: nothing of the template stands behind it; as in transformers spaces at its end stay where the
        # template writes them.
        last = chat_history[-1]["content"].lstrip()
        at = text.rfind(last.rstrip())
        if at < 0:
            raise MnemeError("chat_template: it does not write the last turn as it is, so that no answer can begin with it")
        return text[: at + len(last if text.startswith(last, at) else last.rstrip())]


def _without_device(config: Optional[dict[str, Any]]) -> dict[str, Any]:
    """lm_eval's --device is cuda where none is given, on any machine; the device of a run is an argument of the model."""
    return {name: value for name, value in (config or {}).items() if name != "device"}


def _raise(text: str) -> None:
    raise MnemeError(f"chat_template: {text}")


def main() -> None:
    """lm_eval's command line."""
    from lm_eval.__main__ import cli_evaluate

    cli_evaluate()


if __name__ == "__main__":
    main()
