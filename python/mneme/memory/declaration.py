"""What the program has to know of a memory before it runs: its declaration, read by importing its file once."""

from __future__ import annotations

import difflib
import hashlib
import importlib.metadata
import importlib.util
import inspect
import re
import signal
import site
import stat
import sys
import sysconfig
import types
from importlib.machinery import SourceFileLoader
from pathlib import Path
from typing import Any, Iterator, Mapping

from ..version import __version__
from .errors import MemoryFileError
from .memory import HOOKS, Memory
from .options import Option
from .runtime import options_of

REVISION = 1
"""Of the JSON that `describe` prints."""

_ID = re.compile(r"[A-Za-z0-9._-]{1,95}\Z")
_KEY = re.compile(r"[a-z][a-z0-9_]*\Z")


def describe(path: Path, seconds: float = 0.0) -> dict[str, Any]:
    """The declaration of the memory in the file at `path`. Errors: MemoryFileError.

    The file is imported as a script's would be: modules beside it are found, and belong to the memory. SIGALRM ends the
    process when that takes longer than this number of seconds, in which the import of torch is not counted; 0 = no limit."""
    path = path.absolute()
    if not path.is_file():
        raise MemoryFileError("no such file", str(path))
    before = set(sys.modules)
    imports = _Imports(path.resolve())
    _limit_import(seconds)
    module = _import(path)
    signal.setitimer(signal.ITIMER_REAL, 0.0)
    cls = _memory_of(module, path)
    options = _checked_options(cls, path)
    _check_texts(cls, path)
    files = [_file_of(path.stem, path, path)]
    files += [_file_of(name, file, path) for name, file in _own_modules(before, path)]
    for file in files:
        file["sha256"] = imports.sums.get(str(Path(file["path"]).resolve())) or _sum_of(Path(file["path"]))
    return {
        "revision": REVISION,
        "id": cls.id,
        "version": cls.version,
        "summary": cls.summary,
        "class": cls.__name__,
        "losses": list(cls.losses),
        "hooks": _hooks_of(cls, path),
        "options": [description(key, option) for key, option in options],
        "files": files,
        "missing": sorted(imports.missing),
        "versions": _versions(before),
        "installed": _times_of_folders(),
    }


def _check_texts(cls: type[Memory], path: Path) -> None:
    def refuse(what: str) -> None:
        raise MemoryFileError(f"{cls.__name__}.{what}", str(path), _line_of(cls))

    for name in ("id", "version", "summary"):
        if not isinstance(getattr(cls, name), str):
            refuse(f"{name} is no text: {getattr(cls, name)!r}")
    if not _ID.match(cls.id):
        refuse(f'id is "{cls.id}": expected letters, digits, ".", "_" and "-", such as "org.example.my_memory"')
    if not 0 < len(cls.version) < 32:
        refuse(f'version is "{cls.version}": expected 1 to 31 letters, such as "0.1.0"')
    if isinstance(cls.losses, str):
        refuse("losses is a text: expected a list of names")


def description(key: str, option: Option) -> dict[str, Any]:
    """An option as JSON says it."""
    return {**option.description(), "key": key}


def _limit_import(seconds: float) -> None:
    """Starts the clock, which stops while torch is imported: on a busy machine that takes longer than a file may."""
    run = SourceFileLoader.exec_module

    def counted(loader: SourceFileLoader, module: types.ModuleType) -> None:
        if module.__name__ != "torch":
            return run(loader, module)
        left = signal.setitimer(signal.ITIMER_REAL, 0.0)[0]
        try:
            return run(loader, module)
        finally:
            signal.setitimer(signal.ITIMER_REAL, left)
    SourceFileLoader.exec_module = counted  # type: ignore[method-assign, assignment]
    signal.setitimer(signal.ITIMER_REAL, seconds)


def _import(path: Path) -> types.ModuleType:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        raise MemoryFileError('is no Python file: expected a name that ends in ".py"', str(path))
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    sys.path.insert(0, str(path.parent))
    try:
        spec.loader.exec_module(module)
    except MemoryFileError:
        raise
    except SyntaxError as error:
        raise MemoryFileError(f"{type(error).__name__}: {error.msg}", error.filename or str(path), error.lineno or 0) from error
    except BaseException as error:  # an exit, too
        text = f"{type(error).__name__}: {error}"
        if path.stem in (*sys.stdlib_module_names, "torch", "numpy"):
            text += f"; the file hides the module {path.stem} from what it imports: rename it, as {path.stem}_memory.py"
        raise MemoryFileError(text, *_place_of(error, path)) from error
    return module


