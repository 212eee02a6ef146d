#!/usr/bin/env python3
"""scripts/bench/scaling_model.py on numbers that are worked out by hand, and its errors. Exit status 0 when all holds."""
import contextlib
import io
import json
import sys
import tempfile
import unittest
from pathlib import Path
from unittest import mock

ROOT = Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "scripts/bench"))
if sys.version_info < (3, 9):
    print("skipped: scripts/bench/scaling_model.py needs Python 3.9")
    sys.exit(77)

import scaling_model as model
from scaling_model import Failure, Link, Settings, Training

# 1,000 parameters of 4 bytes, of which 250 come last; 8 lanes of 10 tokens.
TRAINING = Training("t", "none", lanes=8, segment=10, windows=1, window_segments=1, early=750, late=250, state_bytes=100, flops=6.0,
                    has_loss=False, lanes_a_rank=8)
# 100 bytes in a bucket; the update takes no time to speak of.
SETTINGS = Settings(bucket_bytes=100, memory_bytes_per_second=1e30)
FAST = Link("fast", 1000.0, 0.0)  # 4,000 bytes of gradients in 4 s one after another
SLOW_START = Link("slow start", 1e30, 1.0)  # latency alone


def with_(settings=SETTINGS, **changes):
    return model.replace(settings, **changes)


class Communication(unittest.TestCase):
    def test_bytes_of_a_ring(self):
        for ranks, sent in ((1, 0), (2, 4000), (4, 6000)):  # 2 (n - 1) / n of 4,000
            cost = model.communicate(TRAINING, ranks, FAST, SETTINGS)
            self.assertEqual((cost.sent_bytes, cost.mean_bytes), (sent, sent))
            self.assertAlmostEqual(cost.seconds, sent / 1000)

    def test_messages_of_a_ring(self):
        # 3,000 early bytes are 30 buckets, the late ones are one; 2 (n - 1) messages a bucket; the agreement goes up and down a tree.
        for ranks, messages in ((1, 0), (2, 31 * 2 + 2), (4, 31 * 6 + 4)):
            cost = model.communicate(TRAINING, ranks, SLOW_START, SETTINGS)
            self.assertEqual(cost.messages, messages)
            self.assertAlmostEqual(cost.seconds, messages)

    def test_other_algorithms(self):
        # path, sent, rounds, messages
        self.assertEqual(model.all_reduce("rabenseifner", 8), model.Pattern(1.75, 1.75, 6, 6))
        self.assertEqual(model.all_reduce("binomial", 2), model.Pattern(2, 1, 2, 1))
        self.assertEqual(model.all_reduce("binomial", 4), model.Pattern(4, 2, 4, 2))
        self.assertEqual(model.all_reduce("binomial", 5), model.Pattern(6, 3, 6, 3))
        cost = model.communicate(TRAINING, 4, FAST, with_(algorithm="binomial"))
        self.assertEqual((cost.sent_bytes, cost.mean_bytes, cost.seconds), (8000, 6000, 16))
        with self.assertRaisesRegex(Failure, "powers of two alone, not 6 ranks"):
            model.all_reduce("rabenseifner", 6)

    def test_bf16_halves_the_gradients(self):
        self.assertEqual(model.communicate(TRAINING, 4, FAST, with_(gradient_bytes=2)).sent_bytes, 3000)

    def test_shards_send_as_much_and_their_second_half_comes_after_the_update(self):
        cost = model.communicate(TRAINING, 4, FAST, with_(shards=True))
        self.assertEqual((cost.sent_bytes, cost.mean_bytes), (6000, 6000))
        self.assertEqual((cost.early_seconds, cost.late_seconds, cost.after_seconds), (2.25, 0.75, 3.0))
        halved = model.communicate(TRAINING, 4, FAST, with_(shards=True, gradient_bytes=2))
        self.assertEqual(halved.sent_bytes, 1500 + 3000)  # parameters stay f32
        tree = model.communicate(TRAINING, 4, FAST, with_(shards=True, algorithm="binomial"))
        self.assertEqual((tree.sent_bytes, tree.seconds), (6000, 16))

    def test_an_auxiliary_loss_adds_a_sum_a_segment(self):
        loss = model.replace(TRAINING, has_loss=True, windows=3, window_segments=2)
        more = model.communicate(loss, 4, SLOW_START, SETTINGS).seconds - model.communicate(TRAINING, 4, SLOW_START, SETTINGS).seconds
        self.assertAlmostEqual(more, 6 * 4)

    def test_the_last_bucket_is_late_whatever_it_holds(self):
        none_last = model.replace(TRAINING, early=1000, late=0)
        cost = model.communicate(none_last, 2, FAST, SETTINGS)
        self.assertAlmostEqual(cost.early_seconds, 3.9)
        self.assertAlmostEqual(cost.late_seconds, 0.1)
        small = model.communicate(none_last, 2, FAST, with_(bucket_bytes=1e9))
        self.assertEqual((small.early_seconds, small.late_seconds), (0, 4))


