#!/usr/bin/env python3
"""Speed of evaluation and generation with a pretrained decoder: mneme against PyPI transformers, in one run.

    python3 -m venv /tmp/decoder && /tmp/decoder/bin/pip install torch==2.11.0 transformers==5.23.0
    /tmp/decoder/bin/python scripts/bench/compare_transformers.py [--rounds N] [--threads N] [--precisions f32 bf16]
        [--samples 1 8] [--mneme PROGRAM] [--folder DIR] [--transformers-only] [--json FILE] [size options]

The model has the shape of SmolLM-135M (30 layers, width 576, 9 heads on 3 key/value heads of 64, feed-forward 1536,
49,152 tokens, tied) and random weights. --folder keeps it, and mneme's import of it, for the next call. In each round
the sides take turns, and the ratio of a round is formed of its own two times; printed are medians over the rounds.
Both sides keep keys and values:

  evaluation   one text in segments of --segment tokens, each attending to all of the text before it, with the loss of
               every token
  generation   greedy, after a prompt that is not timed, 1 and 8 samples at once. transformers is timed twice, by its
               generate() and by a bare loop over its model and cache; the faster of the two counts

Before anything is timed the results are compared: the loss of every token, and the greedy continuation. Both sides'
losses are held against those of the library in double precision throughout. mneme's largest error may be
at most twice the library's; of the continuation the agreeing tokens are counted, because where two tokens are equally
likely rounding decides. Times exclude loading. Needs a built mneme (default
build/release/bin/mneme).
"""
import argparse
import contextlib
import json
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path

os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")

import torch
import transformers
from safetensors.torch import load_file, save_file

from program import MNEME, Failure, call, call_for_json, processor

SHAPE = dict(num_hidden_layers=30, hidden_size=576, num_attention_heads=9, num_key_value_heads=3, head_dim=64,
             intermediate_size=1536, vocab_size=49152, tie_word_embeddings=True, rms_norm_eps=1e-5,
             max_position_embeddings=8192, initializer_range=0.041666666666666664, bos_token_id=0, eos_token_id=0,
             rope_parameters=dict(rope_type="default", rope_theta=10000.0))
DTYPES = {"f32": torch.float32, "bf16": torch.bfloat16}  # and f64 as the reference
MOST_ERROR = 2.0  # of mneme's largest error over the library's


# --- the model folder ---

def byte_characters():
    """The 256 characters that stand for bytes in byte-level BPE, as GPT-2's tokenizer assigns them."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [b for b in range(256) if b not in printable]
    return [chr(b) for b in printable] + [chr(256 + i) for i in range(len(others))]


def write_tokenizer(folder, size):
    """A byte-level BPE of `size` tokens: the bytes, then pairs of bytes. No text is read here; import needs one."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers

    bytes_ = byte_characters()
    merges = [(a, b) for a in bytes_ for b in bytes_][: size - len(bytes_)]
    vocabulary = {token: i for i, token in enumerate([*bytes_, *(a + b for a, b in merges)])}
    if len(vocabulary) != size:
        raise Failure(f"the tokenizer can have {256 + 256 * 256} tokens at most, got a vocabulary of {size}")
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=merges))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.save(str(folder / "tokenizer.json"))


def make_model_folder(folder, layers):
    if (folder / "model.safetensors").exists():
        return
    torch.manual_seed(1)
    config = transformers.LlamaConfig(**{**SHAPE, "num_hidden_layers": layers})
    transformers.LlamaForCausalLM(config).save_pretrained(folder)
    write_tokenizer(folder, SHAPE["vocab_size"])


# --- transformers ---

class DoubleTorch:
    """torch, in which float32 is another name of float64."""

    def __getattr__(self, name):
        return torch.float64 if name in ("float", "float32") else getattr(torch, name)


@contextlib.contextmanager
def in_double():
    """The library's code computes rotary angles, RMS norms and softmax in float32, which it names, in a double model too:
    for the time of this context the name stands for float64."""
    from transformers.models.llama import modeling_llama

    modeling_llama.torch = DoubleTorch()
    exact, torch.Tensor.float = torch.Tensor.float, torch.Tensor.double
    try:
        yield
    finally:
        modeling_llama.torch, torch.Tensor.float = torch, exact


