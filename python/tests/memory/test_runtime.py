"""What the bridge calls, without the program: modules of a memory, places of errors, and the torch that is refused."""

import sys
import types
import unittest
from importlib import metadata
from unittest import mock

from test_checking import HAS_TORCH

from mneme.memory import HostError, constant, normal, runtime
from mneme.memory.errors import first_line
from mneme.memory.rows import Rows
from mneme.memory.segment import Layer, Queries
from mneme.memory.setup import Setup

SIZES = (2, 64, 4, 16, 2, (0, 1), 16, 3, "relative", 4, 0.1, 2)


def files(**texts: str) -> runtime._Files:
    """Modules by their name with __ in place of dots; those that end in _init are packages."""
    return runtime._Files(tuple(
        (name.removesuffix("_init").replace("__", "."), name + ".py", text, name.endswith("_init")) for name, text in texts.items()))


class Files(unittest.TestCase):
    def test_modules_of_two_builds_are_apart(self) -> None:
        first = files(main="import helper\nvalue = helper.VALUE\n", helper="VALUE = 1\n").load("main")
        second = files(main="import helper\nvalue = helper.VALUE\n", helper="VALUE = 2\n").load("main")
        self.assertEqual((first.value, second.value), (1, 2))
        self.assertNotIn("helper", sys.modules)
        self.assertIs(sys.modules[first.__name__], first)

    def test_imports_find_own_modules_in_every_form(self) -> None:
        main = files(
            main="import math\nimport parts.deep\nimport parts.deep as deep\nfrom parts import deep as again, NAME\n"
                 "from parts.deep import one\n\ndef later():\n    import parts.late\n    return parts.late.two\n",
            parts_init="NAME = 'parts'\nfrom . import deep\n",
            parts__deep="from .late import two\nfrom . import late\none = two - 1\n",
            parts__late="two = 2\n").load("main")
        self.assertIs(main.parts.deep, main.deep)
        self.assertIs(main.again, main.deep)
        self.assertEqual((main.NAME, main.one, main.later(), main.math.floor(1.5)), ("parts", 1, 2, 1))

    def test_a_folder_without_an_init_is_a_package(self) -> None:
        own = files(main="from folder.part import x\n", folder__part="x = 3\n")
        self.assertEqual(own.load("main").x, 3)
        # inspect.getmodule looks at every module of the process, and fails at an empty name of a file.
        self.assertFalse(hasattr(own.load("folder"), "__file__"))

    def test_a_module_that_nobody_has_is_named(self) -> None:
        with self.assertRaisesRegex(ModuleNotFoundError, "no_such_module"):
            files(main="import no_such_module\n").load("main")


class Errors(unittest.TestCase):
    def described(self, text: str, *arguments: object) -> tuple:
        try:
            files(place=text).load("place").f(*arguments)
        except BaseException as error:
            return runtime.describe_error(error)
        self.fail("no error")

    def test_a_file_beside_it_is_not_there(self) -> None:
        _, file, line, text = self.described("from pathlib import Path\n(Path(__file__).resolve().parent / 'table.csv').read_text()\n")
        self.assertEqual((file, line), ("place.py", 2))
        self.assertIn("<packed>/table.csv", text)
        self.assertIn("runs packed into a plugin file and has no folder", text)

    def test_name_the_innermost_line_of_the_memory(self) -> None:
        text = "import json\n\n\ndef f():\n    json.loads('{')\n"
        code, file, line, words = self.described(text)
        self.assertEqual((code, file, line), (13, "place.py", 5))
        self.assertIn("JSONDecodeError: Expecting property name", words)

    def test_keep_the_code_of_the_host(self) -> None:
        def refuse() -> None:
            raise HostError("expected another shape", 3)

        self.assertEqual(self.described("def f(g):\n    g()\n", refuse), (3, "place.py", 2, "expected another shape"))

    def test_say_what_to_write_in_python(self) -> None:
        def refuse() -> None:
            raise HostError('slot "last": expected dtype f64, got f32 (use cast/1)', 4)

        self.assertEqual(self.described("def f(g):\n    g()\n", refuse)[3],
                         'slot "last": expected dtype f64, got f32 (write .to(dtype))')

    def test_of_memory_have_a_code_of_their_own(self) -> None:
        self.assertEqual(self.described("def f():\n    raise MemoryError\n"), (6, "place.py", 2, "MemoryError"))

    def test_of_a_result_name_the_hook_behind_decorators(self) -> None:
        text = ("import functools\n\ndef plain(self, *given):\n    return 3\n\n"
                "@functools.wraps(plain)\ndef wrapped(*given):\n    return plain(*given)\n\n"
                "partial = functools.partial(plain, None)\n")
        module = files(hooks=text).load("hooks")
        for read in (module.plain, module.wrapped, module.partial):
            memory = type("Mine", (), {"read": read})()
            with self.assertRaisesRegex(HostError, "read gives a int: expected words") as caught:
                runtime._expect(memory, "read", 3, tuple, "words")
            self.assertEqual(caught.exception.place, ("hooks.py", 3))
        self.assertEqual(first_line(len), ("", 0))

    def test_of_syntax_name_their_line(self) -> None:
        self.assertEqual(self.described("x = 1\ndef f(:\n")[1:3], ("place.py", 2))


