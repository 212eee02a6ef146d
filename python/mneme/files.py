"""Files of runs and comparisons: JSON with a version, lines of JSON, columns of a safetensors file."""

from __future__ import annotations

import json
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Union

from .errors import FormatError, MissingPackageError, VersionError

if TYPE_CHECKING:
    import numpy

PathLike = Union[str, Path]

_DTYPES = {
    "F64": "<f8",
    "F32": "<f4",
    "F16": "<f2",
    "I64": "<i8",
    "I32": "<i4",
    "I16": "<i2",
    "I8": "i1",
    "U8": "u1",
    "BOOL": "?",
}
_HEADER_LENGTH_BYTES = 8
# What a file that is no text begins with, and the program, suffix and commands of what packed it, as in
# host/base/file/file_kind.cpp; without the last command the first takes a file of any name.
_PACKERS = (
    (b"\x1f\x8b", "gzip", ".gz", "gunzip -k", "gzip -dc"),
    (b"\xfd7zXZ\0", "xz", ".xz", "xz -dk", "xz -dc"),
    (b"\x28\xb5\x2f\xfd", "zstd", ".zst", "zstd -d", "zstd -dc"),
    (b"BZh", "bzip2", ".bz2", "bunzip2 -k", "bzip2 -dc"),
    (b"PK\x03\x04", "zip", ".zip", "unzip", ""),
)
_POINTERS = (
    (b"version https://git-lfs.github.com/spec/", "Git LFS", "git lfs pull --include {}; or download the file itself"),
    (b"/annex/objects/", "git-annex", "git annex get {}"),
)
_MOST_POINTER_BYTES = 1024


def no_folder(path: Path) -> str:
    """Why the path is none."""
    return "it is a file: expected the folder" if path.exists() else "there is no such folder"


def check_link(path: Path) -> None:
    """Errors: FormatError for a symbolic link to what is not there, which is_file() takes for no file."""
    if path.is_symlink() and not path.exists():
        raise FormatError(
            f"{path}: a symbolic link to {path.readlink()}, which is not there; mount the disk that it leads to, or correct "
            "the link"
        )


def read_text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise FormatError(
            f"{path}: there is no such file; the folder is incomplete (`mneme inspect` names all damage)"
        ) from None
    except (OSError, UnicodeDecodeError) as error:
        raise FormatError(f"{path}: cannot be read: {error}") from None


def check_is_text(path: Path, expected: str) -> None:
    """Errors: FormatError for a packed file and for a pointer to one that was not fetched; it says what to do."""
    try:
        with path.open("rb") as file:
            begin = file.read(_MOST_POINTER_BYTES)
    except OSError:
        return  # whoever reads the file says so
    for magic, name, hint in _POINTERS:
        if begin.startswith(magic) and len(begin) < _MOST_POINTER_BYTES:
            raise FormatError(
                f"{path}: the file is a pointer of {name}: its contents were not fetched: expected {expected}, got a text of "
                f"{len(begin)} bytes that names them; fetch them in the repository: {hint.format(shlex.quote(path.name))}"
            )
    for magic, name, suffix, command, to_pipe in _PACKERS:
        if begin.startswith(magic):
            hint = f"{command} {shlex.quote(str(path))}"
            if path.stem.endswith(".tar") or path.suffix in (".tgz", ".txz"):
                hint = f"tar -xf {shlex.quote(str(path))}"
            elif to_pipe and path.suffix != suffix:
                hint = f"{to_pipe} {shlex.quote(str(path))} > {shlex.quote(f'{path}.unpacked')}"
            raise FormatError(
                f"{path}: the file is packed: expected {expected}, got data packed by {name}; unpack it: {hint}"
            )


def read_json(path: Path, kind: str, version: int, version_key: str = "version") -> dict[str, Any]:
    """The object in the file. Errors: FormatError, VersionError where it is of another version than `version`."""
    try:
        value = json.loads(read_text(path))
    except json.JSONDecodeError as error:
        raise FormatError(f"{path}: no JSON: {error}") from None
    if not isinstance(value, dict) or value.get("format", kind) != kind:
        raise FormatError(f'{path}: expected an object with "format": "{kind}"')
    found = value.get(version_key, version)
    if found != version:
        writer = value.get("mneme", "another version")
        raise VersionError(
            f"{path}: expected {version_key} {version}, got {found}, written by mneme {writer}; "
            "install the package of that version"
        )
    return value


def read_lines(path: Path) -> list[dict[str, Any]]:
    """The objects of a file with one a line. An incomplete last line is left out: its writer is at work or was killed."""
    text = read_text(path)
    lines = text.split("\n")
    if lines[-1]:  # no line end: the record is not whole
        lines[-1] = ""
    objects = []
    for number, line in enumerate(lines, 1):
        if not line:
            continue
        try:
            objects.append(json.loads(line))
        except json.JSONDecodeError as error:
            raise FormatError(f"{path}:{number}: no JSON: {error}") from None
    return objects


def map_columns(path: Path) -> dict[str, numpy.ndarray[Any, Any]]:
    """The tensors of a safetensors file, mapped into memory and read-only: nothing is read before it is used.

    Errors: FormatError, MissingPackageError without NumPy.
    """
    try:
        import numpy
    except ImportError as error:
        raise MissingPackageError(f"losses are arrays of NumPy ({error}): {sys.executable} -m pip install numpy") from None
    try:
        data = numpy.memmap(path, dtype=numpy.uint8, mode="r")
        length = int.from_bytes(data[:_HEADER_LENGTH_BYTES].tobytes(), "little")
        begin = _HEADER_LENGTH_BYTES + length
        if begin > data.size:
            raise ValueError(f"its header should have {length} bytes, the file has {data.size}")
        header = json.loads(data[_HEADER_LENGTH_BYTES:begin].tobytes())
        columns = {}
        for name, entry in header.items():
            if name == "__metadata__":
                continue
            first, last = entry["data_offsets"]
            if begin + last > data.size:
                raise ValueError(f"the tensor {name} ends behind the file's end")
            columns[name] = data[begin + first : begin + last].view(_DTYPES[entry["dtype"]]).reshape(entry["shape"])
        return columns
    except FileNotFoundError:
        raise FormatError(f"{path}: there is no such file; `mneme eval` without --no-store writes it") from None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise FormatError(f"{path}: no safetensors file, or a damaged one: {error}") from None
