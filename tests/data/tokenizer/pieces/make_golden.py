"""Writes the golden files of tests/data/tokenizer/pieces/golden with PyPI sentencepiece.

    python3 -m venv /tmp/pieces && /tmp/pieces/bin/pip install sentencepiece==0.2.3
    /tmp/pieces/bin/python tests/data/tokenizer/pieces/make_golden.py

trains a small model of each kind on made-up text and encodes the same random strings with each. The
files have the form that ../make_golden.py describes. Rules for characters are a few of our own, since
those of sentencepiece take 240 KB.
"""

import io
import json
import random
import shutil
import tempfile
from pathlib import Path

import sentencepiece

SEED = 23
STRINGS = 600
FOLDER = Path(__file__).resolve().parent / "golden"

WORDS = (
    "the and of to in memory attention model segment token long text house running quickly once "
    "upon a time there was café naïve Straße größer"
).split()
USER_DEFINED = ["<sep>", "ab", "the▁", "é!", "[once]", "\n\n", "▁▁", "  ", "xyzzy", "t"]
RULES = {
    "A": "a", "B": "b", "\t": " ", "\n": " ", "ﬁ": "fi", "①": "1", "e\u0301": "é", "\u3000": " ",
    "\u200b": "", "Ａ": "A", "ß": "ss", "…": "...", "\xa0": " ", "▁": " ",
}
PARTS = WORDS + USER_DEFINED + [
    " ", "  ", "   ", "\t", "\n", "\t\t", "\u3000", "\u200b", "▁", "the ", "e\u0301!", "ﬁ", "①", "Ａ",
    "ß", "…", "😀", "👩‍👩‍👧", "\0", "\x01", "\x7f", "日本語", "한글", "\u1100\u1161", "<0x41>", "A", "B",
    "\u2003", "\u0301", "\u200f", "שלום", "0", "1234", "3.5", "'s", "!?", "\\n", "<s>",
]

BYTES = {"byte_fallback": True, "normalization_rule_name": "identity"}
KINDS = {
    "bpe_bytes": dict(BYTES, model_type="bpe", vocab_size=460, remove_extra_whitespaces=False,
                      split_digits=True, user_defined_symbols=USER_DEFINED),
    "bpe_rules": dict(model_type="bpe", vocab_size=150, user_defined_symbols=USER_DEFINED[:4]),
    "bpe_spaces": dict(BYTES, model_type="bpe", vocab_size=440, add_dummy_prefix=False,
                       allow_whitespace_only_pieces=True, remove_extra_whitespaces=False),
    "unigram_bytes": dict(BYTES, model_type="unigram", vocab_size=400, add_dummy_prefix=False,
                          remove_extra_whitespaces=False, user_defined_symbols=USER_DEFINED),
    "unigram_rules": dict(model_type="unigram", vocab_size=110,
                          user_defined_symbols=USER_DEFINED[:4]),
    "unigram_plain": dict(model_type="unigram", vocab_size=110,
                          normalization_rule_name="identity"),
}


def corpus():
    draw = random.Random(SEED)
    for _ in range(2000):
        text = " ".join(draw.choice(WORDS) for _ in range(draw.randint(3, 14)))
        if draw.random() < 0.2:
            text += f" {draw.randint(0, 9999)}"
        if draw.random() < 0.1:
            text = text.replace(" ", "  ", 1)
        yield text


def make_strings():
    draw = random.Random(SEED + 1)
    texts = ["", " ", "   ", "\u200b", "▁", "\0", "a", "the " * 40]
    while len(texts) < STRINGS:
        parts = [draw.choice(PARTS) + draw.choice(["", "", " "]) for _ in range(draw.randint(1, 12))]
        texts.append("".join(parts))
    return texts


def train(rules, settings):
    settings = dict(settings)
    if "normalization_rule_name" not in settings:
        settings["normalization_rule_tsv"] = str(rules)
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=corpus(), model_writer=model, minloglevel=2, num_threads=1,
        # Texts that no string has: sentencepiece gives control pieces for none.
        bos_piece="<begin>", eos_piece="<end>", unk_piece="<none>", unk_surface="<none>", **settings,
    )
    # Where the rules were read is no part of a model.
    return model.getvalue().replace(str(rules).encode(), b"/" * len(str(rules)))


def golden_of(kind, model, texts):
    processor = sentencepiece.SentencePieceProcessor(model_proto=model)
    golden = {
        "kind": kind,
        "made_with": f"sentencepiece {sentencepiece.__version__}",
        "tokenizer": f"{kind}.model",
        "strings": "strings.json",
        "ids": [processor.encode(text) for text in texts],
        "special": {},
        "decoded": {},
    }
    for place, (text, ids) in enumerate(zip(texts, golden["ids"])):
        if place < 200:
            golden["special"][str(place)] = processor.encode(text, add_bos=True)
        decoded = processor.decode(ids)
        if decoded != text:
            golden["decoded"][str(place)] = decoded
    return golden


def main():
    shutil.rmtree(FOLDER, ignore_errors=True)
    FOLDER.mkdir(parents=True)
    texts = make_strings()
    strings = json.dumps(texts, ensure_ascii=True, separators=(",\n", ":"))
    (FOLDER / "strings.json").write_text(strings + "\n", encoding="utf-8")
    with tempfile.TemporaryDirectory() as folder:
        rules = Path(folder) / "rules.tsv"
        lines = (
            "\t".join(" ".join(f"{ord(c):X}" for c in text) for text in rule)
            for rule in RULES.items()
        )
        rules.write_text("\n".join(lines) + "\n", encoding="utf-8")
        for kind, settings in KINDS.items():
            model = train(rules, settings)
            (FOLDER / f"{kind}.model").write_bytes(model)
            golden = golden_of(kind, model, texts)
            members = []
            for name, value in golden.items():
                text = json.dumps(value, ensure_ascii=True, separators=(",", ":"))
                members.append(f'"{name}":' + text.replace("],[", "],\n["))
            (FOLDER / f"{kind}.json").write_text("{" + ",\n".join(members) + "}\n")


if __name__ == "__main__":
    main()
