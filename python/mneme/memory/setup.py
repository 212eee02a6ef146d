"""What `Memory.setup` gets: the backbone's sizes, and the declarations of parameters and state."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Callable, Literal, Mapping, Optional, Sequence, TypeVar, Union

from .errors import HostError
from .rows import KINDS, RowsKind
from .starts import Start, constant, fan_in_uniform, normal, zeros

if TYPE_CHECKING:
    import torch

LANES = -1
"""In a shape: the number of lanes B."""
ANY = -2
"""In the shape of a slot: an extent that changes with what is written, 0 at the start."""

Scope = Literal["layer", "model"]
Site = Literal["heads", "out"]

WANTS = {
    "absorb_x": 0, "absorb_z": 1, "absorb_lse": 2, "absorb_q": 3, "absorb_k": 4, "absorb_v": 5, "absorb_mass": 6,
    "absorb_context_kv": 7, "read_q": 16, "read_k": 17, "read_v": 18, "read_z": 19, "read_lse": 20, "read_projected": 21,
    "read_x": 22, "read_normed": 23, "finish_top": 32, "finish_layers": 33, "finish_targets": 34, "finish_logp": 35,
    "finish_riders": 36,
}
"""Inputs of hooks that a memory asks for, and their bits."""

DTYPES = ("f32", "bf16", "f16", "f64", "i32", "i64", "bool")
"""Names of the element types, in the order of the ABI's numbers, which begin at 1."""

Word = TypeVar("Word")


def place_of(word: str, words: Sequence[str], what: str) -> int:
    """The place of a word in a list. Errors: HostError, which names the list."""
    if word not in words:
        raise HostError(f"{what} is {word!r}: expected one of {', '.join(words)}")
    return list(words).index(word)


def _extents(shape: Sequence[int], what: str) -> tuple[int, ...]:
    """Errors: HostError where the shape is no list of whole numbers."""
    if not isinstance(shape, Sequence) or not all(hasattr(extent, "__index__") for extent in shape):
        raise HostError(f"the shape of {what} is {shape!r}: expected a list of whole numbers, such as [mneme.LANES, s.width]")
    return tuple(shape)


class Names:
    """Ids of what one instance declared, by name."""

    def __init__(self, what: str) -> None:
        self.what = what
        self.ids: dict[str, int] = {}

    def __getitem__(self, name: str) -> int:
        try:
            return self.ids[name]
        except KeyError:
            known = ", ".join(self.ids) or "none"
            raise HostError(f'no {self.what} "{name}" was declared in setup; declared: {known}') from None


