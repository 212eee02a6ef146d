"""Writes tests/data/tokenizer/folders.json with transformers' AutoTokenizer.

    python3 -m venv /tmp/transformers && /tmp/transformers/bin/pip install transformers==5.24.0 tokenizers==0.23.3
    /tmp/transformers/bin/python tests/data/tokenizer/make_folders.py

trains a small vocabulary of each kind, saves it with the classes of transformers in many variants,
also in the forms that older versions wrote, and encodes the same 500 strings with AutoTokenizer.

folders.json holds
    strings       the strings
    vocabularies  by name: "vocab" and "merges"
    folders       for each folder
        name
        vocabulary  the name of the vocabulary
        files       by name: the file's object or text. A tokenizer.json lacks the two members of its
                    model that the vocabulary has, and vocab.json and merges.txt are null.
        ids         for each string, its ids without added special tokens; or
        like        the folder to whose ids these are equal, but for
        differ        by the string's place: its ids; or
        refused     words that the error must have
"""

import json
import os
import random
import shutil
import tempfile
from pathlib import Path

os.environ["HF_HUB_OFFLINE"] = "1"

import make_golden
import tokenizers
import transformers
from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers
from tokenizers import trainers
from transformers import AutoTokenizer, GemmaTokenizer, GPT2Tokenizer, LlamaTokenizer
from transformers import PreTrainedTokenizerFast, Qwen2Tokenizer

transformers.logging.set_verbosity_error()

FILE = Path(__file__).resolve().parent / "folders.json"
STRINGS = 500
LONGEST = 24

SPECIAL = [
    "<|endoftext|>",
    "<s>",
    "</s>",
    "<unk>",
    "<pad>",
    "<tool>",
    "<|im_start|>",
    "<|im_end|>",
    "<think>",
    "<img>",
    "New",
    "upon",
]


def make_strings():
    texts = [
        "Hi <tool>x",
        "a <tool> b",
        "a<tool>b",
        "<tool><tool>",
        "the hall",
        " the hall",
        "x New y",
        "xNew",
        "New",
        "upon a",
        "개\u11a7",
        "\u1100\u1161\u11a7x",
        "x² 2³",
        "e\u0301",
        "▁a▁",
        "\u00a0x",
    ]
    pool = [each for each in make_golden.make_strings(SPECIAL) if len(each) <= LONGEST]
    rng = random.Random(make_golden.SEED)
    texts += [each for each in pool[:90] if each not in texts]
    while len(texts) < STRINGS:
        text = rng.choice(pool)
        if rng.random() < 0.4:
            text = rng.choice(["", " ", "a"]) + rng.choice(SPECIAL) + rng.choice(["", " ", "b"]) + text[:10]
        if text not in texts:
            texts.append(text)
    return texts


# --- Vocabularies ---


def train_bytes(special, size=330):
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    trainer = trainers.BpeTrainer(
        vocab_size=size,
        special_tokens=special,
        show_progress=False,
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
    )
    tokenizer.train_from_iterator(make_golden.corpus(), trainer)
    return tokenizer


def train_characters():
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first")
    trainer = trainers.BpeTrainer(
        vocab_size=420,
        show_progress=False,
        limit_alphabet=90,
        special_tokens=["<unk>", "<s>", "</s>"] + [f"<0x{byte:02X}>" for byte in range(256)],
    )
    tokenizer.train_from_iterator(make_golden.corpus(), trainer)
    return tokenizer


def model_of(tokenizer):
    model = json.loads(tokenizer.to_str())["model"]
    return model["vocab"], [tuple(merge) for merge in model["merges"]]


VOCABULARIES = {
    "bytes": model_of(train_bytes(["<|endoftext|>"])),
    "plain_bytes": model_of(train_bytes([], size=300)),
    "characters": model_of(train_characters()),
}


