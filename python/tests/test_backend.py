"""What `pip install .` looks for before it builds."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

BUILD = Path(__file__).parents[1] / "build"


@pytest.fixture
def backend(monkeypatch: pytest.MonkeyPatch) -> Any:
    if not BUILD.is_dir():
        pytest.skip("needs a checkout")
    monkeypatch.syspath_prepend(str(BUILD))
    import backend

    return backend


def test_names_the_packages_that_are_missing(backend: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backend, "HEADERS", {"vector": "libthere-dev", "no/such.h": "libmissing-dev"})
    assert backend.missing_packages() in (["libmissing-dev"], ["g++", "libthere-dev", "libmissing-dev"])
    with pytest.raises(
        SystemExit, match=r"packages are missing: .*libmissing-dev\n  as root: apt-get install .*libmissing-dev"
    ):
        backend.check_machine()


def test_names_the_compiler_that_is_missing(backend: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backend.shutil, "which", lambda name: None)
    assert backend.missing_packages()[0] == "g++"


def test_names_a_compiler_that_is_too_old(backend: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backend.shutil, "which", lambda name: "/bin/false")
    with pytest.raises(SystemExit, match=r"/bin/false cannot compile C\+\+20"):
        backend.missing_packages()


def test_builds_on_linux_alone(backend: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    with pytest.raises(SystemExit, match="is built on Linux, this is darwin"):
        backend.check_machine()
