"""The numbers of tools/benchmarks/draw.h."""
import numpy as np


def numbers(n, seed=1):
    """The first n numbers of Draw(seed)."""
    out, state = np.empty(n, np.uint32), seed
    # In blocks of 4096: the states of one follow from those of the last by one multiplication and one addition.
    block = np.empty(min(n, 4096), np.uint32)
    for i in range(len(block)):
        state = (state * 1664525 + 1013904223) & 0xFFFFFFFF
        block[i] = state
    factor, offset = 1, 0
    for _ in range(len(block)):
        factor, offset = factor * 1664525 & 0xFFFFFFFF, (offset * 1664525 + 1013904223) & 0xFFFFFFFF
    for begin in range(0, n, len(block)):
        out[begin:begin + len(block)] = block[:n - begin]
        block = block * np.uint32(factor) + np.uint32(offset)
    return out >> np.uint32(8)


def units(n, seed):
    """Draw::Unit."""
    return (numbers(n, seed) % 65536).astype(np.float32) / np.float32(65536)


def flags(n, seed):
    return (numbers(n, seed) % 65536 // 32768).astype(np.float32)


def words(n, seed, below):
    """Draw::Word."""
    u = numbers(n, seed).astype(np.uint64) % np.uint64(1 << 21)
    return (((u * u * u >> np.uint64(31)) * np.uint64(below)) >> np.uint64(32)).astype(np.int64)
