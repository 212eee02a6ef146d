"""The program `mneme`: where it is, and how it is run."""

from __future__ import annotations

import ctypes
import functools
import importlib.util
import os
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Optional

from .errors import MissingPackageError, ProgramNotFoundError, VersionError
from .progress import ERROR, Display
from .version import __version__

_PACKAGE = Path(__file__).resolve().parent
_TORCH = "2.11"  # that the wheel's program is built with (pyproject.toml)
_REPORT = "mneme-report"
_INSTALL_TORCH = f"{sys.executable} -m pip install 'torch=={_TORCH}.*'"
_SET_PARENT_DEATH_SIGNAL = 1  # PR_SET_PDEATHSIG
_READ_BYTES = 65536


@dataclass(frozen=True)
class Finished:
    """A program that ended: its exit status (negative: the number of a signal), what it printed, and its messages."""

    status: int
    out: str
    text: str


def is_program(path: Path) -> bool:
    """Whether it can be executed and is no script, such as the console script `mneme` of this package."""
    try:
        with path.open("rb") as file:
            return os.access(path, os.X_OK) and file.read(4) == b"\x7fELF"
    except OSError:
        return False


def program() -> Path:
    """The program: that of MNEME_PROGRAM, else the one of this package's wheel or installation, else the first on PATH.

    Errors: ProgramNotFoundError.
    """
    named = os.environ.get("MNEME_PROGRAM")
    if named:
        if not is_program(Path(named)):
            raise ProgramNotFoundError(
                f"MNEME_PROGRAM={named}: no program is there; name build/release/bin/mneme of a checkout"
            )
        return Path(named)
    # In a wheel mneme/program/bin, in an installation bin beside lib/mneme/python/mneme.
    beside = [_PACKAGE / "program" / "bin" / "mneme", *(folder / "bin" / "mneme" for folder in _PACKAGE.parents[3:4])]
    on_path = [Path(folder) / "mneme" for folder in os.environ.get("PATH", "").split(os.pathsep) if folder]
    for candidate in (*beside, *on_path):
        if is_program(candidate):
            return candidate
    raise ProgramNotFoundError(
        "there is no program mneme beside this package or on PATH; install the wheel, or set MNEME_PROGRAM "
        "to build/release/bin/mneme of a checkout"
    )


def report_program() -> Path:
    """The program `mneme-report`: the one beside `mneme`, else the first on PATH.

    Errors: ProgramNotFoundError.
    """
    try:
        beside = [program().with_name(_REPORT)]
    except ProgramNotFoundError:
        beside = []
    on_path = [Path(folder) / _REPORT for folder in os.environ.get("PATH", "").split(os.pathsep) if folder]
    for candidate in (*beside, *on_path):
        if is_program(candidate):
            return candidate
    raise ProgramNotFoundError(
        f"there is no program {_REPORT} beside mneme or on PATH; install the wheel or the package {_REPORT}"
    )


def configs() -> Path:
    """The folder of the experiments and memory files that come with the program.

    Errors: ProgramNotFoundError.
    """
    return _folder("share/mneme/configs", "configs")


def manual() -> Path:
    """The folder of the manual: `docs/` and `examples/`.

    Errors: ProgramNotFoundError.
    """
    return _folder("share/doc/mneme/docs", "docs").parent


def _folder(installed: str, in_checkout: str) -> Path:
    """One of the program's installation, or of the checkout of its build/<preset>/bin."""
    binary = program().resolve()
    for folder in (binary.parents[1] / installed, *(parent / in_checkout for parent in binary.parents[3:4])):
        if folder.is_dir():
            return folder
    raise ProgramNotFoundError(
        f"{binary}: its {in_checkout} were not found, neither as of an installation nor as of a checkout's build"
    )


@functools.lru_cache(maxsize=None)
def check_version(path: Path) -> None:
    """Errors: VersionError where the program's version has another major or minor number than the package's."""
    answer = subprocess.run([path, "--version"], capture_output=True, text=True, stdin=subprocess.DEVNULL, env=_variables(path))
    found = re.match(r"mneme(?:-report)? (\d+)\.(\d+)\.", answer.stdout)
    if answer.returncode != 0 or found is None:
        raise ProgramNotFoundError(f"{path} --version gives no version of mneme: {(answer.stderr or answer.stdout).strip()}")
    if list(found.groups()) != __version__.split(".")[:2]:
        raise VersionError(
            f"{path} is {answer.stdout.strip()}, the Python package is mneme {__version__} in {_PACKAGE}; "
            "install both from one version, or name the right program with MNEME_PROGRAM"
        )


