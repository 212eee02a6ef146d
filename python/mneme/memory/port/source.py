"""The C++ of a port: declarations, and hooks that fail until they are written."""

from __future__ import annotations

import ast
import inspect
import itertools
import json
import unicodedata
from pathlib import Path
from typing import Any, Iterable, Iterator

from ..memory import HOOKS, Memory
from ..options import Option, Required
from .declarations import Declaration
from .traced import Expression, literal, quoted

WIDTH = 100

HOOK_HEADS = {
    "begin": "mneme::Riders begin(mneme::Segment& /*segment*/)",
    "absorb": "void absorb(mneme::Layer& /*layer*/, const mneme::Rows& /*rows*/)",
    "context": "void context(mneme::Layer& /*layer*/)",
    "ride": "mneme::Tensor ride(mneme::Layer& /*layer*/, const mneme::Ride& /*ride*/)",
    "read": "mneme::Read read(mneme::Layer& /*layer*/, const mneme::Queries& /*queries*/)",
    "finish": "void finish(mneme::Segment& /*segment*/, const mneme::Finish& /*finish*/)",
}
STARTS = ("zeros", "constant_value", "normal", "uniform", "xavier_uniform", "fan_in_uniform")
"""By rule."""
KINDS = ("kHidden", "kNormed", "kKeysValues")
SCOPES = ("kLayer", "kModel")
DTYPE_NAMES = ("", "kF32", "kBF16", "kF16", "kF64", "kI32", "kI64", "kBool")
ORDER = ("refusal", "parameter", "slot", "counts", "queue", "rows", "widths", "trait", "site", "want", "member")


def line_of(text: str, begin: str = "") -> str:
    """The text, indented as `begin` is, broken behind commas where it is longer than a line."""
    lines = []
    while len(begin + text) > WIDTH:
        cuts = [cut for cut in _commas(text) if cut[0] < WIDTH - len(begin)]
        if not cuts:
            break
        outer = min(depth for _, depth in cuts)
        cut = max(place for place, depth in cuts if depth == outer)
        lines.append(begin + text[:cut + 1])
        begin, text = begin if len(lines) > 1 else begin + "    ", text[cut + 2:]
    return "\n".join([*lines, begin + text])


def _commas(text: str) -> list[tuple[int, int]]:
    """Places of the commas outside of literals, with the number of open brackets."""
    found, depth, in_text, is_escaped = [], 0, False, False
    for place, c in enumerate(text):
        if in_text:
            in_text, is_escaped = c != '"' or is_escaped, c == "\\" and not is_escaped
        elif c == '"':
            in_text = True
        elif c in "([{":
            depth += 1
        elif c in ")]}":
            depth -= 1
        elif text.startswith(", ", place):
            found.append((place, depth))
    return found


def comment(text: str, begin: str = "") -> str:
    """Lines of Python as lines of a comment."""
    lines = []
    indent = len(text) - len(text.lstrip(" "))
    for line in text.rstrip().splitlines():
        line = line[min(indent, len(line) - len(line.lstrip(" "))):]
        plain = "".join(f"\\u{ord(c):04x}" if unicodedata.category(c) == "Cf" else c for c in line.expandtabs(4).rstrip())
        # A backslash at its end would make the next line a part of it, which compilers warn of.
        lines.append(f"{begin}// {plain}".rstrip() + (" ." if plain.endswith("\\") else ""))
    return "\n".join(lines)


# ---- options ----


def option_text(key: str, option: Option, todo: list[str]) -> str:
    """An entry of kOptions."""
    parts = [quoted(key), "mneme::kRequired"]
    if not isinstance(option.default, Required):
        parts[1] = _default_text(key, option, todo)
    if option.type == "choice":
        parts.append(quoted("|".join(option.choices)))
    low, high = option.low, option.high
    if option.type in ("integer", "integers", "real", "reals") and (low, high) != (-float("inf"), float("inf")):
        whole = option.type.startswith("integer")
        parts += [literal(bound if abs(bound) == float("inf") else int(bound) if whole else float(bound)) for bound in (low, high)]
    parts.append(quoted(option.help))
    return (f"mneme::{option.type}({', '.join(parts)})" + (".at_evaluation()" if option.at_evaluation else "")
            + (".trained()" if option.trained else ""))


def _default_text(key: str, option: Option, todo: list[str]) -> str:
    if option.type not in ("integers", "reals"):
        return literal(float(option.default) if option.type == "real" else option.default)
    words = [str(int(n)) if option.type == "integers" else repr(float(n)) for n in option.default]
    if all(_is_short(word) for word in words):
        return quoted(f"[{', '.join(words)}]")
    todo.append(f"option {key}: its default [{', '.join(words)}] has numbers of more digits than a list of the SDK may have, so "
                "it is required")
    return "mneme::kRequired"


def _is_short(word: str) -> bool:
    """Whether the SDK reads the number exactly (mneme/cpp/options.hpp)."""
    digits, _, power = word.lstrip("-").partition("e")
    whole, _, part = digits.partition(".")
    return len((whole + part).lstrip("0")) <= 15 and abs(int(power or 0) - len(part)) <= 22


