"""The declaration of a memory: what `python -m mneme.memory describe` says, and what it refuses. No torch is needed."""

import hashlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

PYTHON = Path(__file__).resolve().parents[2]

MEMORY = """\
import mneme.memory as mneme


class Decay(mneme.Memory):
    id = "org.example.decay"
    version = "1.2.0"
    summary = "decays"
    losses = ["size", "gate"]
    decay = mneme.real(0.9, 0.0, 1.0, "weight of the past", trained=True)
    rows = mneme.integer(mneme.REQUIRED, 1, mneme.UNLIMITED, "rows that are kept", at_evaluation=True)
    mode = mneme.choice("mean", "mean|max", "how rows are joined")
    scales = mneme.reals([1, 0.5], "scales")

    def absorb(self, layer, rows):
        pass
"""


class Declaration(unittest.TestCase):
    def setUp(self) -> None:
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.path = Path(self.folder.name).resolve() / "my_memory.py"

    def run_describe(self, text: str, *more: str) -> "subprocess.CompletedProcess[str]":
        self.path.write_text(text)
        environment = {**os.environ, "PYTHONPATH": str(PYTHON)}
        return subprocess.run([sys.executable, "-B", "-m", "mneme.memory", "describe", str(self.path), *more],
                              capture_output=True, text=True, check=False, env=environment)

    def describe(self, text: str) -> dict:
        done = self.run_describe(text)
        answer = json.loads(done.stdout)
        self.assertEqual(done.returncode, 1 if "error" in answer else 0, done.stderr)
        return answer

    def refuse(self, text: str, message: str, line: int = 0, file: str = "my_memory.py") -> None:
        error = self.describe(text)["error"]
        self.assertIn(message, error["message"])
        self.assertEqual(error["line"], line, error)
        self.assertEqual(Path(error["file"]).name, file)

    def test_the_import_of_torch_takes_no_time_of_the_file(self) -> None:
        (self.path.parent / "torch.py").write_text("import time\ntime.sleep(1.5)\n")
        self.assertEqual(self.run_describe("import torch\n" + MEMORY, "1").returncode, 0)
        self.assertEqual(self.run_describe(MEMORY + "import torch\nimport time\ntime.sleep(600)\n", "1").returncode,
                         -signal.SIGALRM)

    def test_a_name_that_hides_a_module_is_said_where_an_import_fails(self) -> None:
        self.path = self.path.with_name("queue.py")
        hides = "; the file hides the module queue from what it imports: rename it, as queue_memory.py"
        self.refuse("from queue import Queue\n" + MEMORY, "ImportError: cannot import name 'Queue' from 'queue'", 1, "queue.py")
        self.refuse("from queue import Queue\n" + MEMORY, hides, 1, "queue.py")
        self.assertNotIn("error", self.describe(MEMORY))

    def test_names_options_hooks_and_losses(self) -> None:
        said = self.describe(MEMORY)
        self.assertEqual((said["revision"], said["id"], said["version"]), (1, "org.example.decay", "1.2.0"))
        self.assertEqual((said["class"], said["summary"]), ("Decay", "decays"))
        self.assertEqual((said["hooks"], said["losses"]), (["absorb"], ["size", "gate"]))
        options = {option["key"]: option for option in said["options"]}
        self.assertEqual(list(options), ["decay", "rows", "mode", "scales"])
        self.assertEqual((options["decay"]["type"], options["decay"]["default"]), ("real", 0.9))
        self.assertEqual((options["decay"]["low"], options["decay"]["high"], options["decay"]["trained"]), (0.0, 1.0, True))
        self.assertEqual((options["rows"]["default"], options["rows"]["required"]), (None, True))
        self.assertEqual((options["rows"]["low"], options["rows"]["high"], options["rows"]["at_evaluation"]), (1, None, True))
        self.assertEqual(options["mode"]["choices"], ["mean", "max"])
        self.assertEqual(options["scales"]["default"], [1, 0.5])
        self.assertEqual([(file["module"], file["name"]) for file in said["files"]], [("my_memory", "my_memory.py")])

    def test_packs_the_modules_beside_it_and_no_others(self) -> None:
        (self.path.parent / "parts").mkdir()
        (self.path.parent / "parts" / "__init__.py").write_text("")
        (self.path.parent / "parts" / "deep.py").write_text("HALF = 0.5\n")
        (self.path.parent / "unused.py").write_text("")
        files = self.describe("import json\nfrom parts import deep\n" + MEMORY)["files"]
        self.assertEqual([(file["module"], file["name"], file["is_package"]) for file in files],
                         [("my_memory", "my_memory.py", False), ("parts", "parts/__init__.py", True),
                          ("parts.deep", "parts/deep.py", False)])

    def test_packages_of_another_environment_are_installed_ones(self) -> None:
        packages = self.path.parent / "site-packages"
        packages.mkdir()
        (packages / "installed.py").write_text("")
        (self.path.parent / "own.py").write_text("")
        files = self.describe(f"import sys\nsys.path.append({str(packages)!r})\nimport installed\nimport own\n" + MEMORY)["files"]
        self.assertEqual([file["module"] for file in files], ["my_memory", "own"])

    def test_checksums_are_of_the_text_that_was_imported(self) -> None:
        helper = "open(__file__, 'a').write('# an editor was here')\n"
        (self.path.parent / "helper.py").write_text(helper)
        files = self.describe("import helper\n" + MEMORY)["files"]
        self.assertEqual([file["sha256"] for file in files],
                         [hashlib.sha256(text.encode()).hexdigest() for text in ("import helper\n" + MEMORY, helper)])

    def test_modules_that_are_not_there_yet_are_named(self) -> None:
        text = "try:\n    import made_later\nexcept ImportError:\n    pass\n" + MEMORY
        self.assertIn("made_later", self.describe(text)["missing"])
        (self.path.parent / "made_later.py").write_text("")
        said = self.describe(text)
        self.assertNotIn("made_later", said["missing"])
        self.assertEqual([file["module"] for file in said["files"]], ["my_memory", "made_later"])

    def test_ends_with_the_program_that_asks(self) -> None:
        self.path.write_text(f"open({str(self.path)!r} + '.here', 'w').close()\nimport time\ntime.sleep(600)\n")
        asks = ("import os, subprocess, sys\nchild = subprocess.Popen([sys.executable, '-B', '-m', 'mneme.memory', 'describe', "
                f"{str(self.path)!r}], env={{**os.environ, 'MNEME_PARENT': str(os.getpid())}})\nprint(child.pid, flush=True)\nchild.wait()\n")
        with subprocess.Popen([sys.executable, "-c", asks], stdout=subprocess.PIPE, text=True,
                              env={**os.environ, "PYTHONPATH": str(PYTHON)}) as parent:
            assert parent.stdout is not None
            child = int(parent.stdout.readline())
            self.wait_for(Path(f"{self.path}.here").exists)
            parent.kill()
        self.wait_for(lambda: not self.runs(child))

    @staticmethod
    def runs(process: int) -> bool:
        try:
            return ") Z " not in Path(f"/proc/{process}/stat").read_text()
        except FileNotFoundError:
            return False

    def wait_for(self, condition) -> None:
        end = time.monotonic() + 60
        while not condition():
            self.assertLess(time.monotonic(), end)
            time.sleep(0.05)

    def test_modules_beside_it_do_not_take_the_place_of_what_describe_needs(self) -> None:
        (self.path.parent / "email.py").write_text("raise RuntimeError('of the folder')\n")
        (self.path.parent / "csv.py").write_text("raise RuntimeError('of the folder')\n")
        self.assertEqual(self.describe(MEMORY)["id"], "org.example.decay")

    def test_what_a_file_prints_is_no_part_of_the_answer(self) -> None:
        self.assertEqual(self.describe("print('{')\nimport os\nos.write(1, b'[')\n" + MEMORY)["id"], "org.example.decay")

    def test_a_base_class_is_a_part_of_the_memory(self) -> None:
        said = self.describe(MEMORY + "\n\nclass More(Decay):\n    decay = mneme.real(0.5, 0.0, 1.0, 'other')\n")
        self.assertEqual(said["class"], "More")
        self.assertEqual({option["key"]: option["default"] for option in said["options"]}["decay"], 0.5)

    def test_refuses_files_that_are_no_memory(self) -> None:
        self.refuse("x = 1\n", "has no memory: expected one class that derives from mneme.Memory")
        self.refuse("import mneme.memory as mneme\nclass A(\n", "SyntaxError: ", 2)
        self.refuse("x = 1\nraise ValueError('no')\n", "ValueError: no", 2)
        self.refuse("import sys\nsys.exit(0)\n", "SystemExit: 0", 2)
        self.refuse("import no_such_module\n", "ModuleNotFoundError: No module named 'no_such_module'", 1)
        two = MEMORY + "\n\nclass Other(mneme.Memory):\n    id = 'b'\n    def absorb(self, layer, rows): pass\n"
        self.refuse(two, "has 2 memories, Decay (line 4), Other (line 18): expected one class a file", 18)

    def test_refuses_a_module_that_fails_with_its_own_line(self) -> None:
        (self.path.parent / "helper.py").write_text("\n\n1 / 0\n")
        self.refuse("import helper\n" + MEMORY, "ZeroDivisionError", 3, "helper.py")

    def test_refuses_a_module_that_every_user_may_write_before_it_runs(self) -> None:
        ran = self.path.parent / "ran"
        folder = self.path.parent / "parts"
        folder.mkdir()
        for name in ("helper.py", "parts/deep.py"):
            (self.path.parent / name).write_text(f"open({str(ran)!r}, 'w').close()\n")
        (self.path.parent / "helper.py").chmod(0o666)
        self.refuse("import helper\n" + MEMORY, "refused: every user of this machine may write this file", 0, "helper.py")
        folder.chmod(0o777)
        self.refuse("import parts.deep\n" + MEMORY, "refused: every user of this machine may replace files in ", 0, "deep.py")
        self.assertFalse(ran.exists())

    def test_refuses_declarations_that_the_program_would_not_take(self) -> None:
        def changed(old: str, new: str) -> str:
            self.assertIn(old, MEMORY)
            return MEMORY.replace(old, new)

        self.refuse(changed('id = "org.example.decay"', 'id = "my decay"'), 'Decay.id is "my decay": expected letters', 4)
        self.refuse(changed('    id = "org.example.decay"\n', ""), 'Decay.id is ""', 4)
        self.refuse(changed('version = "1.2.0"', "version = 1.2"), "Decay.version is no text: 1.2", 4)
        self.refuse(changed('losses = ["size", "gate"]', 'losses = "size"'), "Decay.losses is a text: expected a list", 4)
        self.refuse(changed("mode = mneme", "setup = mneme"), "the option setup has the name of a hook", 4)
        self.refuse(changed("mode = mneme", "has = mneme"), "the option has has a name that mneme.Memory uses", 4)
        self.refuse(changed("mode = mneme", "Mode = mneme"), "the option Mode: expected small letters, digits and _", 4)
        self.refuse(changed("        pass\n", "        yield\n"), "the hook absorb is a generator or async", 14)
        self.refuse(changed("    def absorb", "    async def absorb"), "the hook absorb is a generator or async", 14)
        self.refuse(changed("    def absorb(self, layer, rows):\n        pass\n", "    absorb = 3\n"),
                    "Decay.absorb is no function", 4)
        self.refuse(changed("    def absorb", "    def keep"), "Decay has no hook: expected one of begin, absorb", 4)
        self.refuse(changed("real(0.9, 0.0", "real(0.9, 0.95"), "ValueError: the default 0.9 is not from 0.95 to 1.0", 9)
        self.refuse(changed('choice("mean"', 'choice("sum"'), "the default 'sum' is none of the choices mean, max", 11)
        self.refuse(changed("reals([1, 0.5]", "integers([1, 0.5]"), "a default of type integers was expected, got 0.5", 12)
        self.refuse(changed("real(0.9, 0.0, 1.0", "real(float('inf'), 0.0, mneme.UNLIMITED"), "the default inf is not finite", 9)
        self.refuse(changed("reals([1, 0.5]", "reals([1, float('nan')]"), "the default nan is not finite", 12)
        self.refuse(changed("mneme.REQUIRED, 1", "mneme.REQUIRED, -2**63 - 1"), "the bound -9223372036854775809 does not fit into 64 bits", 10)
        self.refuse(changed("mneme.REQUIRED, 1", "2**63, 1"), "the default 9223372036854775808 does not fit into 64 bits", 10)
        self.refuse(changed("at_evaluation=True", "at_evaluation=True, trained=True"), "either at_evaluation or trained", 10)

    def test_refuses_functions_that_nobody_would_call(self) -> None:
        more = MEMORY + "\n    def {}(self, layer):\n        pass\n"
        for name, hook in (("contxt", "context"), ("Context", "context"), ("set_up", "setup"), ("reads", "read")):
            self.refuse(more.format(name), f"Decay.{name} is no hook (did you mean {hook}?): name a function of your own "
                                           f"otherwise, such as _{name}", 17)
        # `absorb` is there, and the others are not like a hook's name.
        for name in ("absorbs", "_reads", "reader", "write", "thread", "reset", "has_context"):
            self.assertEqual(self.describe(more.format(name))["hooks"], ["absorb"], name)
        self.refuse("class Part:\n    def absorbed(self):\n        pass\n"
                    + MEMORY.replace("(mneme.Memory)", "(Part, mneme.Memory)").replace("def absorb", "def read").replace(
                        ", rows)", ", queries)"), "Decay.absorbed is no hook (did you mean absorb?)", 2)

    def test_takes_functions_of_an_author_that_hooks_call(self) -> None:
        for name in ("finished", "contexts", "reads"):
            used = MEMORY.replace("        pass\n", f"        [self.{name}() for row in (rows,)]\n")
            own = f"\n    def {name}(self):\n        return 1\n"
            self.assertEqual(self.describe(used + own)["hooks"], ["absorb"], name)
            self.refuse(MEMORY + own.replace("1", f"self.{name}()"), f"Decay.{name} is no hook", 17)

    def test_refuses_hooks_with_other_parameters(self) -> None:
        given = "(self, layer, rows)"
        for other in ("(self, rows)", "(self)", "(self, layer, rows, more)", "(self, layer, *, rows)"):
            names = other.replace("*, ", "")
            self.refuse(MEMORY.replace(given, other), f"the hook absorb has the parameters {names}: expected {given}", 14)
        self.refuse(MEMORY + "\n    def setup(self):\n        pass\n", "the hook setup has the parameters (self): expected (self, s)", 17)
        for other in ("(self, at, what)", "(self, *all)", "(self, layer, rows, more=1)"):
            self.assertEqual(self.describe(MEMORY.replace(given, other))["hooks"], ["absorb"], other)


if __name__ == "__main__":
    unittest.main()
