"""What hooks get: the running segment, the layer that they run in, and their inputs.

All of them end with the hook. Tensors are the host's own, in its graph: a hook may not write into them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Callable, Literal, Optional, Sequence, Union

from .errors import HostError
from .rows import Rows, given_rows
from .setup import WANTS, place_of

if TYPE_CHECKING:
    import torch
    from torch import Tensor

    from .memory import Memory


class Wanted:
    """An input: the instance's own value. One that the memory did not ask for is an error, which says how to."""

    def __init__(self, want: str, words: str) -> None:
        self.want, self.__doc__ = want, words

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def __get__(self, instance: Any, owner: type) -> Any:
        if instance is None:
            return self
        value = instance.__dict__.get(self.name)
        if value is None and not instance._wants >> WANTS[self.want] & 1:
            raise HostError(f'{self.name} is not here, because the memory does not want it: say s.wants("{self.want}") '
                            'in setup')
        return value

    def __set__(self, instance: Any, value: Any) -> None:
        """Being here, it comes before the instance's own value."""
        raise AttributeError(f"{self.name} is an input of the hook: it cannot be set")


class Inputs:
    """Inputs of one hook; None = not there."""

    def __init__(self, memory: Memory, **given: Any) -> None:
        given["_wants"] = memory._wants
        self.__dict__ = given


class Local(Inputs):
    """What the layer's attention made, for `absorb` after the segment."""

    z = Wanted("absorb_z", "[B,T,H,d]")
    lse = Wanted("absorb_lse", "[B,H,T]")
    q = Wanted("absorb_q", "[B,T,H,d] without position terms or biases")
    k = Wanted("absorb_k", "as q")
    v = Wanted("absorb_v", "as q")
    mass = Wanted("absorb_mass", "[B,R+T] f32, detached: attention mass of each key column")
    context_k = Wanted("absorb_context_kv", "[B,R,H,d], detached: keys of this tier's own blocks, first to last")
    context_v = Wanted("absorb_context_kv", "as context_k")
    mass_rows: int  #: R, this tier's columns
    is_own_segment: bool  #: the rows that absorb was given are this segment's tokens


class Queries(Inputs):
    """What `read` gets: what the layer's attention made for the tokens."""

    site: Literal["heads", "out"]
    q = Wanted("read_q", "[B,T,H,d] without position terms or biases")
    k = Wanted("read_k", "[B,offset+T,H,d] likewise: all tokens of the segment so far")
    v = Wanted("read_v", "as k")
    z = Wanted("read_z", "[B,T,H,d] local attention's result")
    lse = Wanted("read_lse", "[B,H,T]")
    projected = Wanted("read_projected", '[B,T,D] at the site "out"')
    normed = Wanted("read_normed", "[B,T,D] the projections' input: the layer's input behind its norm")


class Finish(Inputs):
    """What `finish` gets: results of the whole segment. `targets` and `logp` are None where there are no targets."""

    top = Wanted("finish_top", "[B,T,D] the last layer's output")
    targets = Wanted("finish_targets", "[B,T] i64; -1 = no target")
    logp = Wanted("finish_logp", "[B,T] log-probability of the target, 0 without one")
    layers = Wanted("finish_layers", "outputs of all L layers, [B,T,D] each")
    riders = Wanted("finish_riders", "[B,M,D] the last layer's output of the riders; None without any")


class Ride(Inputs):
    """What `ride` gets: what the riders' attention works on, in the compute dtype."""

    riders: int  #: M
    q: Tensor  #: [B,M,H,d] the riders' queries
    k: Tensor  #: [B,M+T,H,d] riders' keys, then tokens'
    v: Tensor  #: as k
    valid: Optional[Tensor]  #: [B,M+T] bool; None = all
    hidden: Tensor  #: [B,M,D] the riders' input of this layer
    is_last: bool  #: the last layer, and finish gets no riders: the result may be None