class Setup:
    """Lives during `setup`. Sizes are whole numbers, with the letters of docs/notation.md.

    width (D), heads (H), head_width (d), kv_heads (G, heads of keys and values; divides H), layers (L), served (indices of the layers
    that this tier serves), segment (T of the run), bptt_segments, position ("relative", "rotary", ...), attention_dropout,
    compute_dtype ("f32", "bf16", ...), is_evaluation, is_pre_norm."""

    def __init__(self, host: Any, sizes: tuple[Any, ...]) -> None:
        self._host = host
        (flags, self.width, self.heads, self.head_width, self.layers, self.served, self.segment, self.bptt_segments,
         self.position, compute_dtype, self.attention_dropout, self.kv_heads) = sizes
        self.compute_dtype: str = DTYPES[compute_dtype - 1]
        self.is_evaluation = bool(flags & 1)
        self.is_pre_norm = bool(flags & 2)
        self._parameters, self._slots = Names("parameter"), Names("slot")
        self._counts, self._queues = Names("slot of counts"), Names("queue")
        self._modules: dict[str, tuple[torch.nn.Module, list[tuple[str, int]]]] = {}
        self._flags = self._wants = self._sites = self._absorb = 0
        self._context_rows = self._max_segment = self._read_rows = self._key_width = self._value_width = 0
        self._rides = True

    width: int  #: D
    heads: int  #: H
    head_width: int  #: d
    kv_heads: int  #: G, heads of keys and values; divides H
    layers: int  #: L
    served: tuple[int, ...]  #: indices of the layers that this tier serves, ascending
    segment: int  #: T of the run
    bptt_segments: int  #: segments through which a slot of gradient="through" keeps its graph
    position: str  #: model.position: "relative", "rotary", ...
    attention_dropout: float

    def parameter(self, name: str, shape: Sequence[int], start: Start = zeros(), *, scope: Scope = "layer",
                  lr_factor: float = 1.0, group: Optional[Literal["none"]] = None) -> None:
        """Declares a learned tensor, one for each layer served or one for the model: f32, f64 in f64 runs.

        `lr_factor`: factor of the learning rate. `group`: "none" = without weight decay."""
        place = place_of(scope, ("layer", "model"), "scope")
        self._parameters.ids[name] = self._host.add_parameter(
            name, place, _extents(shape, f'parameter "{name}"'), start.rule, start.value, start.mean, start.deviation, start.low, start.high, start.gain,
            start.fan_in, lr_factor, group)

    def slot(self, name: str, shape: Sequence[int], start: Union[Start, str] = zeros(), *, dtype: str = "f32",
             scope: Scope = "layer", gradient: Literal["stop", "through"] = "stop",
             lifetime: Literal["run", "segment"] = "run", revision: int = 0) -> None:
        """Declares state in one tensor. The first extent is LANES for state of the lanes.

        `start`: zeros(), constant(x), or the name of a parameter of the slot's shape without LANES. `gradient`: "stop" cuts
        the graph at the end of a segment, "through" keeps it over train.bptt_segments segments. `lifetime`: "segment"
        starts afresh with each segment. Slots of "f32" are f64 in f64 runs."""
        rule, parameter, value = 0, 0, 0.0
        if isinstance(start, str):
            rule, parameter = 2, self._parameters[start]
        elif start.rule > 1:
            raise HostError("a slot starts with zeros(), constant(x) or a parameter's name: random starts belong to parameters")
        else:
            rule, value = start.rule, start.value
        self._slots.ids[name] = self._host.add_slot(
            name, 0, place_of(scope, ("layer", "model"), "scope"), place_of(dtype, DTYPES, "dtype") + 1,
            place_of(gradient, ("stop", "through"), "gradient"), place_of(lifetime, ("run", "segment"), "lifetime"), revision,
            _extents(shape, f'slot "{name}"'), rule, parameter, value)

    def counts(self, name: str, *, scope: Scope = "layer", revision: int = 0) -> None:
        """Declares whole numbers that stay on the CPU and that hooks read, one for each lane, 0 in a fresh one."""
        self._counts.ids[name] = self._host.add_slot(name, 1, place_of(scope, ("layer", "model"), "scope"), 6, 0, 0, revision,
                                                     (LANES,), 0, 0, 0.0)

    def queue(self, name: str, *, kind: RowsKind = "hidden", scope: Scope = "layer", keeps_position: bool = False,
              keeps_mass: bool = False, revision: int = 0, start_rows: int = 0, capacity: int = 0) -> None:
        """Declares state in rows, first in first out.

        `capacity`: rows that the memory keeps at most, by popping them itself; 0 = unknown, -1 = none. `start_rows`: rows of
        zeros that a fresh lane starts with."""
        self._queues.ids[name] = self._host.add_queue(
            name, place_of(scope, ("layer", "model"), "scope"), place_of(kind, KINDS, "kind"),
            int(keeps_position) + 2 * int(keeps_mass), revision, start_rows, capacity)

    def module(self, name: str, module: torch.nn.Module, *, scope: Scope = "layer",
               starts: Optional[Mapping[str, Start]] = None) -> None:
        """Declares the parameters of a torch.nn.Module, which is made under `torch.device("meta")`: the host owns them, and
        `layer.module(name)` computes with them.

        They begin as torch begins Linear, convolutions, recurrent cells, norms and Embedding; `starts` gives the start of others by their
        name in the module. What a module's own __init__ writes into them is lost on meta: give it in `starts`. A module with
        buffers is refused: state belongs to slots."""
        buffers = [path for path, _ in module.named_buffers()]
        if buffers:
            raise HostError(f'module "{name}" has the buffer {buffers[0]}: state belongs to slots, constants to layer.constant')
        given = dict(starts or {})
        others = set(given) - {path for path, _ in module.named_parameters()}
        if others:
            raise HostError(f'module "{name}" has no parameter {min(others)}, for which starts gives a start: it has '
                            f'{", ".join(path for path, _ in module.named_parameters())}')
        paths = []
        for path, parameter in module.named_parameters():
            if parameter.device.type != "meta":
                raise HostError(f'module "{name}": {path} lies on {parameter.device}; make the module under '
                                'torch.device("meta"), because the host owns its parameters')
            start = given.get(path) or _start_in(module, path, name)
            own = f"{name}_{path}".replace(".", "_").lower()
            self.parameter(own, parameter.shape, start, scope=scope)
            paths.append((path, self._parameters[own]))
        self._modules[name] = (module, paths)

    def absorbs_before_reading(self) -> None:
        """`absorb` runs before the layer reads, with the rows that wait since the last segment."""
        self._absorb = 1

    def absorbs_after_segment(self) -> None:
        """`absorb` runs at the end of the layer, which is the default."""
        self._absorb = 2

    def reads_at(self, *sites: Site) -> None:
        """Where `read` joins: "heads" before the output projection, "out" (the default) behind it."""
        for site in sites:
            self._sites |= 1 << place_of(site, ("heads", "out"), "site")

    def wants(self, *inputs: str) -> None:
        """Inputs for absorb, read and finish: "absorb_" with x, z, lse, q, k, v, mass or context_kv; "read_" with q, k, v, z, lse,
        projected, x or normed; "finish_" with top, layers, targets, logp or riders. Each is a property of what the hook gets,
        and is said there."""
        for name in inputs:
            place_of(name, tuple(WANTS), "an input")
            self._wants |= 1 << WANTS[name]

    def context_rows(self, rows: int) -> None:
        """Most rows that `context` emits for a layer, riders included. The host refuses more."""
        self._context_rows = rows

    def read_rows(self, rows: int) -> None:
        """Most rows of queues that `read` looks at in a layer beside those. The host refuses more."""
        self._read_rows = rows

    def max_segment(self, length: int) -> None:
        """Longest segment that the memory can serve."""
        self._max_segment = length

    def releases(self) -> None:
        """The memory calls `layer.release`."""
        self._flags |= 1

    def emits_token_bias(self) -> None:
        """The memory calls `layer.emit_token_bias`."""
        self._flags |= 4

    def has_no_riders(self) -> None:
        """With these options `begin` never gives riders, although the class has `ride`."""
        self._rides = False

    def is_cut_invariant(self) -> None:
        """Losses do not depend on how a text is cut into segments, as long as no row is dropped."""
        self._flags |= 8

    def takes_grouped_keys(self) -> None:
        """Keys and values come and go with kv_heads heads; otherwise with `heads`, in copies where heads share them."""
        self._flags |= 16

    def replaces_attention(self, key_width: int = 0, value_width: int = 0) -> None:
        """The memory works in place of the attention of the layers that it serves: `read`, at one site, returns replace(out).

        The program projects what is wanted of "read_q", "read_k" and "read_v", with heads of these widths; 0 = head_width."""
        self._flags |= 32
        self._key_width, self._value_width = key_width, value_width

    def _traits(self, has: Callable[[str], bool]) -> tuple[int, ...]:
        """As runtime.create gives them; `has` says whether the class has a hook."""
        if has("ride") and self._rides:
            self._flags |= 2
        absorb = self._absorb or 2
        return (self._flags, self._wants, absorb if has("absorb") else 0, (self._sites or 2) if has("read") else 0,
                self._context_rows, self._max_segment, self._read_rows, self._key_width, self._value_width)


