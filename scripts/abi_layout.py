#!/usr/bin/env python3
"""Writes down the layout of the ABI's C headers, as C that any compiler can hold other headers against.

    abi_layout.py INCLUDE OUTPUT

INCLUDE is the folder with mneme/plugin.h; the folder OUTPUT receives
    layout.c      static assertions on the size, alignment and every field of every struct, the value of every constant and
                  macro, and the type of every function; it compiles with headers that are compatible, and with no others
    type_probe.c  a library that uses every public type, which abidiff compares
clang parses the headers; a program that it compiles prints sizes, offsets and values. scripts/freeze_abi.sh calls this.
"""

import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path

# Macros that a later version may raise or change; layout.c treats each of them specially.
VERSION_MACROS = ("MNEME_ABI_MAJOR", "MNEME_ABI_MINOR", "MNEME_ABI_VERSION", "MNEME_SDK_VERSION")
# Macros that make values and are no values.
FUNCTION_MACROS = {"MNEME_ABI_MAKE": ("MNEME_ABI_MAKE(7, 9)", "UINT32_C(458761)"), "MNEME_INIT": None}

KIND = """#define KIND(x) \\
  _Generic((x), int32_t: "int32_t", uint32_t: "uint32_t", int64_t: "int64_t", uint64_t: "uint64_t", \\
           double: "double", char*: "text")
"""


class LayoutError(Exception):
    pass


