#!/usr/bin/env python3
"""Writes dequantized.txt: checksums of the numbers that PyPI gguf makes of blocks of every type.

  python3 tests/weights/gguf/dequantized.py     needs gguf and numpy

A row has the type, then SHA-256 of the numbers, as the bytes of f32 with one NaN for all, of 64 random blocks and of
random blocks whose scales are set to numbers at the ends of f16.
"""
import hashlib
import pathlib

import gguf
import numpy as np

# Type: bytes of a block, and where its scales of 16 bits lie.
TYPES = {"F32": (4, []), "F16": (2, [0]), "BF16": (2, [0]), "Q8_0": (34, [0]), "Q4_0": (18, [0]), "Q4_1": (20, [0, 2]),
         "Q5_0": (22, [0]), "Q5_1": (24, [0, 2]), "Q4_K": (144, [0, 2]), "Q5_K": (176, [0, 2]), "Q6_K": (210, [208])}
# Zero, the least numbers, the largest subnormal one, the largest, infinity, NaN; of both signs.
SPECIAL = [0x0000, 0x8000, 0x0001, 0x8001, 0x03FF, 0x83FF, 0x7BFF, 0xFBFF, 0x7C00, 0xFC00, 0x7E00, 0xFE01]
BLOCKS = 64


def random_bytes(count, state):
    """The high bytes of a linear congruential sequence."""
    out = bytearray()
    for _ in range(count):
        state = (state * 6364136223846793005 + 1442695040888963407) % 2**64
        out.append(state >> 56)
    return out


def digest(name, blocks):
    data = np.frombuffer(bytes(blocks), dtype=np.uint8)
    with np.errstate(all="ignore"):
        numbers = gguf.quants.dequantize(data, gguf.GGMLQuantizationType[name]).astype(np.float32).reshape(-1)
    bits = numbers.view(np.uint32).copy()
    bits[np.isnan(numbers)] = 0x7FC00000
    return hashlib.sha256(bits.astype("<u4").tobytes()).hexdigest()


def main():
    rows = []
    for name, (size, scales) in TYPES.items():
        seed = int(gguf.GGMLQuantizationType[name])
        special = random_bytes(len(SPECIAL) * size, seed + 1000)
        for i, bits in enumerate(SPECIAL):
            for at in scales:
                special[i * size + at: i * size + at + 2] = bits.to_bytes(2, "little")
        rows.append(f"{name} {digest(name, random_bytes(BLOCKS * size, seed))} {digest(name, special)}\n")
    pathlib.Path(__file__).with_suffix(".txt").write_text("".join(rows))


if __name__ == "__main__":
    main()