class Steps(unittest.TestCase):
    def exposed(self, seconds, ranks=2, **changes):
        return model.step_of(TRAINING, ranks, 8 / ranks, seconds, FAST, with_(**changes)).exposed_seconds

    def test_what_is_exposed(self):
        # Two ranks: 3 s early, 1 s late.
        self.assertAlmostEqual(self.exposed(18.0), 1.0)  # 6 s of backward hide 3: the last bucket alone
        self.assertAlmostEqual(self.exposed(6.0), 2.0)  # 2 s of backward: 4 - 2
        self.assertAlmostEqual(self.exposed(18.0, hidden=0.0), 4.0)
        self.assertAlmostEqual(self.exposed(18.0, hidden=0.5), 2.5)

    def test_strong_scaling(self):
        steps = model.strong_steps(TRAINING, [1, 2, 8], 18.0, FAST, SETTINGS)
        self.assertEqual([step.lanes_a_rank for step in steps], [8, 4, 1])
        # 8 ranks: 7 s of communication, 5.25 early; of 2.25 s compute 1.5 are backward.
        for step, seconds in zip(steps, (18.0, 9.0 + 1.0, 2.25 + 7.0 - 1.5)):
            self.assertAlmostEqual(step.seconds, seconds)
        for step, efficiency in zip(steps, (1.0, 0.9, 18 / (8 * 7.75))):
            self.assertAlmostEqual(model.strong_efficiency(steps[0], step), efficiency)
        # 4 ranks: 4.5 + 6 - 3 = 7.5 s, 60 %; 8 ranks: 29 %.
        self.assertEqual(model.end_of(TRAINING, 18.0, FAST, SETTINGS), 4)
        self.assertEqual(model.end_of(TRAINING, 18.0, Link("none", 1e30, 0.0), SETTINGS), 8)

    def test_weak_scaling(self):
        steps = model.weak_steps(TRAINING, [1, 2, 4], 18.0, FAST, SETTINGS)
        for step, seconds in zip(steps, (18.0, 19.0, 18.0 + 1.5)):  # late: 1 s of 2 ranks, 1.5 s of 4
            self.assertAlmostEqual(step.seconds, seconds)
        self.assertAlmostEqual(model.weak_efficiency(steps[0], steps[2]), 18 / 19.5)

    def test_only_the_last_window_hides_communication(self):
        # Two windows of 3 s on 2 ranks: 2 s of backward in the last one.
        step = model.step_of(model.replace(TRAINING, windows=2), 2, 4, 12.0, FAST, SETTINGS)
        self.assertAlmostEqual(step.seconds, 6.0 + 2.0)

    def test_the_update_is_not_divided_but_by_shards(self):
        slow = with_(memory_bytes_per_second=28_000)  # 1,000 parameters in a second
        self.assertAlmostEqual(model.step_of(TRAINING, 2, 4, 19.0, FAST, slow).compute_seconds, 9 + 1)
        self.assertAlmostEqual(model.step_of(TRAINING, 2, 4, 19.0, FAST, with_(slow, shards=True)).compute_seconds, 9 + 0.5)
        with self.assertRaisesRegex(Failure, "the update alone takes 1 s, and the whole step of one rank 0.5 s"):
            model.step_of(TRAINING, 2, 4, 0.5, FAST, slow)

    def test_a_window_has_a_least_duration(self):
        self.assertAlmostEqual(model.step_of(TRAINING, 8, 1, 18.0, FAST, with_(least_window=5.0)).compute_seconds, 5.0)