def _start_in(module: torch.nn.Module, path: str, name: str) -> Start:
    """How torch begins the parameter at `path`. Errors: HostError where no rule is known."""
    import torch
    owner = module.get_submodule(path.rpartition(".")[0])
    last = path.rpartition(".")[2]
    if isinstance(owner, torch.nn.Embedding) and owner.padding_idx is not None:
        raise HostError(f'module "{name}": {path} of Embedding has padding_idx {owner.padding_idx}, a row that torch keeps at '
                        "zero: make it without one, and mask the rows")
    torch_class = next(each for each in type(owner).__mro__ if each.__module__.startswith("torch."))
    # A class with a reset_parameters of its own begins otherwise.
    if getattr(type(owner), "reset_parameters", None) is getattr(torch_class, "reset_parameters", None):
        if isinstance(owner, torch.nn.Bilinear):
            return fan_in_uniform(owner.weight.size(1))
        if isinstance(owner, (torch.nn.Linear, torch.nn.modules.conv._ConvNd)):
            return fan_in_uniform(owner.weight[0].numel())
        if isinstance(owner, (torch.nn.LayerNorm, torch.nn.GroupNorm, torch.nn.RMSNorm)):
            return constant(1.0) if last == "weight" else zeros()
        if isinstance(owner, (torch.nn.RNNBase, torch.nn.RNNCellBase)):
            return fan_in_uniform(owner.hidden_size)
        if isinstance(owner, torch.nn.Embedding):
            return normal(0.0, 1.0)
    raise HostError(f'module "{name}": no start is known for {path} of {type(owner).__name__}; give one, '
                    f'starts={{"{path}": mneme.normal(0, 0.02)}}')