def key_lines(options: Iterable[tuple[str, Option]]) -> list[str]:
    """Keys of the memory file: a default is in a comment."""
    lines = []
    for key, option in options:
        is_required = isinstance(option.default, Required) or "Required" in option_text(key, option, [])
        value: Any = option.default
        if isinstance(option.default, Required):
            least = option.low if abs(option.low) != float("inf") else 1
            value = {"integer": int(least), "real": float(least), "boolean": False, "text": "", "integers": [], "reals": [],
                     "choice": next(iter(option.choices), "")}[option.type]
        written = json.dumps(list(value) if isinstance(value, tuple) else value, ensure_ascii=False)
        lines.append(f"{key} = {written}  # required" if is_required else f"# {key} = {written}")
    return lines


# ---- declarations ----


def _settings(words: list[tuple[str, str]]) -> str:
    """", {first, second}" without those at the end that are defaults: pairs of text and default."""
    while words and words[-1][0] == words[-1][1]:
        words = words[:-1]
    return f", {{{', '.join(word for word, _ in words)}}}" if words else ""


def _value(expression: Expression) -> Any:
    return expression.parts[0]


def _word(form: Expression, words: tuple[str, ...], kind: str) -> str:
    return f"mneme::{kind}::{words[_value(form)]}"


def _shape(form: tuple[Expression, ...]) -> str:
    names = {"-1": "mneme::kLanes", "-2": "mneme::kAny"}
    return "{" + ", ".join(names.get(one.statement, one.statement) for one in form) + "}"


def _start(rule: int, numbers: Iterable[Expression]) -> str:
    words = [one.statement for one in numbers]
    if STARTS[rule] == "fan_in_uniform" and words == ["0"]:
        words = []
    return f"mneme::{STARTS[rule]}({', '.join(words)})"


def statement_of(declaration: Declaration, handles: dict[str, str]) -> str:
    """A statement of the constructor. `handles`: variables of the parameters that slots begin with."""
    (kind, name), f = declaration.key, declaration.fields
    scope = (_word(f["scope"], SCOPES, "Scope"), "mneme::Scope::kLayer") if "scope" in f else ("", "")
    if kind == "parameter":
        more = _settings([scope, (f["lr_factor"].statement, "1.0"), (f["group"].statement, "nullptr")])
        call = f"s.parameter({quoted(name)}, {_shape(f['shape'])}, {_start(_value(f['rule']), f['numbers'])}{more});"
        return f"{handles[name]} = {call}" if name in handles else call
    if kind == "slot":
        start = _value(f["start"])
        more = _settings([
            (_word(f["dtype"], DTYPE_NAMES, "DType"), "mneme::DType::kF32"), scope,
            (_word(f["gradient"], ("kStop", "kThrough"), "Gradient"), "mneme::Gradient::kStop"),
            (_word(f["lifetime"], ("kRun", "kSegment"), "Lifetime"), "mneme::Lifetime::kRun"), (f["revision"].statement, "0")])
        begin = handles[start] if start is not None else _start(_value(f["rule"]), [f["value"]] if _value(f["rule"]) else [])
        return f"s.slot({quoted(name)}, {_shape(f['shape'])}, {begin}{more});"
    if kind == "counts":
        words = [scope[0], f["revision"].statement]
        words = words if words[1] != "0" else words[:1] if scope[0] != scope[1] else []
        return f"s.counts({', '.join([quoted(name), *words])});"
    if kind == "queue":
        attributes = " | ".join(word for bit, word in ((1, "MNEME_ATTRIBUTE_POSITION"), (2, "MNEME_ATTRIBUTE_MASS"))
                                if _value(f["attributes"]) & bit) or "0"
        return f"s.queue({quoted(name)}" + _settings([
            (_word(f["kind"], KINDS, "RowsKind"), "mneme::RowsKind::kHidden"), scope, (attributes, "0"),
            (f["revision"].statement, "0"), (f["start_rows"].statement, "0"), (f["capacity"].statement, "0")]) + ");"
    if kind == "rows":
        return f"s.{name}({f['rows'].statement});"
    if kind == "widths":
        return f"s.{name}({f['keys'].statement}, {f['values'].statement});"
    if kind == "trait":
        return f"s.{name}();"
    if kind == "refusal":
        return f"mneme::fail(MNEME_E_INVALID_ARGUMENT, {quoted(_value(f['text']))});"
    return f"{member_name(name)} = {f['value'].statement};"


def member_name(name: str) -> str:
    return f"{name}_"