class Plans(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def write(self, name, content):
        path = self.folder / name
        path.write_text(content if isinstance(content, str) else json.dumps(content))
        return str(path)

    def plan(self, **changes):
        return self.write("plan.json", {
            "format": "mneme-dry-run", "tokens_per_step": 80, "schedule": [{"step": 0, "lr": 1, "accumulate": 1}],
            "parameters": [{"name": "model.embedding.0.weight", "shape": [25, 10]}, {"name": "model.layers.0.w", "shape": [700]},
                           {"name": "memory.0.org.mneme.xl_cache.0.w", "shape": [50]}],
            "memory_estimate": {"uses": [{"name": "memory state", "bytes": 800}]}, "memory": {"memory.0.org.mneme.xl_cache": 50},
            "flops_per_token": {"training": 6.0}, **changes})

    def run_script(self, *arguments):
        printed = io.StringIO()
        with mock.patch.object(sys, "argv", ["scaling_model.py", *arguments]), contextlib.redirect_stdout(printed):
            model.main()
        return printed.getvalue()

    def test_a_dry_run_is_read(self):
        options = model.parse([self.plan(), "--lanes", "8", "--tokens-per-second", "8"])
        training = model.trainings_of(options)[0]
        self.assertEqual((training.early, training.late, training.state_bytes, training.segment), (750, 250, 100, 10))
        self.assertEqual(model.one_rank_seconds(training, options), 10)
        for memory, name in (({"memory.0.org.mneme.compressive": 3}, "memory.0.org.mneme.compressive"), ({}, "a memory")):
            options.trainings = [self.plan(memory=memory)]
            self.assertEqual(model.trainings_of(options)[0].memory, name)

    def test_compute_time_from_the_peak(self):
        options = model.parse([self.plan(), "--lanes", "8", "--peak-tflops", "1e-12", "--utilisation", "0.5", "--memory-gbytes", "1"])
        self.assertAlmostEqual(model.one_rank_seconds(model.trainings_of(options)[0], options), 80 * 6 / 0.5 + 28e3 / 1e9)

    def test_all_tables_are_printed_and_written(self):
        out = self.folder / "out.json"
        text = self.run_script(self.plan(), "--lanes", "8", "--tokens-per-second", "8", "--link", "slow=1e-6,0", "--ranks", "1", "2", "4",
                               "--bucket-mb", "1e-4", "--json", str(out))
        for title in ("trainings, and the efficiency of 4 ranks", "communication a step", "strong scaling", "weak scaling", "memory states", "the most ranks"):
            self.assertIn(title, text)
        written = json.loads(out.read_text())["numbers"][0]
        self.assertEqual(written["links"][0]["strong"][1]["communication"]["sent_bytes"], 4000)
        self.assertEqual([step["ranks"] for step in written["links"][0]["strong"]], [1, 2, 4])

    def test_tables_are_written_as_csv(self):
        self.run_script("decoder", "wt103", "--tables", "strong", "end", "--ranks", "1", "2", "--csv", str(self.folder / "tables"))
        lines = (self.folder / "tables/strong.csv").read_text().splitlines()
        self.assertEqual(lines[0][:45], "training,memory,ranks,lanes,GB,compute ms,+pc")
        self.assertEqual([line.split(",")[:3] for line in lines[1:]], [[name, "xl_cache", ranks] for name in ("decoder", "wt103") for ranks in "12"])
        self.assertIn("decoder,xl_cache,1,64,46.8,30492,", lines[1])
        self.assertEqual((self.folder / "tables/end.csv").read_text().splitlines()[1], "decoder,xl_cache,64,32,64,16,32")

    # docs/scaling.md, "The files"
    def test_the_files_of_the_documentation_are_those_of_the_script(self):
        docs = Path(__file__).resolve().parents[3] / "docs/scaling"
        memories, small = ["--memories", *model.NAMES], ["wt103", "enwik8", "--utilisation", "0.15", "--least-ms", "10"]
        commands = [("slow", ["wt103", "--tokens-per-second", "2000", "--memory-gbytes", "20", "--links", "100g", "--tables", "strong"])]
        for folder, trainings in (("wt103_enwik8", small), ("decoder", ["decoder"])):
            commands += [(folder, [*trainings, "--tables", "summary", "--ranks", "8", *memories]),
                         (folder, [*trainings, "--tables", "strong", "weak", "communication"]),
                         (folder, [*trainings, "--tables", "states", "end", *memories])]
        for folder, arguments in commands:
            self.run_script(*arguments, "--csv", str(self.folder / folder))
        made = {str(path.relative_to(self.folder)): path.read_text() for path in self.folder.rglob("*.csv")}
        kept = {str(path.relative_to(docs)): path.read_text() for path in docs.rglob("*.csv")}
        self.assertEqual(made, kept)

    def test_states_and_what_moving_them_costs(self):
        text = self.run_script(self.plan(), "--lanes", "8", "--link", "slow=1e-6,0", "--tables", "states")
        # 100 bytes a lane, 800 in all, a fifth of 4,000 bytes of gradients; 0.1 s a lane, 0.8 s all.
        self.assertEqual(text.splitlines()[2].split()[-5:], ["0.0001", "0.0008", "0.200", "100", "800"])

    def test_built_in_trainings(self):
        for name in model.BUILT_IN:
            sizes = {memory: model.built_in(name, memory) for memory in model.NAMES}
            self.assertEqual(sizes["none"].state_bytes, 0)
            self.assertGreater(sizes["xl_cache"].state_bytes, 0)
            self.assertEqual({training.late for training in sizes.values()}, {sizes["none"].late})
        wt103 = model.built_in("wt103", "xl_cache")
        self.assertEqual((wt103.parameters, wt103.tokens, wt103.state_bytes), (151107538, 9000, 150 * 16 * 410 * 4))

    def test_measured_steps(self):
        steps = self.write("steps.txt", "# ranks seconds bytes\n1 18\n2, 12.5, 4000\n")
        text = self.run_script(self.plan(), "--lanes", "8", "--link", "cores=1e-6,0", "--measured", steps, "--bucket-mb", "1e-4",
                               "--memory-gbytes", "1e12")
        # The model says 9 + 1 s.
        self.assertEqual(text.splitlines()[3].split(), ["2", "12,500", "10,000", "1.25", "72", "90", "0.0040", "0.0040"])

    def test_measured_steps_of_weak_scaling(self):
        steps = self.write("steps.txt", "1 9\n2 12\n")
        out = self.folder / "out.json"
        self.run_script(self.plan(), "--lanes", "8", "--lanes-a-rank", "4", "--link", "cores=1e-6,0", "--measured", steps, "--weak",
                        "--bucket-mb", "1e-4", "--memory-gbytes", "1e12", "--json", str(out))
        row = json.loads(out.read_text())["numbers"][0]["rows"][1]
        self.assertAlmostEqual(row["model_seconds"], 10.0)  # 9 s of compute as on one rank, and the last bucket
        self.assertAlmostEqual(row["measured_efficiency"], 0.75)
        self.assertAlmostEqual(row["model_efficiency"], 0.9)

    def test_errors(self):
        plan = self.plan()
        for arguments, text in (
                (["wt104"], "no training is called 'wt104'; expected wt103, enwik8, decoder"),
                ([plan], "does not say the number of lanes"),
                ([plan, "--lanes", "7"], "80 tokens a step are not 7 lanes"),
                ([self.write("no.json", "{"), "--lanes", "8"], "expected what mneme train EXP --dry-run"),
                ([self.write("other.json", {"format": "x"}), "--lanes", "8"], "expected what mneme train EXP --dry-run"),
                ([plan, "--lanes", "8", "--measured", self.write("a.txt", "2 1\n")], "no line of 1 rank"),
                ([plan, "--lanes", "8", "--measured", self.write("b.txt", "1 1\n2\n")], "b.txt:2: expected RANKS SECONDS"),
                ([plan, "--lanes", "8", "--measured", self.write("c.txt", "1 1\n1 2\n")], "each number of ranks once"),
                ([plan, "--lanes", "8", "--measured", self.write("d.txt", "1 1\n3 1\n")], "3 ranks do not divide 8 lanes"),
                ([plan, plan, "--lanes", "8", "--measured", self.write("e.txt", "1 1\n")], "steps of one training")):
            with self.subTest(arguments), self.assertRaisesRegex(Failure, text):
                self.run_script(*arguments)
        uncounted = self.plan(flops_per_token=None)
        with self.assertRaisesRegex(Failure, "its operations were not counted; give --tokens-per-second"):
            self.run_script(uncounted, "--lanes", "8")

    def test_wrong_arguments_are_refused(self):
        for arguments, text in ((["--link", "x"], "expected NAME=GBYTES_PER_SECOND,MICROSECONDS, got 'x'"), (["--link", "x=0,1"], "got 'x=0,1'"),
                                (["--hidden", "2"], "--hidden between 0 and 1"), (["--ranks", "0"], "--ranks must be at least 1"),
                                (["--bucket-mb", "0"], "--bucket-mb must be above 0, got 0"), (["--algorithm", "tree"], "invalid choice: 'tree'")):
            printed = io.StringIO()
            with contextlib.redirect_stderr(printed), self.assertRaises(SystemExit):
                model.parse(["wt103", *arguments])
            self.assertIn(text, printed.getvalue())


if __name__ == "__main__":
    unittest.main()