def sentencepiece_json():
    """The form in which transformers 4 converted Llama's and Mistral's sentencepiece models."""
    vocab, merges = VOCABULARIES["characters"]
    tokenizer = Tokenizer(
        models.BPE(vocab=vocab, merges=merges, unk_token="<unk>", fuse_unk=True, byte_fallback=True)
    )
    tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    tokenizer.decoder = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    )
    tokenizer.add_special_tokens(["<unk>", "<s>", "</s>"])
    return tokenizer


def llama3_json():
    vocab, merges = VOCABULARIES["plain_bytes"]
    tokenizer = Tokenizer(models.BPE(vocab=vocab, merges=merges, ignore_merges=True))
    tokenizer.pre_tokenizer = make_golden.split_and_bytes(make_golden.LLAMA3)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens(["<|begin_of_text|>", "<|end_of_text|>", "<|im_end|>"])
    return tokenizer


# --- Folders ---


class Folder:
    def __init__(self, name, vocabulary, model_type, files, config=None):
        self.name = name
        self.vocabulary = vocabulary
        self.files = dict(files)
        if model_type is not None:
            self.files["config.json"] = {"model_type": model_type, **(config or {})}


def saved(tokenizer):
    """The files of save_pretrained."""
    path = Path(tempfile.mkdtemp())
    tokenizer.save_pretrained(path)
    files = {each.name: json.loads(each.read_text(encoding="utf-8")) for each in path.glob("*.json")}
    shutil.rmtree(path)
    return files


def backend_of(json_text):
    return json.loads(json_text.to_str() if isinstance(json_text, Tokenizer) else json_text)


def made(cls, vocabulary, **settings):
    vocab, merges = VOCABULARIES[vocabulary]
    return cls(vocab=dict(vocab), merges=list(merges), **settings)


def more_tokens(tokenizer):
    """What fine-tuning adds."""
    tokenizer.add_special_tokens({"pad_token": "<pad>"})
    tokenizer.add_special_tokens({"extra_special_tokens": ["<|im_start|>", "<|im_end|>"]})
    tokenizer.add_tokens([AddedToken("<tool>", lstrip=True), AddedToken("New", single_word=True), "upon"])
    tokenizer.add_tokens([AddedToken("<think>", rstrip=True, normalized=False)], special_tokens=True)
    return tokenizer


def state(token):
    return {key: value for key, value in token.__getstate__().items()}


def of_version_4(tokenizer, base, tokenizer_class, *, slow=False, **settings):
    """The files as transformers 4 wrote them beside its tokenizer.json, of a fast tokenizer; with
    `slow` those of a Python tokenizer, whose tokenizer.json is that of the model it began with."""
    added = tokenizer.added_tokens_decoder
    special = dict(tokenizer.special_tokens_map)
    config = {
        "added_tokens_decoder": {str(i): state(token) for i, token in added.items()},
        "additional_special_tokens": list(tokenizer.extra_special_tokens),
        **special,
        "clean_up_tokenization_spaces": False,
        "model_max_length": 2048,
        "tokenizer_class": tokenizer_class,
        **settings,
    }
    with_flags = {
        name: {
            key: value
            for key, value in state(next(t for t in added.values() if t.content == text)).items()
            if key != "special"
        }
        for name, text in special.items()
    }
    files = {
        "tokenizer.json": base,
        "tokenizer_config.json": config,
        "special_tokens_map.json": {
            "additional_special_tokens": list(tokenizer.extra_special_tokens),
            **with_flags,
        },
    }
    size = len(base["model"]["vocab"])
    files["added_tokens.json"] = {token.content: i for i, token in added.items() if i >= size}
    if not slow:
        files["tokenizer.json"] = json.loads(tokenizer.backend_tokenizer.to_str())
    return files


def of_version_3(files):
    """Before 4.34 there was no added_tokens_decoder."""
    files = json.loads(json.dumps(files))
    for key in ("added_tokens_decoder", "additional_special_tokens"):
        files["tokenizer_config.json"].pop(key, None)
    return files


def changed(files, name, **settings):
    files = json.loads(json.dumps(files))
    files.setdefault(name, {}).update(settings)
    return files