def _variables(path: Path) -> dict[str, str]:
    return dict(os.environ) if path.name == _REPORT else environment()


def environment() -> dict[str, str]:
    """That of the program: memories in Python run in this interpreter, and a wheel's program finds LibTorch.

    Errors: MissingPackageError where a wheel's program has no LibTorch, or that of another version.
    """
    variables = {**os.environ, "MNEME_PYTHON": os.environ.get("MNEME_PYTHON") or sys.executable}
    if program().is_relative_to(_PACKAGE):
        beside = _PACKAGE.parent / "torch"  # where the program looks by itself
        torch = beside if (beside / "lib").is_dir() else _torch_elsewhere()
        _check_torch(torch)
        if torch != beside:
            folders = [str(torch / "lib"), os.environ.get("LD_LIBRARY_PATH", "")]
            variables["LD_LIBRARY_PATH"] = os.pathsep.join(filter(None, folders))
    return variables


def _torch_elsewhere() -> Path:
    found = importlib.util.find_spec("torch")
    if found is None or found.origin is None:
        raise MissingPackageError(f"{sys.executable} has no torch, with which the program computes: {_INSTALL_TORCH}")
    return Path(found.origin).parent


def _check_torch(folder: Path) -> None:
    """The program's symbols are those of one version: with another the loader would name one that is missing."""
    try:
        found = re.search(r"^__version__ = '([^']*)'", (folder / "version.py").read_text(encoding="utf-8"), re.MULTILINE)
    except OSError:
        found = None
    version = found[1] if found else "of no known version"
    if not version.startswith(f"{_TORCH}."):
        raise MissingPackageError(
            f"the torch in {folder} is {version}, and the program computes with torch {_TORCH}: {_INSTALL_TORCH}"
        )


def run_program(arguments: list[str], is_shown: bool = True, path: Optional[Path] = None) -> Finished:
    """Runs the program to its end. KeyboardInterrupt reaches it as SIGINT, so that it saves, and is raised once it has ended.

    The program is in a process group of its own, so a terminal's Ctrl-C reaches it once. It ends with this process.
    `path`: that of report_program(), in place of program().
    """
    path = path or program()
    check_version(path)
    display = Display(is_shown)
    with tempfile.TemporaryFile() as out:
        child = subprocess.Popen(
            [path, *arguments],
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.PIPE,
            env={**_variables(path), "MNEME_PROGRESS": "json", "NO_COLOR": "1"},
            process_group=0,
            preexec_fn=_ends_with_parent(),
        )
        is_interrupted = False
        while True:
            try:
                _show(child, display)
                child.wait()
                break
            except KeyboardInterrupt:
                is_interrupted = True
                child.send_signal(signal.SIGINT)
            except BaseException:
                child.terminate()
                child.wait()
                raise
        display.close()
        if is_interrupted:
            raise KeyboardInterrupt
        out.seek(0)
        return Finished(child.returncode, out.read().decode("utf-8", "replace"), _message(display.text))


def _ends_with_parent() -> Optional[Callable[[], None]]:
    """A notebook's kernel that is killed must not leave a training at work."""
    try:
        prctl = ctypes.CDLL(None).prctl
    except (OSError, AttributeError):
        return None
    return lambda: prctl(_SET_PARENT_DEATH_SIGNAL, signal.SIGTERM)


def _show(child: subprocess.Popen[bytes], display: Display) -> None:
    """Shows stderr until it is closed."""
    assert child.stderr is not None
    while piece := os.read(child.stderr.fileno(), _READ_BYTES):
        display.feed(piece)


def _message(lines: list[str]) -> str:
    """The program's own words: from its first error on where it names one."""
    lines = [line.replace(f"{_REPORT}: error: ", ERROR) if line.startswith(_REPORT) else line for line in lines]
    first = next((i for i, line in enumerate(lines) if line.startswith(ERROR)), 0)
    return "\n".join(line.removeprefix(ERROR) for line in lines[first:]).strip()