def _place_of(error: BaseException, path: Path) -> tuple[str, int]:
    """The innermost line that lies in the folder of the memory's file."""
    place, trace = (str(path), 0), error.__traceback__
    while trace is not None:
        name = trace.tb_frame.f_code.co_filename
        if name == str(path) or Path(name).parent == path.parent:
            place = (name, trace.tb_lineno)
        trace = trace.tb_next
    return place


def _memory_of(module: types.ModuleType, path: Path) -> type[Memory]:
    found = [value for value in vars(module).values()
             if isinstance(value, type) and issubclass(value, Memory) and value.__module__ == module.__name__]
    # A class that another one derives from is a part of it.
    found = [cls for cls in dict.fromkeys(found) if not any(cls is not other and issubclass(other, cls) for other in found)]
    if not found:
        raise MemoryFileError("has no memory: expected one class that derives from mneme.Memory", str(path))
    if len(found) > 1:
        names = ", ".join(f"{cls.__name__} (line {_line_of(cls)})" for cls in found)
        raise MemoryFileError(f"has {len(found)} memories, {names}: expected one class a file", str(path), _line_of(found[1]))
    return found[0]


def _line_of(thing: Any) -> int:
    try:
        return inspect.getsourcelines(thing)[1]
    except (OSError, TypeError):
        return 0


def _hooks_of(cls: type[Memory], path: Path) -> list[str]:
    _refuse_near_names(cls, path)
    hooks = [hook for hook in HOOKS if cls.has(hook)]
    for name in [*hooks, "setup"]:
        function = getattr(cls, name)
        if not callable(function):
            raise MemoryFileError(f"{cls.__name__}.{name} is no function", str(path), _line_of(cls))
        if (inspect.isgeneratorfunction(function) or inspect.iscoroutinefunction(function)
                or inspect.isasyncgenfunction(function)):
            raise MemoryFileError(f"the hook {name} is a generator or async: it has to do its work and return", str(path),
                                  _line_of(function))
        _check_parameters(cls, name, path)
    if not hooks:
        raise MemoryFileError(f"{cls.__name__} has no hook: expected one of {', '.join(HOOKS)}", str(path), _line_of(cls))
    return hooks


def _refuse_near_names(cls: type[Memory], path: Path) -> None:
    """Errors: MemoryFileError, of a function whose name is nearly that of a hook that the class lacks, and that no other
    function of the class names: nobody would call it."""
    lacking = [hook for hook in (*HOOKS, "setup") if not cls.has(hook)]
    functions = inspect.getmembers(cls, inspect.isfunction)
    for name, function in functions:
        if name.startswith("_") or hasattr(Memory, name):
            continue
        if any(name in _names_in(other.__code__) for _, other in functions if other is not function):
            continue
        near = difflib.get_close_matches(name.lower().replace("_", ""), lacking, 1, 0.85)
        if near:
            raise MemoryFileError(f"{cls.__name__}.{name} is no hook (did you mean {near[0]}?): name a function of your own "
                                  f"otherwise, such as _{name}", str(path), _line_of(function))


def _names_in(code: types.CodeType) -> set[str]:
    """Names and attributes that the code of a function uses, in functions inside it too."""
    inner = (_names_in(part) for part in code.co_consts if isinstance(part, types.CodeType))
    return set(code.co_names).union(*inner)


def _check_parameters(cls: type[Memory], hook: str, path: Path) -> None:
    """Errors: MemoryFileError, of a hook that cannot be called with what the program gives."""
    function = inspect.getattr_static(cls, hook)
    if not inspect.isfunction(function):
        return
    given = list(inspect.signature(getattr(Memory, hook)).parameters)
    signature = inspect.signature(function, follow_wrapped=False)
    try:
        signature.bind(*given)
    except TypeError:
        has = ", ".join(signature.parameters)
        raise MemoryFileError(f"the hook {hook} has the parameters ({has}): expected ({', '.join(given)})", str(path),
                              _line_of(function)) from None


