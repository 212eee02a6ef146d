"""Writes tests/scores/overlap/golden_*.json: what rouge-score and nltk compute for pairs of texts and for words.

    python3 -m venv /tmp/overlap && /tmp/overlap/bin/pip install rouge-score==0.1.2 nltk==3.10.4
    /tmp/overlap/bin/python tests/scores/overlap/make_golden.py tests/scores/overlap

The test reads every golden_*.json of the folder and needs none of these packages. Nothing here follows the code of
host/scores/overlap: F1 is made of Python's own string functions and Counter.

golden_pairs.json   {"pairs": [{"kind", "prediction", "reference", "rouge": {"stem" | "plain": {type: [P, R, F]}},
                    "token_f1": [P, R, F], "meteor": {"score", "matches", "chunks", "is_distinct"}}]}
golden_stems.json   {"stems": [[word, stem], ...]}
"""

import collections
import importlib.metadata
import json
import pathlib
import random
import re
import string
import sys

from nltk.stem.porter import PorterStemmer
from nltk.translate import meteor_score
from rouge_score import rouge_scorer

random.seed(19)
VERSIONS = {name: importlib.metadata.version(name) for name in ("nltk", "rouge-score")}
TYPES = ["rouge1", "rouge2", "rougeL", "rougeLsum"]
SCORERS = {"plain": rouge_scorer.RougeScorer(TYPES), "stem": rouge_scorer.RougeScorer(TYPES, use_stemmer=True)}

WORDS = """the a an I you we it he she they is was are were be been do did does not yes no and or but so because when
while who what which that this these those my your his her their have had has movie movies film films actor actors
acting acted director directed directing scene scenes story stories funny funnier really always never maybe think
thinking thought like liked likes loving love loved watch watched watching seen see seeing plays played playing
character characters happy happily happiness sad sadly running runs ran city cities sky skies dying die lying news
agency ages aged geology apology apologies generally usefully hopeful hopefully nation national nationality
conditional relational organisation organization organizer adopted adoption controlling controlled roll rolling
2013 7 10/10 90s it's don't I'm Anna's rock-n-roll e.g. U.S. wow!!! :) ... -- co-op""".split()
FOREIGN = ["naïve", "café", "Straße", "Ærø", "ÉCOLE", "Москва", "映画", "日本語", "e\u0301te\u0301", "İstanbul", "K2", "ﬁlm",
           "x²", "½", "👍", "👩\u200d🎤", "don’t", "“the”", "the–cat", "a\u0301", "\u00a0", "\u3000", "A", "naïve_the", "١٢٣"]
ROOTS = """agre cares pon ti cat feed plaster bl motor s conflat troubl siz hop tan fall his fiz fail fil hap sk relat
condit ration valenc hesit digit conform radic differ vil analog predic oper feudal decis hope call formal sensit
triplic form electr good reviv allow infer airlin gyroscop adjust defens irrit replac depend adopt homolog commun
activ angular effect bowdler prob rat ceas contr roll y yy ab ay ey toy syzyg ge theo archaeo philo bio beauti
us ow ax tax wax rely dry try fly say b d""".split()
SUFFIXES = """ s es ies ied sses ss ed eed ing ly y ey ational tional enci ency ancy izer bly ably ally alli entli ently eli
ely ously ization ation ator alism iveness fulness ousness ality ivity bility fully logy logi icate ative alize icity
ical ful ness al ance ence er ic able ible ant ement ment ent ion sion tion ou ism ate iti ous ive ize e ll le""".split(" ")


class NoSynonyms:
    """Stands in for WordNet, so that nltk's third stage finds nothing."""

    def synsets(self, word):
        return []


def sentence():
    return [random.choice(WORDS) for _ in range(random.randint(1, 18))]


