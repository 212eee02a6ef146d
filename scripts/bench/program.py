"""For scripts that run mneme beside another program: starts processes, and says what they took."""
import json
import os
import platform
import subprocess
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
MNEME = ROOT / "build/release/bin/mneme"


class Failure(Exception):
    """Ends a script with its text."""


@dataclass
class Used:
    """What a process took from its start to its end."""

    seconds: float
    peak_bytes: int  # of resident memory
    read_bytes: int  # from storage: what the system's cache had is not counted


def call(command):
    """Runs a command; Failure with what it printed when it does not end with 0."""
    with tempfile.TemporaryFile("w+") as output:
        start = time.perf_counter()
        process = subprocess.Popen(list(map(str, command)), stdout=output, stderr=subprocess.STDOUT)
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        seconds = time.perf_counter() - start
        counters = dict(line.split(": ") for line in Path(f"/proc/{process.pid}/io").read_text().splitlines())
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode != 0:
            output.seek(0)
            raise Failure(f"{' '.join(map(str, command))}\nended with {process.returncode}:\n{output.read().strip()}")
    return Used(seconds, usage.ru_maxrss * 1024, int(counters["read_bytes"]))


def call_for_json(command, file):
    """Runs a command that writes JSON to `file`: what it wrote, and what the process took."""
    file.unlink(missing_ok=True)
    used = call(command)
    return json.loads(file.read_text()), used


def processor():
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return platform.processor() or platform.machine()