class Queue:
    """A queue's rows in the running hook."""

    def __init__(self, host: Any, id: int) -> None:
        self._host, self._id = host, id

    @property
    def size(self) -> int:
        """Rows, invalid ones included; the same number for all lanes."""
        return int(self._host.queue_size(self._id))

    def blocks(self) -> list[Rows]:
        """The content as its blocks, oldest first."""
        return [Rows._from_host(block) for block in self._host.queue_blocks(self._id)]

    def rows(self) -> Rows:
        """The content as one piece, copied when it lies in several blocks; count 0 and no tensors when it is empty."""
        return Rows._from_host(self._host.queue_rows(self._id))

    def append(self, rows: Rows) -> None:
        """Appends a block, detached and immutable from then on."""
        self._host.queue_append(self._id, given_rows(rows, "queue.append"))

    def pop_oldest(self, n: int) -> Rows:
        """Removes the n oldest rows, at most what is there, and returns them as one piece."""
        return Rows._from_host(self._host.queue_pop_oldest(self._id, n, True))

    def drop_oldest(self, n: int) -> None:
        """Removes the n oldest rows, at most what is there, without copying them."""
        self._host.queue_pop_oldest(self._id, n, False)

    def assign(self, rows: Rows, carried: int = -1) -> None:
        """Replaces the content by one block. `carried` says that its first `carried` rows are the queue's newest ones and
        its others the newest rows of the layer's x, so that the keys and values kept with them stay; -1 = no such relation."""
        self._host.queue_assign(self._id, given_rows(rows, "queue.assign"), carried)


class Segment:
    """The running segment, given to `begin` and `finish`; Layer adds what belongs to a layer.

    index (segments since the run's start), lanes (B), length (T, padding included), previous_length, layers (L), valid and
    reset_mask ([B,T] and [B] bool, or None), offset (tokens of an open segment before this call)."""

    def __init__(self, memory: Memory, given: tuple[Any, ...]) -> None:
        self._memory, self._host, self._wants = memory, memory._host, memory._wants
        (self._flags, self.index, self.lanes, self.length, self.previous_length, self.layers, self.offset, self.valid,
         self.reset_mask, self._compute_dtype, self._device_type) = given

    index: int  #: segments since the run's start
    lanes: int  #: B
    length: int  #: T, padding included
    previous_length: int  #: T of the segment before, 0 at the run's start
    layers: int  #: L
    offset: int  #: tokens of an open segment before this call; 0 in closed segments
    valid: Optional[Tensor]  #: [B,T] bool; None = no padding anywhere
    reset_mask: Optional[Tensor]  #: [B] bool; None = no lane starts afresh

    @property
    def is_training(self) -> bool:
        return bool(self._flags & 1)

    @property
    def has_loss(self) -> bool:
        """Training, and this segment's losses count: false where a segment only fills the memory."""
        return bool(self._flags & 9 == 1)

    @property
    def any_reset(self) -> bool:
        return bool(self._flags & 2)

    @property
    def is_open(self) -> bool:
        """Generation: the segment grows step by step."""
        return bool(self._flags & 4)

    @property
    def is_cuda(self) -> bool:
        return bool(self._device_type == 2)

    @property
    def device(self) -> torch.device:
        """Where all tensors of the segment are."""
        import torch
        return torch.device("cuda", torch.cuda.current_device()) if self.is_cuda else torch.device("cpu")

    @property
    def compute_dtype(self) -> torch.dtype:
        """Of x, hidden rows, q, k, v and z."""
        dtype: torch.dtype = self._memory._dtypes[self._compute_dtype - 1]
        return dtype

    @property
    def tokens(self) -> Sequence[int]:
        """[B] tokens of each lane since it started afresh, before this segment, padding not counted."""
        return self._host.lanes()[0]  # type: ignore[no-any-return]

    @property
    def valid_count(self) -> Sequence[int]:
        """[B] of `length`, the tokens of each lane that are no padding; in an open segment those of this step."""
        return self._host.lanes()[1]  # type: ignore[no-any-return]

    @property
    def resets(self) -> Sequence[int]:
        """[B] 1 = this lane starts afresh with this segment."""
        return self._host.lanes()[2]  # type: ignore[no-any-return]

    def parameter(self, name: str) -> Tensor:
        """The current layer's parameter, or the model's, with gradient in training."""
        return self._host.parameter(self._memory._names.parameters[name])  # type: ignore[no-any-return]

    def module(self, name: str) -> Callable[..., Any]:
        """The torch.nn.Module that setup declared, as a function that computes with the host's parameters."""
        import torch
        modules = self._memory._names.modules
        if name not in modules:
            raise HostError(f'no module "{name}" was declared in setup; declared: {", ".join(modules) or "none"}')
        module, paths = modules[name]
        if module.training != self.is_training:
            module.train(self.is_training)
        values = {path: self._host.parameter(id) for path, id in paths}
        return lambda *args, **named: torch.func.functional_call(module, values, args, named)

    def slot(self, name: str) -> Tensor:
        """The slot's newest value in this segment, with its graph."""
        return self._host.slot_get(self._memory._names.slots[name])  # type: ignore[no-any-return]

    def set(self, name: str, value: Tensor) -> None:
        """Replaces the slot's value. Shape and dtype are those of the declaration: nothing is cast."""
        self._host.slot_set(self._memory._names.slots[name], value)

    def counts(self, name: str) -> Sequence[int]:
        """[B] the numbers of a slot of counts."""
        return self._host.counts_get(self._memory._names.counts[name])  # type: ignore[no-any-return]

    def set_counts(self, name: str, values: Sequence[int]) -> None:
        """Replaces them. They may depend on shapes, configuration and counts alone."""
        self._host.counts_set(self._memory._names.counts[name], tuple(values))

    def queue(self, name: str) -> Queue:
        """A queue, to read and to write."""
        return Queue(self._host, self._memory._names.queues[name])

    def aux(self, name: str, value: Tensor, weight: Optional[Tensor] = None) -> None:
        """An auxiliary loss that `losses` of the class names: value [B], or [] for all lanes; weight [B], None = 1 for each
        lane. Its mean over lanes and calls, summed over layers, times the tier's key weight.<name>, is added to the loss."""
        self._host.aux(name, value, weight)

    def metric(self, name: str, value: Tensor, weight: Optional[Tensor] = None) -> None:
        """A number to report, averaged as an auxiliary loss is, without gradient."""
        self._host.metric(name, value, weight)

    def uniform(self, name: str, shape: Sequence[int], dtype: Optional[torch.dtype] = None) -> Tensor:
        """Draws [B, ...] in [0,1), f32 or f64, that are the same for the same seed, tier, layer, lane, segment and name.
        No other random numbers may be used: runs resume bit for bit."""
        return self._draw(self._host.uniform, name, shape, dtype)

    def normal(self, name: str, shape: Sequence[int], dtype: Optional[torch.dtype] = None) -> Tensor:
        """As uniform, from the normal law of mean 0 and standard deviation 1."""
        return self._draw(self._host.normal, name, shape, dtype)

    def _draw(self, function: Any, name: str, shape: Sequence[int], dtype: Optional[torch.dtype]) -> Tensor:
        return function(  # type: ignore[no-any-return]
            name, tuple(shape), 1 if dtype is None else self._memory._dtypes.index(dtype) + 1)

    def wants_probe(self, name: str) -> bool:
        """Whether somebody wants the probe; when not, compute nothing for it."""
        return bool(self._host.wants_probe(name))

    def probe(self, name: str, value: Tensor) -> None:
        """Publishes a tensor, detached; dropped when nobody wants it."""
        self._host.probe(name, value)

    def constant(self, key: str, make: Callable[[], Tensor]) -> Tensor:
        """A tensor that follows from configuration, shapes and counts alone. The host keeps it by `key`, on the segment's
        device; `make` gives it, on the CPU, when there is none yet."""
        found = self._host.constant_find(key)
        if found is not None:
            return found  # type: ignore[no-any-return]
        value = make().detach().cpu().contiguous()
        return self._host.constant_put(  # type: ignore[no-any-return]
            key, tuple(value.shape), self._memory._dtypes.index(value.dtype) + 1, value.data_ptr(), value.nbytes)


