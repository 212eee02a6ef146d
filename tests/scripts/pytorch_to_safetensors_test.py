"""Tests of scripts/pytorch_to_safetensors.py. Checkpoints are made here as PyTorch writes them, without PyTorch; with
the argument --with-torch, PyTorch itself writes them (exit status 77, skipped, when it cannot be imported)."""
import collections
import io
import json
import os
import pathlib
import pickle
import struct
import subprocess
import sys
import tempfile
import types
import unittest
import zipfile

SCRIPT = pathlib.Path(__file__).resolve().parents[2] / "scripts" / "pytorch_to_safetensors.py"
MAGIC, VERSION = 0x1950A86A20F9469CFC6C, 1001


def fake(module, name, value=None):
    """Gives `value`, or a new class, the place module.name, so that pickles name it so. A name stays what it was."""
    holder = sys.modules.setdefault(module, types.ModuleType(module))
    if hasattr(holder, name):
        return getattr(holder, name)
    value = value or type(name, (), {})
    value.__module__, value.__qualname__, value.__name__ = module, name, name
    setattr(holder, name, value)
    return value


class FakeTensor:
    """Pickles as a tensor does: torch._utils._rebuild_tensor_v2(storage, offset, shape, stride, ...)."""

    def __init__(self, storage, offset, shape, stride, *marks):
        self.function = REBUILD
        self.arguments = (storage, offset, shape, stride, False, collections.OrderedDict(), *marks)

    def __reduce__(self):
        return (self.function, self.arguments)


def made_by(name, *arguments, module="torch._utils"):
    """An object that pickles as the result of a function of PyTorch."""
    result = FakeTensor(None, 0, (), ())
    result.function, result.arguments = fake(module, name, lambda *_arguments: None), arguments
    return result


def newer_tensor(dtype, data, shape, stride, *marks):
    """A tensor of a dtype that has no storage class: torch._utils._rebuild_tensor_v3."""
    storage = FakeStorage(fake("torch.storage", "UntypedStorage"), "B", data)
    return made_by("_rebuild_tensor_v3", storage, 0, shape, stride, False, collections.OrderedDict(),
                   fake("torch", dtype), *marks)


class FakeStorage:
    def __init__(self, kind, code, numbers):
        self.kind, self.count = kind, len(numbers)
        self.data = struct.pack(f"<{len(numbers)}{code}", *numbers)


def tensor(kind, code, numbers, shape, stride, offset=0):
    return FakeTensor(FakeStorage(kind, code, numbers), offset, shape, stride)


class Pickler(pickle.Pickler):
    def __init__(self, file):
        super().__init__(file, protocol=2)
        self.storages = []

    def persistent_id(self, value):
        if not isinstance(value, FakeStorage):
            return None
        if value not in self.storages:
            self.storages.append(value)
        return ("storage", value.kind, str(self.storages.index(value)), "cpu", value.count)


def pickled(value):
    file = io.BytesIO()
    pickler = Pickler(file)
    pickler.dump(value)
    return file.getvalue(), pickler.storages


def write_zip(path, value, byteorder=b"little"):
    data, storages = pickled(value)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("archive/data.pkl", data)
        archive.writestr("archive/byteorder", byteorder)
        for key, storage in enumerate(storages):
            archive.writestr(f"archive/data/{key}", storage.data)


class LegacyPickler(Pickler):
    def persistent_id(self, value):
        known = super().persistent_id(value)
        return None if known is None else (*known, None)


def write_legacy(path, value):
    with open(path, "wb") as file:
        for part in (MAGIC, VERSION, {"little_endian": True}):
            pickle.dump(part, file, protocol=2)
        pickler = LegacyPickler(file)
        pickler.dump(value)
        pickle.dump([str(key) for key in range(len(pickler.storages))], file, protocol=2)
        for storage in pickler.storages:
            file.write(struct.pack("<q", storage.count) + storage.data)


def read_safetensors(path):
    """name -> (dtype, shape, bytes)."""
    data = path.read_bytes()
    size = struct.unpack("<Q", data[:8])[0]
    body = data[8 + size:]
    return {name: (entry["dtype"], entry["shape"], body[slice(*entry["data_offsets"])])
            for name, entry in json.loads(data[8:8 + size]).items()}


def f32(*numbers):
    return struct.pack(f"<{len(numbers)}f", *numbers)


