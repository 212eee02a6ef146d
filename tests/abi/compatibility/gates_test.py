#!/usr/bin/env python3
"""gates_test.py ROOT: the gates of gates.sh and header_rules.sh can fail.

Changes copies of the headers of the newest ABI version that today's headers have to agree with, one change at a time, and
runs the gates on each. Every incompatible change must turn a gate red, and every compatible one must leave all of them green.
"""

import concurrent.futures
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

GATES = ("layout", "types", "new_plugin", "old_plugin", "rules")


class Header:
    """The text of one header, changed by finding what is there; what is not found is an error."""

    def __init__(self, text):
        self.text = text

    def replace(self, old, new):
        if self.text.count(old) != 1:
            raise ValueError(f"{old!r} stands {self.text.count(old)} times in the header, expected once")
        self.text = self.text.replace(old, new)

    def span(self, struct):
        match = re.search(rf"typedef struct {struct} {{\n(.*?)^}} {struct};", self.text, re.S | re.M)
        if not match:
            raise ValueError(f"the header has no struct {struct}")
        return match.span(1)

    def members(self, struct):
        """Texts of the members, with the comments before them; a member ends with the line of its semicolon."""
        start, end = self.span(struct)
        found, member, comment = [], "", False
        for line in self.text[start:end].splitlines(keepends=True):
            member += line
            comment = line.rfind("/*") > line.rfind("*/") if "/*" in line or "*/" in line else comment
            code = re.sub(r"/\*.*?(\*/|$)", "", line).rstrip()
            if code.endswith(";") and not re.match(r"^\s*\*|^\s*/\*", line):
                found.append(member)
                member = ""
        if member.strip():
            found[-1] += member
        return found

    def set_members(self, struct, members):
        start, end = self.span(struct)
        self.text = self.text[:start] + "".join(members) + self.text[end:]

    def place(self, struct, name):
        for place, member in enumerate(self.members(struct)):
            code = re.sub(r"/\*.*?(\*/|$)", "", member, flags=re.S)
            if re.search(rf"(\(\*{name}\)|\b{name}(\[[A-Z_0-9]+\])?;)", code):
                return place
        raise ValueError(f"{struct} has no member {name}")

    def insert(self, struct, before, text):
        members = self.members(struct)
        members.insert(self.place(struct, before), text)
        self.set_members(struct, members)

    def append(self, struct, text):
        self.set_members(struct, self.members(struct) + [text])

    def remove(self, struct, name):
        members = self.members(struct)
        del members[self.place(struct, name)]
        self.set_members(struct, members)

    def swap(self, struct, one, other):
        members = self.members(struct)
        first, second = self.place(struct, one), self.place(struct, other)
        members[first], members[second] = members[second], members[first]
        self.set_members(struct, members)

    def change_member(self, struct, name, old, new):
        members = self.members(struct)
        place = self.place(struct, name)
        if old not in members[place]:
            raise ValueError(f"{struct}.{name} does not hold {old!r}")
        members[place] = members[place].replace(old, new, 1)
        self.set_members(struct, members)

    def swap_words(self, one, other):
        self.text = re.sub(rf"\b({one}|{other})\b(?= = )", lambda found: other if found[1] == one else one, self.text)


FUNCTION = "  mneme_status (*added)(mneme_ctx* ctx, mneme_error* error);\n"

