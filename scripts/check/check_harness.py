"""The work of scripts/check/check_harness.sh: a model, three tasks, two models of the harness."""

from __future__ import annotations

import copy
import json
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import lm_eval
import torch
import transformers
from lm_eval.loggers import EvaluationTracker
from lm_eval.models.huggingface import HFLM
from lm_eval.tasks import TaskManager
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

import mneme
from mneme.harness import MnemeLM

WORDS = "one two three four five six seven eight nine ten eleven twelve sun moon star sea hill tree".split()
POSITIONS = 64
END = "<|endoftext|>"

CHOICE = """task: local_choice
output_type: multiple_choice
test_split: test
doc_to_text: "{{text}}"
doc_to_choice: "{{choices}}"
doc_to_target: "{{label}}"
metric_list: [{metric: acc}]
"""
ROLLING = """task: local_rolling
output_type: loglikelihood_rolling
test_split: test
doc_to_text: ""
doc_to_target: "{{text}}"
metric_list: [{metric: word_perplexity}]
"""
GENERATION = """task: local_generation
output_type: generate_until
test_split: test
doc_to_text: "{{text}}"
doc_to_target: "one"
generation_kwargs: {until: [" sea", "\\n\\n"], max_gen_toks: 12, do_sample: false}
metric_list: [{metric: exact_match}]
"""


def text_of(rng: random.Random, words: int) -> str:
    return " ".join(rng.choice(WORDS) for _ in range(words))


def make_model(folder: Path, rng: random.Random) -> None:
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=400, special_tokens=[END], initial_alphabet=alphabet, show_progress=False)
    tokenizer.train_from_iterator([text_of(rng, 2000)], trainer)
    fast = transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizer, bos_token=END, eos_token=END)
    end = fast.eos_token_id
    torch.manual_seed(1)
    config = transformers.LlamaConfig(
        vocab_size=len(fast),
        max_position_embeddings=POSITIONS,
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        initializer_range=0.2,
        bos_token_id=end,
        eos_token_id=end,
    )
    transformers.LlamaForCausalLM(config).save_pretrained(folder)
    fast.save_pretrained(folder)


def make_tasks(folder: Path, rng: random.Random) -> None:
    choice = [
        {
            "text": text_of(rng, rng.randint(0, 20)) + ("" if i % 3 else " "),
            "choices": [f" {w}" for w in rng.sample(WORDS, 3)],
            "label": i % 3,
        }
        for i in range(12)
    ]
    rolling = [{"text": text_of(rng, words)} for words in (3, 40, 150, 400)]
    generation = [{"text": text_of(rng, rng.randint(1, 20))} for _ in range(8)]
    for name, yaml, rows in (("choice", CHOICE, choice), ("rolling", ROLLING, rolling), ("generation", GENERATION, generation)):
        data = folder / f"{name}.jsonl"
        data.write_text("".join(json.dumps(row) + "\n" for row in rows))
        source = f"dataset_path: json\ndataset_kwargs: {{data_files: {{test: {data}}}}}\n"
        (folder / f"{name}.yaml").write_text(yaml + source)


def samples(model: Any, tasks: Path, out: Path | None = None) -> dict[str, list[Any]]:
    """Responses by task. `out`: where the harness writes what it logs of each sample."""
    names = ["local_choice", "local_rolling", "local_generation"]
    manager = TaskManager(include_path=str(tasks), include_defaults=False)
    found = lm_eval.simple_evaluate(model=model, tasks=names, task_manager=manager, bootstrap_iters=0, verbosity="ERROR")
    if out is not None:
        tracker = EvaluationTracker(output_path=str(out))
        tracker.general_config_tracker.model_name_sanitized = "model"
        copied = copy.deepcopy(found)  # the tracker changes what it writes
        tracker.save_results_aggregated(results=copied, samples=copied["samples"])
        for name in names:
            tracker.save_results_samples(task_name=name, samples=copied["samples"][name])
    return {
        name: [one["resps"] for one in sorted(rows, key=lambda row: row["doc_id"])] for name, rows in found["samples"].items()
    }


def numbers(responses: Any) -> list[float]:
    """The log-probabilities, a list in whatever lists they are in."""
    if isinstance(responses, (list, tuple)):
        return [one for part in responses for one in numbers(part)]
    return [float(responses)]