class Case(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.source, self.out = self.folder / "in.pt", self.folder / "out.safetensors"
        self.shards = []  # before the source

    def convert(self, *arguments):
        return subprocess.run([sys.executable, SCRIPT, *self.shards, self.source, self.out, *arguments],
                              capture_output=True, text=True)

    def converted(self, *arguments):
        result = self.convert(*arguments)
        self.assertEqual(result.returncode, 0, result.stderr)
        return read_safetensors(self.out)

    def assert_refused(self, text, *arguments):
        result = self.convert(*arguments)
        self.assertEqual(result.returncode, 1, result.stderr)
        self.assertIn(text, result.stderr)
        self.assertNotIn("Traceback", result.stderr)
        self.assertEqual(set(self.folder.iterdir()) - {self.source, *self.shards}, set())


class WithoutTorch(Case):
    def state(self):
        shared = FakeStorage(FLOAT, "f", [1, 2, 3, 4, 5, 6])
        return collections.OrderedDict(
            tied=FakeTensor(shared, 0, (2, 3), (3, 1)), again=FakeTensor(shared, 0, (2, 3), (3, 1)),
            turned=FakeTensor(shared, 0, (3, 2), (1, 3)), part=FakeTensor(shared, 2, (2,), (2,)),
            wide=tensor(DOUBLE, "d", [0.5], (), ()), ids=tensor(LONG, "q", [7, -7], (2,), (1,)),
            empty=tensor(FLOAT, "f", [], (0, 4), (4, 1)))

    def check_state(self, got):
        whole = ("F32", [2, 3], f32(1, 2, 3, 4, 5, 6))
        self.assertEqual(got, {
            "tied": whole, "again": whole, "turned": ("F32", [3, 2], f32(1, 4, 2, 5, 3, 6)),
            "part": ("F32", [2], f32(3, 5)), "wide": ("F64", [], struct.pack("<d", 0.5)),
            "ids": ("I64", [2], struct.pack("<2q", 7, -7)), "empty": ("F32", [0, 4], b"")})

    def test_converts_a_state_dict(self):
        write_zip(self.source, self.state())
        self.check_state(self.converted())

    def test_converts_the_old_format(self):
        write_legacy(self.source, self.state())
        self.check_state(self.converted())

    def test_finds_the_weights_of_a_training_checkpoint(self):
        write_zip(self.source, {"epoch": 3, "state_dict": self.state()})
        self.check_state(self.converted())
        write_zip(self.source, {"nets": {"best": self.state()}})
        self.check_state(self.converted("--key", "nets.best"))

    def test_takes_the_weights_before_other_tensors(self):
        one = tensor(LONG, "q", [5], (), ())
        state = {"a": tensor(FLOAT, "f", [1], (1,), (1,))}
        for value, left_out in (({"torch_rng_state": one, "model_state_dict": state, "epoch": 3}, "torch_rng_state"),
                                ({"step": one, "state_dict": state, "optimizer": {"state": {0: [one]}}}, "step, optimizer"),
                                ({"model": {**state, "list": [one], 1: {"b": one}, "none": [3]}}, "list, 1")):
            write_zip(self.source, value)
            self.assertEqual(self.converted(), {"a": ("F32", [1], f32(1))})
            self.assertEqual(self.convert().stderr, f"note: {self.source}: left out are the tensors of: {left_out}\n")
        self.assertEqual(self.convert("--key", "model").stderr,
                         f"note: {self.source}: left out are the tensors of: list, 1\n")
        write_zip(self.source, {**state, "sub": MODULE.__new__(MODULE), "parts": {"b": state}})
        self.assertEqual(self.convert().stderr, f"note: {self.source}: left out are the tensors of: parts\n")
        write_zip(self.source, {"a": one, "model": state, "state_dict": state})
        self.out.unlink()
        self.assert_refused("which entry holds the weights? name it with --key; it has: a, model, state_dict")

    def test_refuses_two_keys_of_one_name(self):
        one = tensor(FLOAT, "f", [1], (1,), (1,))
        write_zip(self.source, {"state_dict": {1: one, "1": one}})
        self.assert_refused("in.pt: two keys of tensors give one name, '1', as 1 and '1' do")

    def test_joins_shards(self):
        self.shards = [self.folder / "first.bin", self.folder / "second.bin"]
        def one(*numbers):
            return tensor(FLOAT, "f", numbers, (len(numbers),), (1,))
        write_zip(self.shards[0], {"a": one(1), "tied": one(2, 3)})
        write_legacy(self.shards[1], {"b": one(4), "tied": one(2, 3)})
        write_zip(self.source, {"state_dict": {"net.c": one(5)}})
        expected = {name: ("F32", [1], f32(number)) for name, number in (("a", 1), ("b", 4), ("net.c", 5))}
        self.assertEqual(self.converted(), {**expected, "tied": ("F32", [2], f32(2, 3))})
        self.assertEqual(self.converted("--strip", "net."), {"c": ("F32", [1], f32(5))})
        self.out.unlink()
        for other in (one(2, 4), one(2), tensor(LONG, "q", [2], (1,), (1,)), made_by("_rebuild_sparse_tensor", one(2))):
            write_zip(self.source, {"tied": other})
            self.assert_refused(f"error: {self.source}: tied: {self.shards[0]} has this tensor with other numbers")
        self.source.write_bytes(b"hello, world")
        self.assert_refused(f"error: {self.source}: no checkpoint of PyTorch")
        write_zip(self.source, {"c": one(5)})
        write_zip(self.shards[1], {"b": tensor(FLOAT, "f", [1, 2], (3,), (1,))})
        self.assert_refused(f"error: {self.shards[1]}: a tensor reaches beyond its storage")
        self.out = self.shards[0]
        self.assertEqual(self.convert().returncode, 2)

    def test_takes_options_between_paths(self):
        write_zip(self.source, {"net": {"a": tensor(FLOAT, "f", [1], (1,), (1,))}})
        subprocess.run([sys.executable, SCRIPT, self.source, "--key", "net", self.out], check=True, capture_output=True)
        self.assertEqual(read_safetensors(self.out), {"a": ("F32", [1], f32(1))})

    def test_converts_a_whole_model_without_its_classes(self):
        child, model = MODULE(), MODULE()
        child.__dict__.update(_parameters={"weight": tensor(FLOAT, "f", [1, 2], (2,), (1,)), "bias": None},
                              _buffers={"table": tensor(FLOAT, "f", [3], (1,), (1,)),
                                        "cache": tensor(FLOAT, "f", [4], (1,), (1,))},
                              _non_persistent_buffers_set={"cache"}, _modules={})
        model.__dict__.update(_parameters={"r_w_bias": tensor(FLOAT, "f", [5], (1,), (1,))}, _buffers={},
                              _modules=collections.OrderedDict({"0": child, "none": None}), helper=MODULE)
        write_zip(self.source, model)
        self.assertEqual(self.converted(), {"r_w_bias": ("F32", [1], f32(5)), "0.weight": ("F32", [2], f32(1, 2)),
                                            "0.table": ("F32", [1], f32(3))})

    def test_strips_a_prefix(self):
        write_zip(self.source, {"module.a": tensor(FLOAT, "f", [1], (1,), (1,)),
                                "other": tensor(FLOAT, "f", [2], (1,), (1,))})
        self.assertEqual(self.converted("--strip", "module."), {"a": ("F32", [1], f32(1))})
        self.out.unlink()
        self.assert_refused("no name begins so", "--strip", "net.")

    def test_runs_nothing_of_the_checkpoint(self):
        mark = self.folder / "mark"

        class Attack:
            def __reduce__(self):
                return (os.mkdir, (str(mark),))
        write_zip(self.source, {"weights": tensor(FLOAT, "f", [1], (1,), (1,)), "attack": Attack()})
        self.assertEqual(list(self.converted()), ["weights"])
        self.assertFalse(mark.exists())

    def test_refuses_what_is_no_checkpoint(self):
        self.assert_refused("No such file")
        self.source.write_bytes(b"hello, world")
        self.assert_refused("no checkpoint of PyTorch")
        self.source.write_bytes(b"")
        self.assert_refused("no checkpoint of PyTorch")
        for data in (pickle.dumps({"a": 1}), b"Persistent id of a pickle\n."):
            self.source.write_bytes(data)
            self.assert_refused("no checkpoint of PyTorch")
        with zipfile.ZipFile(self.source, "w") as archive:
            archive.writestr("readme", "hello")
        self.assert_refused("without data.pkl")

    def test_refuses_truncated_files(self):
        state = {"a": tensor(FLOAT, "f", range(100), (100,), (1,))}
        for write, lost, text in ((write_zip, 12, "a zip archive without its end"), (write_legacy, 402, "damaged"),
                                  (write_legacy, 12, "truncated")):
            write(self.source, state)
            self.source.write_bytes(self.source.read_bytes()[:-lost])
            self.assert_refused(text)

    def test_refuses_damaged_numbers(self):
        state = {"a": tensor(FLOAT, "f", range(100), (100,), (1,))}
        write_zip(self.source, state)
        data = self.source.read_bytes()
        place = data.index(f32(50, 51))
        self.source.write_bytes(data[:place] + b"\xff" + data[place + 1:])
        self.assert_refused("damaged one (BadZipFile")
        with zipfile.ZipFile(self.source, "w") as archive:
            archive.writestr("archive/data.pkl", pickled(state)[0])
        self.assert_refused("damaged one (KeyError")

    def test_refuses_places_below_zero(self):
        for shape, stride, offset in (((2,), (1,), -2), ((2,), (-1,), 1), ((-2,), (1,), 0), ((2, 1), (1,), 0)):
            write_zip(self.source, {"a": tensor(FLOAT, "f", [1, 2, 3], shape, stride, offset)})
            self.assert_refused("the file is damaged")

    def test_refuses_a_tensor_beyond_its_storage(self):
        write_zip(self.source, {"a": tensor(FLOAT, "f", [1, 2], (3,), (1,))})
        self.assert_refused("reaches beyond its storage")

    def test_writes_negated_and_conjugated_views_as_their_numbers(self):
        def view(kind, code, numbers, **marks):
            storage = FakeStorage(kind, code, numbers)
            storage.count //= 2 if kind is COMPLEX else 1
            return FakeTensor(storage, 0, (storage.count,), (1,), marks)

        state = {"neg": view(FLOAT, "f", [1, -2, 0], neg=True), "double": view(DOUBLE, "d", [3, -4], neg=True),
                 "long": view(LONG, "q", [5, -6, -2**63], neg=True), "conj": view(COMPLEX, "f", [1, 2, 3, -4], conj=True),
                 "both": view(COMPLEX, "f", [1, 2, 3, -4], conj=True, neg=True),
                 "plain": view(FLOAT, "f", [1], neg=False),
                 "odd": FakeTensor(FakeStorage(FLOAT, "f", [1, 2, 3, 4]), 1, (2,), (2,), {"neg": True})}
        for write in (write_zip, write_legacy):
            write(self.source, state)
            self.assertEqual(self.converted(), {
                "neg": ("F32", [3], f32(-1, 2, -0.0)), "double": ("F64", [2], struct.pack("<2d", -3, 4)),
                "long": ("I64", [3], struct.pack("<3q", -5, 6, -2**63)), "conj": ("C64", [2], f32(1, -2, 3, 4)),
                "both": ("C64", [2], f32(-1, 2, -3, -4)), "plain": ("F32", [1], f32(1)),
                "odd": ("F32", [2], f32(-2, -4))})

    def test_refuses_views_whose_marks_it_cannot_apply(self):
        write_zip(self.source, {"a": FakeTensor(FakeStorage(FLOAT, "f", [1]), 0, (1,), (1,), {"conj": True})})
        self.assert_refused("in.pt: a: a view of dtype float32 with the mark conj")
        write_zip(self.source, {"b": newer_tensor("float8_e4m3fnuz", [1], (1,), (1,), {"neg": True})})
        self.assert_refused("in.pt: b: a view of dtype float8_e4m3fnuz with the mark neg")
        write_zip(self.source, {"c": FakeTensor(FakeStorage(FLOAT, "f", [1]), 0, (1,), (1,), {"other": True})})
        self.assert_refused("in.pt: c: a view of dtype float32 with the mark other")

    def test_converts_newer_dtypes(self):
        kinds = {"float8_e4m3fn": "F8_E4M3", "float8_e4m3fnuz": "F8_E4M3FNUZ", "float8_e5m2": "F8_E5M2",
                 "float8_e5m2fnuz": "F8_E5M2FNUZ", "float8_e8m0fnu": "F8_E8M0", "uint16": "U16", "uint32": "U32",
                 "uint64": "U64"}
        sizes = {"uint16": 2, "uint32": 4, "uint64": 8}
        data = bytes(range(16))
        state = {name: newer_tensor(name, data, (16 // sizes.get(name, 1),), (1,)) for name in kinds}
        state["pairs"] = newer_tensor("float4_e2m1fn_x2", data, (2, 8), (8, 1))
        expected = {name: (kinds[name], [16 // sizes.get(name, 1)], data) for name in kinds}
        expected["pairs"] = ("F4", [2, 16], data)
        for write in (write_zip, write_legacy):
            write(self.source, state)
            self.assertEqual(self.converted(), expected)

    def test_refuses_by_name_what_safetensors_cannot_hold(self):
        one = tensor(FLOAT, "f", [1], (1,), (1,))
        quantised = made_by("_rebuild_qtensor", one)
        for value, text in (
                (newer_tensor("complex32", [0] * 4, (1,), (1,)), "tensors of dtype complex32 cannot be converted"),
                (newer_tensor("bits8", [0], (1,), (1,)), "tensors of dtype bits8 cannot be converted"),
                (newer_tensor("int4", [0], (1,), (1,)), "tensors of dtype int4 cannot be converted"),
                (newer_tensor("float4_e2m1fn_x2", [0], (), ()), "a scalar of dtype float4_e2m1fn_x2"),
                (tensor(COMPLEX128, "d", [0, 0], (1,), (1,)), "tensors of dtype complex128 cannot be converted"),
                (quantised, "a quantised tensor"), ((quantised, one), "a quantised tensor"),
                (made_by("_rebuild_sparse_tensor", one), "a sparse tensor"),
                (made_by("_rebuild_nested_tensor", one), "a nested tensor"),
                (made_by("_rebuild_meta_tensor_no_storage"), "a meta tensor"),
                (made_by("_rebuild_of_tomorrow"), "a tensor that _rebuild_of_tomorrow makes"),
                (made_by("_rebuild_from_type_v2", MODULE, MODULE, (), None, module="torch._tensor"),
                 "a tensor of the class MemTransformerLM")):
            write_zip(self.source, {"net.a": value, "b": one})
            self.assert_refused(f"in.pt: net.a: {text}")
        write_zip(self.source, {"net.a": quantised, "part.b": one})
        self.assertEqual(list(self.converted("--strip", "part.")), ["b"])
        write_zip(self.source, {"state_dict": {"b": one}, "statistics": quantised})
        self.assertEqual(list(self.converted()), ["b"])

    def test_converts_a_tensor_of_a_class_of_its_own(self):
        value = made_by("_rebuild_from_type_v2", REBUILD, MODULE,
                        tensor(FLOAT, "f", [1, 2], (2,), (1,)).arguments, None, module="torch._tensor")
        write_zip(self.source, {"a": value})
        self.assertEqual(self.converted(), {"a": ("F32", [2], f32(1, 2))})

    def test_never_writes_over_the_checkpoint(self):
        write_zip(self.source, {"a": tensor(FLOAT, "f", [1], (1,), (1,))})
        before = self.source.read_bytes()
        (self.folder / "folder").mkdir()
        soft, hard = self.folder / "soft", self.folder / "hard"
        soft.symlink_to("in.pt")
        os.link(self.source, hard)
        for self.out in (self.source, self.folder / "folder" / ".." / "in.pt", soft, hard):
            result = self.convert()
            self.assertEqual(result.returncode, 2)
            self.assertIn("this is the checkpoint itself", result.stderr)
            self.assertEqual(self.source.read_bytes(), before)
            self.assertEqual(hard.read_bytes(), before)

    def test_never_writes_over_another_checkpoint(self):
        write_zip(self.source, {"a": tensor(FLOAT, "f", [1], (1,), (1,))})
        for name in ("second.bin", "second.pt", "second.pth", "second.ckpt"):
            self.out = self.folder / name
            self.out.write_bytes(b"other weights")
            result = self.convert()
            self.assertEqual(result.returncode, 2)
            self.assertIn(f"{name}: this is there and named as a checkpoint, which would be lost", result.stderr)
            self.assertEqual(self.out.read_bytes(), b"other weights")

    def test_says_that_a_file_is_a_pointer_or_converted_already(self):
        self.source.write_text("version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 9\n")
        self.assert_refused("a pointer of Git LFS in place of the file: fetch it with git lfs pull")
        self.source.write_bytes(struct.pack("<Q", 2) + b"{}")
        self.assert_refused("a safetensors file already")

    def test_says_that_a_file_is_packed(self):
        for name, program, magic in (("gzip", "gzip", b"\x1f\x8b\x08"), ("xz", "xz", b"\xfd7zXZ\0"),
                                     ("zstd", "zstd", b"\x28\xb5\x2f\xfd"), ("bzip2", "bzip2", b"BZh91AY&SY"),
                                     ("lzma", "xz", b"\x5d\0\0\x80"), ("lz4", "lz4", b"\x04\x22\x4d\x18")):
            self.source.write_bytes(magic + bytes(40))
            self.assert_refused(f"no checkpoint of PyTorch, but data packed by {name}; unpack it: {program} -dc "
                                f"{self.source} > {self.source}.unpacked")

    def test_names_of_files_need_not_be_utf8(self):
        self.source = pathlib.Path(os.fsdecode(os.fsencode(self.folder) + b"/caf\xe9.pt"))
        self.out = pathlib.Path(os.fsdecode(os.fsencode(self.folder) + b"/caf\xe9.safetensors"))
        write_zip(self.source, {"a": tensor(FLOAT, "f", [1], (1,), (1,))})
        for arguments in ([], ["--key", "absent"]):
            result = subprocess.run([sys.executable, SCRIPT, self.source, self.out, *arguments], capture_output=True)
            self.assertEqual(result.returncode, 1 if arguments else 0)
            self.assertIn(b"caf\xe9", result.stdout + result.stderr)
            self.assertNotIn(b"Traceback", result.stderr)

    def test_refuses_unknown_dtypes_and_big_endian_files(self):
        write_zip(self.source, {"a": tensor(UNKNOWN, "f", [1, 2], (1,), (1,))})
        self.assert_refused("dtype Strange cannot be converted")
        write_zip(self.source, self.state(), byteorder=b"big")
        self.assert_refused("big-endian")

    def test_asks_which_entry_holds_the_weights(self):
        write_zip(self.source, {"model": self.state(), "state_dict": self.state()})
        self.assert_refused("name it with --key; it has: model, state_dict")
        self.assert_refused("there is no entry 'best'; it has: model, state_dict", "--key", "best")
        write_zip(self.source, {"model": self.state(), "epoch": 3, "state_dict": self.state()})
        self.assert_refused("no tensors there", "--key", "epoch")

    def bytes_written(self):
        write_zip(self.source, self.state())
        self.converted()
        return self.out.read_bytes()

    def test_writes_into_what_is_no_file(self):
        expected = self.bytes_written()
        os.remove(self.out)
        os.mkfifo(self.out)
        with tempfile.TemporaryFile() as copy:
            reader = subprocess.Popen(["cat", self.out], stdout=copy)
            self.addCleanup(reader.kill)
            self.assertEqual(self.convert().returncode, 0)
            self.assertTrue(self.out.is_fifo())
            reader.wait()
            copy.seek(0)
            self.assertEqual(copy.read(), expected)

    def test_writes_to_stdout_where_it_stands(self):
        expected = self.bytes_written()
        redirected, link = self.folder / "redirected", self.folder / "stdout"
        link.symlink_to("/proc/self/fd/1")  # as /dev/stdout is; the machine's own is no test's to lose
        with open(redirected, "wb") as file:
            file.write(b"before ")
            file.flush()
            subprocess.run([sys.executable, SCRIPT, self.source, link], stdout=file, check=True)
        self.assertEqual(redirected.read_bytes()[:7 + len(expected)], b"before " + expected)

    def test_keeps_a_link(self):
        expected = self.bytes_written()
        os.remove(self.out)
        os.symlink("target", self.out)
        self.assertEqual(self.convert().returncode, 0)
        self.assertTrue(self.out.is_symlink())
        self.assertEqual((self.folder / "target").read_bytes(), expected)

    def test_makes_the_folders_of_its_output(self):
        expected = self.bytes_written()
        self.out = self.folder / "absent" / "inner" / "out.safetensors"
        self.assertEqual(self.convert().returncode, 0)
        self.assertEqual(self.out.read_bytes(), expected)

    def test_names_the_output_that_cannot_be_written(self):
        write_zip(self.source, self.state())
        for out in ("/dev/full", "/proc/absent/out.safetensors", self.source / "out.safetensors"):
            self.out = out
            result = self.convert()
            self.assertEqual(result.returncode, 1)
            self.assertIn(f"error: {out}: ", result.stderr)
            self.assertNotIn("Traceback", result.stderr)

    def test_says_wrong_use(self):
        for paths in ([], [self.source]):
            result = subprocess.run([sys.executable, SCRIPT, *paths], capture_output=True, text=True)
            self.assertEqual(result.returncode, 2)
        self.assertIn("expected CHECKPOINT... OUT.safetensors", result.stderr)


class WithTorch(Case):
    def model(self):
        torch.manual_seed(5)
        model = torch.nn.Module()
        model.layers = torch.nn.ModuleList([torch.nn.Linear(3, 4), torch.nn.LayerNorm(4)])
        model.projections = torch.nn.ParameterList([torch.nn.Parameter(torch.randn(4, 3))])
        model.out = torch.nn.Linear(3, 4)
        model.out.weight = model.layers[0].weight
        model.turned = torch.nn.Parameter(torch.randn(5, 2).t())
        model.narrow_ = torch.nn.Parameter(torch.randn(3).bfloat16())
        model.register_buffer("inv_freq", torch.rand(4, dtype=torch.float64))
        model.register_buffer("hidden", torch.rand(4), persistent=False)
        return model

    def test_gives_what_state_dict_gives(self):
        model = self.model()
        states = model.state_dict()
        for value in (states, model, {"model": states}):
            for is_zip in (True, False):
                torch.save(value, self.source, _use_new_zipfile_serialization=is_zip)
                got = self.converted()
                self.assertEqual(set(got), set(states))
                for name, (dtype, shape, data) in got.items():
                    self.assertEqual(shape, list(states[name].shape))
                    self.assertEqual(dtype, {torch.float32: "F32", torch.float64: "F64",
                                             torch.bfloat16: "BF16"}[states[name].dtype])
                    raw = torch.frombuffer(bytearray(data), dtype=states[name].dtype)
                    self.assertTrue(torch.equal(raw.reshape(shape), states[name]), name)

    def test_gives_the_numbers_of_marked_views_and_newer_dtypes(self):
        torch.manual_seed(5)
        numbers = torch.randn(3, 4, dtype=torch.complex64)
        state = {"conj": numbers.clone().conj().t(), "imag": numbers.clone().conj().imag[1:, ::2],
                 "neg": torch._neg_view(torch.randn(2, 3)), "both": torch._neg_view(numbers.conj()),
                 "half": torch._neg_view(torch.randn(5).half()), "int": torch._neg_view(torch.tensor([3, -5, 0]))}
        for name in ("uint16", "uint64", "float8_e4m3fn", "float8_e5m2fnuz"):
            if hasattr(torch, name):
                state[name] = torch.arange(16, dtype=torch.uint8).view(getattr(torch, name))
        for is_zip in (True, False):
            torch.save(state, self.source, _use_new_zipfile_serialization=is_zip)
            got = self.converted()
            for name, value in state.items():
                raw = value.resolve_conj().resolve_neg().contiguous().view(torch.uint8)
                self.assertEqual(list(got[name][2]), raw.flatten().tolist(), name)
                self.assertEqual(got[name][1], list(value.shape), name)


if __name__ == "__main__":
    is_with_torch = "--with-torch" in sys.argv
    sys.argv = [argument for argument in sys.argv if argument != "--with-torch"]
    if is_with_torch:
        try:
            import torch
        except (ImportError, OSError) as problem:
            print(f"skipped: {sys.executable} cannot import torch: {problem}")
            sys.exit(77)
        unittest.main(defaultTest="WithTorch")
    REBUILD = fake("torch._utils", "_rebuild_tensor_v2", lambda *arguments: None)
    FLOAT, DOUBLE, LONG = (fake("torch", f"{name}Storage") for name in ("Float", "Double", "Long"))
    COMPLEX, COMPLEX128 = (fake("torch", f"{name}Storage") for name in ("ComplexFloat", "ComplexDouble"))
    UNKNOWN = fake("torch", "StrangeStorage")
    MODULE = fake("mem_transformer", "MemTransformerLM")
    unittest.main(defaultTest="WithoutTorch")
