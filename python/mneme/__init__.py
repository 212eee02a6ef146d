"""mneme in Python: runs and comparisons as data, the program's commands as functions, memories as classes.

    import mneme
    run = mneme.train("configs/quickstart.toml", memory="configs/memory/xl_cache.toml", run="runs/first")
    run.losses("valid").nll.mean()      # nats a token

Commands: train, evaluate, compare, plan, generate, validate, verify, pair_samples. Data: Run, Comparison. Paths: configs() has experiments and memory
files, manual() the pages, program() the program. A memory is a class that derives from Memory: `mneme plugins new NAME --lang python`
writes a first one with an experiment; help(mneme.Setup), help(mneme.Layer) and the page docs/python-memories.md in manual() say the rest.

Nothing is imported before it is used: reading runs needs NumPy, memories need torch, the rest needs neither (docs/python.md).
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from .version import __version__

if TYPE_CHECKING:
    from .commands import compare as compare
    from .commands import evaluate as evaluate
    from .commands import generate as generate
    from .commands import pair_samples as pair_samples
    from .commands import plan as plan
    from .commands import train as train
    from .commands import validate as validate
    from .commands import verify as verify
    from .comparison import Comparison as Comparison
    from .errors import DeviceError as DeviceError
    from .errors import FormatError as FormatError
    from .errors import MissingPackageError as MissingPackageError
    from .errors import MnemeError as MnemeError
    from .errors import PluginError as PluginError
    from .errors import ProgramError as ProgramError
    from .errors import ProgramNotFoundError as ProgramNotFoundError
    from .errors import RunError as RunError
    from .errors import StoppedError as StoppedError
    from .errors import UsageError as UsageError
    from .errors import VerificationError as VerificationError
    from .errors import VersionError as VersionError
    from .evaluation import Evaluation as Evaluation
    from .evaluation import Losses as Losses
    from .launch import configs as configs
    from .launch import manual as manual
    from .launch import program as program
    from .memory import *
    from .outcomes import Generated as Generated
    from .outcomes import Plan as Plan
    from .outcomes import Validation as Validation
    from .outcomes import Verification as Verification
    from .run import Run as Run
    from .service import Chat as Chat
    from .service import Continuation as Continuation
    from .service import Score as Score
    from .service import Service as Service
    from .tracking import log_to as log_to

_PLACES = {
    "commands": ("compare", "evaluate", "generate", "pair_samples", "plan", "train", "validate", "verify"),
    "comparison": ("Comparison",),
    "errors": (
        "DeviceError",
        "FormatError",
        "MissingPackageError",
        "MnemeError",
        "PluginError",
        "ProgramError",
        "ProgramNotFoundError",
        "RunError",
        "StoppedError",
        "UsageError",
        "VerificationError",
        "VersionError",
    ),
    "evaluation": ("Evaluation", "Losses"),
    "launch": ("configs", "manual", "program"),
    "outcomes": ("Generated", "Plan", "Validation", "Verification"),
    "run": ("Run",),
    "service": ("Chat", "Continuation", "Score", "Service"),
    "tracking": ("log_to",),
}
_MODULE_OF = {name: module for module, names in _PLACES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(f"module 'mneme' has no attribute '{name}'")
    if name in _MODULE_OF:
        value = getattr(importlib.import_module(f".{_MODULE_OF[name]}", __name__), name)
    else:
        memory = importlib.import_module(".memory", __name__)
        if name not in memory.__all__:
            raise AttributeError(f"module 'mneme' has no attribute '{name}'")
        value = getattr(memory, name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    names = ["__version__", *_MODULE_OF, *importlib.import_module(".memory", __name__).__all__]
    return sorted(names)