def body_of(declarations: list[Declaration], todo: list[str]) -> list[str]:
    """The constructor's statements."""
    handles = {_value(one.fields["start"]): "" for one in declarations if one.key[0] == "slot" and _value(one.fields["start"])}
    for name in handles:
        handles[name] = "parameter_" + "".join(c if c.isascii() and c.isalnum() else "_" for c in name)
    lines = [f"    mneme::Parameter {handle};" for handle in handles.values()]
    for one in declarations:
        if one.doubt and one.key[0] in ORDER:
            todo.append(f"{one.key[0]} {_label(one)}: {one.doubt}")
    statements = list(_statements(declarations, handles))
    for condition, group in itertools.groupby(statements, key=lambda pair: pair[0]):
        some = [text for _, text in group]
        if not condition:
            lines += [line_of(text, "    ") for text in some]
        elif len(some) == 1 and not some[0].startswith("//") and len(condition) + len(some[0]) + 9 <= WIDTH:
            lines.append(f"    if ({condition}) {some[0]}")
        else:
            broken = condition if len(condition) + 11 <= WIDTH else condition.replace(" || ", " ||\n        ")
            lines += [f"    if ({broken}) {{", *(line_of(text, "      ") for text in some), "    }"]
    return lines


def _label(one: Declaration) -> str:
    return Path(one.key[1]).name if one.key[0] == "refusal" else one.key[1]


def _statements(declarations: list[Declaration], handles: dict[str, str]) -> Iterator[tuple[str, str]]:
    """Pairs of condition and statement. Sites and wants that go with each other are one statement."""
    bits: dict[tuple[str, str], list[str]] = {}
    for one in declarations:
        if one.key[0] in ("site", "want"):
            bits.setdefault((one.key[0], one.condition), []).append(f"MNEME_{one.key[0].upper()}_{one.key[1].upper()}")
    flags = {}
    for one in declarations:
        value = one.fields.get("value")
        if one.key[0] == "member" and value is not None and value.op == "constant" and value.parts[0] is True and not one.doubt:
            flags[one.key] = one.condition
    for kind in ORDER:
        for (each, condition), words in bits.items():
            if each == kind:
                yield condition, f"s.{'reads_at' if kind == 'site' else 'wants'}({' | '.join(words)});"
        for one in declarations:
            if one.key[0] != kind or kind in ("site", "want"):
                continue
            if one.doubt:
                yield one.condition, f"// TODO: {one.doubt}"
                yield one.condition, ("" if one.is_first else "// ") + statement_of(one, handles)
            elif flags.get(one.key):  # true here, false elsewhere
                if one.fields["value"].parts[0] is True:
                    yield "", f"{member_name(one.key[1])} = {one.condition};"
            else:
                yield one.condition, statement_of(one, handles)


# ---- members ----


def member_type(value: Expression) -> str:
    if value.op == "variable" and value.parts[0] in ("position", "compute_dtype"):
        return "std::string"
    if value.op == "constant":
        return {bool: "bool", int: "int64_t", str: "std::string"}.get(type(value.parts[0]), "double")
    return "double" if value.is_real else "int64_t"


OPTION_TYPES = {"integer": "int64_t", "real": "double", "boolean": "bool", "text": "std::string", "choice": "std::string",
                "integers": "std::vector<int64_t>", "reals": "std::vector<double>"}
READERS = {"choice": "text"}


# ---- what is not declared in setup ----


def hook_source(cls: type[Memory], name: str) -> tuple[str, str, int]:
    """Source, file and line of a function of the class; no source where it is not a function of a file."""
    function = inspect.unwrap(getattr(cls, name))
    try:
        lines, line = inspect.getsourcelines(function)
        return "".join(lines), Path(inspect.getsourcefile(function) or "").name, line
    except (OSError, TypeError):
        return "", "", 0


def other_parts(path: Path, cls: type[Memory], options: set[str]) -> Iterator[tuple[str, str, int]]:
    """What a file holds besides the memory's hooks and declarations: name, source and line of each statement."""
    source = path.read_text(encoding="utf-8")
    bases = {each.__name__ for each in cls.__mro__}
    known = {*HOOKS, *options, "setup", "id", "version", "summary", "losses"}
    for statement in ast.parse(source).body:
        if isinstance(statement, ast.ClassDef) and statement.name in bases:
            for part in statement.body:
                if _name_of(part) not in known and not _is_text(part) and not isinstance(part, ast.Pass):
                    yield f"{statement.name}.{_name_of(part)}", _source(source, part), _line(part)
        elif not isinstance(statement, (ast.Import, ast.ImportFrom)) and not _is_text(statement):
            yield _name_of(statement), _source(source, statement), _line(statement)


def _line(part: ast.stmt) -> int:
    """Its first line, decorators counted."""
    return min([part.lineno, *(int(each.lineno) for each in getattr(part, "decorator_list", []))])


def _source(source: str, part: ast.stmt) -> str:
    return "\n".join(source.splitlines()[_line(part) - 1:part.end_lineno])


def _name_of(part: ast.stmt) -> str:
    found = getattr(part, "name", None)
    targets = getattr(part, "targets", [getattr(part, "target", None)])
    return str(found or getattr(targets[0], "id", "") or "a statement")


def _is_text(part: ast.stmt) -> bool:
    return isinstance(part, ast.Expr) and isinstance(part.value, ast.Constant)