class Transformers:
    def __init__(self, folder, precision):
        self.model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float64 if precision == "f64" else DTYPES[precision]).eval()

    @torch.inference_mode()
    def evaluate(self, ids, segment):
        """Losses [n-1] of the text `ids` [n] in segments with the cache kept, and the seconds."""
        cache = transformers.DynamicCache(config=self.model.config)
        losses = []
        start = time.perf_counter()
        for at in range(0, len(ids) - 1, segment):
            inputs, targets = ids[at : at + segment], ids[at + 1 : at + segment + 1]
            inputs = inputs[: len(targets)]
            logits = self.model(inputs[None], past_key_values=cache, use_cache=True).logits[0]
            losses.append(torch.nn.functional.cross_entropy(logits.float(), targets, reduction="none"))
        return torch.cat(losses), time.perf_counter() - start

    def prompted(self, prompt, samples):
        cache = transformers.DynamicCache(config=self.model.config)
        self.model(prompt[None, :-1].expand(samples, -1), past_key_values=cache, use_cache=True, logits_to_keep=1)
        return cache

    @torch.inference_mode()
    def generate(self, prompt, samples, tokens):
        """Greedy ids [samples,tokens] by the library's generate(), and the seconds after the prompt."""
        cache = self.prompted(prompt, samples)
        rows = prompt[None].expand(samples, -1).contiguous()
        start = time.perf_counter()
        ids = self.model.generate(rows, attention_mask=torch.ones_like(rows), past_key_values=cache, do_sample=False,
                                  min_new_tokens=tokens, max_new_tokens=tokens, eos_token_id=None, pad_token_id=0)
        seconds = time.perf_counter() - start
        return ids[:, len(prompt) :], seconds

    @torch.inference_mode()
    def loop(self, prompt, samples, tokens):
        """The same by the shortest loop over the model and its cache."""
        cache = self.prompted(prompt, samples)
        newest, drawn = prompt[None, -1:].expand(samples, -1), []
        start = time.perf_counter()
        for _ in range(tokens):
            logits = self.model(newest, past_key_values=cache, use_cache=True).logits
            newest = logits[:, -1].argmax(-1, keepdim=True)
            drawn.append(newest)
        return torch.cat(drawn, 1), time.perf_counter() - start


# --- mneme ---

class Mneme:
    """Runs the program; each function's command line is written in it. Times are those that the program reports."""

    def __init__(self, program, work, threads):
        self.program, self.work, self.threads = program, work, threads
        self.memory = work / "memory.toml"

    def call(self, *arguments):
        call([self.program, *arguments])

    def call_for_json(self, *arguments):
        result = self.work / "result.json"
        return call_for_json([self.program, *arguments, "--threads", self.threads, "--json", result, "--quiet"], result)[0]

    def import_model(self, folder, run, rows):
        """mneme import --from FOLDER --run RUN, and the memory file of a cache that keeps all rows of the text."""
        if not run.exists():
            self.call("import", "--from", folder, "--run", run)
        self.memory.write_text(f'[memory]\n[[memory.tier]]\nplugin = "xl_cache"\nrows = {rows}\n')

    def evaluate(self, run, precision, ids, segment):
        """mneme score RUN --tokens IDS --dump NLL --memory CACHE --set eval.segment=T --set eval.precision=P"""
        tokens, dump = self.work / "tokens.safetensors", self.work / "nll.safetensors"
        save_file({"input": ids[None].contiguous()}, tokens)
        result = self.call_for_json("score", run, "--tokens", tokens, "--dump", dump, "--memory", self.memory,
                                    "--set", f"eval.segment={segment}", "--set", "eval.lanes=1",
                                    "--set", f"eval.precision={precision}")
        return load_file(dump)["nll"].flatten().float(), result["seconds"]

    def generate(self, run, precision, prompt, samples, tokens):
        """mneme generate RUN --prompt-ids LIST --tokens N --samples S --greedy --segment T --memory CACHE"""
        result = self.call_for_json("generate", run, "--prompt-ids", ",".join(map(str, prompt.tolist())),
                                    "--tokens", tokens, "--samples", samples, "--greedy", "--memory", self.memory,
                                    "--segment", len(prompt) + tokens, "--set", f"eval.precision={precision}")
        return torch.tensor([sample["ids"] for sample in result["samples"]]), result["seconds"]


# --- the comparison ---

def agreeing(ours, theirs):
    """How many tokens two continuations have in common before they part."""
    differs = (ours != theirs).any(0).nonzero()
    return int(differs[0]) if len(differs) else ours.shape[1]


