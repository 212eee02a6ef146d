"""What can go wrong, as exceptions. Each text says what failed, what was expected, and what to do."""

from __future__ import annotations

from typing import Any, Optional


class MnemeError(Exception):
    """Base of all errors of this package."""


class FormatError(MnemeError):
    """A folder or file is not what it should be: no run, no comparison, a missing or damaged file."""


class VersionError(MnemeError):
    """A folder, or the program, is of a version that this package does not know."""


class MissingPackageError(MnemeError, ImportError):
    """A package that a call needs is not installed."""


class ProgramNotFoundError(MnemeError, FileNotFoundError):
    """There is no program `mneme`."""

    def __str__(self) -> str:
        return str(self.args[0])


class ProgramError(MnemeError):
    """The program ended with an error. The text is the program's own.

    `status`: its exit status; `command`: the arguments that it was given; `result`: what it made nevertheless, such as the
    Comparison of which a run failed, or None.
    """

    def __init__(self, text: str, status: int, command: list[str], result: Optional[Any] = None) -> None:
        super().__init__(text)
        self.status = status
        self.command = command
        self.result = result


class RunError(ProgramError):
    """Exit status 1: the run failed, or a check of a memory found a difference."""


class VerificationError(RunError):
    """A bundle does not verify. `result` is the Verification with the findings."""


class UsageError(ProgramError):
    """Exit status 2: wrong use, or a configuration or an input file that is wrong. Nothing was computed."""


class PluginError(ProgramError):
    """Exit status 3: a plugin could not be loaded, or one of its functions failed."""


class DeviceError(ProgramError):
    """Exit status 4: the device is not there, or it failed."""


class StoppedError(ProgramError):
    """A signal stopped the program. Training and comparisons have saved what they had."""


_BY_STATUS = {2: UsageError, 3: PluginError, 4: DeviceError}


def program_error(text: str, status: int, command: list[str], result: Optional[Any] = None) -> ProgramError:
    """The error of an exit status (docs/runs.md, "Exit statuses"); a negative one is the number of a signal."""
    if status < 0 or status > 128:
        signal = -status if status < 0 else status - 128
        return StoppedError(text or f"mneme {command[0]}: stopped by the signal {signal}", status, command, result)
    return _BY_STATUS.get(status, RunError)(text or f"mneme {command[0]}: exit status {status}", status, command, result)
