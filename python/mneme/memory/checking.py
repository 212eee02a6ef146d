"""Checks of what the contract forbids and PyTorch allows: on while `mneme plugins validate` and `mneme plugins try` run a
memory, which set MNEME_PYTHON_CHECKS to names of CHECKS.

A hook that breaks a rule fails with an error that names its line and says what to write instead."""

from __future__ import annotations

import ctypes
import sys
import types
import weakref
from typing import Any, Callable, Iterator

import torch
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes

from . import errors
from .errors import HostError
from .memory import Memory
from .rows import Rows
from .segment import Segment

VARIABLE = "MNEME_PYTHON_CHECKS"
CHECKS = ("values", "writes", "random", "keeps", "dtype")

VALUES = {
    "_local_scalar_dense": ".item(), float(), int() and bool() of a tensor read a value",
    "is_nonzero": "bool() of a tensor reads a value",
    "item": ".item() reads a value",
    "equal": "torch.equal reads a value",
    "nonzero": "nonzero gives a shape that depends on values",
    "nonzero_numpy": "nonzero gives a shape that depends on values",
    "argwhere": "argwhere gives a shape that depends on values",
    "masked_select": "masked_select gives a shape that depends on values",
    "_unique": "unique gives a shape that depends on values",
    "_unique2": "unique gives a shape that depends on values",
    "unique_dim": "unique gives a shape that depends on values",
    "unique_consecutive": "unique gives a shape that depends on values",
    "bincount": "bincount gives a shape that depends on values",
}
FACTORIES = ("empty_like", "zeros_like", "ones_like", "full_like", "new_empty", "new_empty_strided", "new_zeros", "new_ones",
             "new_full")
"""They take nothing but the shape of what they are given."""
INDEXING = ("index", "index_put", "index_put_", "_index_put_impl_")
INSTEAD_OF_VALUES = ("a hook may not depend on values, because a GPU would have to be waited for: choose with "
                     "torch.where(condition, a, b); numbers that decide belong into s.counts(...), shapes follow from options "
                     "and counts")
INSTEAD_OF_WRITES = ("the host keeps it, and an error would not undo the write: make a new tensor (a + b in place of a += b, "
                     "torch.where, torch.cat) and give it to layer.set or queue.append")
INSTEAD_OF_RANDOM = ("runs resume bit for bit only with the host's numbers: draw with layer.uniform(name, shape) or "
                     "layer.normal(name, shape), and drop out with torch.where(layer.uniform(...) < rate, 0, x / (1 - rate))")
INSTEAD_OF_KEEPS = ("lanes that are reset, copied or saved would not take it along: keep it in a slot (s.slot, layer.set) or a "
                    "queue, a constant in layer.constant")
INSTEAD_OF_DTYPE = ("runs in f64 lose these digits, and gradients can be compared to about 1e-2 alone: keep the dtype of what the "
                    "hook is given (x.dtype), and make tensors with it (x.new_zeros(shape) in place of torch.zeros(shape)); the "
                    "line may stay where a kernel has no float64")


def _tensors(value: Any, depth: int = 4) -> Iterator[torch.Tensor]:
    """Tensors in what a hook gets, or in what it gives to the host."""
    if isinstance(value, torch.Tensor):
        yield value
    elif depth > 0 and isinstance(value, (tuple, list)):
        for each in value:
            yield from _tensors(each, depth - 1)
    elif depth > 0 and (isinstance(value, Rows) or type(value).__module__ == Segment.__module__):
        for each in vars(value).values():
            yield from _tensors(each, depth - 1)


def _storage(tensor: torch.Tensor) -> int:
    return int(tensor.untyped_storage()._cdata)


