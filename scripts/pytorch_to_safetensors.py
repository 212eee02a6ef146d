#!/usr/bin/env python3
"""Turns a PyTorch checkpoint into a safetensors file that `mneme import` and `mneme inspect` read.

usage: scripts/pytorch_to_safetensors.py CHECKPOINT... OUT.safetensors [--key KEY] [--strip PREFIX]

Needs Python 3.9 and nothing else: PyTorch is not imported, nor any code of the checkpoint. A
checkpoint is a pickle, and a pickle may run any program when it is opened with torch.load; here every
name in it that is not known to be harmless becomes an empty object. That is also why a whole pickled
model (the official Transformer-XL writes model.pt so) can be read without its classes: its parameters
and buffers get the names that its state_dict() would give them.

Read are the zip format (PyTorch 1.6 and later) and the one before it (0.2 to 1.5); tensors keep
their dtype, tensors that share memory are written once for every name, and views that PyTorch marks as
negated or conjugated are written as the numbers that they stand for. A tensor that safetensors cannot
hold (complex128, quantised, sparse, ...) is refused with its name; --key and --strip leave it out.
Entries with tensors that are not written, such as an optimizer's, are named. The tensors of several
checkpoints, the shards of a model, are written into one file; a name that two of them have must have the
same numbers in both.

  --key KEY       the entry of each checkpoint that holds the weights, "a.b" for an entry of an entry;
                  default: its only entry with tensors among model_state_dict, state_dict and model,
                  or, without one, the checkpoint itself
  --strip PREFIX  keep only names that begin so, and remove it ("module." of DataParallel)

Exit status: 0 done, 1 the file could not be converted, 2 wrong use.
"""
import argparse
import collections
import itertools
import json
import os
import pickle
import re
import shlex
import struct
import sys
import zipfile

# Names of dtypes -> (safetensors dtype or None, bytes of an element).
DTYPES = {
    "float64": ("F64", 8), "float32": ("F32", 4), "float16": ("F16", 2), "bfloat16": ("BF16", 2),
    "int64": ("I64", 8), "int32": ("I32", 4), "int16": ("I16", 2), "int8": ("I8", 1),
    "uint64": ("U64", 8), "uint32": ("U32", 4), "uint16": ("U16", 2), "uint8": ("U8", 1),
    "bool": ("BOOL", 1), "complex64": ("C64", 8), "float8_e4m3fn": ("F8_E4M3", 1),
    "float8_e4m3fnuz": ("F8_E4M3FNUZ", 1), "float8_e5m2": ("F8_E5M2", 1),
    "float8_e5m2fnuz": ("F8_E5M2FNUZ", 1), "float8_e8m0fnu": ("F8_E8M0", 1),
    "float4_e2m1fn_x2": ("F4", 1),  # an element of PyTorch holds two numbers
    "complex128": (None, 16), "complex32": (None, 4), "qint32": (None, 4), "qint8": (None, 1),
    "quint8": (None, 1), "quint4x2": (None, 1), "quint2x4": (None, 1), "bits16": (None, 2),
    "bits8": (None, 1), "bits4x2": (None, 1), "bits2x4": (None, 1), "bits1x8": (None, 1),
    "bytes": (None, 1),  # of a storage without a dtype
}
# Names of storage classes -> dtypes.
STORAGES = {
    "Double": "float64", "Float": "float32", "Half": "float16", "BFloat16": "bfloat16", "Long": "int64",
    "Int": "int32", "Short": "int16", "Char": "int8", "Byte": "uint8", "Bool": "bool",
    "ComplexDouble": "complex128", "ComplexFloat": "complex64", "QInt32": "qint32", "QInt8": "qint8",
    "QUInt8": "quint8", "QUInt4x2": "quint4x2", "QUInt2x4": "quint2x4", "Untyped": "bytes",
}
ZIP_MAGIC = b"PK\x03\x04"
LFS_POINTER = b"version https://git-lfs.github.com/spec/"
# Magic number -> the program that packed the file, and the one that unpacks it.
PACKERS = {b"\x1f\x8b": ("gzip", "gzip"), b"\xfd7zXZ\0": ("xz", "xz"), b"\x28\xb5\x2f\xfd": ("zstd", "zstd"),
           b"BZh": ("bzip2", "bzip2"), b"\x5d\0\0": ("lzma", "xz"), b"\x04\x22\x4d\x18": ("lz4", "lz4")}
