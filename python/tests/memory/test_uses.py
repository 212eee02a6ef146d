"""Memories of examples/python in each use of a memory: what their C++ forms give there, to the very bits.

Needs what test_training.py needs; the test of ranks also the launcher mpirun."""

import json
import os
import shutil
import subprocess
import unittest

from test_training import ROOT, SKIP, Trainings, tensors_of

MEMORIES = ("decayed_mean", "infini", "recurrent_memory")
FORMS = ("cpp", "py")

EXPERIMENT = """\
[model]
backbone = "xl"
layers = 2
heads = 2
head_width = 8
width = 16
ff = 32
dropout = 0.0
position = "relative"
norm = "post"
[data]
task = "text"
train = "text.txt"
valid = "text.txt"
vocabulary = "byte"
[train]
segment = 8
lanes = 4
steps = 8
bptt_segments = 2
optimizer = "adam"
lr = 1.5e-3
precision = "f64"
save_every = 4
keep_checkpoints = 2
seed = 1
[eval]
steps = 2
"""


# Linear attention with decay, token by token.
LINEAR = """\
import torch
import mneme


class Linear(mneme.Memory):
    id = "org.example.linear"

    def setup(self, s):
        s.replaces_attention(4, 6)
        s.reads_at("heads")
        s.wants("read_q", "read_k", "read_v", "read_normed")
        s.slot("state", [mneme.LANES, s.heads, 4, 6], gradient="through")

    def read(self, layer, queries):
        state, out = layer.slot("state"), []
        assert queries.normed.shape[2] == 16
        for q, k, v in zip(queries.q.unbind(1), queries.k.unbind(1), queries.v.unbind(1)):
            state = 0.9 * state + k.unsqueeze(3) * v.unsqueeze(2)
            out.append((q.unsqueeze(2) @ state).squeeze(2))
        layer.set("state", state)
        return mneme.replace(torch.stack(out, 1))
"""