def run(command, text=None):
    done = subprocess.run(command, input=text, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise LayoutError(f"{command[0]} failed with status {done.returncode}:\n{done.stderr.strip()}\n"
                          f"expected headers that clang compiles as C11")
    return done.stdout


class Headers:
    """What mneme/plugin.h declares: structs, typedefs, functions, constants and macros, in order."""

    def __init__(self, include):
        self.include = include
        self.flags = ["-std=c11", f"-I{include}"]
        text = '#include "mneme/plugin.h"\n'
        tree = json.loads(run(["clang", "-x", "c", *self.flags, "-fsyntax-only", "-Xclang", "-ast-dump=json", "-"], text))
        self.structs, self.typedefs, self.functions, self.constants = {}, {}, {}, []
        for node in tree["inner"]:
            self.read(node)
        self.macros, self.text_macros = [], []
        self.read_macros(text)
        if not self.structs or not self.functions:
            raise LayoutError(f"{include}/mneme/plugin.h declares no struct or no function: expected the ABI's headers")
        self.closed = self.read_closed()

    def read(self, node):
        kind, name = node["kind"], node.get("name", "")
        if kind == "EnumDecl":
            constants = [each["name"] for each in node.get("inner", []) if each["kind"] == "EnumConstantDecl"]
            self.constants += [each for each in constants if each.startswith("MNEME_")]
        elif not name.startswith("mneme_"):
            return
        elif kind == "RecordDecl" and node.get("completeDefinition"):
            fields = [each for each in node["inner"] if each["kind"] == "FieldDecl"]
            if any(each.get("isBitfield") or "name" not in each for each in fields):
                raise LayoutError(f"{name} has a bit-field or a field without a name: expected named fields of whole bytes")
            self.structs[name] = [(each["name"], each["type"]["qualType"]) for each in fields]
        elif kind == "TypedefDecl" and node["type"]["qualType"] != f"struct {name}":
            self.typedefs[name] = node["type"]["qualType"]
        elif kind == "FunctionDecl":
            self.functions[name] = node["type"]["qualType"]

    def read_macros(self, text):
        for line in run(["clang", "-x", "c", *self.flags, "-dM", "-E", "-"], text).splitlines():
            match = re.match(r"#define (MNEME_\w+)(\(?)[^ ]* ?(.*)", line)
            if not match or match[1].endswith("_H_"):
                continue
            if match[2]:
                if match[1] not in FUNCTION_MACROS:
                    raise LayoutError(f"the macro {match[1]} takes arguments: expected one of {', '.join(FUNCTION_MACROS)}; "
                                      f"say in {Path(__file__).name} what holds of it")
            elif match[1] not in VERSION_MACROS:
                self.macros.append(match[1])
        self.macros.sort()

    def read_closed(self):
        """Structs that may not grow: those without struct_size, and those that abi.h says lie in plain arrays."""
        comment = " ".join(re.sub(r"^ \*", "", line) for line in (self.include / "mneme/abi.h").read_text().splitlines())
        match = re.search(r"((?:mneme_\w+(?:, | and )?)+)\s+lie in plain arrays: their\s+layout is frozen", comment)
        if not match:
            raise LayoutError('abi.h does not say which structs "lie in plain arrays: their layout is frozen"')
        closed = set(re.findall(r"mneme_\w+", match[1]))
        closed |= {name for name, fields in self.structs.items() if fields[0][0] != "struct_size"}
        for name, fields in self.structs.items():
            for field, kind in fields[:-1]:
                if kind in self.structs and kind not in closed:
                    raise LayoutError(f"{name}.{field} holds a {kind}, which may grow: expected it as the last field, or a pointer")
        return closed

    def measure(self):
        """Lines of numbers from a program that includes the headers."""
        lines = ["#include <stdio.h>", '#include "mneme/plugin.h"', KIND, "int main(void) {"]
        for name, fields in self.structs.items():
            lines.append(f'  printf("size {name} %zu %zu\\n", sizeof({name}), _Alignof({name}));')
            lines += [f'  printf("offset {name}.{field} %zu\\n", offsetof({name}, {field}));' for field, _ in fields]
        for name in self.constants + self.macros:
            lines.append(f'  printf("kind {name} %s\\n", KIND({name}));')
        lines += ['  printf("major %u\\nminor %u\\n", MNEME_ABI_MAJOR, MNEME_ABI_MINOR);', "  return 0;", "}"]
        kinds = self.run_program("\n".join(lines))
        values = ["#include <inttypes.h>", "#include <stdio.h>", '#include "mneme/plugin.h"', "int main(void) {"]
        formats = {"int32_t": '%" PRId32 "', "uint32_t": '%" PRIu32 "', "int64_t": '%" PRId64 "', "uint64_t": '%" PRIu64 "',
                   "double": "%a", "text": "%s"}
        for name in self.constants + self.macros:
            values.append(f'  printf("{name} {formats[kinds["kind " + name][0]]}\\n", {name});')
        values += ["  return 0;", "}"]
        return kinds, self.run_program("\n".join(values))

    def run_program(self, text):
        with tempfile.TemporaryDirectory() as folder:
            program = str(Path(folder) / "measure")
            run(["clang", "-x", "c", *self.flags, "-o", program, "-"], text)
            found = {}
            for line in run([program]).splitlines():
                words = line.split(" ")
                split = 2 if words[0] in ("size", "offset", "kind") else 1
                found[" ".join(words[:split])] = words[split:]
            return found


def pointer_to(kind):
    """The type of a pointer to a `kind` as clang spells it."""
    if "(*)" in kind:
        return kind.replace("(*)", "(**)", 1)
    if kind.endswith("]"):
        at = kind.index("[")
        return f"{kind[:at]}(*){kind[at:]}"
    return f"{kind} *"


def literal(kind, value):
    macros = {"int32_t": "INT32_C", "uint32_t": "UINT32_C", "int64_t": "INT64_C", "uint64_t": "UINT64_C"}
    if kind == "double":
        return value
    return f"{macros[kind]}({value})"


LAYOUT_HEAD = """/* The layout of ABI {major}.{minor}. Written by scripts/freeze_abi.sh from the headers beside it; not edited by hand.
 *
 * It compiles with the headers of this version and with those of every later one of the same major version. Structs may
 * have grown at their end, unless they are marked as CLOSED. */
#include "mneme/plugin.h"

#define HAS_TYPE(expression, ...) _Generic((expression), __VA_ARGS__: 1, default: 0)
#define CLOSED(type, size, align)                                              \\
  _Static_assert(sizeof(type) == (size), #type " has another size");           \\
  _Static_assert(_Alignof(type) == (align), #type " has another alignment")
#define OPEN(type, size, align)                                                \\
  _Static_assert(sizeof(type) >= (size), #type " has become smaller");         \\
  _Static_assert(_Alignof(type) == (align), #type " has another alignment")
#define FIELD(type, field, offset, ...)                                                     \\
  _Static_assert(offsetof(type, field) == (offset), #type "." #field " has moved");         \\
  _Static_assert(HAS_TYPE(&((type*)0)->field, __VA_ARGS__), #type "." #field " has another type")
#define TYPE(type, ...) _Static_assert(HAS_TYPE((type*)0, __VA_ARGS__), #type " is another type")
#define FUNCTION(name, ...) _Static_assert(HAS_TYPE(&name, __VA_ARGS__), #name " is another function")
#define VALUE(name, kind, value)                                          \\
  _Static_assert((name) == (value), #name " has another value");          \\
  _Static_assert(HAS_TYPE((name), kind), #name " is of another type")

"""

VERSION_LINES = """/* ---- version ---- */
_Static_assert(MNEME_ABI_MAJOR == {major}, "another major version: it has no common layout with this one");
_Static_assert(MNEME_ABI_MINOR >= {minor}, "an older minor version");
_Static_assert(MNEME_ABI_VERSION == MNEME_ABI_MAKE(MNEME_ABI_MAJOR, MNEME_ABI_MINOR), "MNEME_ABI_VERSION");
"""


def layout_text(headers):
    kinds, values = headers.measure()
    version = {"major": kinds["major"][0], "minor": kinds["minor"][0]}
    parts = [LAYOUT_HEAD.format(**version), VERSION_LINES.format(**version)]
    for name, check in FUNCTION_MACROS.items():
        parts.append(f'#ifndef {name}\n#error "{name} is gone"\n#endif\n')
        if check:
            parts.append(f'_Static_assert(({check[0]}) == {check[1]}, "{name}");\n')
    parts.append("\n/* ---- types ---- */\n")
    parts += [f"TYPE({name}, {pointer_to(kind)});\n" for name, kind in headers.typedefs.items()]
    parts += [f"FUNCTION({name}, {kind.replace('(', '(*)(', 1)});\n" for name, kind in headers.functions.items()]
    parts.append("\n/* ---- structs ---- */\n")
    for name, fields in headers.structs.items():
        size, align = kinds[f"size {name}"]
        parts.append(f"{'CLOSED' if name in headers.closed else 'OPEN'}({name}, {size}, {align});\n")
        for field, kind in fields:
            parts.append(f"FIELD({name}, {field}, {kinds[f'offset {name}.{field}'][0]}, {pointer_to(kind)});\n")
    parts.append("\n/* ---- constants ---- */\n")
    texts = []
    for name in headers.constants + headers.macros:
        kind = kinds[f"kind {name}"][0]
        value = " ".join(values[name])
        if kind == "text":
            texts.append((name, value))
        else:
            parts.append(f"VALUE({name}, {kind}, {literal(kind, value)});\n")
    parts.append("\n/* ---- texts: a macro may be defined again with the same text alone ---- */\n")
    for name, value in texts:
        parts.append(f'#ifndef {name}\n#error "{name} is gone"\n#endif\n#define {name} {json.dumps(value)}\n')
    return "".join(parts)


PROBE_HEAD = """/* A library that uses every public type of ABI VERSION, for abidiff. Written by scripts/freeze_abi.sh; not edited by hand. */
#include "mneme/plugin.h"

#define PROBE(type)              \\
  void probe_##type(type* value); \\
  void probe_##type(type* value) { (void)value; }

"""


def probe_text(headers, version):
    names = list(headers.typedefs) + list(headers.structs)
    return PROBE_HEAD.replace("VERSION", version) + "".join(f"PROBE({name})\n" for name in names)


def main(arguments):
    if len(arguments) != 2:
        print("usage: abi_layout.py INCLUDE OUTPUT", file=sys.stderr)
        return 2
    include, output = Path(arguments[0]), Path(arguments[1])
    try:
        headers = Headers(include)
        text = layout_text(headers)
        version = re.search(r"ABI (\S+)\.", text)[1]
        (output / "layout.c").write_text(text)
        (output / "type_probe.c").write_text(probe_text(headers, version))
    except (LayoutError, OSError) as error:
        print(f"error: abi_layout.py: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
