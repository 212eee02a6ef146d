"""What the bridge (python/bridge) calls, inside the program. One for all memories in Python of a process."""

from __future__ import annotations

import builtins
import functools
import itertools
import linecache
import sys
import types
from typing import Any, Callable, Optional

from . import errors
from .errors import HostError
from .memory import Memory, Read, Riders, _Declared
from .options import TYPES, Option
from .rows import Rows
from .segment import Finish, Layer, Local, Queries, ReadingLayer, Ride, Segment
from .setup import Setup

# ---- torch ----


def start(version: str, library: str) -> None:
    """Imports torch, which has to be that of the program: `version`, and the libtorch_cpu at `library`."""
    from importlib import metadata
    try:
        installed = metadata.version("torch")
    except metadata.PackageNotFoundError:
        raise HostError(f"{sys.executable} has no torch: install torch=={version} there", errors.UNSUPPORTED) from None
    if installed.partition("+")[0] != version:
        raise HostError(f"{sys.executable} has torch {installed}, and the program computes with {version} ({library}): install "
                        f"torch=={version} there, or name another interpreter in MNEME_PYTHON", errors.UNSUPPORTED)
    try:
        import torch  # noqa: F401
    except (ImportError, OSError) as error:
        raise HostError(f"import torch failed in {sys.executable}: {error}; in a checkout scripts/setup.sh --python installs "
                        f"what it needs, elsewhere pip install torch=={version}", errors.UNSUPPORTED) from error
    with open("/proc/self/maps", encoding="utf-8", errors="replace") as maps:
        mapped = sorted({line.split(None, 5)[5].strip() for line in maps if line.rstrip().endswith("/libtorch_cpu.so")})
    if len(mapped) != 1:
        raise HostError(f"the process has {len(mapped)} libtorch_cpu: {', '.join(mapped)}; expected {library} alone",
                        errors.UNSUPPORTED)


def _dtypes() -> tuple[Any, ...]:
    import torch
    return (torch.float32, torch.bfloat16, torch.float16, torch.float64, torch.int32, torch.int64, torch.bool)


@functools.cache
def _modes_of_torch() -> tuple[Callable[[], bool], Callable[[], Any]]:
    """Whether gradients are on, and the default dtype: an import statement in each hook would take as long as the calls."""
    import torch
    return torch.is_grad_enabled, torch.get_default_dtype


def _with_same_torch(what: str, place: Optional[tuple[str, int]], function: Callable[..., Any], *arguments: Any) -> Any:
    """function(*arguments). What it leaves changed of torch would hold for the whole program, which would not learn any more
    or compute with other dtypes: it is put back. Errors: HostError, which names `what` and `place`; None = the function's."""
    is_grad_enabled, get_default_dtype = _modes_of_torch()
    learns, dtype = is_grad_enabled(), get_default_dtype()
    try:
        result = function(*arguments)
    finally:
        is_learning, new_dtype = is_grad_enabled(), get_default_dtype()
        if is_learning != learns or new_dtype != dtype:
            import torch
            torch._C._set_grad_enabled(learns)
            torch.set_default_dtype(dtype)
    if is_learning != learns:
        raise HostError(f"{what} leaves gradients turned {'on' if is_learning else 'off'} for the whole program: use "
                        f"`with torch.{'enable' if is_learning else 'no'}_grad():`", place=place or errors.first_line(function))
    if new_dtype != dtype:
        raise HostError(f"{what} leaves {new_dtype} as the default dtype of the whole program: name the dtype where a tensor "
                        "is made", place=place or errors.first_line(function))
    return result


# ---- loading ----

_numbers = itertools.count(1)
_own_files: set[str] = set()

PACKED = "<packed>"
"""The folder in `__file__` of a memory's modules, which run without the folder that they were packed from: another machine,
or a change of what lies there, would give other numbers under the same checksum."""