def edited(words, kind):
    words = list(words)
    for _ in range(random.randint(1, 1 + len(words) // 2)):
        i = random.randrange(len(words)) if words else 0
        if kind == "drop" and words:
            del words[i]
        elif kind == "insert":
            words.insert(i, random.choice(WORDS))
        elif kind == "replace" and words:
            words[i] = random.choice(WORDS)
        elif kind == "repeat" and words:
            words[i:i] = words[i : i + random.randint(1, 3)] * random.randint(1, 3)
        elif kind == "move" and words:
            words.insert(random.randrange(len(words)), words.pop(i))
        elif kind == "inflect" and words:
            words[i] += random.choice(["s", "ed", "ing", "ly", "y", "es"])
        elif kind == "case" and words:
            words[i] = random.choice([str.upper, str.title, str.swapcase])(words[i])
        elif kind == "punctuate" and words:
            words[i] = random.choice(['"%s"', "%s,", "(%s)", "%s!?", "%s...", "'%s", "%s-%s" % (words[i], "%s")]) % words[i]
        elif kind == "foreign":
            words.insert(i, random.choice(FOREIGN))
        elif kind == "lines":
            words.insert(i, "\n")
    return words


def texts():
    kinds = ["drop", "insert", "replace", "repeat", "move", "inflect", "case", "punctuate", "foreign", "lines"]
    for kind in kinds:
        for _ in range(28):
            words = sentence()
            if kind in ("foreign", "lines"):
                words = edited(words, kind)
            yield kind, " ".join(edited(words, kind)), " ".join(words)
    for _ in range(30):
        yield "other", " ".join(sentence()), " ".join(sentence())
    for _ in range(10):
        words = " ".join(edited(sentence(), "lines"))
        yield "equal", words, words
    for _ in range(20):
        few = random.sample(["the", "cat", "cats", "cat's", "sat"], 3)
        pick = lambda: " ".join(random.choice(few) for _ in range(random.randint(1, 9)))
        yield "few words", pick(), pick()
    special = ["", " ", "\n", "...", "?!", "the", "a the an", "Hello", "hello there", "\u3000", "日本語", "’", "\n\nhello\n there\n"]
    for prediction in special:
        for reference in random.sample(special, 5) + [""]:
            yield "special", prediction, reference


def token_f1(prediction, reference):
    def words(text):
        text = "".join(c for c in text.lower() if c not in string.punctuation)
        return re.sub(r"\b(a|an|the)\b", " ", text).split()

    predicted, expected = words(prediction), words(reference)
    same = sum((collections.Counter(predicted) & collections.Counter(expected)).values())
    if same == 0:
        return [0.0, 0.0, 0.0]
    precision, recall = same / len(predicted), same / len(expected)
    return [precision, recall, 2 * precision * recall / (precision + recall)]


def meteor(prediction, reference):
    predicted, expected = prediction.lower().split(), reference.lower().split()
    matches = meteor_score.align_words(predicted, expected, wordnet=NoSynonyms())[0]
    stem = PorterStemmer().stem
    stems = [[stem(word) for word in text] for text in (predicted, expected)]
    return {
        "score": meteor_score.single_meteor_score(expected, predicted, wordnet=NoSynonyms()),
        "matches": len(matches),
        "chunks": meteor_score._count_chunks(matches) if matches else 0,
        # No stem twice in a text: then there is one largest alignment, and nltk finds it.
        "is_distinct": all(len(set(text)) == len(text) for text in stems),
    }


def rounded(values):
    return [round(float(value), 15) for value in values]


def pair(kind, prediction, reference):
    rouge = {name: {t: rounded(s) for t, s in scorer.score(reference, prediction).items()} for name, scorer in SCORERS.items()}
    if rouge["plain"] == rouge["stem"]:
        del rouge["plain"]
    return {"kind": kind, "prediction": prediction, "reference": reference, "rouge": rouge,
            "token_f1": rounded(token_f1(prediction, reference)), "meteor": meteor(prediction, reference)}


def words_to_stem():
    words = {word.lower() for word in WORDS + FOREIGN if word.strip()}
    words |= {root + suffix for root in ROOTS for suffix in random.sample(SUFFIXES, 16) if root + suffix}
    words |= {"skies", "sky", "dying", "lying", "tying", "news", "innings", "inning", "outings", "outing", "cannings", "canning",
              "howe", "proceed", "exceed", "succeed", "succeeded", "havving", "succed"}
    return sorted(words)


def save(folder, name, key, rows):
    head = {"made_by": "tests/scores/overlap/make_golden.py", **VERSIONS}
    with open(folder / name, "w", encoding="utf-8") as file:
        file.write(json.dumps(head)[:-1] + f', "{key}": [\n')
        file.write(",\n".join(json.dumps(row, ensure_ascii=False, separators=(",", ":")) for row in rows) + "\n]}\n")
    print(name, len(rows), (folder / name).stat().st_size)


folder = pathlib.Path(sys.argv[1])
save(folder, "golden_pairs.json", "pairs", [pair(*each) for each in texts()])
stemmer = PorterStemmer()
save(folder, "golden_stems.json", "stems", [[word, stemmer.stem(word)] for word in words_to_stem()])
