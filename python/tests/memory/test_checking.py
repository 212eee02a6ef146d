"""Checks of rules that PyTorch allows to break, without the program: each finds its fault, with its line, and no other."""

import importlib.util
import types
import unittest

import faulty

from mneme.memory import HostError, runtime

HAS_TORCH = importlib.util.find_spec("torch") is not None
if HAS_TORCH:
    try:
        import torch
        from mneme.memory import checking
        from mneme.memory.rows import Rows
        from mneme.memory.segment import Layer
    except (ImportError, OSError) as error:
        print(f"skipped=all: import torch fails: {error}")
        HAS_TORCH = False


def load(text: str) -> type:
    own = runtime._Files((("faulty", "faulty.py", text, False),))
    cls: type = own.load("faulty").Faulty
    last = torch.zeros(2, 4, dtype=torch.float64)
    cls._host = checking._Host(types.SimpleNamespace(slot_get=lambda id: last, slot_set=lambda id, value: None))
    return cls


@unittest.skipUnless(HAS_TORCH, "this Python has no torch")
class Checks(unittest.TestCase):
    @classmethod
    def setUpClass(cls) -> None:
        checking.prepare()

    def absorb(self, line: str, check: str) -> None:
        """Runs the hook twice under a check. Errors: those of the check."""
        memory = load(faulty.memory_with(line))()
        memory._wants = 0
        memory._names = types.SimpleNamespace(slots={"last": 1})
        run = checking.checked(runtime.run_hook, {check})
        for _ in range(2):
            given = (1, 0, 2, 3, 0, 2, 0, None, None, 1, 1)
            run(memory, "absorb", Layer(memory, given, 0, None), Rows.of_hidden(torch.randn(2, 3, 4).double()))

    def refused(self, line: str, check: str) -> tuple:
        try:
            self.absorb(line, check)
        except HostError as error:
            return runtime.describe_error(error)
        self.fail(f"{check} does not find: {line}")

    def test_a_memory_without_a_fault_passes(self) -> None:
        for check in checking.CHECKS:
            self.absorb("", check)

    def test_each_fault_is_found_by_its_check_alone(self) -> None:
        for check, line in faulty.FAULTS.items():
            for other in checking.CHECKS:
                if other != check:
                    self.absorb(line, other)
            _, file, place, text = self.refused(line, check)
            self.assertEqual(file, "faulty.py")
            self.assertIn(place, (faulty.LINE, faulty.LINE - 3))  # of the hook where it has returned
            self.assertRegex(text, f"^python.{check}: ")

    def test_other_forms_are_found(self) -> None:
        for check, lines in faulty.OTHER_FAULTS.items():
            for line in lines:
                self.assertIn(f"python.{check}: ", self.refused(line, check)[3], line)

    def test_messages_say_what_to_write(self) -> None:
        self.assertIn("torch.where(condition, a, b)", self.refused(faulty.FAULTS["values"], "values")[3])
        self.assertIn("layer.set", self.refused(faulty.FAULTS["writes"], "writes")[3])
        self.assertIn("layer.uniform(name, shape)", self.refused(faulty.FAULTS["random"], "random")[3])
        self.assertIn("keep it in a slot", self.refused(faulty.FAULTS["keeps"], "keeps")[3])
        self.assertIn("_to_copy rounds float64 to float32", self.refused(faulty.FAULTS["dtype"], "dtype")[3])
        self.assertIn("x.new_zeros(shape) in place of torch.zeros(shape)", self.refused(faulty.FAULTS["dtype"], "dtype")[3])

    def test_own_tensors_may_be_written(self) -> None:
        for line in ("row = row.clone(); row.add_(1.0)", "row = torch.empty_like(last).copy_(row)",
                     "row = torch.where(row > 0, row, last)", "row = row[:, torch.tensor([0, 1, 2, 3])]"):
            for check in checking.CHECKS:
                self.absorb(line, check)

    def test_numbers_that_lose_no_digits_may_have_any_dtype(self) -> None:
        for line in ("row = row * (row > 0).float()", "row = row + torch.tensor(0.5)", "row = row + torch.zeros(4)",
                     "row = row + torch.zeros_like(row, dtype=torch.float32)", "row = row + row.new_ones(4, dtype=torch.bfloat16)",
                     "row = row + 0.0 * row.argmax()", "torch.zeros(4).bfloat16()"):
            self.absorb(line, "dtype")


if __name__ == "__main__":
    unittest.main()