def gpt2_folders():
    plain = saved(made(GPT2Tokenizer, "bytes"))
    yield Folder("gpt2", "bytes", "gpt2", plain)
    yield Folder("gpt2, no class", "bytes", "gpt2", {"tokenizer.json": plain["tokenizer.json"]})
    yield Folder(
        "gpt2, add_prefix_space", "bytes", "gpt2", saved(made(GPT2Tokenizer, "bytes", add_prefix_space=True))
    )
    yield Folder(
        "gpt2, add_prefix_space in one file",
        "bytes",
        "gpt2",
        changed(plain, "tokenizer_config.json", add_prefix_space=True),
    )
    yield Folder(
        "gpt2, add_prefix_space as it stands",
        "bytes",
        "gpt2",
        changed(
            plain, "tokenizer_config.json", add_prefix_space=True, tokenizer_class="PreTrainedTokenizerFast"
        ),
    )
    yield Folder(
        "gpt2, split_special_tokens",
        "bytes",
        "gpt2",
        saved(made(GPT2Tokenizer, "bytes", split_special_tokens=True)),
    )
    tuned = more_tokens(made(GPT2Tokenizer, "bytes"))
    yield Folder("gpt2, added", "bytes", "gpt2", saved(tuned))
    yield Folder(
        "gpt2, added, version 4",
        "bytes",
        "gpt2",
        of_version_4(tuned, plain["tokenizer.json"], "GPT2Tokenizer"),
    )
    slow = of_version_4(tuned, plain["tokenizer.json"], "GPT2Tokenizer", slow=True)
    yield Folder("gpt2, added beside alone", "bytes", "gpt2", slow)
    yield Folder("gpt2, added_tokens.json alone", "bytes", "gpt2", of_version_3(slow))
    older = {name: each for name, each in slow.items() if name != "tokenizer.json"}
    older.update({"vocab.json": None, "merges.txt": None})
    yield Folder("gpt2, vocab.json", "bytes", "gpt2", {**of_version_3(older)})
    yield Folder(
        "gpt2, vocab.json, decoder",
        "bytes",
        "gpt2",
        changed(older, "tokenizer_config.json", add_prefix_space=True),
    )
    yield Folder(
        "gpt2, other keys",
        "bytes",
        "gpt2",
        changed(
            plain,
            "tokenizer_config.json",
            chat_template="{{ x }}",
            my_note="x",
            padding_side="left",
            model_max_length=3,
            image_token="<img>",
        ),
    )


def qwen_folders():
    for kind in ("qwen2", "qwen3"):
        plain = saved(made(Qwen2Tokenizer, "bytes"))
        yield Folder(kind, "bytes", kind, plain)
        tuned = more_tokens(made(Qwen2Tokenizer, "bytes"))
        yield Folder(f"{kind}, added", "bytes", kind, saved(tuned))
        yield Folder(
            f"{kind}, added, version 4",
            "bytes",
            kind,
            of_version_4(
                tuned,
                plain["tokenizer.json"],
                "Qwen2Tokenizer",
                add_prefix_space=False,
                split_special_tokens=False,
                errors="replace",
            ),
        )
        slow = of_version_4(tuned, plain["tokenizer.json"], "Qwen2Tokenizer", slow=True)
        yield Folder(f"{kind}, added beside alone", "bytes", kind, slow)
        yield Folder(f"{kind}, added_tokens.json alone", "bytes", kind, of_version_3(slow))
        yield Folder(
            f"{kind}, as it stands",
            "bytes",
            kind,
            changed(
                saved(made(GPT2Tokenizer, "bytes")),
                "tokenizer_config.json",
                tokenizer_class="PreTrainedTokenizerFast",
            ),
        )
    yield Folder(
        "qwen2, add_prefix_space",
        "bytes",
        "qwen2",
        saved(made(Qwen2Tokenizer, "bytes", add_prefix_space=True)),
    )
    older = {name: each for name, each in slow.items() if name != "tokenizer.json"}
    older.update({"vocab.json": None, "merges.txt": None})
    yield Folder("qwen2, vocab.json", "bytes", "qwen2", older)