def differences(a: list[Any], b: list[Any]) -> list[float]:
    return [abs(x - y) for x, y in zip(numbers(a), numbers(b), strict=True)]


def memory_file(work: Path, name: str) -> Path:
    """The memory NAME of configs/, with the plugins that are built beside the program, the examples among them."""
    folders = [str(Path(mneme.program()).parents[1] / part) for part in ("plugins", "examples")]
    text = (mneme.configs() / "memory" / f"{name}.toml").read_text(encoding="utf-8")
    path = work / f"{name}.toml"
    path.write_text(text.replace("[memory]\n", f"[memory]\nplugins = {json.dumps(folders)}\n", 1), encoding="utf-8")
    return path


def certify(folder: Path, run: Path, work: Path, rng: random.Random) -> None:
    """The run's certificate with the losses of transformers."""
    text, losses = work / "text.txt", work / "reference.safetensors"
    text.write_text(text_of(rng, 800))
    cut = ["--tokens", "600"]
    script = [sys.executable, Path(__file__).with_name("reference_losses.py"), folder, text, losses]
    subprocess.run([*script, "--segment", str(POSITIONS), *cut], check=True)
    words = [mneme.program(), "certify", run, "--text", text, "--reference", losses, *cut]
    words += ["--set", f"eval.segment={POSITIONS}", "--json", "-"]
    found = subprocess.run(words, check=True, stdout=subprocess.PIPE)
    lines = {line["name"]: line for line in json.loads(found.stdout)["lines"]}
    print(f"certificate: losses of transformers differ by {lines['reference']['difference']:.1e}")
    assert lines["reference"]["result"] == "holds" and lines["reference"]["difference"] < 1e-4, lines["reference"]


def main() -> None:
    work = Path(sys.argv[1])
    rng = random.Random(5)
    folder, tasks = work / "model", work / "tasks"
    tasks.mkdir()
    make_model(folder, rng)
    make_tasks(tasks, rng)
    subprocess.run([mneme.program(), "import", "--from", folder, "--run", work / "run"], check=True, stdout=subprocess.DEVNULL)
    certify(folder, work / "run", work, rng)
    theirs = samples(HFLM(pretrained=str(folder), device="cpu", batch_size=4, dtype="float32"), tasks)
    ours = samples(MnemeLM(work / "run", windows="separate", segment=POSITIONS, batch_size=4), tasks)
    for name in ("local_choice", "local_rolling"):
        largest = max(differences(theirs[name], ours[name]))
        print(f"{name}: {len(theirs[name])} samples, the largest difference {largest:.1e}")
        assert largest < 1e-4, (theirs[name], ours[name])
    assert theirs["local_generation"] == ours["local_generation"], (theirs["local_generation"], ours["local_generation"])
    print(f"local_generation: {len(ours['local_generation'])} equal texts")
    found: dict[str, Any] = {}
    for name in ("xl_cache", "sinks"):
        model = MnemeLM(work / "run", memory=memory_file(work, name), segment=POSITIONS, batch_size=4)
        carried = samples(model, tasks, work / name)
        found[name] = carried
        apart = differences(ours["local_rolling"], carried["local_rolling"])
        print(
            f"local_rolling with the memory {name} carried over windows: differs by", ", ".join(f"{one:.3g}" for one in apart)
        )
        # The first two texts have one window.
        assert max(apart[:2]) < 1e-4 and min(apart[2:]) > 1e-2, apart
    report = [mneme.program(), "report", "--pairs", work / "xl_cache", work / "sinks"]
    subprocess.run(report, check=True)
    table = mneme.pair_samples(work / "xl_cache", work / "sinks", progress=False)
    rows = {(task, metric): place for place, (task, metric) in enumerate(zip(table["task"], table["metric"]))}
    place = rows["local_rolling", "word_perplexity"]
    sums = [sum(sum(numbers(one)) for one in of["local_rolling"]) for of in (found["xl_cache"], found["sinks"])]
    expected = (sums[0] - sums[1]) / sum((3, 40, 150, 400))  # losses of B less those of A, a word
    assert abs(table["difference"][place] - expected) < 1e-6, (table["difference"][place], expected)
    assert list(table["documents"]) == [{"local_choice": 12, "local_rolling": 4, "local_generation": 8}[t] for t in table["task"]]


if __name__ == "__main__":
    main()