PROJECTIONS = ("q", "k", "v", "o")
WEIGHTS = ("q", "k", "v", "o", "norm", "norm_bias", "content_bias", "position_bias")
PLACES = ("place", "explicit", "none")
MASKS = ("causal", "full", "window")


class Layer(Segment):
    """A layer of the backbone during absorb, context, ride or read."""

    x = Wanted("absorb_x", "[B,T,D] the layer's input: always in context, in absorb and read when wanted")
    local: Local  #: in absorb

    def __init__(self, memory: Memory, given: tuple[Any, ...], layer: int, x: Any) -> None:
        super().__init__(memory, given)
        self.layer = layer
        self.__dict__["x"] = x

    layer: int  #: the layer's index in the backbone (`index` counts segments)

    def norm(self, rows: Tensor, *, weight_gradient: bool = True) -> Tensor:
        """The norm before attention as the layer does it, [B,m,D] -> [B,m,D]; identity in a post-norm layer."""
        return self._host.norm(rows, int(not weight_gradient))  # type: ignore[no-any-return]

    def project(self, which: Literal["q", "k", "v", "o"], rows: Tensor, *, weight_gradient: bool = True) -> Tensor:
        """q, k, v: normed rows [B,m,D] -> [B,m,H,d]; o: [B,m,H,d] -> [B,m,D]."""
        return self._host.project(  # type: ignore[no-any-return]
            place_of(which, PROJECTIONS, "the projection") + 1, rows, int(not weight_gradient))

    def weight(self, which: str, *, weight_gradient: bool = True) -> Tensor:
        """A weight itself, f32, f64 in f64 runs: one of WEIGHTS. q, k, v [H*d,D], o [D,H*d], biases [H,d]."""
        place = place_of(which, WEIGHTS, "the weight")
        return self._host.weight(place + 1, int(not weight_gradient))  # type: ignore[no-any-return]

    def positions(self, least: int, count: int, *, signed: bool = False) -> Tensor:
        """Projected positions of keys that are least .. least+count-1 places after their query, [H,count,d]."""
        return self._host.positions(least, count, int(signed))  # type: ignore[no-any-return]

    @property
    def scale(self) -> float:
        """What the layer multiplies q.k by."""
        return float(self._host.scale())

    def attention(self, q: Tensor, k: Tensor, v: Tensor, mask: Literal["causal", "full", "window"] = "causal", *,
                  query_offset: int = 0, window_before: int = 0, window_after: int = 0, first_key: int = 0, key_count: int = 0,
                  has_positions: bool = False, has_content_bias: bool = False, has_dropout: bool = False,
                  key_valid: Optional[Tensor] = None, bias: Optional[Tensor] = None, content_bias: Optional[Tensor] = None,
                  position_bias: Optional[Tensor] = None, virtual_logit: Optional[Tensor] = None,
                  virtual_value: Optional[Tensor] = None, scale: float = 0.0) -> tuple[Tensor, Tensor]:
        """The backbone's attention of q [B,Tq,H,d] over k and v [B,K,H,d]: z [B,Tq,H,d], and the log-sum-exp of the scores before
        dropout [B,H,Tq]. A query without keys gives z = 0, lse = -inf.

        Query i is at place `query_offset` + i, key j at place j. `mask`: "causal", keys at or before the query; "full"; "window",
        keys from `window_before` before to `window_after` behind the query, of `key_count` keys (0 = all) from `first_key` on.
        `has_positions`: the layer's position scheme; `has_content_bias`: u of the relative schemes alone; `has_dropout`: the
        layer's attention dropout, in training. `key_valid` [B,K]; `bias` [B|1,H|1,Tq|1,K], added to the scaled scores;
        `content_bias` and `position_bias` [H,d] in place of the layer's u and v. One more key a query: its scaled logit
        `virtual_logit` [B,H,Tq] and its value `virtual_value` [B,Tq,H,d]. `scale` 0 = the layer's."""
        flags = int(has_positions) + 2 * int(has_content_bias) + 4 * int(has_dropout)
        return self._host.attention(  # type: ignore[no-any-return]
            flags, q, k, v, place_of(mask, MASKS, "the mask"), query_offset, window_before, window_after, first_key, key_count,
            key_valid, bias, content_bias, position_bias, virtual_logit, virtual_value, scale)

    def release(self, rows: Rows) -> None:
        """absorb and ride alone: lets rows go to the later tiers that this one feeds, detached. Needs s.releases()."""
        self._host.release(given_rows(rows, "layer.release"))

    def emit(self, source: Union[str, Rows], *, position: Literal["place", "explicit", "none"] = "place",
             distance: Optional[Tensor] = None, bias: Optional[Tensor] = None) -> None:
        """context alone: the content of a queue, by its name, or rows, as a block that the tokens may attend to.

        `distance`: of position "explicit", i64 [B|1,m] to the segment's first token, or [B|1,T|1,m] to each token. `bias`:
        [B|1,H|1,T|1,m] added to the scores, differentiable; -inf = absent."""
        place = place_of(position, PLACES, "position")
        if isinstance(source, str):
            self._host.emit_block(self._memory._names.queues[source], None, place, distance, bias)
        else:
            rows = given_rows(source, "layer.emit", "the name of a queue or mneme.Rows")
            self._host.emit_block(0, rows, place, distance, bias)

    def emit_token_bias(self, bias: Tensor) -> None:
        """context alone: a bias on the token columns [B|1,H|1,T|1,offset+T]. Needs s.emits_token_bias()."""
        self._host.emit_token_bias(bias)


class ReadingLayer(Layer):
    """The layer in `read`."""

    x = Wanted("read_x", "[B,T,D] the layer's input")