def llama_folders():
    plain = saved(made(LlamaTokenizer, "characters"))
    yield Folder("llama", "characters", "llama", plain)
    for settings in ({"legacy": True}, {"add_prefix_space": False}, {"split_special_tokens": True}):
        key = next(iter(settings))
        yield Folder(
            f"llama, {key}", "characters", "llama", saved(made(LlamaTokenizer, "characters", **settings))
        )
        yield Folder(
            f"llama, {key} in one file",
            "characters",
            "llama",
            changed(plain, "tokenizer_config.json", **settings),
        )
    tuned = more_tokens(made(LlamaTokenizer, "characters"))
    yield Folder("llama, added", "characters", "llama", saved(tuned))
    converted = json.loads(sentencepiece_json().to_str())
    for name, tokenizer_class in (
        ("llama", "LlamaTokenizer"),
        ("mistral", "LlamaTokenizer"),
        ("mistral as it stands", "PreTrainedTokenizerFast"),
    ):
        kind = name.split()[0]
        base = more_tokens(
            PreTrainedTokenizerFast(
                tokenizer_object=sentencepiece_json(), bos_token="<s>", eos_token="</s>", unk_token="<unk>"
            )
        )
        new = of_version_4(base, converted, tokenizer_class, legacy=False)
        slow = of_version_4(base, converted, tokenizer_class, slow=True, legacy=True)
        yield Folder(f"{name}, version 4", "characters", kind, new)
        yield Folder(f"{name}, legacy, added beside alone", "characters", kind, slow)
        yield Folder(f"{name}, added_tokens.json alone", "characters", kind, of_version_3(slow))
        yield Folder(f"{name}, no files beside", "characters", kind, {"tokenizer.json": converted})
    yield Folder("mistral", "characters", "mistral", plain)
    yield Folder("mistral, added", "characters", "mistral", saved(tuned))
    large = more_tokens(
        PreTrainedTokenizerFast(
            tokenizer_object=llama3_json(), bos_token="<|begin_of_text|>", eos_token="<|end_of_text|>"
        )
    )
    for tokenizer_class in ("PreTrainedTokenizerFast", "LlamaTokenizerFast", "TokenizersBackend"):
        yield Folder(
            f"llama3, {tokenizer_class}",
            "plain_bytes",
            "llama",
            of_version_4(large, backend_of(llama3_json()), tokenizer_class),
        )
    yield Folder(
        "llama3, GPT2Tokenizer",
        "plain_bytes",
        "llama",
        of_version_4(large, backend_of(llama3_json()), "GPT2Tokenizer", add_prefix_space=True),
    )
    yield Folder("llama3, no config.json", "plain_bytes", None, saved(large))


def gemma_folders():
    plain = saved(made(GemmaTokenizer, "characters", bos_token="<s>", eos_token="</s>"))
    yield Folder("gemma", "characters", "gemma", plain)
    yield Folder("gemma2, no files beside", "characters", "gemma2", {"tokenizer.json": plain["tokenizer.json"]})
    tuned = more_tokens(made(GemmaTokenizer, "characters", bos_token="<s>", eos_token="</s>"))
    yield Folder("gemma3, added", "characters", "gemma3", saved(tuned))
    old = of_version_4(tuned, plain["tokenizer.json"], "GemmaTokenizerFast")
    yield Folder("gemma3_text, added, version 4", "characters", "gemma3_text", old)
    converted = json.loads(sentencepiece_json().to_str())
    for name, settings in {
        "gemma, unk_token that the vocabulary lacks": {"unk_token": "[UNK]"},
        "gemma, no unk_token": {"unk_token": None},
        "gemma as it stands": {"tokenizer_class": "PreTrainedTokenizerFast"},
        "gemma, GemmaTokenizer beside another file": {"tokenizer_class": "GemmaTokenizer"},
        "gemma, LlamaTokenizer": {"tokenizer_class": "LlamaTokenizer"},
        "gemma, a class that transformers lacks": {"tokenizer_class": "LLaMATokenizer"},
    }.items():
        files = changed({**plain, "tokenizer.json": converted}, "tokenizer_config.json", **settings)
        yield Folder(name, "characters", "gemma", files)
    files = changed(plain, "tokenizer_config.json", tokenizer_class="GemmaTokenizer")
    yield Folder("llama, GemmaTokenizer", "characters", "llama", files)
    files = {"tokenizer.json": converted, "tokenizer_config.json": {"tokenizer_class": "LLaMATokenizer"}}
    yield Folder("llama, a class that transformers lacks", "characters", "llama", files)