LEGACY_MAGIC = 0x1950A86A20F9469CFC6C
CHECKPOINT_ENDS = (".bin", ".pt", ".pth", ".ckpt")
USUAL_KEYS = ("model_state_dict", "state_dict", "model")


class CheckpointError(Exception):
    """What is wrong with the input, for the user."""


class NamedError(CheckpointError):
    """The same behind the name of the file."""


def of_file(path, function, *arguments):
    """function(*arguments), whose errors are those of the checkpoint at the path."""
    try:
        return function(*arguments)
    except (CheckpointError, OSError) as error:
        raise NamedError(f"{path}: {error}") from error
    except Exception as error:  # pickle and zipfile answer damaged bytes with any exception
        raise NamedError(f"{path}: no checkpoint of PyTorch, or a damaged one ({type(error).__name__}: {error})") from error


class DType:
    """A dtype of PyTorch, by its name."""

    def __init__(self, name):
        self.name = name
        self.safetensors, self.size = DTYPES[name]


class Storage:
    """A block of numbers in the checkpoint. `read` gives its bytes."""

    def __init__(self, dtype, read):
        self.dtype, self.read = dtype, read


class Unreadable:
    """Stands for a tensor that cannot be converted."""

    def __init__(self, reason):
        self.reason = reason


class Tensor:
    """A strided view of a storage, as pickled by torch._utils._rebuild_tensor_v2 and _v3. `bits`: its
    marks "conj" (conjugated) and "neg" (negated), which the numbers of the storage do not have yet."""

    def __init__(self, storage, offset, shape, stride, dtype, bits):
        self.storage, self.offset, self.dtype, self.bits = storage, offset, dtype, bits
        self.shape, self.stride = tuple(shape), tuple(stride)
        numbers = (offset, *self.shape, *self.stride)
        if len(self.shape) != len(self.stride) or not all(isinstance(n, int) and n >= 0 for n in numbers):
            raise CheckpointError(f"a tensor of shape {self.shape}, strides {self.stride} and offset "
                                  f"{offset}: the file is damaged")

    @property
    def problem(self):
        """Why it cannot be converted; None when it can."""
        if self.dtype.safetensors is None:
            return f"tensors of dtype {self.dtype.name} cannot be converted: safetensors has no such dtype"
        if self.dtype.safetensors == "F4" and not self.shape:
            return "a scalar of dtype float4_e2m1fn_x2, which is two numbers"
        unknown = self.bits - ({"neg", "conj"} if self.dtype.name == "complex64" else {"neg"})
        if unknown or (self.bits and sign_places(self.dtype) is None):
            return f"a view of dtype {self.dtype.name} with the mark {' and '.join(sorted(self.bits))}"
        return None

    @property
    def saved_shape(self):
        """The shape in the safetensors file, which counts the numbers of a pair one by one."""
        return [*self.shape[:-1], 2 * self.shape[-1]] if self.dtype.safetensors == "F4" else list(self.shape)

    @property
    def elements(self):
        count = 1
        for extent in self.shape:
            count *= extent
        return count

    @property
    def nbytes(self):
        return self.elements * self.dtype.size

    def data(self):
        """The numbers, row-major and without gaps."""
        block = self.stored()
        if "neg" in self.bits:
            block = negated(block, self.dtype, range(len(sign_places(self.dtype))))
        return negated(block, self.dtype, [1]) if "conj" in self.bits else block

    def stored(self):
        """The same as the storage has them."""
        size = self.dtype.size
        block = memoryview(self.storage.read())
        last = self.offset + sum((n - 1) * s for n, s in zip(self.shape, self.stride))
        if self.elements and (last + 1) * size > len(block):
            raise CheckpointError("a tensor reaches beyond its storage: the file is damaged")
        if not self.elements:
            return b""
        if self.is_contiguous():
            return block[self.offset * size:(self.offset + self.elements) * size]
        out = bytearray()
        self.gather(block, size, self.offset, 0, out)
        return out

    def is_contiguous(self):
        expected = 1
        for extent, stride in zip(reversed(self.shape), reversed(self.stride)):
            if extent != 1 and stride != expected:
                return False
            expected *= extent
        return True

    def gather(self, block, size, start, axis, out):
        if axis == len(self.shape):
            out += block[start * size:(start + 1) * size]
        elif axis == len(self.shape) - 1 and self.stride[axis] == 1:
            out += block[start * size:(start + self.shape[axis]) * size]
        else:
            for i in range(self.shape[axis]):
                self.gather(block, size, start + i * self.stride[axis], axis + 1, out)


