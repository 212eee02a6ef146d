"""Writes the golden files of tests/data/tokenizer/golden with PyPI tokenizers.

    python3 -m venv /tmp/tokenizers && /tmp/tokenizers/bin/pip install tokenizers==0.23.3
    /tmp/tokenizers/bin/python tests/data/tokenizer/make_golden.py

trains a small vocabulary of each kind and encodes the same random strings with each. A run with the
same version of tokenizers writes the same files, but for vocabularies: their training breaks ties
between equally frequent pairs by chance.

One golden file holds
    tokenizer     the tokenizer's file or folder, relative to the golden file
    strings       the file of strings, relative, or the strings themselves
    ids           for each string, its ids
    special       for each string whose ids differ then: its ids with add_special_tokens
    plain         likewise: its ids where special tokens in the text are not recognised
    decoded       for each string whose decoded ids are another text: that text
    skipped       likewise, where special tokens are left out
with the last four keyed by the string's place.
"""

import json
import random
import shutil
import string
from pathlib import Path

import tokenizers
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers
from tokenizers import processors, trainers

SEED = 19
FOLDER = Path(__file__).resolve().parent / "golden"
STRINGS = 2040

LLAMA3 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}|"
    r" ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
QWEN2 = LLAMA3.replace(r"\p{N}{1,3}", r"\p{N}")

# --- Strings ---

BLANKS = [
    " ", "  ", "    ", "\t", "\n", "\r\n", "\r", "\n\n", " \n", "\u00a0", "\u3000", "\u2003",
    "\u2028", "\u2029", "\u0085", "\u200b", "\u202f", "\u1680", "\u180e", "\v", "\f", "\ufeff",
]
CONTROLS = [chr(c) for c in range(32)] + ["\x7f", "\x80", "\x9f", "\u200d", "\u200e", "\u2066"]
EMOJI = [
    "😀", "👍🏽", "👩‍👩‍👧‍👦", "🏳️‍🌈", "❤️", "🇩🇪", "1️⃣", "🧑🏿‍🚀", "☺", "👨‍💻", "🤷‍♀️", "\U0001fae8",
]
CONTRACTIONS = [
    "I'm", "DON'T", "we'll", "YOU'RE", "they'Ve", "he's", "she'd", "it'S", "can\u2019t", "'ſ",
    "o'clock", "'''", "l'eau", "'Tis", "D'accord", "'LL",
]
WORDS = (
    "the and of to in memory attention model segment token transformer compressed long text "
    "Language house HOUSE House running quickly once upon a time there was 's not"
).split()
SCRIPTS = [
    (0x41, 0x5B), (0x61, 0x7B), (0xC0, 0x250), (0x370, 0x400), (0x400, 0x500), (0x5D0, 0x5EB),
    (0x620, 0x64B), (0x900, 0x980), (0xE01, 0xE3B), (0x10A0, 0x1100), (0x1100, 0x1200),
    (0x1E00, 0x1F00), (0x3041, 0x3097), (0x30A1, 0x30FB), (0x4E00, 0x4F00), (0xAC00, 0xAD00),
    (0xF900, 0xFA00), (0x10330, 0x1034B), (0x1D400, 0x1D500), (0x20000, 0x20050),
    (0x2160, 0x2190), (0x24B6, 0x24EA), (0xFF21, 0xFF5B), (0x31350, 0x31360),
]
DIGITS = ["0123456789", "٠١٢٣٤٥٦٧٨٩", "०१२३४५६७८९", "０１２３", "²³¹⁴", "½¾⅓", "ⅣⅧ", "𝟘𝟙𝟚", "〇一"]
MARKS = [
    (0x300, 0x345), (0x5B0, 0x5BC), (0x64B, 0x656), (0x93C, 0x94E), (0x1AB0, 0x1AC1),
    (0x20D0, 0x20F1), (0xFE00, 0xFE10), (0x1F3FB, 0x1F400),
]
PUNCTUATION = list(string.punctuation) + [
    "…", "—", "“", "”", "¿", "。", "、", "«", "€", "™", "•", "▁",
]


def of_ranges(rng, ranges):
    first, last = rng.choice(ranges)
    return chr(rng.randrange(first, last))


def any_character(rng):
    while True:
        value = rng.choice([rng.randrange(0x3000), rng.randrange(0x10000), rng.randrange(0x110000)])
        if not 0xD800 <= value < 0xE000:
            return chr(value)