def refused_folders():
    plain = saved(made(GPT2Tokenizer, "bytes"))
    size = len(VOCABULARIES["bytes"][0])

    def refused(name, words, files, model_type="gpt2", config=None):
        folder = Folder(name, "bytes", model_type, files, config)
        folder.refused = words
        return folder

    def config(**settings):
        return changed(plain, "tokenizer_config.json", **settings)

    token = {
        "content": "<tool>",
        "lstrip": False,
        "rstrip": False,
        "single_word": False,
        "normalized": False,
        "special": True,
    }
    yield refused(
        "a hole in the ids",
        ["tokenizer_config.json: added_tokens_decoder", "<tool>", "no holes"],
        config(added_tokens_decoder={str(size + 2): token}),
    )
    yield refused(
        "another id than in the vocabulary",
        ["tokenizer_config.json: added_tokens_decoder", "its id in model.vocab"],
        config(added_tokens_decoder={"7": {**token, "content": "<|endoftext|>"}}),
    )
    yield refused(
        "a key that is no id",
        ["tokenizer_config.json: added_tokens_decoder", '"x"'],
        config(added_tokens_decoder={"x": token}),
    )
    yield refused(
        "a hole in added_tokens.json",
        ["added_tokens.json: <tool>", "no holes"],
        {**plain, "added_tokens.json": {"<tool>": size + 1}},
    )
    yield refused(
        "no id in added_tokens.json",
        ["added_tokens.json: <tool>", "an integer"],
        {**plain, "added_tokens.json": {"<tool>": "7"}},
    )
    yield refused(
        "one id twice",
        ["added_tokens", "two tokens have the id 0", "added_tokens.json"],
        {**plain, "added_tokens.json": {"<tool>": 0}},
    )
    yield refused(
        "tokens that are alike",
        ["added_tokens.json", "same text once it is normalised", "by chance"],
        {**saved(made(Qwen2Tokenizer, "bytes")), "added_tokens.json": {"é!": size, "e\u0301!": size + 1}},
        "qwen3",
    )
    yield refused(
        "another class",
        ["tokenizer_config.json: tokenizer_class", '"CodeLlamaTokenizer"', "PreTrainedTokenizerFast"],
        config(tokenizer_class="CodeLlamaTokenizer"),
        "llama",
    )
    yield refused(
        "another class in config.json",
        ["config.json: tokenizer_class", '"T5Tokenizer"'],
        {"tokenizer.json": plain["tokenizer.json"]},
        "llama",
        {"tokenizer_class": "T5Tokenizer"},
    )
    yield refused("another kind of model", ["config.json: model_type", '"cohere"'], plain, "cohere")
    yield refused(
        "a kind of model whose class is taken for every other",
        ["config.json: model_type", "expected a known kind of model, got \"qwen3_5\""],
        config(tokenizer_class="PreTrainedTokenizerFast"),
        "qwen3_5",
    )
    yield refused(
        "code of its own",
        ["tokenizer_config.json: auto_map", "take the key out"],
        config(auto_map={"AutoTokenizer": ["tok.Tok", None]}),
    )
    yield refused(
        "files for versions",
        ["tokenizer_config.json: fast_tokenizer_files", "tokenizer.4.0.0.json"],
        config(fast_tokenizer_files=["tokenizer.json", "tokenizer.4.0.0.json"]),
    )
    yield refused(
        "a pattern that is mended",
        ["tokenizer_config.json: fix_mistral_regex"],
        config(fix_mistral_regex=True),
        "mistral",
    )
    yield refused("init_inputs", ["tokenizer_config.json: init_inputs"], config(init_inputs=["x"]))
    for key, value in {
        "vocab": {"a": 1},
        "merges": ["a b"],
        "tokenizer_object": {"x": 1},
        "post_processor": {"x": 1},
        "tokenizer_padding": {"length": 3},
        "tokenizer_truncation": {"max_length": 3},
        "model_specific_special_tokens": {"x": "<x>"},
        "_json_padding": {"length": 3},
        "_json_truncation": {"max_length": 3},
        "trust_remote_code": True,
    }.items():
        yield refused(key, [f"tokenizer_config.json: {key}", "take the key out"], config(**{key: value}))
    yield refused(
        "add_prefix_space that is no switch",
        ["tokenizer_config.json: add_prefix_space", "true or false"],
        config(add_prefix_space=1),
    )
    yield refused(
        "split_special_tokens that is no switch",
        ["tokenizer_config.json: split_special_tokens", "true or false"],
        config(split_special_tokens="yes"),
    )
    yield refused(
        "a special token that is none", ["tokenizer_config.json: bos_token", "a string"], config(bos_token=3)
    )
    yield refused(
        "special tokens that are no list",
        ["tokenizer_config.json: extra_special_tokens", "an array"],
        config(extra_special_tokens="<x>"),
    )
    yield refused(
        "a path in special_tokens_map.json",
        ["special_tokens_map.json: tokenizer_file"],
        {**plain, "special_tokens_map.json": {"tokenizer_file": "x.json"}},
    )