class Torch(unittest.TestCase):
    def refusal(self, installed: object) -> str:
        with mock.patch.object(metadata, "version", side_effect=installed), self.assertRaises(HostError) as caught:
            runtime.start("2.11.0", "/lib/libtorch_cpu.so")
        self.assertEqual(caught.exception.code, 2)
        return str(caught.exception)

    def test_of_another_version_is_refused_by_both_versions(self) -> None:
        words = self.refusal(["2.10.1+cu126"])
        self.assertIn("has torch 2.10.1+cu126, and the program computes with 2.11.0 (/lib/libtorch_cpu.so)", words)

    def test_that_is_missing_is_named(self) -> None:
        self.assertIn("has no torch: install torch==2.11.0 there", self.refusal(metadata.PackageNotFoundError("torch")))

    def test_that_cannot_be_imported_names_the_library(self) -> None:
        with mock.patch.dict(sys.modules, {"torch": None}):
            words = self.refusal(["2.11.0"])
        self.assertIn("import torch failed in", words)
        self.assertIn("scripts/setup.sh --python", words)


@unittest.skipUnless(HAS_TORCH, "this Python has no torch")
class Memories(unittest.TestCase):
    """What of torch their code leaves changed, and what they keep."""

    TEXT = ("import torch\n{top}\nfrom mneme import memory as mneme\n\nclass Mine(mneme.Memory):\n    id = 'mine'\n\n"
            "    def setup(self, s):\n        {setup}\n\n    def begin(self, segment):\n        {begin}\n")

    def run_with(self, top: str = "pass", setup: str = "pass", begin: str = "pass") -> None:
        text = self.TEXT.format(top=top, setup=setup, begin=begin)
        cls = runtime.load({}, (("mine", "mine.py", text, False),), "Mine", "mine")
        self.memory = runtime.create(cls, SIZES)[0]
        runtime.run_hook(self.memory, "begin", None)

    def test_modes_of_torch_are_put_back_and_named_with_the_line(self) -> None:
        import torch
        off, wide = "torch.set_grad_enabled(False)", "torch.set_default_dtype(torch.float64)"
        for given, words, place in (
            ({"top": off}, "the import leaves gradients turned off", ("mine.py", 1)),
            ({"setup": off}, "setup leaves gradients turned off", ("mine.py", 8)),
            ({"begin": off}, "begin leaves gradients turned off.*use `with torch.no_grad", ("mine.py", 11)),
            ({"top": wide}, "the import leaves torch.float64 as the default dtype", ("mine.py", 1)),
            ({"setup": wide}, "setup leaves torch.float64", ("mine.py", 8)),
            ({"begin": wide}, "begin leaves torch.float64", ("mine.py", 11)),
        ):
            with self.subTest(words), self.assertRaisesRegex(HostError, words) as caught:
                self.run_with(**given)
            self.assertEqual(caught.exception.place, place)
            self.assertTrue(torch.is_grad_enabled())
            self.assertEqual(torch.get_default_dtype(), torch.float32)
        self.run_with(begin="with torch.no_grad(): pass")

    def test_modes_of_torch_are_put_back_when_a_hook_fails(self) -> None:
        import torch
        with self.assertRaises(ZeroDivisionError):
            self.run_with(begin="torch.set_grad_enabled(False); 1 / 0")
        self.assertTrue(torch.is_grad_enabled())

    def test_results_that_are_no_tensors_are_refused_with_the_hook(self) -> None:
        import torch
        self.run_with()
        for value in (torch.Generator(), torch.zeros(2).untyped_storage(), [1.0]):
            with self.assertRaisesRegex(HostError, f"begin gives a {type(value).__name__}: expected a tensor") as caught:
                runtime._expect_tensors(self.memory, "begin", torch.zeros(1), None, value)
            self.assertEqual(caught.exception.place, ("mine.py", 11))

    def test_results_of_hooks_that_give_nothing_are_refused(self) -> None:
        hooks = ("import torch\nfrom mneme import memory as mneme\n\nclass Mine(mneme.Memory):\n    id = 'mine'\n\n"
                 "    def {}(self, layer, *given):\n        return {}\n")
        segment = (0, 0, 2, 4, 4, 1, 0, None, None, 0, 0)
        calls = {"absorb": (0, 0, (0, 0), *[None] * 7, 0, None, None), "context": (0, None), "finish": (None,) * 5}
        for hook, where in (("absorb", "layer.set or a queue"), ("context", "layer.emit"), ("finish", "segment.set or a queue")):
            def call(result: str) -> None:
                cls = runtime.load({}, (("mine", "mine.py", hooks.format(hook, result), False),), "Mine", "mine")
                getattr(runtime, hook)(runtime.create(cls, SIZES)[0], segment, *calls[hook])

            call("None")
            with self.assertRaisesRegex(HostError, f"{hook} gives a Tensor: expected nothing; .* {where}") as caught:
                call("torch.zeros(2)")
            self.assertEqual(caught.exception.place, ("mine.py", 7))

    def test_parameters_that_the_host_does_not_own_are_refused(self) -> None:
        for setup, words in (
            ("self.net = torch.nn.Linear(2, 2)", "self.net holds a module with weight, .* declare it with s.module / s.parameter"),
            ("self.nets = [torch.nn.Sequential(torch.nn.Linear(2, 2))]", "self.nets holds a module with 0.weight"),
            ("self.nets = {'a': torch.nn.BatchNorm1d(2, affine=False)}", "self.nets holds a module with running_mean"),
            ("self.gate = torch.zeros(2, requires_grad=True)", "self.gate holds a tensor that requires a gradient"),
        ):
            with self.subTest(setup), self.assertRaisesRegex(HostError, words) as caught:
                self.run_with(setup=setup)
            self.assertEqual(caught.exception.place, ("mine.py", 8))
        self.run_with(setup="self.net = torch.nn.Linear(2, 2, device='meta'); self.mask = torch.ones(2)")


