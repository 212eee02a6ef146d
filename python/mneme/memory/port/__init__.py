"""A memory in Python as the beginning of its port: a plugin in C++ with the same declarations, whose hooks are not written."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from ..declaration import _line_of, _place_of, describe
from ..errors import MemoryFileError
from ..memory import Memory
from ..options import Option
from ..runtime import options_of
from . import source
from .declarations import Declaration, declarations_of
from .setups import MOST_ITEMS, Calls, TooLong, TooMany, explore, unanswered, variables_of
from .traced import follow_math, quoted

STAGES = {"begin": "1, begin", "context": "3, context", "ride": "5, ride", "read": "6, read", "finish": "8, finish"}


def port(path: Path, seconds: float = 0.0) -> dict[str, Any]:
    """The C++ source of the port of the memory in the file at `path`, and what is left to do. Errors: MemoryFileError.

    The import is that of `describe`. `setup` is called with many sizes and options."""
    path = path.absolute()
    said = describe(path, seconds)
    module = sys.modules[path.stem]
    cls: type[Memory] = getattr(module, said["class"])
    files = [Path(file["path"]) for file in said["files"]]
    for own in list(sys.modules.values()):
        if getattr(own, "__file__", None) and Path(str(own.__file__)) in files:
            follow_math(own)
    calls = Calls(cls, variables_of(cls))
    try:
        explore(calls)
    except TooMany:
        raise MemoryFileError(f"setup declares more than {MOST_ITEMS} parameters and slots with the options' defaults", str(path),
                              _line_of(cls.setup)) from None
    except TooLong:
        raise MemoryFileError("setup with the options' defaults does not end in a minute", str(path), _line_of(cls.setup)) from None
    error = calls.all[0].refused
    if error is not None and all(call.refused is not None for call in calls.all):
        raise MemoryFileError(f"setup fails with all values that were tried: {type(error).__name__}: {error}",
                              *_place_of(error, path))
    declarations = declarations_of(calls)
    todo: list[str] = []
    if calls.left_out > 0:
        todo.append(f"setup takes long: it was called {len(calls.all)} times alone, so declarations may be wrong for other values")
    for question in unanswered(calls.all, {str(file) for file in files}):
        todo.append(f"{Path(question.file).name}:{question.line}: not tried: {question.condition.statement} "
                    f"{'false' if question.answer else 'true'}")
    text = _Port(path, cls, files, said, declarations, todo).text()
    return {"revision": said["revision"], "id": said["id"], "class": said["class"], "source": text,
            "options": source.key_lines(options_of(cls)), "todo": todo, "hooks": said["hooks"]}


class _Port:
    """The C++ file of one memory. `todo` gets what its reader has to do besides the hooks."""

    def __init__(self, path: Path, cls: type[Memory], files: list[Path], said: dict[str, Any], declarations: list[Declaration],
                 todo: list[str]) -> None:
        self.path, self.cls, self.files, self.said, self.declarations, self.todo = path, cls, files, said, declarations, todo
        self.options: list[tuple[str, Option]] = options_of(cls)

    def text(self) -> str:
        others = self._others()
        kind = self._class()
        for one in self.declarations:
            if one.key[0] == "other":
                type_name = one.fields["type"].parts[0]
                article = "an" if type_name[:1].lower() in "aeiou" else "a"
                self.todo.append(f"self.{one.key[1]}, {article} {type_name} that setup makes")
            elif one.key[0] == "module":
                self.todo.append(f"module {one.key[1]}: its parameters are declared, its forward pass is to be written with ops")
        parts = [self._head(), *others, "namespace {\n", *kind, "}  // namespace\n",
                 "// A memory with kernels or random draws of its own lists their groups: MNEME_PLUGIN_WITH_FEATURES.\n"
                 f"MNEME_PLUGIN({self.cls.__name__}, {quoted(self.said['id'])}, {quoted(self.said['version'])})\n"]
        return "\n".join(parts)

    def _head(self) -> str:
        name = self.path.name
        lines = [f"// {self.path.stem}: the C++ form of {name}, begun by `mneme plugins port`. Declarations are those of the",
                 "// Python file. Each hook fails until it is ported; its Python source is above it."]
        if self.todo:
            lines += ["//", "// TODO, besides the hooks:", *(f"//   {one}" for one in self.todo)]
        includes = '#include "mneme/plugin.hpp"\n\n#include <cmath>\n#include <cstdint>\n#include <string>\n#include <vector>\n'
        return "\n".join([*lines, includes])

    def _others(self) -> list[str]:
        """Functions, constants and classes that are no hooks, as comments."""
        found = []
        for file in self.files:
            for name, text, line in source.other_parts(file, self.cls, {key for key, _ in self.options}):
                self.todo.append(f"{name} ({file.name}:{line}), which is no hook")
                found.append(f"// TODO: {file.name}:{line}\n{source.comment(text)}\n")
        return found

    def _class(self) -> list[str]:
        name = self.cls.__name__
        entries = [source.option_text(key, option, self.todo) for key, option in self.options]
        lines = [f"class {name} : public mneme::Tier {{", " public:"]
        if self.said["summary"]:
            lines += ["  static constexpr const char* kSummary =", f"      {quoted(self.said['summary'])};"]
        if entries:
            lines += ["  static constexpr auto kOptions = mneme::options(",
                      ",\n".join(source.line_of(entry, "      ") for entry in entries) + ");"]
        if self.said["losses"]:
            lines.append(f"  static constexpr const char* kLosses = {quoted('|'.join(self.said['losses']))};")
        lines += ["", *self._constructor(), *self._hooks()]
        return ["\n".join([*lines, *self._members(), "};\n"])]

    def _constructor(self) -> list[str]:
        text, _, _ = source.hook_source(self.cls, "setup")
        is_own = self.cls.setup is not Memory.setup
        lines = [source.comment(text, "  ")] if text and is_own else []
        body = source.body_of(self.declarations, self.todo)
        starts = [f"{key}_(s.{source.READERS.get(option.type, option.type)}({quoted(key)}))" for key, option in self.options]
        head = f"  explicit {self.cls.__name__}(mneme::Setup& {'s' if starts or body else '/*s*/'})"
        if starts:
            head += "\n      : " + ",\n        ".join(starts)
        return [*lines, *([head + " {", *body, "  }"] if body else [head + " {}"])]

    def _hooks(self) -> list[str]:
        lines = []
        for hook in self.said["hooks"]:
            text, file, line = source.hook_source(self.cls, hook)
            place = f"{file}:{line}" if text else self.path.name
            lines += ["", f"  // {self._stage(hook)}", *([source.comment(text, "  ")] if text else []),
                      f"  {source.HOOK_HEADS[hook]} override {{",
                      f"    mneme::fail(MNEME_E_UNSUPPORTED, {quoted(f'not ported yet: {hook} ({place})')});", "  }"]
        return lines

    def _stage(self, hook: str) -> str:
        wanted = [one.key[1] for one in self.declarations if one.key[0] == "want" and one.key[1].startswith(hook + "_")]
        stage = STAGES.get(hook) or self._absorbs()
        return f"Stage {stage}.{' Wants ' + ', '.join(wanted) + '.' if wanted else ''}"

    def _absorbs(self) -> str:
        found = [one for one in self.declarations if one.key == ("trait", "absorbs_before_reading")]
        if not found:
            return "7, absorb after the segment"
        return "2 or 7, as setup says" if found[0].terms or found[0].doubt else "2, absorb before reading"

    def _members(self) -> list[str]:
        lines = [f"  {source.OPTION_TYPES[option.type]} {key}_;" for key, option in self.options]
        known = {key for key, _ in self.options}
        for one in self.declarations:
            if one.key[0] == "member" and one.key[1] not in known:
                known.add(one.key[1])
                lines.append(f"  {source.member_type(one.fields['value'])} {source.member_name(one.key[1])}{{}};")
        return ["", " private:", *lines] if lines else []