def piece(rng, special):
    kind = rng.randrange(13)
    if kind < 3:
        return rng.choice(["", " "]) + rng.choice(WORDS)
    if kind == 3:
        return rng.choice(BLANKS)
    if kind == 4:
        return rng.choice(EMOJI)
    if kind == 5:
        return rng.choice(["", " "]) + rng.choice(CONTRACTIONS)
    if kind == 6:
        letters = [rng.choice(SCRIPTS)]
        return "".join(of_ranges(rng, letters) for _ in range(rng.randint(1, 4)))
    if kind == 7:
        digits = rng.choice(DIGITS)
        return rng.choice(["", " "]) + "".join(rng.choice(digits) for _ in range(rng.randint(1, 5)))
    if kind == 8:
        base = rng.choice([of_ranges(rng, SCRIPTS), "e", "A", " ", "가", "1"])
        return base + "".join(of_ranges(rng, MARKS) for _ in range(rng.randint(1, 3)))
    if kind == 9:
        return "".join(rng.choice(PUNCTUATION) for _ in range(rng.randint(1, 3)))
    if kind == 10:
        return rng.choice(CONTROLS)
    if kind == 11:
        return any_character(rng)
    if rng.random() < 0.4:
        return rng.choice(special)
    return rng.choice(["a", " ", "\n", "é", "=", "ab", "1", "▁"]) * rng.randint(2, 9)


def make_strings(special):
    rng = random.Random(SEED)
    fixed = [
        "",
        " ",
        "\n",
        "  ",
        "a",
        " a",
        "a ",
        "\u0301",
        "<",
        "<|endoftext|",
        "<0x0A>",
        "▁",
        "é",
        " " * 300,
        "a" * 300,
        "ab" * 150,
        "\n" * 100,
        "é" * 120,
        "e\u0301" * 60,
        "。" * 90,
        "1234567890" * 20,
        "\u00a0" * 60,
        "x" + " " * 120 + "y",
        "\r\n" * 40,
        "😀" * 40,
        "the " * 80,
    ]
    fixed += special + [f"a{s}b" for s in special] + [f" {s} " for s in special]
    fixed += [s + s for s in special] + [f"\n{s}\n the{s}" for s in special]
    texts = list(fixed)
    while len(texts) < STRINGS:
        texts.append("".join(piece(rng, special) for _ in range(rng.randint(1, 5))))
    return texts


# --- Tokenizers ---


def corpus():
    """Text to train on: words with their inflections, several scripts, all kinds of blanks."""
    rng = random.Random(SEED + 1)
    stems = (
        "run walk read write think remember forget compress attend transform segment token "
        "model memory house river mountain sleep winter summer question answer"
    ).split()
    ends = ["", "s", "ed", "ing", "er", "ers", "ly", "'s", "n't", "'ll", "able", "ness"]
    other = (
        "straße über façade naïve été señor привет мир память москва слово Ελλάδα λόγος 日本 "
        "東京 記憶 言語 こんにちは カタカナ 한국 언어 नमस्ते भाषा สวัสดี مرحبا كتاب"
    ).split()
    for _ in range(3000):
        words = []
        for _ in range(rng.randint(3, 14)):
            word = rng.choice(stems) + rng.choice(ends)
            word = rng.choice([word] * 6 + [word.capitalize(), word.upper(), rng.choice(other)])
            words.append(
                rng.choice([word] * 8 + [str(rng.randrange(3000)), word + rng.choice(",.;:!?")])
            )
        yield rng.choice([" "] * 12 + ["  ", "\n", "\t", "    "]).join(words) + rng.choice(
            ["\n", " ", ""]
        )


def byte_level(pre_tokenizer, size, special, normalizer=None, **settings):
    tokenizer = Tokenizer(models.BPE(**settings))
    if normalizer is not None:
        tokenizer.normalizer = normalizer
    tokenizer.pre_tokenizer = pre_tokenizer
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=size,
        special_tokens=special,
        show_progress=False,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
    )
    tokenizer.train_from_iterator(corpus(), trainer)
    return tokenizer


def split_and_bytes(pattern):
    return pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(pattern), behavior="isolated", invert=False),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )


def gpt2():
    tokenizer = byte_level(pre_tokenizers.ByteLevel(add_prefix_space=False), 700, ["<|endoftext|>"])
    tokenizer.add_tokens([AddedToken("[once]", single_word=True), AddedToken("upon a time")])
    return tokenizer


def llama3():
    tokenizer = byte_level(split_and_bytes(LLAMA3), 800, [], ignore_merges=True)
    tokenizer.add_special_tokens(["<|begin_of_text|>", "<|end_of_text|>", "<|eot_id|>"])
    begin = tokenizer.token_to_id("<|begin_of_text|>")
    tokenizer.post_processor = processors.Sequence(
        [
            processors.ByteLevel(trim_offsets=False),
            processors.TemplateProcessing(
                single="<|begin_of_text|> $A",
                pair="<|begin_of_text|> $A $B:1",
                special_tokens=[("<|begin_of_text|>", begin)],
            ),
        ]
    )
    return tokenizer


def qwen2():
    tokenizer = byte_level(split_and_bytes(QWEN2), 750, [], normalizer=normalizers.NFC())
    tokenizer.add_special_tokens(["<|endoftext|>", "<|im_start|>", "<|im_end|>"])
    tokenizer.add_tokens(
        [AddedToken("<think>", normalized=False), AddedToken("é!", normalized=True)]
    )
    return tokenizer


def smollm():
    cut = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Digits(individual_digits=True),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True),
        ]
    )
    tokenizer = byte_level(cut, 700, ["<|endoftext|>", "<|im_start|>", "<|im_end|>"])
    tokenizer.add_special_tokens(
        [AddedToken("<file_sep>", lstrip=True), AddedToken("<mark>", rstrip=True)]
    )
    return tokenizer