def _checked_options(cls: type[Memory], path: Path) -> list[tuple[str, Option]]:
    options = options_of(cls)
    for key, _ in options:
        if hasattr(Memory, key):
            what = "the name of a hook" if key in (*HOOKS, "setup") else "a name that mneme.Memory uses"
            raise MemoryFileError(f"the option {key} has {what}: give it another one", str(path), _line_of(cls))
        if not _KEY.match(key):
            raise MemoryFileError(f"the option {key}: expected small letters, digits and _", str(path), _line_of(cls))
    return options


# ---- what belongs to the memory ----


class _Imports:
    """Looks at the imports that follow: `sums`, the checksum of each file of the user's when it is read, and `missing`, the
    modules that are not there, which a file may do without until they are made. A module that every user may write is refused
    before it runs, as a plugin's file is; the program has looked at the memory's own file.

    Errors: MemoryFileError, in the import statement."""

    def __init__(self, memory: Path) -> None:
        self.sums: dict[str, str] = {}
        self.missing: set[str] = set()
        installed = tuple(f"{folder}/" for folder in _installed_folders())
        stats = SourceFileLoader.path_stats

        def noted(loader: SourceFileLoader, path: str) -> Mapping[str, Any]:
            place = Path(path).resolve()
            if not str(place).startswith(installed):
                if place != memory:
                    _refuse_writable(place)
                self.sums[str(place)] = _sum_of(place)
            return stats(loader, path)
        SourceFileLoader.path_stats = noted  # type: ignore[method-assign, assignment]
        sys.meta_path.append(self)

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> None:
        """Asked last, of a module that no other finder knows."""
        self.missing.add(name)


def _refuse_writable(module: Path) -> None:
    for path, what in ((module, "write this file"), (module.parent, f"replace files in {module.parent}")):
        if path.stat().st_mode & stat.S_IWOTH:
            raise MemoryFileError(f"refused: every user of this machine may {what}; chmod o-w it, after making sure that it is "
                                  "yours", str(module))


def _sum_of(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _installed_folders() -> list[Path]:
    folders = [value for name, value in sysconfig.get_paths().items() if name in ("stdlib", "platstdlib", "purelib", "platlib")]
    folders += site.getsitepackages() + [site.getusersitepackages()]
    # Those of other environments, which a .pth file or PYTHONPATH names.
    folders += [folder for folder in sys.path if Path(folder).name in ("site-packages", "dist-packages")]
    return [Path(folder).resolve() for folder in folders]


def _own_modules(before: set[str], path: Path) -> Iterator[tuple[str, Path]]:
    """Modules that the file imported and that are neither installed nor Python's. Errors: MemoryFileError for one that is
    not a file of Python."""
    installed = _installed_folders()
    mneme = Path(__file__).resolve().parent.parent
    for name, module in sorted(sys.modules.items()):
        file = getattr(module, "__file__", None)
        if name in before or file is None or name == path.stem or name == "__main__":
            continue
        place = Path(file).resolve()
        if any(folder in place.parents for folder in [*installed, mneme]) or not place.is_file():
            continue
        if place.suffix != ".py":
            raise MemoryFileError(f"imports {name} from {place}, which is no Python file: install it as a package", str(path))
        yield name, place


def _file_of(module: str, file: Path, memory: Path) -> dict[str, Any]:
    folder = memory.parent.resolve()
    place = file.resolve()
    name = str(place.relative_to(folder)) if folder in place.parents else file.name
    return {"module": module, "name": name, "path": str(file), "is_package": file.name == "__init__.py"}


def _versions(before: set[str]) -> dict[str, str]:
    """Versions of Python, of this package, of torch, and of the installed distributions that the file, or what it imports,
    has imported."""
    tops = {"torch", *(name.partition(".")[0] for name in set(sys.modules) - before)}
    found = {}
    for top, distributions in importlib.metadata.packages_distributions().items():
        if top in tops:
            for distribution in distributions:
                found[distribution] = importlib.metadata.version(distribution)
    return {**dict(sorted(found.items())), "python": ".".join(map(str, sys.version_info[:3])), "mneme": __version__}


def _times_of_folders() -> dict[str, int]:
    """When something was installed last: the folders of distributions, and their times of change in nanoseconds."""
    return {str(folder): folder.stat().st_mtime_ns for folder in _installed_folders() if folder.is_dir()}