# What an old plugin or an old host cannot work with: words, header, change, and the gates that see it. To keep the test short
# a gate is run on some of the changes that it sees.
INCOMPATIBLE = [
    ("a field in the middle of a struct", "plugin.h", lambda h: h.insert("mneme_segment", "length", "  int64_t added;\n"),
     "layout types"),
    ("a field that is gone", "state.h", lambda h: h.remove("mneme_rows", "mass"),
     "layout"),
    ("two fields of one type swapped", "plugin.h", lambda h: h.swap("mneme_absorb", "k", "v"),
     "layout types"),
    ("two fields of two types swapped", "config.h", lambda h: h.swap("mneme_option", "key", "min_integer"),
     "layout new_plugin"),
    ("a field that is narrower", "plugin.h",
     lambda h: h.change_member("mneme_segment", "lanes", "int64_t lanes;", "int32_t lanes;\n  uint32_t reserved;"),
     "layout"),
    ("a field of another type and the same size", "layer.h",
     lambda h: h.change_member("mneme_attention", "scale", "double", "int64_t"),
     "layout"),
    ("a pointer to another type", "kernel.h",
     lambda h: h.change_member("mneme_kernel_call", "integers", "const int64_t*", "const uint64_t*"),
     "layout types"),
    ("two constants with their values swapped", "plugin.h", lambda h: h.swap_words("MNEME_MERGE_ADD", "MNEME_MERGE_GATE"),
     "layout new_plugin"),
    ("a constant with another value", "abi.h", lambda h: h.replace("MNEME_F64 = 4", "MNEME_F64 = 8"),
     "layout"),
    ("the value of a constant given to another one", "state.h",
     lambda h: h.replace("MNEME_ROWS_NORMED = 1,", "MNEME_ROWS_ADDED = 1, MNEME_ROWS_NORMED = 1,"),
     "rules"),
    ("the bit of a flag given to another one", "plugin.h",
     lambda h: h.replace("#define MNEME_TIER_RIDERS 2u", "#define MNEME_TIER_ADDED 2u\n#define MNEME_TIER_RIDERS 2u"),
     "rules"),
    ("a flag with another bit", "state.h",
     lambda h: h.replace("#define MNEME_SLOT_COUNTS 1u", "#define MNEME_SLOT_COUNTS 2u"),
     "layout old_plugin"),
    ("a limit with another value", "abi.h", lambda h: h.replace("#define MNEME_MAX_RANK 8", "#define MNEME_MAX_RANK 6"),
     "layout"),
    ("a function in the middle of a group", "state.h", lambda h: h.insert("mneme_state_api", "slot_get", FUNCTION),
     "layout types old_plugin"),
    ("a function that is gone", "tensor.h", lambda h: h.remove("mneme_tensor_api", "retain"),
     "layout"),
    ("two functions of one type swapped", "report.h", lambda h: h.swap("mneme_report_api", "aux", "metric"),
     "layout new_plugin"),
    ("a function with one more parameter", "tensor.h",
     lambda h: h.change_member("mneme_tensor_api", "shape", "mneme_tensor t,", "mneme_tensor t, uint32_t flags,"),
     "layout types"),
    ("a function with another result", "log.h", lambda h: h.change_member("mneme_log_api", "write", "void (*", "mneme_status (*"),
     "layout"),
    ("two hooks swapped", "plugin.h", lambda h: h.swap("mneme_plugin", "begin", "finish"),
     "layout old_plugin"),
    ("another entry function", "plugin.h",
     lambda h: h.replace("mneme_status mneme_negotiate_v1(const mneme_host_offer* offer,", "void mneme_negotiate_v1(const mneme_host_offer* offer,"),
     "layout"),
    ("a group with another id", "op.h", lambda h: h.replace('_OP "mneme.op/1"', '_OP "mneme.op/2"'),
     "layout old_plugin"),
    ("a struct without its struct_size", "plugin.h",
     lambda h: h.change_member("mneme_riders", "struct_size", "struct_size", "revision"),
     "layout rules"),
    ("the first two fields swapped", "plugin.h", lambda h: h.swap("mneme_read", "struct_size", "flags"),
     "layout rules"),
    ("a longer text in the note", "note.h", lambda h: h.change_member("mneme_note", "id", "id[96]", "id[128]"),
     "layout"),
    ("a field more in a struct of plain arrays", "op.h", lambda h: h.append("mneme_attr", "  int64_t added;\n"),
     "layout types"),
    ("a struct of another alignment", "plugin.h",
     lambda h: h.change_member("mneme_context", "struct_size", "uint32_t", "_Alignas(32) uint32_t"),
     "layout"),
    ("a wider handle", "op.h", lambda h: h.replace("typedef uint32_t mneme_op;", "typedef uint64_t mneme_op;"),
     "layout"),
    ("a callback with one more parameter", "parallel.h",
     lambda h: h.replace("(void* user, int64_t begin, int64_t end);", "(void* user, int64_t begin, int64_t end, uint32_t thread);"),
     "layout"),
    ("a bool", "plugin.h", lambda h: h.append("mneme_finish", "  _Bool added;\n"),
     "rules"),
]


def add_group(header):
    header.replace("#ifdef __cplusplus\n}\n#endif\n#endif /*",
                   "typedef struct mneme_added_api {\n  uint32_t struct_size;\n  uint32_t flags;\n" + FUNCTION +
                   '} mneme_added_api;\n#define MNEME_GROUP_ADDED "mneme.added/1"\n\n#ifdef __cplusplus\n}\n#endif\n#endif /*')