def llama2():
    special = ["<unk>", "<s>", "</s>"]
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    tokenizer.normalizer = normalizers.Sequence(
        [normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")]
    )
    # Trained on words, as sentencepiece does; a text is then one word for the model.
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="never")
    trainer = trainers.BpeTrainer(
        vocab_size=950,
        show_progress=False,
        limit_alphabet=120,
        special_tokens=special + [f"<0x{byte:02X}>" for byte in range(256)],
    )
    tokenizer.train_from_iterator(corpus(), trainer)
    fields = json.loads(tokenizer.to_str())
    fields["pre_tokenizer"] = None
    fields["added_tokens"] = [each for each in fields["added_tokens"] if each["content"] in special]
    tokenizer = Tokenizer.from_str(json.dumps(fields))
    tokenizer.decoder = decoders.Sequence(
        [
            decoders.Replace("▁", " "),
            decoders.ByteFallback(),
            decoders.Fuse(),
            decoders.Strip(" ", 1, 0),
        ]
    )
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A", pair="<s> $A <s>:1 $B:1", special_tokens=[("<s>", 1)]
    )
    return tokenizer


def metaspace():
    """The newer form of sentencepiece-like files: Metaspace in place of normalizers, no bytes."""
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>", fuse_unk=False))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first", split=True)
    tokenizer.decoder = decoders.Metaspace(prepend_scheme="first", split=True)
    trainer = trainers.BpeTrainer(
        vocab_size=600,
        show_progress=False,
        limit_alphabet=150,
        special_tokens=["<unk>", "<s>", "</s>"],
    )
    tokenizer.train_from_iterator(corpus(), trainer)
    return tokenizer


# --- Files ---


def without_special(tokenizer, text):
    tokenizer.encode_special_tokens = True
    ids = tokenizer.encode(text, add_special_tokens=False).ids
    tokenizer.encode_special_tokens = False
    return ids


def write_golden(kind, tokenizer, path, texts):
    golden = {
        "kind": kind,
        "made_with": f"tokenizers {tokenizers.__version__}",
        "tokenizer": path,
        "strings": "strings.json",
        "ids": [],
    }
    for name in ("special", "plain", "decoded", "skipped"):
        golden[name] = {}
    for place, text in enumerate(texts):
        ids = tokenizer.encode(text, add_special_tokens=False).ids
        golden["ids"].append(ids)
        expected = {
            "plain": (without_special(tokenizer, text), ids),
            "decoded": (tokenizer.decode(ids, skip_special_tokens=False), text),
            "skipped": (tokenizer.decode(ids, skip_special_tokens=True), text),
        }
        if place < 200:  # the same ids around every text
            expected["special"] = (tokenizer.encode(text).ids, ids)
        for name, (value, usual) in expected.items():
            if value != usual:
                golden[name][str(place)] = value
    members = []
    for name, value in golden.items():
        text = json.dumps(value, ensure_ascii=True, separators=(",", ":"))
        if name == "ids":
            text = text.replace("],[", "],\n[")
        members.append(f'"{name}":{text}')
    (FOLDER / f"{kind}.json").write_text("{" + ",\n".join(members) + "}\n", encoding="utf-8")


def main():
    shutil.rmtree(FOLDER, ignore_errors=True)
    (FOLDER / "tokenizers").mkdir(parents=True)
    special = [
        "<|endoftext|>",
        "<|begin_of_text|>",
        "<|eot_id|>",
        "<|im_start|>",
        "<think>",
        "<s>",
        "</s>",
        "<unk>",
        "<file_sep>",
        "<mark>",
        "[once]",
        "upon a time",
        "é!",
        "e\u0301!",
    ]
    texts = make_strings(special)
    (FOLDER / "strings.json").write_text(
        json.dumps(texts, ensure_ascii=True, separators=(",\n", ":")) + "\n", encoding="utf-8"
    )
    for make in (gpt2, llama3, qwen2, smollm, llama2, metaspace):
        kind = make.__name__
        tokenizer = make()
        path = FOLDER / "tokenizers" / kind
        path.mkdir()
        tokenizer.save(str(path / "tokenizer.json"), pretty=False)
        write_golden(
            kind, Tokenizer.from_file(str(path / "tokenizer.json")), f"tokenizers/{kind}", texts
        )
    # The older form of GPT-2's files, of a vocabulary of its own.
    path = FOLDER / "tokenizers" / "vocab_and_merges"
    path.mkdir()
    tokenizer = byte_level(pre_tokenizers.ByteLevel(add_prefix_space=False), 600, ["<|endoftext|>"])
    tokenizer.model.save(str(path))
    tokenizer = tokenizers.ByteLevelBPETokenizer(str(path / "vocab.json"), str(path / "merges.txt"))
    tokenizer.add_special_tokens(["<|endoftext|>"])
    write_golden("vocab_and_merges", tokenizer._tokenizer, "tokenizers/vocab_and_merges", texts)


if __name__ == "__main__":
    main()