def sign_places(dtype):
    """The bytes of an element that have a sign bit; [] for integers; None where negating is not defined."""
    if dtype.name == "complex64":
        return [3, 7]  # of the real and of the imaginary part
    if dtype.name in ("float64", "float32", "float16", "bfloat16"):
        return [dtype.size - 1]
    return [] if re.fullmatch(r"u?int\d+", dtype.name) else None


def negated(block, dtype, parts):
    """The numbers with another sign; `parts` of complex ones: 0 = the real, 1 = the imaginary part."""
    places = sign_places(dtype)
    if places:
        mask = bytearray(dtype.size)
        for part in parts:
            mask[places[part]] = 0x80
        pattern = int.from_bytes(bytes(mask) * (len(block) // dtype.size), "little")
        return (int.from_bytes(block, "little") ^ pattern).to_bytes(len(block), "little")
    modulus = 1 << 8 * dtype.size  # -n of an integer, signed or not, is its complement of two
    return b"".join((-int.from_bytes(block[i:i + dtype.size], "little") % modulus).to_bytes(dtype.size, "little")
                    for i in range(0, len(block), dtype.size))


class Inert(dict):
    """Stands for an object of an unknown class: keeps its state and does nothing."""

    def __new__(cls, *_args, **_kwargs):
        return super().__new__(cls)

    def __init__(self, *_args, **_kwargs):
        super().__init__()

    def __call__(self, *_args, **_kwargs):
        return Inert()

    def __setstate__(self, state):
        for part in state if isinstance(state, tuple) else (state,):
            if isinstance(part, dict):
                self.__dict__.update({str(key): value for key, value in part.items()})

    def append(self, value):
        self[len(self)] = value

    def extend(self, values):
        for value in values:
            self.append(value)

    add = append


def make_tensor(storage, offset, shape, stride, dtype, marks):
    if not isinstance(storage, Storage):
        return Unreadable("a tensor without a storage")
    if not isinstance(dtype or storage.dtype, DType):
        return Unreadable(f"tensors of dtype {getattr(dtype, '__name__', dtype)} cannot be converted")
    bits = {str(name) for name, value in marks.items() if value} if isinstance(marks, dict) else set()
    return Tensor(storage, offset, shape, stride, dtype or storage.dtype, bits)


def rebuild_tensor(storage, offset, shape, stride, _requires_grad=None, _hooks=None, marks=None):
    return make_tensor(storage, offset, shape, stride, None, marks)


def rebuild_tensor_v3(storage, offset, shape, stride, _requires_grad, _hooks, dtype, marks=None):
    return make_tensor(storage, offset, shape, stride, dtype, marks)


def rebuild_parameter(data, *_ignored):
    return data


def rebuild_subclass(function, kind, arguments, *_ignored):
    """torch._tensor._rebuild_from_type_v2: a tensor of a class of its own, which state_dict() keeps."""
    tensor = function(*arguments)
    if isinstance(tensor, (Tensor, Unreadable)):
        return tensor
    return Unreadable(f"a tensor of the class {getattr(kind, '__name__', kind)}")


def unreadable(function):
    """In place of a function of PyTorch that makes a tensor of another kind."""
    kinds = {"_rebuild_qtensor": "a quantised tensor; dequantize() it before it is saved",
             "_rebuild_sparse_tensor": "a sparse tensor; save to_dense() of it",
             "_rebuild_sparse_csr_tensor": "a sparse tensor; save to_dense() of it",
             "_rebuild_nested_tensor": "a nested tensor", "_rebuild_meta_tensor_no_storage": "a meta tensor, "
             "which has no numbers"}
    reason = kinds.get(function, f"a tensor that {function} makes")
    return lambda *_arguments: Unreadable(reason)


HARMLESS = {
    ("collections", "OrderedDict"): collections.OrderedDict,
    ("torch", "Size"): tuple,
    ("torch._utils", "_rebuild_tensor"): rebuild_tensor,
    ("torch._utils", "_rebuild_tensor_v2"): rebuild_tensor,
    ("torch._utils", "_rebuild_tensor_v3"): rebuild_tensor_v3,
    ("torch._tensor", "_rebuild_from_type_v2"): rebuild_subclass,
    ("torch._utils", "_rebuild_parameter"): rebuild_parameter,
    ("torch._utils", "_rebuild_parameter_with_state"): rebuild_parameter,
    **{(module, name): getattr(__import__("builtins"), name)
       for module in ("builtins", "__builtin__")
       for name in ("set", "frozenset", "list", "dict", "tuple", "int", "float", "bool", "complex",
                    "bytes", "bytearray", "str", "slice")},
}


class Unpickler(pickle.Unpickler):
    """Makes tensors, plain containers and inert objects; imports nothing."""

    def __init__(self, file, load_storage):
        super().__init__(file, encoding="utf-8")
        self.load_storage = load_storage

    def find_class(self, module, name):
        if (module, name) in HARMLESS:
            return HARMLESS[module, name]
        if module in ("torch", "torch.cuda", "torch.storage") and name.endswith("Storage"):
            return name[:-len("Storage")]  # see storage_dtype
        if module == "torch" and name in DTYPES:
            return DType(name)
        if module in ("torch._utils", "torch._tensor") and name.startswith("_rebuild"):
            return unreadable(name)
        return type(name, (Inert,), {"__module__": "inert"})

    def persistent_load(self, saved_id):
        if self.load_storage is None:  # a part of the old format that has no tensors
            raise CheckpointError("no checkpoint of PyTorch")
        kind = saved_id[0]
        if kind == "module":  # a class with its source text, which old files keep
            return saved_id[1]
        if kind != "storage":
            raise CheckpointError(f"unknown kind of object {kind!r}")
        return self.load_storage(*saved_id[1:])


def storage_dtype(kind):
    if not isinstance(kind, str) or kind not in STORAGES:
        text = kind if isinstance(kind, str) else getattr(kind, "__name__", type(kind).__name__)
        raise CheckpointError(f"tensors of dtype {text} cannot be converted")
    return DType(STORAGES[kind])


def load_zip(path):
    archive = zipfile.ZipFile(path)
    names = archive.namelist()
    pickles = [name for name in names if name == "data.pkl" or name.endswith("/data.pkl")]
    if len(pickles) != 1:
        raise CheckpointError("a zip file without data.pkl: no checkpoint of PyTorch")
    root = pickles[0][:-len("data.pkl")]
    if root + "byteorder" in names and archive.read(root + "byteorder") != b"little":
        raise CheckpointError("its numbers are big-endian, which is not supported")

    def load_storage(kind, key, _location, _numel, *_view):
        return Storage(storage_dtype(kind), lambda: archive.read(f"{root}data/{key}"))

    with archive.open(pickles[0]) as file:
        return Unpickler(file, load_storage).load()


def load_legacy(path):
    storages = {}  # key -> (place of the bytes, their number)

    def load_storage(kind, key, _location, _numel, *view):
        dtype = storage_dtype(kind)
        size = dtype.size
        begin = 0
        if view and view[0] is not None:  # (key, offset, numel) of a view of a storage
            begin = view[0][1] * size

        def read():
            place, count = storages[key]
            with open(path, "rb") as file:
                file.seek(place + begin)
                return file.read(count * size - begin)
        return Storage(dtype, read)

    sizes = {}

    def load_and_note(kind, key, *rest):
        sizes[key] = storage_dtype(kind).size
        return load_storage(kind, key, *rest)

    with open(path, "rb") as file:
        if Unpickler(file, None).load() != LEGACY_MAGIC:
            raise CheckpointError("no checkpoint of PyTorch")
        Unpickler(file, None).load()  # version of the format
        system = Unpickler(file, None).load()
        if isinstance(system, dict) and not system.get("little_endian", True):
            raise CheckpointError("its numbers are big-endian, which is not supported")
        result = Unpickler(file, load_and_note).load()
        for key in Unpickler(file, None).load():
            count = struct.unpack("<q", file.read(8))[0]
            storages[key] = (file.tell(), count)
            file.seek(count * sizes[key], os.SEEK_CUR)
        if file.tell() > os.path.getsize(path):
            raise CheckpointError("the file ends inside a tensor: it is truncated")
    return result


def load(path):
    """The checkpoint's object, its tensors as Tensor."""
    if zipfile.is_zipfile(path):
        return load_zip(path)
    with open(path, "rb") as file:
        begin = file.read(len(LFS_POINTER))
        if begin == LFS_POINTER:
            raise CheckpointError("a pointer of Git LFS in place of the file: fetch it with git lfs pull in "
                                  "its repository, or download the file")
        for magic, (packer, program) in PACKERS.items():
            if begin.startswith(magic):
                name = shlex.quote(str(path))
                raise CheckpointError(f"no checkpoint of PyTorch, but data packed by {packer}; unpack it: {program} -dc "
                                      f"{name} > {shlex.quote(f'{path}.unpacked')}")
        if begin[8:9] == b"{":
            raise CheckpointError("no checkpoint of PyTorch, but a safetensors file already")
        if begin[:4] == ZIP_MAGIC:
            raise CheckpointError("a zip archive without its end: the file is damaged, probably truncated")
    return load_legacy(path)


def is_module(value):
    return isinstance(value, Inert) and "_parameters" in value.__dict__


def state_of_module(module, prefix=""):
    """What state_dict() of the pickled module would give."""
    hidden = module.__dict__.get("_non_persistent_buffers_set", ())
    tensors = {}
    for group in ("_parameters", "_buffers"):
        for name, value in module.__dict__.get(group, {}).items():
            if isinstance(value, (Tensor, Unreadable)) and not (group == "_buffers" and name in hidden):
                tensors[prefix + name] = value
    for name, child in module.__dict__.get("_modules", {}).items():
        if is_module(child):
            tensors.update(state_of_module(child, f"{prefix}{name}."))
    return tensors


def tensors_of(value):
    """The tensors of a module or of a state_dict(), those that cannot be converted too."""
    if is_module(value):
        return state_of_module(value)
    if not isinstance(value, dict):
        return {}
    tensors = {}
    for name, one in value.items():
        if isinstance(one, (list, tuple)):  # quantised layers pack their weights so
            one = next((part for part in one if isinstance(part, Unreadable)), None)
        if isinstance(one, (Tensor, Unreadable)):
            if str(name) in tensors:
                raise CheckpointError(f"two keys of tensors give one name, {str(name)!r}, as 1 and '1' do")
            tensors[str(name)] = one
    return tensors


def entry(checkpoint, key):
    value = checkpoint
    for part in key.split("."):
        if not isinstance(value, dict) or part not in value:
            known = ", ".join(map(str, value)) if isinstance(value, dict) else "no entries"
            raise CheckpointError(f"--key {key}: there is no entry {part!r}; it has: {known}")
        value = value[part]
    return value


def has_tensors(value):
    """Whether there are tensors in it, at any depth."""
    seen, waiting = set(), [value]
    while waiting:
        one = waiting.pop()
        if isinstance(one, (Tensor, Unreadable)):
            return True
        if id(one) in seen:
            continue
        seen.add(id(one))
        if isinstance(one, Inert):
            waiting += one.__dict__.values()
        if isinstance(one, dict):
            waiting += one.values()
        elif isinstance(one, (list, tuple, set, frozenset)):
            waiting += one
    return False


def others(value, taken):
    """The names of the entries with tensors that are not among those taken."""
    entries = value.items() if isinstance(value, dict) and not is_module(value) else ()
    return [str(name) for name, one in entries if str(name) not in taken and has_tensors(one)]


def find_tensors(checkpoint, key):
    """The tensors to write, by name, and the names of entries with tensors that are left out."""
    if key is not None:
        value = entry(checkpoint, key)
        tensors = tensors_of(value)
        if not tensors:
            raise CheckpointError(f"--key {key}: no tensors there")
        return tensors, others(value, tensors)
    entries = checkpoint if isinstance(checkpoint, dict) else {}
    found = [name for name in USUAL_KEYS if tensors_of(entries.get(name))]
    value = entries[found[0]] if found else checkpoint
    tensors = tensors_of(value)
    if len(found) > 1 or not tensors:
        names = ", ".join(map(str, entries)) or "no entries"
        raise CheckpointError(f"which entry holds the weights? name it with --key; it has: {names}")
    return tensors, others(value, tensors) + (others(checkpoint, found) if found else [])


def load_tensors(path, key):
    """Those of find_tensors; the tensors know their path."""
    tensors, left_out = find_tensors(load(path), key)
    for tensor in tensors.values():
        tensor.path = path
    return tensors, left_out


def is_same(one, other):
    """Whether two tensors have the same dtype, shape and bytes."""
    if isinstance(one, Unreadable) or isinstance(other, Unreadable):
        return False
    return (one.dtype.name, one.shape) == (other.dtype.name, other.shape) and \
        bytes(read_data(one)) == bytes(read_data(other))


def join(tensors, more):
    """Adds the tensors of another checkpoint."""
    for name, tensor in more.items():
        if name in tensors and not is_same(tensors[name], tensor):
            raise NamedError(f"{tensor.path}: {name}: {tensors[name].path} has this tensor with other numbers")
        tensors.setdefault(name, tensor)


def strip(tensors, prefix):
    kept = {name[len(prefix):]: tensor for name, tensor in tensors.items()
            if name.startswith(prefix)}
    if not kept:
        first, tensor = next(iter(tensors.items()))
        raise NamedError(f"{tensor.path}: --strip {prefix}: no name begins so, as in {first!r}")
    return kept


def check_convertible(tensors):
    for name, tensor in tensors.items():
        reason = tensor.reason if isinstance(tensor, Unreadable) else tensor.problem
        if reason:
            raise NamedError(f"{tensor.path}: {name}: {reason}")


def write_safetensors(path, tensors):
    """Largest elements first, then by name, so that every tensor is aligned to its element size."""
    order = sorted(tensors.items(), key=lambda item: (-item[1].dtype.size, item[0]))
    header, offset = {}, 0
    for name, tensor in order:
        header[name] = {"dtype": tensor.dtype.safetensors, "shape": tensor.saved_shape,
                        "data_offsets": [offset, offset + tensor.nbytes]}
        offset += tensor.nbytes
    text = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode()
    text += b" " * (-len(text) % 8)
    write_output(path, itertools.chain([struct.pack("<Q", len(text)) + text],
                                       (read_data(tensor) for _, tensor in order)))
    return offset


def read_data(tensor):
    """The tensor's numbers. A failure to read them is one of the checkpoint, not of the file that is written."""
    return of_file(tensor.path, tensor.data)


def open_descriptor(path):
    """The number of the open descriptor that the path, or the link at it, names; None for other paths."""
    for _ in range(40):
        name = re.fullmatch(r"/(?:dev|proc/self)/fd/(\d+)", path)
        if name or not os.path.islink(path):
            return int(name[1]) if name else None
        path = os.path.join(os.path.dirname(path), os.readlink(path))
    return None


def write_output(path, parts):
    """Replaces a file, never a link to it, and makes the folders that it lacks; what is no regular file (a device, a
    FIFO) is written into, and an open descriptor (/dev/stdout, /dev/fd/N) where it stands."""
    descriptor = open_descriptor(str(path))
    if descriptor is not None or (os.path.exists(path) and not os.path.isfile(path)):
        with open(path if descriptor is None else os.dup(descriptor), "wb") as file:
            file.writelines(parts)
        return
    path = os.path.realpath(path)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    temporary = f"{path}.{os.getpid()}.tmp"
    try:
        with open(temporary, "wb") as file:
            file.writelines(parts)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    finally:
        if os.path.exists(temporary):
            os.remove(temporary)


def is_same_file(checkpoint, out):
    """Whether both paths lead to one file, also through links."""
    try:
        return os.path.samefile(checkpoint, out)
    except OSError:  # one of them is not there
        return False


def main(arguments):
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter,
                                     usage=argparse.SUPPRESS)
    parser.add_argument("paths", nargs="+", help=argparse.SUPPRESS)
    parser.add_argument("--key", help=argparse.SUPPRESS)
    parser.add_argument("--strip", default="", help=argparse.SUPPRESS)
    options = parser.parse_intermixed_args(arguments)
    *checkpoints, out = options.paths
    if not checkpoints:
        parser.error("expected CHECKPOINT... OUT.safetensors")
    for stream in (sys.stdout, sys.stderr):  # names need not be UTF-8
        stream.reconfigure(errors="surrogateescape")
    if any(is_same_file(path, out) for path in checkpoints):
        print(f"error: {out}: this is the checkpoint itself, which would be lost; name another "
              "file for the output", file=sys.stderr)
        return 2
    if out.endswith(CHECKPOINT_ENDS) and os.path.exists(out):  # the last of *.bin, where OUT was forgotten
        print(f"error: {out}: this is there and named as a checkpoint, which would be lost; name the output last, "
              "as model.safetensors", file=sys.stderr)
        return 2
    tensors = {}
    try:
        for path in checkpoints:
            more, left_out = of_file(path, load_tensors, path, options.key)
            if left_out:
                print(f"note: {path}: left out are the tensors of: {', '.join(left_out)}", file=sys.stderr)
            join(tensors, more)
        if options.strip:
            tensors = strip(tensors, options.strip)
        check_convertible(tensors)
        size = write_safetensors(out, tensors)
    except NamedError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except OSError as error:
        print(f"error: {out}: {error}", file=sys.stderr)
        return 1
    print(f"{out}: {len(tensors)} tensors, {size} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