# What a minor version may do.
COMPATIBLE = [
    ("nothing", "abi.h", lambda h: None),
    ("other words in a comment", "abi.h", lambda h: h.replace("The headers of this folder", "The files of this folder")),
    ("a field at the end of a struct that the host fills", "plugin.h", lambda h: h.append("mneme_segment", "  int64_t added;\n")),
    ("a field at the end of a struct that the plugin fills", "plugin.h", lambda h: h.append("mneme_read", "  mneme_tensor added;\n")),
    ("a field at the end of a declaration", "state.h", lambda h: h.append("mneme_slot_decl", "  int64_t added;\n")),
    ("a hook at the end of the plugin's table", "plugin.h", lambda h: h.append("mneme_plugin", FUNCTION)),
    ("a function at the end of a group", "layer.h", lambda h: h.append("mneme_layer_api", FUNCTION)),
    ("a new constant and a new flag", "plugin.h",
     lambda h: (h.replace("MNEME_MERGE_REPLACE = 4", "MNEME_MERGE_REPLACE = 4,\n  MNEME_MERGE_ADDED = 5"),
                h.replace("#define MNEME_TIER_RIDERS 2u", "#define MNEME_TIER_RIDERS 2u\n#define MNEME_TIER_ADDED 4096u"))),
    ("a new group", "random.h", add_group),
]


class Gates:
    def __init__(self, root, work):
        self.root, self.work = root, work
        self.skipped = set()
        version = self.version()
        self.frozen = root / "sdk/abi" / version
        if not self.frozen.is_dir():
            raise SystemExit(f"FAIL: {self.frozen} does not exist: run scripts/freeze_abi.sh {version}")
        compiler = next((name for name in ("gcc", "clang") if shutil.which(name)), None)
        if not compiler:
            raise SystemExit("FAIL: no gcc and no clang was found; scripts/setup.sh installs them")
        self.environment = dict(os.environ, MNEME_GATE_COMPILERS=compiler, MNEME_MINI_HOSTS=str(work))

    def version(self):
        """The ABI version of today's headers."""
        text = (self.root / "sdk/include/mneme/abi.h").read_text()
        return ".".join(re.search(rf"#define MNEME_ABI_{part} (\d+)u", text)[1] for part in ("MAJOR", "MINOR"))

    def run(self, gate, include):
        """What a red gate says; None of a green one."""
        script = ["sh", str(self.root / "tests/abi/compatibility/gates.sh"), gate, str(self.root), str(include)]
        if gate == "rules":
            script = ["sh", str(self.root / "tests/structure/header_rules.sh"), str(include)]
        done = subprocess.run(script, capture_output=True, text=True, check=False, env=self.environment)
        if done.returncode == 77:
            self.skipped.add(gate)
            return None
        return done.stdout + done.stderr if done.returncode else None

    def changed(self, name, changes):
        """A folder of headers with these changes."""
        include = self.work / name
        shutil.copytree(self.frozen / "mneme", include / "mneme")
        for header, change in changes:
            path = include / "mneme" / header
            text = Header(path.read_text())
            change(text)
            path.write_text(text.text)
        return include

    def red(self, name, changes, gates):
        """Of some gates those that are red, with what they say."""
        include = self.changed(name, changes)
        said = {gate: self.run(gate, include) for gate in gates}
        return {gate: text for gate, text in said.items() if text is not None}


def check_compatible(gates):
    """The changes one by one with the fastest gate, and all together with every gate. Returns the number of failures."""
    cases = [(words, [(header, change)], ("layout",)) for words, header, change in COMPATIBLE]
    cases.append(("all of these", [(header, change) for _, header, change in COMPATIBLE], GATES))
    failures = 0
    print("compatible changes: no gate is red")
    for number, (words, changes, run) in enumerate(cases):
        red = gates.red(f"compatible{number}", changes, run)
        print(f"  {words}: {', '.join(run)} {'RED' if red else 'green'}")
        for gate, said in red.items():
            failures += 1
            print(f"FAIL: {gate} is red:\n{said}")
    return failures


def check_incompatible(gates):
    """Returns the number of failures."""
    failures = caught = 0
    print("incompatible changes, and gates that are red")
    with concurrent.futures.ThreadPoolExecutor(max_workers=2) as pool:
        jobs = [pool.submit(gates.red, f"incompatible{number}", [(header, change)], run.split())
                for number, (_, header, change, run) in enumerate(INCOMPATIBLE)]
        for (words, _, _, run), job in zip(INCOMPATIBLE, jobs):
            red = job.result()
            print(f"  {words}: {', '.join(red) or 'NONE'}")
            caught += bool(red)
            for gate in set(run.split()) - set(red) - gates.skipped:
                failures += 1
                print(f"FAIL: {gate} is green, expected it to be red")
    for gate in sorted(gates.skipped):
        print(f"the gate {gate} was skipped: it cannot be run here")
    print(f"{caught} of {len(INCOMPATIBLE)} incompatible changes are caught")
    return failures + len(INCOMPATIBLE) - caught


def main(arguments):
    if len(arguments) != 1:
        print("usage: gates_test.py ROOT", file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory() as folder:
        gates = Gates(Path(arguments[0]).resolve(), Path(folder))
        failures = check_compatible(gates)
        failures += check_incompatible(gates)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
