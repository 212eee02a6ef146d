#!/usr/bin/env python3
"""scripts/bench/compare_official.py without PyTorch and without the official code: what it compares before it times anything, how it
forms ratios, and its errors. Exit status 0 when all holds."""
import sys
import tempfile
import types
import unittest
from pathlib import Path
from unittest import mock

ROOT = Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "scripts/bench"))
if sys.version_info < (3, 11):
    print("skipped: scripts/bench/compare_official.py needs Python 3.11")
    sys.exit(77)

from program import Failure, Used


class Losses:
    """The little of a tensor that compare() uses."""

    def __init__(self, *values):
        self.values, self.shape = values, (len(values),)

    def __sub__(self, other):
        return Losses(*(a - b for a, b in zip(self.values, other.values)))

    def abs(self):
        return Losses(*map(abs, self.values))

    def max(self):
        return types.SimpleNamespace(item=lambda: next((v for v in self.values if v != v), max(self.values)))  # NaN wins


torch = types.ModuleType("torch")
torch.__version__ = "0"
safetensors = types.ModuleType("safetensors")
safetensors.torch = types.ModuleType("safetensors.torch")
safetensors.torch.load_file = safetensors.torch.save_file = None
with mock.patch.dict(sys.modules, {"torch": torch, "safetensors": safetensors, "safetensors.torch": safetensors.torch}):
    import compare_official

MIB = 1 << 20


def sides(case_name, checked, rounds):
    """Sides whose check gives `checked` losses, and whose rounds take these (loop, process, bytes) by side."""
    case = next(case for case in compare_official.CASES if case.name == case_name)
    def timed(side):
        turns = iter(rounds[side])
        def one():
            loop, process, peak = next(turns)
            return None, loop, Used(process, peak, 0)
        return one
    check = {side: (lambda losses=losses: (losses, 0.0, None)) for side, losses in checked.items()}
    return types.SimpleNamespace(case=case, model={}, calls=lambda threads, precision: (check, {side: timed(side) for side in rounds}))


ROUNDS = {"official": [(8.0, 9.0, 30 * MIB), (6.0, 7.0, 30 * MIB), (9.0, 9.0, 30 * MIB)],
          "mneme": [(2.0, 3.0, 15 * MIB), (3.0, 3.5, 15 * MIB), (3.0, 4.5, 15 * MIB)]}


class Compare(unittest.TestCase):
    def test_ratios_are_formed_round_by_round(self):
        same = {"official": Losses(1.0, 2.0), "mneme": Losses(1.0, 2.0 + 1e-6)}
        row = compare_official.compare(sides("wt103 evaluation 64/640", same, ROUNDS), 1, "f32", 3)
        self.assertEqual((row["loop"], row["program"], row["memory"]), (3.0, 2.0, 0.5))  # of 4, 2, 3 and of 3, 2, 2
        self.assertAlmostEqual(row["difference"], 1e-6)
        self.assertIn("3.00     2.00    0.50", compare_official.line(row))

    def test_a_training_has_no_whole_program(self):
        same = {"official": Losses(1.0), "mneme": Losses(1.0)}
        row = compare_official.compare(sides("wt103 training 150/150", same, ROUNDS), 1, "f32", 1)
        self.assertEqual((row["loop"], row["program"]), (4.0, None))
        self.assertIn("4.00        -    0.50", compare_official.line(row))

    def test_nothing_is_timed_where_losses_differ(self):
        for mneme, text in ((Losses(1.0, 2.002), "losses differ by 0.002 nats, expected at most 0.001; nothing was timed"),
                            (Losses(1.0, float("nan")), "losses differ by nan nats"),
                            (Losses(1.0), r"shape \(1,\), the official code \(2,\); nothing was timed")):
            differing = {"official": Losses(1.0, 2.0), "mneme": mneme}
            with self.assertRaisesRegex(Failure, text):
                compare_official.compare(sides("wt103 evaluation 64/640", differing, {"official": [], "mneme": []}), 1, "f32", 1)

    def test_a_checkout_says_whose_code_it_is(self):
        with tempfile.TemporaryDirectory() as folder:
            checkout = Path(folder)
            with self.assertRaisesRegex(Failure, "there is no pytorch/mem_transformer.py; give a clone of kimiyoung/transformer-xl"):
                compare_official.code_of(checkout)
            (checkout / "pytorch").mkdir()
            for text, name in (("class MemTransformerLM", "transformer-xl"), ("class LaMemoRelPartial", "LaMemo")):
                (checkout / "pytorch/mem_transformer.py").write_text(text)
                self.assertEqual(compare_official.code_of(checkout), name)

    def test_wrong_arguments_are_refused(self):
        for arguments, text in ((["x", "--rounds", "0"], "must be at least 1"), (["x", "--mneme", "/nowhere"], "there is no /nowhere"),
                                (["x", "--cases", "wt"], "invalid choice: 'wt'")):
            with mock.patch.object(sys, "argv", ["compare_official.py", *arguments]), mock.patch("sys.stderr") as printed:
                with self.assertRaises(SystemExit):
                    compare_official.parse()
            self.assertIn(text, "".join(str(call.args[0]) for call in printed.write.call_args_list))

    def test_cases_need_their_checkout(self):
        with tempfile.TemporaryDirectory() as folder:
            (Path(folder) / "pytorch").mkdir()
            (Path(folder) / "pytorch/mem_transformer.py").write_text("LaMemo")
            arguments = ["compare_official.py", folder, "--cases", "wt103 training 150/150", "--mneme", sys.executable]
            with mock.patch.object(sys, "argv", arguments), self.assertRaisesRegex(Failure, "none of the cases belongs to these checkouts"):
                compare_official.main()


if __name__ == "__main__":
    unittest.main()