class _Files:
    """The files of one build of a memory, as modules of their own: another build, or another memory with a module of the
    same name, has others."""

    def __init__(self, files: tuple[tuple[str, str, str, bool], ...]) -> None:
        self.files = {module: (name, source, is_package) for module, name, source, is_package in files}
        self.prefix = f"mneme_memory_{next(_numbers)}"
        self.modules: dict[str, types.ModuleType] = {}

    def load(self, module: str) -> types.ModuleType:
        """The module, run when it is asked for first."""
        if module in self.modules:
            return self.modules[module]
        parent, _, last = module.rpartition(".")
        if parent:
            self.load(parent)
        name, source, is_package = self.files.get(module, ("", "", True))
        made = types.ModuleType(f"{self.prefix}.{module}")
        if name:  # a folder alone has none: inspect, and with it torch, fails at an empty one
            made.__file__ = path = f"{PACKED}/{name}"
        made.__package__ = module if is_package else parent
        made.__builtins__ = {**vars(builtins), "__import__": self.find}  # type: ignore[attr-defined]
        self.modules[module] = sys.modules[made.__name__] = made
        if name:
            _own_files.add(name)
            for known in (name, path):
                linecache.cache[known] = (len(source), None, source.splitlines(True), known)
            exec(compile(source, name, "exec", dont_inherit=True), made.__dict__)
        if parent:
            setattr(self.modules[parent], last, made)
        return made

    def has(self, module: str) -> bool:
        return any(known == module or known.startswith(module + ".") for known in self.files)

    def find(self, name: str, space: Any = None, local: Any = None, wanted: Any = (), level: int = 0) -> Any:
        """What an import statement of these files calls."""
        module = name
        if level > 0:
            folder = (space or {}).get("__package__", "").split(".")
            module = ".".join([*folder[:len(folder) - level + 1], *filter(None, [name])])
        if not self.has(module):
            return builtins.__import__(name, space, local, wanted or (), level)
        found = self.load(module)
        if not wanted:
            return found if level > 0 else self.load(module.partition(".")[0])
        for each in wanted:
            if not hasattr(found, each) and self.has(f"{module}.{each}"):
                self.load(f"{module}.{each}")
        return found


def load(host: dict[str, Any], files: tuple[tuple[str, str, str, bool], ...], class_name: str, plugin: str) -> type[Memory]:
    """The memory's class. `host` holds the program's functions, `files` name, file name and text of each module, the memory's
    own first."""
    own = _Files(files)
    main = _with_same_torch("the import", (files[0][1], 1), own.load, files[0][0])
    for module in list(own.modules.values()):
        _name_backward_passes(module, plugin)
    cls: type[Memory] = getattr(main, class_name)
    cls._host = types.SimpleNamespace(**host)
    from . import checking  # imports torch
    checking.install(sys.modules[__name__], cls)
    return cls


def _name_backward_passes(module: types.ModuleType, plugin: str) -> None:
    """The backward of an autograd.Function runs outside all hooks, so an error of it has to name the memory."""
    import torch
    for value in list(vars(module).values()):
        if (isinstance(value, type) and issubclass(value, torch.autograd.Function) and value.__module__ == module.__name__
                and "backward" in vars(value)):
            value.backward = staticmethod(_named(value.backward, plugin, value.__name__))  # type: ignore[method-assign]


def _named(function: Callable[..., Any], plugin: str, name: str) -> Callable[..., Any]:
    def backward(ctx: Any, *gradients: Any) -> Any:
        try:
            return function(ctx, *gradients)
        except Exception as error:
            _, file, line, text = describe_error(error)
            raise RuntimeError(f"plugin {plugin}, backward of {name}: {text} (at {file}:{line})") from error
    return backward


def describe_error(error: BaseException) -> tuple[int, str, int, str]:
    """The ABI's code, file, line and text of an exception: the innermost line of the memory's own files."""
    if isinstance(error, SyntaxError):
        return errors.INTERNAL, error.filename or "", error.lineno or 0, f"{type(error).__name__}: {error.msg}"
    file, line, is_own = "", 0, False
    trace = error.__traceback__
    while trace is not None:
        name = trace.tb_frame.f_code.co_filename
        if name in _own_files or not is_own:
            file, line, is_own = name, trace.tb_lineno, name in _own_files
        trace = trace.tb_next
    if isinstance(error, HostError):
        file, line = error.place if error.place[0] else (file, line)
        return error.code, file, line, str(error)
    is_memory = isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError"
    text = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    if isinstance(error, OSError) and PACKED in str(error.filename):
        text += ("; a memory runs packed into a plugin file and has no folder: write what it reads into a module, or give its "
                 "path in an option of text")
    return errors.OUT_OF_MEMORY if is_memory else errors.INTERNAL, file, line, text


# ---- create ----


def create(cls: type[Memory], sizes: tuple[Any, ...]) -> tuple[Any, ...]:
    """An instance, and the fields of mneme_tier_traits: flags, wants, absorb, sites, context_rows, max_segment, read_rows, key_width,
    value_width."""
    memory = cls()
    for key, option in options_of(cls):
        setattr(memory, key, cls._host.option(key, TYPES.index(option.type) + 1))
    memory._dtypes = _dtypes()
    s = Setup(cls._host, sizes)
    _with_same_torch("setup", None, memory.setup, s)
    _refuse_own_parameters(memory)
    memory._wants = s._wants
    memory._names = _Declared(s._parameters, s._slots, s._counts, s._queues, s._modules)
    return (memory, *s._traits(cls.has))