# --- Files ---


def all_folders():
    return [*gpt2_folders(), *qwen_folders(), *llama_folders(), *gemma_folders(), *refused_folders()]


def stored(files):
    """Without what the vocabulary holds."""
    files = json.loads(json.dumps(files))
    if "tokenizer.json" in files:
        del files["tokenizer.json"]["model"]["vocab"]
        del files["tokenizer.json"]["model"]["merges"]
    return files


def ids_of(folder, texts):
    vocab, merges = VOCABULARIES[folder.vocabulary]
    path = Path(tempfile.mkdtemp())
    for name, content in folder.files.items():
        if name == "vocab.json":
            content = vocab
        if name == "merges.txt":
            text = "#version: 0.2\n" + "".join(f"{left} {right}\n" for left, right in merges)
        else:
            text = json.dumps(content, ensure_ascii=False)
        (path / name).write_text(text, encoding="utf-8")
    tokenizer = AutoTokenizer.from_pretrained(path)
    shutil.rmtree(path)
    return [tokenizer(text, add_special_tokens=False)["input_ids"] for text in texts]


def compact(value):
    return json.dumps(value, ensure_ascii=True, separators=(",", ":"))


def main():
    texts = make_strings()
    whole = {}
    folders = []
    for folder in all_folders():
        entry = {"name": folder.name, "vocabulary": folder.vocabulary, "files": stored(folder.files)}
        if hasattr(folder, "refused"):
            entry["refused"] = folder.refused
        else:
            ids = ids_of(folder, texts)
            like = min(whole, key=lambda name: sum(a != b for a, b in zip(whole[name], ids)), default=None)
            differ = (
                {}
                if like is None
                else {str(i): b for i, (a, b) in enumerate(zip(whole[like], ids)) if a != b}
            )
            whole[folder.name] = ids
            if like is None or len(differ) > STRINGS // 2:
                entry["ids"] = ids
            else:
                entry.update({"like": like, "differ": differ})
        folders.append(compact(entry))
    head = {
        "made_with": f"transformers {transformers.__version__}, tokenizers {tokenizers.__version__}",
        "strings": texts,
        "vocabularies": {
            name: {"vocab": vocab, "merges": merges} for name, (vocab, merges) in VOCABULARIES.items()
        },
    }
    text = compact(head)[:-1] + ',\n"folders":[\n' + ",\n".join(folders) + "]}\n"
    FILE.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