class Comparison:
    def __init__(self, options, folder, work):
        self.options = options
        generator = torch.Generator().manual_seed(2)
        self.text = torch.randint(SHAPE["vocab_size"], (options.text + 1,), generator=generator)
        self.prompt = torch.randint(SHAPE["vocab_size"], (options.prompt,), generator=generator)
        self.folder, self.run = folder, folder.parent / (folder.name + "-run")
        self.exact = None  # losses of the text in double precision
        self.mneme = None
        if not options.transformers_only:
            self.mneme = Mneme(options.mneme, work, options.threads)
            self.mneme.import_model(folder, self.run, max(options.text, options.prompt + options.tokens))

    def tasks(self, precision):
        """Name, tokens, and the timed calls of a task, each of which gives its result and its seconds."""
        options, library = self.options, Transformers(self.folder, precision)
        evaluation = {"transformers": lambda: library.evaluate(self.text, options.segment)}
        if self.mneme:
            evaluation["mneme"] = lambda: self.mneme.evaluate(self.run, precision, self.text, options.segment)
        yield f"evaluation {precision}", options.text, evaluation
        for samples in options.samples:
            calls = {"transformers": lambda s=samples: library.generate(self.prompt, s, options.tokens),
                     "transformers, bare loop": lambda s=samples: library.loop(self.prompt, s, options.tokens)}
            if self.mneme:
                calls["mneme"] = lambda s=samples: self.mneme.generate(self.run, precision, self.prompt, s,
                                                                       options.tokens)
            yield f"generation {precision}, {samples} at once", samples * options.tokens, calls

    def check(self, name, precision, results):
        """Compares the results of the sides; what was found, as text."""
        theirs = results["transformers"]
        if "transformers, bare loop" in results:
            both = agreeing(results["transformers, bare loop"], theirs)
            if precision == "f32" and both < theirs.shape[1]:
                raise Failure(f"{name}: transformers' generate() and the bare loop part after {both} tokens")
        if "mneme" not in results:
            return ""
        ours = results["mneme"]
        if ours.shape != theirs.shape:
            raise Failure(f"{name}: mneme's result has the shape {tuple(ours.shape)}, expected {tuple(theirs.shape)}")
        if name.startswith("generation"):
            return f"first {agreeing(ours, theirs)} of {ours.shape[1]} tokens equal"
        if self.exact is None:
            with in_double():
                self.exact = Transformers(self.folder, "f64").evaluate(self.text, self.options.segment)[0]
        error, allowed = ((side.double() - self.exact).abs().max().item() for side in (ours, theirs))
        if not error <= MOST_ERROR * allowed:
            raise Failure(f"{name}: a token's loss is {error:.2g} nats from that in double precision, transformers' is "
                          f"{allowed:.2g}, expected at most {MOST_ERROR:g} times that; nothing was timed")
        return f"a token's loss at most {error:.1e} nats from that in double precision, transformers' {allowed:.1e}"

    def compare(self, name, precision, tokens, calls):
        results = {side: call()[0] for side, call in calls.items()}  # also warms both sides up
        found = self.check(name, precision, results)
        seconds = {side: [] for side in calls}
        for _ in range(self.options.rounds):
            for side, call in calls.items():
                seconds[side].append(call()[1])
        rates = {side: [tokens / s for s in values] for side, values in seconds.items()}
        fastest = max((side for side in rates if side != "mneme"), key=lambda side: statistics.median(rates[side]))
        row = {"task": name, "tokens": tokens, "check": found, "against": fastest,
               "tokens_per_second": {side: statistics.median(values) for side, values in rates.items()},
               "rounds": rates}
        if "mneme" in rates:
            row["ratio"] = statistics.median(a / b for a, b in zip(rates["mneme"], rates[fastest]))
        return row


def print_row(row):
    rates = "; ".join(f"{side} {rate:,.1f} tokens/s" for side, rate in row["tokens_per_second"].items())
    print(f"{row['task']}: {rates}", flush=True)
    if "ratio" in row:
        print(f"    mneme / {row['against']}: {row['ratio']:.2f} ({row['check']})", flush=True)


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--precisions", nargs="+", choices=list(DTYPES), default=list(DTYPES))
    parser.add_argument("--samples", nargs="+", type=int, default=[1, 8], help="samples generated at once")
    parser.add_argument("--text", type=int, default=2048, help="tokens of the evaluated text")
    parser.add_argument("--segment", type=int, default=512)
    parser.add_argument("--prompt", type=int, default=128)
    parser.add_argument("--tokens", type=int, default=64, help="tokens to generate, a sample")
    parser.add_argument("--layers", type=int, default=SHAPE["num_hidden_layers"], help="fewer for a quick trial")
    parser.add_argument("--mneme", type=Path, default=MNEME)
    parser.add_argument("--folder", type=Path, help="keep the model folder here")
    parser.add_argument("--transformers-only", action="store_true")
    parser.add_argument("--json", type=Path, help="write all rounds here")
    options = parser.parse_args()
    if min(options.rounds, options.threads, options.text, options.segment, options.tokens, options.layers) < 1:
        parser.error("--rounds, --threads, --text, --segment, --tokens and --layers must be at least 1")
    if options.prompt < 2 or min(options.samples) < 1:
        parser.error("--prompt must be at least 2, and --samples at least 1")
    if not options.transformers_only and not options.mneme.exists():
        parser.error(f"there is no {options.mneme}: build mneme, name the program by --mneme, or give "
                     "--transformers-only")
    return options


def main():
    options = parse()
    torch.set_num_threads(options.threads)
    transformers.utils.logging.disable_progress_bar()
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.folder or Path(temporary) / "model"
        folder.mkdir(parents=True, exist_ok=True)
        make_model_folder(folder, options.layers)
        comparison = Comparison(options, folder, Path(temporary))
        print(f"{processor()}, {options.threads} threads; transformers {transformers.__version__}, torch "
              f"{torch.__version__}; {options.rounds} rounds, medians", flush=True)
        rows = []
        for precision in options.precisions:
            for name, tokens, calls in comparison.tasks(precision):
                rows.append(comparison.compare(name, precision, tokens, calls))
                print_row(rows[-1])
    if options.json:
        options.json.write_text(json.dumps({"processor": processor(), "threads": options.threads,
                                            "transformers": transformers.__version__, "torch": torch.__version__,
                                            "tasks": rows}, indent=1) + "\n")


if __name__ == "__main__":
    try:
        main()
    except Failure as failure:
        sys.exit(f"error: {failure}")