class Declarations(unittest.TestCase):
    def setUp(self) -> None:
        self.host = mock.Mock()
        self.s = Setup(self.host, SIZES)

    def test_sizes_are_those_of_the_backbone(self) -> None:
        s = self.s
        self.assertEqual((s.width, s.heads, s.head_width, s.layers, s.served, s.segment), (64, 4, 16, 2, (0, 1), 16))
        self.assertEqual((s.compute_dtype, s.is_pre_norm, s.is_evaluation, s.kv_heads), ("f64", True, False, 2))

    def test_words_that_are_no_choice_are_refused_with_the_choices(self) -> None:
        for call, words in (
            (lambda: self.s.slot("a", [3], scope="lyer"), "scope is 'lyer': expected one of layer, model"),
            (lambda: self.s.slot("a", [3], gradient="thru"), "gradient is 'thru': expected one of stop, through"),
            (lambda: self.s.slot("a", [3], normal(0, 1)), "random starts belong to parameters"),
            (lambda: self.s.slot("a", [3], "gate"), 'no parameter "gate" was declared in setup; declared: none'),
            (lambda: self.s.slot("a", ["B", 4]), "the shape of slot \"a\" is ['B', 4]: expected a list of whole numbers, such as ["),
            (lambda: self.s.slot("a", 64), 'the shape of slot "a" is 64: expected'),
            (lambda: self.s.slot("a", "64"), "the shape of slot \"a\" is '64': expected"),
            (lambda: self.s.parameter("b", [64 / 4]), 'the shape of parameter "b" is [16.0]: expected'),
            (lambda: self.s.queue("a", kind="keys"), "kind is 'keys': expected one of hidden, normed, keys_values"),
            (lambda: self.s.wants("read_w"), "an input is 'read_w': expected one of absorb_x"),
            (lambda: self.s.reads_at("head"), "site is 'head': expected one of heads, out"),
        ):
            with self.subTest(words), self.assertRaises(HostError) as caught:
                call()
            self.assertIn(words, str(caught.exception))

    def test_become_calls_of_the_host(self) -> None:
        self.host.add_parameter.return_value = 7
        self.s.parameter("gate", [64], constant(0.5), scope="model", lr_factor=2.0, group="none")
        self.host.add_parameter.assert_called_with("gate", 1, (64,), 1, 0.5, 0.0, 0.0, 0.0, 0.0, 0.0, 0, 2.0, "none")
        self.s.slot("mean", [-1, 64], "gate", gradient="through")
        self.host.add_slot.assert_called_with("mean", 0, 0, 1, 1, 0, 0, (-1, 64), 2, 7, 0.0)
        self.s.queue("past", kind="keys_values", keeps_mass=True, capacity=5)
        self.host.add_queue.assert_called_with("past", 0, 2, 2, 0, 0, 5)

    @unittest.skipUnless(HAS_TORCH, "this Python has no torch")
    def test_modules_begin_as_torch_begins_them_or_as_starts_says(self) -> None:
        import torch

        class Own(torch.nn.Linear):
            def reset_parameters(self) -> None:
                torch.nn.init.ones_(self.weight)

        class Derived(torch.nn.Linear):
            pass

        def fan_in(module: torch.nn.Module) -> int:
            self.s.module("net", module)
            return self.host.add_parameter.call_args_list[-1].args[10]

        with torch.device("meta"):
            self.assertEqual(fan_in(torch.nn.Bilinear(3, 5, 2)), 3)
            self.assertEqual(fan_in(Derived(7, 2)), 7)
            self.assertEqual(fan_in(torch.nn.Conv1d(4, 2, 3)), 12)
            self.assertEqual(fan_in(torch.nn.GRUCell(7, 5)), 5)
            self.assertEqual(fan_in(torch.nn.LSTM(7, 5)), 5)
            with self.assertRaisesRegex(HostError, "no start is known for weight of Own"):
                self.s.module("own", Own(3, 2))
            self.s.module("own", Own(3, 2), starts={"weight": constant(1.0), "bias": constant(0.0)})
            with self.assertRaisesRegex(HostError, "has no parameter wieght, .*: it has weight, bias"):
                self.s.module("own", Own(3, 2), starts={"wieght": constant(1.0)})
            with self.assertRaisesRegex(HostError, "weight of Embedding has padding_idx 0"):
                self.s.module("words", torch.nn.Embedding(4, 2, padding_idx=0))

    def test_traits_follow_from_hooks_and_calls(self) -> None:
        self.assertEqual(self.s._traits(lambda hook: hook == "absorb"), (0, 0, 2, 0, 0, 0, 0, 0, 0))
        self.s.reads_at("heads")
        self.s.wants("absorb_k", "read_q", "read_normed")
        self.s.absorbs_before_reading()
        self.s.context_rows(8)
        self.s.releases()
        self.assertEqual(self.s._traits(lambda hook: hook in ("absorb", "read", "ride")),
                         (3, (1 << 4) | (1 << 16) | (1 << 23), 1, 1, 8, 0, 0, 0, 0))
        self.s.replaces_attention(16, 32)
        self.assertEqual(self.s._traits(lambda hook: hook == "read"), (35, (1 << 4) | (1 << 16) | (1 << 23), 0, 1, 8, 0, 0, 16, 32))

    def test_what_is_no_rows_is_named_with_the_call(self) -> None:
        memory = types.SimpleNamespace(_host=self.host, _wants=0, _names=types.SimpleNamespace(queues={"past": 3}))
        layer = Layer(memory, (0, 0, 2, 4, 4, 1, 0, None, None, 0, 0), 0, None)
        past = layer.queue("past")
        for call, words in (
            (lambda: layer.emit([1.0]), "layer.emit got a list: expected the name of a queue or mneme.Rows; mneme.Rows.of_hidden"),
            (lambda: layer.release(None), "layer.release got a NoneType: expected mneme.Rows; "),
            (lambda: past.append(1.0), "queue.append got a float: expected mneme.Rows; "),
            (lambda: past.assign("past"), "queue.assign got a str: expected mneme.Rows; "),
            (lambda: past.append(Rows("keys")), "rows are of kind 'keys': expected one of hidden, normed, keys_values"),
        ):
            with self.subTest(words), self.assertRaises(HostError) as caught:
                call()
            self.assertIn(words, str(caught.exception))
        layer.emit("past")
        self.host.emit_block.assert_called_once_with(3, None, 0, None, None)
        past.append(Rows("hidden", 2, counts=[1, 2]))
        self.host.queue_append.assert_called_once_with(3, (0, 2, None, None, None, None, None, None, (1, 2)))

    def test_inputs_that_are_not_wanted_say_so(self) -> None:
        queries = Queries(types.SimpleNamespace(_wants=1 << 17), site="out", q=None, k=None)
        with self.assertRaisesRegex(HostError, r's\.wants\("read_q"\) in setup'):
            queries.q  # noqa: B018
        self.assertIsNone(queries.k)
        with self.assertRaisesRegex(AttributeError, "k is an input of the hook"):
            queries.k = 1


if __name__ == "__main__":
    unittest.main()
