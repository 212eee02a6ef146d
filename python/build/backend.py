"""Builds the package by scikit-build-core, after it has looked whether the machine has what the build needs.

Where neither Torch_DIR, CMAKE_PREFIX_PATH nor the project's .venv names a LibTorch, it is that of the package torch,
which pip installs into the build's own environment.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, Optional

# Headers and the Debian packages that bring them: cmake/Dependencies.cmake.
HEADERS = {
    "boost/dll/shared_library.hpp": "libboost-dev",
    "toml++/toml.h": "libtomlplusplus-dev",
    "spdlog/spdlog.h": "libspdlog-dev",
    "fmt/format.h": "libfmt-dev",
    "CLI/CLI.hpp": "libcli11-dev",
    "nlohmann/json.hpp": "nlohmann-json3-dev",
    "eigen3/Eigen/Core": "libeigen3-dev",
    "pcre2.h": "libpcre2-dev",
    "utf8proc.h": "libutf8proc-dev",
    "jemalloc/jemalloc.h": "libjemalloc-dev",
}
TORCH = "torch==2.11.*"
VEGA = "vl-convert-python==1.9.0.post1"
ROOT = Path(__file__).resolve().parents[2]

Settings = Optional[dict[str, Any]]


def missing_packages() -> list[str]:
    """Debian packages that the build needs and the machine lacks."""
    compiler = next(filter(None, map(shutil.which, (os.environ.get("CXX") or "g++", "c++", "clang++"))), None)
    if compiler is None:
        return ["g++", *HEADERS.values()]
    lines = ["#define PCRE2_CODE_UNIT_WIDTH 8"]
    for header, package in HEADERS.items():
        lines += [f"#if !__has_include(<{header}>)", f'#pragma message "missing {package};"', "#endif"]
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "headers.cpp"
        source.write_text("\n".join(lines) + "\n")
        answer = subprocess.run([compiler, "-std=c++20", "-fsyntax-only", source], capture_output=True, text=True)
    if answer.returncode != 0:
        sys.exit(f"error: {compiler} cannot compile C++20, which mneme needs (Debian 12's g++ can): {answer.stderr.strip()}")
    return [package for package in HEADERS.values() if f"missing {package};" in answer.stderr]


def check_machine() -> None:
    """Ends with what is missing, before anything is downloaded or compiled."""
    if sys.platform != "linux":
        sys.exit(f"error: mneme is built on Linux, this is {sys.platform}")
    missing = missing_packages()
    if missing:
        sys.exit(
            "error: mneme cannot be built here, because packages are missing: "
            f"{' '.join(missing)}\n  as root: apt-get install {' '.join(missing)}\n"
            "  in a checkout scripts/setup.sh installs them; a wheel (scripts/wheel.sh) needs none of them"
        )


def has_own_torch() -> bool:
    """Whether CMake finds a LibTorch by itself (cmake/Torch.cmake)."""
    named = any(os.environ.get(name) for name in ("Torch_DIR", "CMAKE_PREFIX_PATH"))
    return named or any(ROOT.glob(".venv/lib/python3.*/site-packages/torch/lib/libtorch_cpu.so"))


def has_own_vega() -> bool:
    return any(ROOT.glob(".venv/lib/python3.*/site-packages/vl_convert"))


def is_packing(config_settings: Settings) -> bool:
    """Whether an installation is packed, and nothing is compiled (scripts/wheel.sh --prefix)."""
    return (config_settings or {}).get("wheel.cmake") == "false"


def get_requires_for_build_wheel(config_settings: Settings = None) -> list[str]:
    import scikit_build_core.build

    requires = list(scikit_build_core.build.get_requires_for_build_wheel(config_settings))
    if is_packing(config_settings):
        return requires
    check_machine()
    return requires + ([] if has_own_torch() else [TORCH]) + ([] if has_own_vega() else [VEGA])


def get_requires_for_build_sdist(config_settings: Settings = None) -> list[str]:
    import scikit_build_core.build

    return list(scikit_build_core.build.get_requires_for_build_sdist(config_settings))


def prepare_metadata_for_build_wheel(folder: str, config_settings: Settings = None) -> str:
    import scikit_build_core.build

    if not is_packing(config_settings):
        check_machine()
    return str(scikit_build_core.build.prepare_metadata_for_build_wheel(folder, config_settings))


def build_sdist(folder: str, config_settings: Settings = None) -> str:
    import scikit_build_core.build

    return str(scikit_build_core.build.build_sdist(folder, config_settings))


def build_wheel(folder: str, config_settings: Settings = None, metadata_folder: Optional[str] = None) -> str:
    import scikit_build_core.build

    settings = dict(config_settings or {})
    if is_packing(config_settings):
        return str(scikit_build_core.build.build_wheel(folder, settings, metadata_folder))
    check_machine()
    torch = importlib.util.find_spec("torch")
    if not has_own_torch() and torch is not None and torch.origin is not None:
        settings.setdefault("cmake.define.MNEME_TORCH", str(Path(torch.origin).parent))
    with tempfile.TemporaryDirectory() as scratch:
        if not has_own_vega():
            script = Path(scratch) / "vega.js"
            subprocess.run([sys.executable, ROOT / "cmake" / "vega_bundle.py", script], check=True)
            settings.setdefault("cmake.define.MNEME_VEGA", str(script))
        return str(scikit_build_core.build.build_wheel(folder, settings, metadata_folder))