@unittest.skipIf(bool(SKIP), SKIP)
class Uses(Trainings):
    def setUp(self) -> None:
        super().setUp()
        text = "".join(f"the dog {i % 7} ran to the red house of number {i % 17} .\n" for i in range(100))
        (self.folder / "text.txt").write_text(text, encoding="utf-8")
        (self.folder / "experiment.toml").write_text(EXPERIMENT, encoding="utf-8")

    def memory(self, name: str, form: str) -> str:
        """A memory file of the one form."""
        if not (self.examples / f"{name}.so").is_file():
            self.skipTest(f"{self.examples} has no {name}.so")
        plugin = {"cpp": name, "py": ROOT / "examples/python" / f"{name}.py"}[form]
        file = self.folder / f"{name}_{form}.toml"
        file.write_text(f'[memory]\nplugins = ["{self.examples}"]\n[[memory.tier]]\nplugin = "{plugin}"\n', encoding="utf-8")
        return file.name

    def run_of(self, name: str, form: str) -> str:
        """A training with one form."""
        run = f"{name}_{form}"
        self.run_program("train", "experiment.toml", "--memory", self.memory(name, form), "--run", run, "--quiet")
        return run

    def test_a_resumed_run_has_the_bits_of_one_that_never_stopped(self) -> None:
        for name in MEMORIES:
            with self.subTest(name):
                run = self.run_of(name, "py")
                shutil.copytree(self.folder / run, self.folder / "again")
                self.run_program("train", "--resume", "again", "--checkpoint", "4", "--quiet")
                self.assertEqual(self.checkpoint("again"), self.checkpoint(run))
                shutil.rmtree(self.folder / "again")

    def test_a_memory_in_place_of_the_attention_has_the_projections_that_it_wants(self) -> None:
        (self.folder / "linear.py").write_text(LINEAR, encoding="utf-8")
        self.run_program("train", "experiment.toml", "--memory", "linear.py", "--run", "linear", "--quiet")
        checkpoint = self.checkpoint("linear")
        size_of = {name: len(data) // 8 for name, (_, data) in checkpoint.items()}
        self.assertEqual(size_of["model.layers.1.attention.qkv.weight"], (2 * 4 + 2 * 4 + 2 * 6) * 16)
        self.assertEqual(size_of["model.layers.1.attention.output.weight"], 16 * 2 * 6)
        self.assertFalse([name for name in size_of if "attention.position" in name or "content_bias" in name])
        shutil.copytree(self.folder / "linear", self.folder / "again")
        self.run_program("train", "--resume", "again", "--checkpoint", "4", "--quiet")
        self.assertEqual(self.checkpoint("again"), checkpoint)

    def test_two_ranks_have_the_bits_of_two_ranks_of_the_form_in_cpp(self) -> None:
        launcher = shutil.which("mpirun")
        if launcher is None:
            self.skipTest("there is no mpirun")
        self.environment |= {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
        for name in MEMORIES:
            with self.subTest(name):
                for form in FORMS:
                    self.run_command(launcher, "--oversubscribe", "--bind-to", "none", "-n", "2", os.environ["MNEME_PROGRAM"],
                                     "train", "experiment.toml", "--memory", self.memory(name, form), "--run", form + name, "--quiet")
                self.assertEqual(self.checkpoint("py" + name), self.checkpoint("cpp" + name))

    def test_chat_and_watch_say_what_they_say_with_the_form_in_cpp(self) -> None:
        for name in MEMORIES:
            with self.subTest(name):
                chats, results = [], []
                for form in FORMS:
                    run = self.run_of(name, form)
                    chats.append(self.run_program("generate", run, "--chat", "--tokens", "20", given="the dog\nran\n"))
                    self.run_program("eval", run, "--memory", self.memory(name, form), "--watch", "--watch-count", "1", "--json", "eval.json")
                    watched = json.loads((self.folder / "eval.json").read_text(encoding="utf-8"))["memories"][0]
                    results.append((watched["result"]["nll"], watched["breakdown"]))
                self.assertGreater(len(chats[0]), 20)
                self.assertEqual(chats[0], chats[1])
                self.assertEqual(results[0], results[1])

    def test_compare_finds_the_same_losses_for_both_forms(self) -> None:
        arms = [word for name in MEMORIES for form in FORMS for word in ("--memory", self.memory(name, form))]
        self.run_program("compare", "experiment.toml", *arms, "--run", "compare", "--samples", "0", "--jobs", "1", "--quiet")
        for name in MEMORIES:
            with self.subTest(name):
                runs = [f"compare/{name}_{form}-seed1" for form in FORMS]
                self.assertEqual(self.checkpoint(runs[0]), self.checkpoint(runs[1]))
                losses = [tensors_of(next((self.folder / run / "evaluations").glob("*/nll.safetensors"))) for run in runs]
                self.assertEqual(losses[0], losses[1])

    def test_locked_takes_the_locked_file_alone(self) -> None:
        source = (ROOT / "examples/python/infini.py").read_text(encoding="utf-8")
        (self.folder / "mine.py").write_text(source, encoding="utf-8")
        (self.folder / "mine.toml").write_text('[[memory.tier]]\nplugin = "mine.py"\n', encoding="utf-8")
        self.run_program("plugins", "lock", "mine.toml")
        train = ("train", "experiment.toml", "--memory", "mine.toml", "--locked", "--quiet", "--run")
        self.run_program(*train, "locked")
        self.run_program("eval", "locked", "--locked", "--quiet")
        (self.folder / "mine.py").write_text(source + "# changed\n", encoding="utf-8")
        for words in ((*train, "other"), ("train", "--resume", "locked", "--checkpoint", "4", "--locked"), ("eval", "locked", "--locked")):
            with self.subTest(words):
                self.assertIn("mine.py", self.refusal_of(*words))
        self.run_program("plugins", "lock", "mine.toml")
        self.run_program(*train, "other")

    def test_other_versions_are_named_and_locked_refuses_them(self) -> None:
        library = self.folder / "library"
        library.mkdir()
        (library / "tables.py").write_text("", encoding="utf-8")
        self.environment["PYTHONPATH"] = str(library)

        def install(version: str) -> None:
            for old in library.glob("*.dist-info"):
                shutil.rmtree(old)
            information = library / f"tables-{version}.dist-info"
            information.mkdir()
            (information / "METADATA").write_text(f"Metadata-Version: 2.1\nName: tables\nVersion: {version}\n", encoding="utf-8")
            (information / "top_level.txt").write_text("tables\n", encoding="utf-8")
            self.environment["XDG_CACHE_HOME"] = str(self.folder / f"cache{version}")

        install("1.5")
        source = (ROOT / "examples/python/infini.py").read_text(encoding="utf-8")
        (self.folder / "mine.py").write_text("import tables\n" + source, encoding="utf-8")
        (self.folder / "mine.toml").write_text('[[memory.tier]]\nplugin = "mine.py"\n', encoding="utf-8")
        self.run_program("plugins", "lock", "mine.toml")
        self.run_program("train", "experiment.toml", "--memory", "mine.toml", "--locked", "--run", "run", "--quiet")
        recorded = json.loads((self.folder / "run/run.json").read_text(encoding="utf-8"))["plugins"][0]["python"]
        self.assertEqual(recorded["tables"], "1.5")
        self.assertLessEqual({"python", "torch", "mneme"}, recorded.keys())
        self.assertIn("tables 1.5", " ".join(self.run_program("plugins", "describe", "./mine.py").split()))
        install("2.5")
        resume = (os.environ["MNEME_PROGRAM"], "train", "--resume", "run", "--checkpoint", "4", "--quiet")
        for words in ((*resume, "--locked"), (resume[0], "eval", "run", "--locked"),
                      (resume[0], "plugins", "try", "experiment.toml", "--memory", "mine.toml", "--locked"), resume):
            with self.subTest(words):
                done = self.finished(*words)
                self.assertEqual(done.returncode != 0, "--locked" in words, done.stderr)
                self.assertRegex(done.stderr, "with other versions than .*: expected .*tables 1.5.*, got .*tables 2.5")


if __name__ == "__main__":
    unittest.main()