def _refuse_own_parameters(memory: Memory) -> None:
    """Errors: HostError for what `self` holds that should learn, or be saved, and that the host does not know."""
    import torch
    for name, value in vars(memory).items():
        parts = value.values() if isinstance(value, dict) else value if isinstance(value, (list, tuple)) else [value]
        for part in parts:
            own = ""
            if isinstance(part, torch.nn.Module):
                tensors = itertools.chain(part.named_parameters(), part.named_buffers())
                own = next((f"a module with {path}" for path, tensor in tensors if not tensor.is_meta), "")
            elif isinstance(part, torch.Tensor) and part.requires_grad:
                own = "a tensor that requires a gradient"
            if own:
                raise HostError(f"self.{name} holds {own}, which the host would neither train nor save: declare it with "
                                "s.module / s.parameter, what it remembers with s.slot",
                                place=errors.first_line(type(memory).setup))


def options_of(cls: type[Memory]) -> list[tuple[str, Option]]:
    """The options of a class, those of its bases first."""
    found: dict[str, Option] = {}
    for each in reversed(cls.__mro__):
        for key, value in vars(each).items():
            if isinstance(value, Option):
                found[key] = value
            else:
                found.pop(key, None)
    return list(found.items())


# ---- hooks ----


def run_hook(memory: Memory, hook: str, *arguments: Any) -> Any:
    """Calls a hook with the objects that it gets. Checks of a memory take this function's place."""
    return _with_same_torch(hook, None, getattr(memory, hook), *arguments)


def _expect(memory: Memory, hook: str, result: Any, kind: type, words: str) -> None:
    if not isinstance(result, kind):
        raise HostError(f"{hook} gives a {type(result).__name__}: expected {words}",
                        place=errors.first_line(getattr(type(memory), hook)))


def _expect_nothing(memory: Memory, hook: str, result: Any, instead: str) -> None:
    if result is not None:
        _expect(memory, hook, result, type(None), f"nothing; {instead}")


def _expect_tensors(memory: Memory, hook: str, *values: Any) -> None:
    import torch
    for value in values:
        if value is not None:
            _expect(memory, hook, value, torch.Tensor, "a tensor")


def begin(memory: Memory, segment: tuple[Any, ...]) -> Optional[tuple[Any, ...]]:
    riders: Optional[Riders] = run_hook(memory, "begin", Segment(memory, segment))
    if riders is None:
        return None
    _expect(memory, "begin", riders, Riders, "mneme.Riders or None")
    _expect_tensors(memory, "begin", riders.rows, riders.valid)
    return riders.rows, riders.valid, riders.unseen


def absorb(memory: Memory, segment: tuple[Any, ...], layer: int, flags: int, rows: tuple[Any, ...], x: Any, z: Any, lse: Any,
           q: Any, k: Any, v: Any, mass: Any, mass_rows: int, context_k: Any, context_v: Any) -> None:
    given = Layer(memory, segment, layer, x)
    given.local = Local(memory, z=z, lse=lse, q=q, k=k, v=v, mass=mass, mass_rows=mass_rows, context_k=context_k,
                        context_v=context_v, is_own_segment=bool(flags & 1))
    _expect_nothing(memory, "absorb", run_hook(memory, "absorb", given, Rows._from_host(rows)),
                    "what is to be remembered goes into layer.set or a queue")


def context(memory: Memory, segment: tuple[Any, ...], layer: int, x: Any) -> None:
    _expect_nothing(memory, "context", run_hook(memory, "context", Layer(memory, segment, layer, x)),
                    "rows that the tokens may attend to go into layer.emit")


def ride(memory: Memory, segment: tuple[Any, ...], layer: int, riders: int, q: Any, k: Any, v: Any, valid: Any, hidden: Any,
         is_last: int) -> Any:
    given = Ride(memory, riders=riders, q=q, k=k, v=v, hidden=hidden, is_last=bool(is_last))
    given.valid = valid
    result = run_hook(memory, "ride", Layer(memory, segment, layer, None), given)
    _expect_tensors(memory, "ride", result)
    return result


def read(memory: Memory, segment: tuple[Any, ...], layer: int, site: int, q: Any, k: Any, v: Any, z: Any, lse: Any,
         projected: Any, x: Any, normed: Any) -> tuple[Any, ...]:
    given = Queries(memory, site="heads" if site == 1 else "out", q=q, k=k, v=v, z=z, lse=lse, projected=projected, normed=normed)
    result = run_hook(memory, "read", ReadingLayer(memory, segment, layer, x), given)
    if result is None:
        return Read(0)
    _expect(memory, "read", result, Read, "mneme.add(tensor), gate, lse, replace or nothing")
    _expect_tensors(memory, "read", result.out, result.gate, result.lse)
    return result  # type: ignore[no-any-return]


def finish(memory: Memory, segment: tuple[Any, ...], top: Any, targets: Any, logp: Any, layers: Any, riders: Any) -> None:
    given = Finish(memory, top=top, targets=targets, logp=logp, layers=layers, riders=riders)
    _expect_nothing(memory, "finish", run_hook(memory, "finish", Segment(memory, segment), given),
                    "what is to be remembered goes into segment.set or a queue")