class _Watch(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Looks at each operation of a hook. `kept`: tensors of the host, by their storage."""

    def __init__(self, checks: set[str], hook: str) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.checks, self.hook = checks, hook
        self.kept: dict[int, torch.Tensor] = {}  # the tensors live, so that no storage comes twice

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """torch's: otherwise the first operation imports torch._dynamo, which takes seconds of a trial's time."""
        return False

    def keep(self, value: Any) -> None:
        for tensor in _tensors(value):
            self.kept[_storage(tensor)] = tensor

    def __torch_dispatch__(self, function: Any, kinds: Any, args: Any = (), named: Any = None) -> Any:
        named = named or {}
        if "values" in self.checks:
            self._check_values(function, args)
        if "random" in self.checks and torch.Tag.nondeterministic_seeded in function.tags:
            raise _refused("random", self.hook, f"{_name(function)} draws from torch's generator", INSTEAD_OF_RANDOM)
        if "writes" in self.checks and function._schema.is_mutable:
            self._check_writes(function, args, named)
        result = function(*args, **named)
        if "dtype" in self.checks and _name(function) not in FACTORIES:
            self._check_dtype(function, [*args, *named.values()], result)
        return result

    def _check_values(self, function: Any, args: Any) -> None:
        name = _name(function)
        if name in VALUES:
            raise _refused("values", self.hook, VALUES[name], INSTEAD_OF_VALUES)
        if name == "repeat_interleave" and "Tensor" in function._overloadname:
            raise _refused("values", self.hook, "repeat_interleave with a tensor gives a shape that depends on values",
                           INSTEAD_OF_VALUES)
        if name in INDEXING and any(t.dtype in (torch.bool, torch.uint8) for t in _tensors(args[1])):
            raise _refused("values", self.hook, "an index of booleans gives a shape that depends on values", INSTEAD_OF_VALUES)

    def _check_writes(self, function: Any, args: Any, named: Any) -> None:
        for place, argument in enumerate(function._schema.arguments):
            if argument.alias_info is None or not argument.alias_info.is_write:
                continue
            value = args[place] if place < len(args) else named.get(argument.name)
            if any(_storage(tensor) in self.kept for tensor in _tensors(value)):
                raise _refused("writes", self.hook, f"{_name(function)} writes into a tensor of the host", INSTEAD_OF_WRITES)

    def _check_dtype(self, function: Any, given: list[Any], result: Any) -> None:
        if not any(tensor.dtype == torch.float64 for tensor in _tensors(given)):
            return
        for tensor in _tensors(result):
            if tensor.is_floating_point() and tensor.dtype != torch.float64:
                kind = str(tensor.dtype).removeprefix("torch.")
                raise _refused("dtype", self.hook, f"{_name(function)} rounds float64 to {kind}", INSTEAD_OF_DTYPE)


def _name(function: Any) -> str:
    return str(function._schema.name).rpartition("::")[2]


def _refused(check: str, hook: str, what: str, instead: str) -> HostError:
    return HostError(f"python.{check}: {what}; {instead}", errors.STATE)


# ---- what the host's functions get and give ----

GIVES_ITS_OWN = ("parameter", "slot_get", "queue_", "weight", "positions", "constant_")
TAKES = ("slot_set", "queue_append", "queue_assign", "release", "emit_block")
_running: list[_Watch] = []


class _Host:
    """The host's functions, which compute outside the checks; tensors that the host keeps are noted."""

    def __init__(self, host: Any) -> None:
        for name, function in vars(host).items():
            setattr(self, name, self._noted(name, function) if callable(function) else function)

    @staticmethod
    def _noted(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        is_kept = name.startswith(GIVES_ITS_OWN)

        def call(*arguments: Any) -> Any:
            with _disable_current_modes():
                result = function(*arguments)
            if _running and is_kept:
                _running[-1].keep(result)
            if _running and name in TAKES:
                _running[-1].keep(arguments)
            return result
        return call


# ---- tensors that stay ----


def _kept_tensors(memory: Memory) -> dict[int, str]:
    """Tensors that the memory's instance, its class and the modules of its files hold: where each is."""
    prefix = type(memory).__module__.partition(".")[0]
    found: dict[int, str] = {}
    seen: set[int] = set()
    waiting: list[tuple[str, Any]] = [("self", vars(memory))]
    for name, module in list(sys.modules.items()):
        if name.startswith(prefix + "."):
            waiting.append((name.partition(".")[2], vars(module)))
    while waiting:
        name, value = waiting.pop()
        if id(value) in seen:
            continue
        seen.add(id(value))
        if isinstance(value, torch.Tensor):
            found[id(value)] = name
        else:
            waiting.extend(_parts(name, value, prefix))
    return found


def _parts(name: str, value: Any, prefix: str) -> Iterator[tuple[str, Any]]:
    """What an object of a memory's files holds."""
    if isinstance(value, dict):
        for key, each in list(value.items()):
            is_name = isinstance(key, str) and key.isidentifier()
            if not (is_name and key.startswith("__")):
                yield (f"{name}.{key}" if is_name else f"{name}[{key!r}]"), each
    elif isinstance(value, (list, tuple, set, frozenset)) or type(value).__name__ == "deque":
        for place, each in enumerate(list(value)):
            yield f"{name}[{place}]", each
    elif isinstance(value, types.FunctionType):
        if value.__module__.startswith(prefix):
            yield f"{name}.__dict__", vars(value)
            yield f"{name}.__defaults__", value.__defaults__
            for cell in value.__closure__ or ():
                yield f"{name} (a variable around it)", getattr(cell, "cell_contents", None)
    elif isinstance(value, torch.nn.Module) or type(value).__module__.startswith(prefix):
        yield name, getattr(value, "__dict__", None)
    elif isinstance(value, type) and value.__module__.startswith(prefix):
        yield name, dict(vars(value))


# ---- hooks ----

_prepared: list[bool] = []
_run_hook: list[Any] = [None]
"""The one with checks, where it has been made."""
_before_first: weakref.WeakKeyDictionary[Memory, set[int]] = weakref.WeakKeyDictionary()


def checked(run_hook: Callable[..., Any], checks: set[str]) -> Callable[..., Any]:
    """`run_hook` (runtime.py) with checks around it."""

    def run(memory: Memory, hook: str, *arguments: Any) -> Any:
        watch = _Watch(checks, hook)
        watch.keep(arguments)
        if "keeps" in checks and memory not in _before_first:
            _before_first[memory] = set(_kept_tensors(memory))
        generators = _generators() if "random" in checks else None
        _running.append(watch)
        try:
            with watch:
                result = run_hook(memory, hook, *arguments)
        finally:
            _running.pop()
        if generators is not None and not all(map(torch.equal, generators, _generators())):
            raise _placed(memory, hook, _refused("random", hook, "the hook changes torch's generator", INSTEAD_OF_RANDOM))
        if "keeps" in checks:
            new = [place for key, place in _kept_tensors(memory).items() if key not in _before_first[memory]]
            if new:
                raise _placed(memory, hook, _refused("keeps", hook, f"{new[0]} still holds a tensor when the hook has "
                                                     "returned", INSTEAD_OF_KEEPS))
        return result

    return run


def _generators() -> list[torch.Tensor]:
    states = [torch.get_rng_state()]
    if torch.cuda.is_available() and torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
        states += torch.cuda.get_rng_state_all()
    return states


def _placed(memory: Memory, hook: str, error: HostError) -> HostError:
    """The error with the hook's first line as its place: nothing of the hook runs any more."""
    error.place = errors.first_line(getattr(type(memory), hook))
    return error


# ---- methods that call no operation, and code that no rule concerns ----


def _say_values(name: str, what: str) -> None:
    """Reading all values of a tensor calls no operation, so these methods of torch.Tensor say it themselves."""
    inner = getattr(torch.Tensor, name)

    def method(tensor: torch.Tensor, *arguments: Any, **named: Any) -> Any:
        if _running and "values" in _running[-1].checks:
            raise _refused("values", _running[-1].hook, what, INSTEAD_OF_VALUES)
        return inner(tensor, *arguments, **named)
    setattr(torch.Tensor, name, method)


def prepare() -> None:
    """What all checks need of torch.Tensor and Segment, once a process."""
    if _prepared:
        return
    _prepared.append(True)
    for name in ("tolist", "numpy", "__array__"):
        _say_values(name, f".{name}() reads values")
    constant = Segment.constant

    def constant_outside(segment: Segment, key: str, make: Callable[[], Any]) -> Any:
        def made() -> Any:
            running = _running[:]
            _running.clear()
            try:
                with _disable_current_modes():
                    return make()
            finally:
                _running.extend(running)
        return constant(segment, key, made)
    Segment.constant = constant_outside  # type: ignore[method-assign, assignment]


def wanted() -> set[str]:
    """The checks that the environment names now: os.environ is as old as the interpreter."""
    getenv = ctypes.CDLL(None).getenv
    getenv.restype = ctypes.c_char_p
    return set((getenv(VARIABLE.encode()) or b"").decode().split(",")) & set(CHECKS)


def install(runtime: Any, memory: type[Memory]) -> None:
    """Turns the checks on that the environment names, for a memory's class. The runtime calls it when it loads one."""
    checks = wanted()
    if not checks:
        return
    memory._host = _Host(memory._host)
    if runtime.run_hook is _run_hook[0]:
        return
    prepare()
    runtime.run_hook = _run_hook[0] = checked(runtime.run_hook, checks)
