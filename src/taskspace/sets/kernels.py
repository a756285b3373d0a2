"""Compiled kernels on packed bits and on runs of consecutive indices."""

from typing import Any

import numba
import numpy as np
from llvmlite import ir
from numba.core import types
from numba.extending import intrinsic


@intrinsic
def _popcount(typingctx, word):

    def codegen(context, builder, signature, args):
        return builder.ctpop(args[0])

    return types.uint64(types.uint64), codegen


@intrinsic
def _lowest_bit(typingctx, word):

    def codegen(context, builder, signature, args):
        return builder.cttz(args[0], ir.Constant(ir.IntType(1), 0))

    return types.uint64(types.uint64), codegen


popcount: Any = _popcount
"""Number of bits set in a 64-bit word, as the CPU's own instruction."""

lowest_bit: Any = _lowest_bit
"""Position of the lowest bit set in a 64-bit word; 64 for zero."""


def unpack_rows(words, n_targets):
    """Bits as a boolean matrix `(row, target)`.

    Args:
        words: `uint64[n_rows, n_words]`.
        n_targets: bits of a row that count.
    """
    as_bytes = np.ascontiguousarray(words).astype("<u8", copy=False).view(np.uint8)
    bits = np.unpackbits(as_bytes, axis=1, count=n_targets, bitorder="little")
    return bits.view(np.bool_)


@numba.njit(cache=True, nogil=True)
def pack_rows(matrix, words, sizes):
    """Pack rows of bytes 0 or 1 into 64-bit words, and count each row's ones."""
    # Eight bytes of 0 or 1 become eight bits by one multiplication: the magic
    # factor moves byte k's bit to position 56 + k and nothing else there.
    magic, top = np.uint64(0x0102040810204080), np.uint64(56)
    n_full = matrix.shape[1] // 64
    for i in range(matrix.shape[0]):
        row = matrix[i]
        for w in range(n_full):
            word = np.uint64(0)
            for b in range(8):
                eight = np.uint64(0)
                for k in range(8):
                    eight |= np.uint64(row[w * 64 + b * 8 + k]) << np.uint64(8 * k)
                word |= ((eight * magic) >> top) << np.uint64(8 * b)
            words[i, w] = word
            sizes[i] += np.int64(popcount(word))
        for t in range(n_full * 64, matrix.shape[1]):
            words[i, t // 64] |= np.uint64(row[t]) << np.uint64(t % 64)
            sizes[i] += row[t]


@numba.njit(cache=True)
def count_bits(words):
    """Return number of bits set in each row."""
    sizes = np.zeros(words.shape[0], np.int64)
    for i in range(words.shape[0]):
        total = np.uint64(0)
        for w in range(words.shape[1]):
            total += popcount(words[i, w])
        sizes[i] = total
    return sizes


@numba.njit(cache=True)
def or_rows(words, rows):
    """Union of some rows."""
    union = np.zeros(words.shape[1], np.uint64)
    for i in rows:
        for w in range(len(union)):
            union[w] |= words[i, w]
    return union


@numba.njit(cache=True)
def next_bit(row, position, inverted):
    """First position `>= position` whose bit is set (clear if `inverted`)."""
    flip = ~np.uint64(0) if inverted else np.uint64(0)
    n_bits = 64 * row.shape[0]
    while position < n_bits:
        w = position // 64
        word = (row[w] ^ flip) >> np.uint64(position % 64)
        if word != 0:
            return position + np.int64(lowest_bit(word))
        position = 64 * (w + 1)
    return n_bits


@numba.njit(cache=True, nogil=True)
def count_runs(words, counts):
    """Return number of runs of set bits in each row."""
    n_sources, n_words = words.shape
    for i in range(n_sources):
        n_runs = np.uint64(0)
        carry = np.uint64(0)
        for w in range(n_words):
            word = words[i, w]
            # A run starts where a bit is set and the one below it is not.
            n_runs += popcount(word & ~((word << np.uint64(1)) | carry))
            carry = word >> np.uint64(63)
        counts[i] = np.int64(n_runs)


@numba.njit(cache=True, nogil=True)
def find_runs(words, offsets, starts, stops):
    """Write the runs of each row from its offset on."""
    for i in range(len(words)):
        row = words[i]
        position = 0
        for r in range(offsets[i], offsets[i + 1]):
            starts[r] = next_bit(row, position, False)
            position = next_bit(row, starts[r] + 1, True)
            stops[r] = position


@numba.njit(cache=True)
def runs_to_bits(offsets, starts, stops, words):
    """Set the bits of every run."""
    for i in range(len(offsets) - 1):
        for r in range(offsets[i], offsets[i + 1]):
            for t in range(starts[r], stops[r]):
                words[i, t // 64] |= np.uint64(1) << np.uint64(t % 64)


@numba.njit(cache=True)
def count_run_targets(offsets, starts, stops):
    """Return number of targets in the runs of each source."""
    sizes = np.zeros(len(offsets) - 1, np.int64)
    for i in range(len(offsets) - 1):
        for r in range(offsets[i], offsets[i + 1]):
            sizes[i] += stops[r] - starts[r]
    return sizes


@numba.njit(cache=True)
def count_ends(starts, stops, n_targets):
    """Return runs that start less runs that stop, at each target."""
    change = np.zeros(n_targets + 1, np.int64)
    for r in range(len(starts)):
        change[starts[r]] += 1
        change[stops[r]] -= 1
    return change


@numba.njit(cache=True)
def runs_are_canonical(offsets, starts, stops, n_targets):
    """Whether runs ascend, are not empty, do not touch and fit."""
    if offsets[0] != 0:
        return False
    for i in range(len(offsets) - 1):
        if offsets[i + 1] < offsets[i]:
            return False
        lowest = 0
        for r in range(offsets[i], offsets[i + 1]):
            if starts[r] < lowest or stops[r] <= starts[r] or stops[r] > n_targets:
                return False
            lowest = stops[r] + 1
    return True


@numba.njit(cache=True)
def take_runs(offsets, starts, stops, sources):
    """Return the runs of some sources."""
    new_offsets = np.zeros(len(sources) + 1, np.int64)
    for k in range(len(sources)):
        s = sources[k]
        new_offsets[k + 1] = new_offsets[k] + offsets[s + 1] - offsets[s]
    new_starts = np.empty(new_offsets[-1], np.int32)
    new_stops = np.empty(new_offsets[-1], np.int32)
    for k in range(len(sources)):
        first = offsets[sources[k]]
        for r in range(new_offsets[k + 1] - new_offsets[k]):
            new_starts[new_offsets[k] + r] = starts[first + r]
            new_stops[new_offsets[k] + r] = stops[first + r]
    return new_offsets, new_starts, new_stops


@numba.njit(cache=True)
def mark_runs(offsets, starts, stops, sources, marks):
    """Mark every target in the runs of some sources."""
    for s in sources:
        for r in range(offsets[s], offsets[s + 1]):
            marks[starts[r] : stops[r]] = True


@numba.njit(cache=True)
def renumber_runs(offsets, starts, stops, new_index):
    """Return runs after targets were dropped; runs that now touch become one."""
    new_offsets = np.zeros_like(offsets)
    new_starts = np.empty(len(starts), np.int32)
    new_stops = np.empty(len(stops), np.int32)
    n = 0
    for i in range(len(offsets) - 1):
        for r in range(offsets[i], offsets[i + 1]):
            start, stop = new_index[starts[r]], new_index[stops[r]]
            if start == stop:
                continue
            if n > new_offsets[i] and new_stops[n - 1] == start:
                new_stops[n - 1] = stop
            else:
                new_starts[n], new_stops[n] = start, stop
                n += 1
        new_offsets[i + 1] = n
    return new_offsets, new_starts[:n].copy(), new_stops[:n].copy()


@numba.njit(cache=True)
def transpose_runs(offsets, starts, stops, n_targets):
    """Return runs of sources for each target, in one counting and one filling sweep."""
    new_offsets = np.zeros(n_targets + 1, np.int64)
    open_until = np.full(n_targets, -1, np.int32)
    for i in range(len(offsets) - 1):
        for r in range(offsets[i], offsets[i + 1]):
            for t in range(starts[r], stops[r]):
                new_offsets[t + 1] += open_until[t] != i
                open_until[t] = i + 1
    for t in range(n_targets):
        new_offsets[t + 1] += new_offsets[t]
    new_starts = np.empty(new_offsets[-1], np.int32)
    new_stops = np.empty(new_offsets[-1], np.int32)
    last = new_offsets[:-1] - 1
    for i in range(len(offsets) - 1):
        for r in range(offsets[i], offsets[i + 1]):
            for t in range(starts[r], stops[r]):
                if last[t] < new_offsets[t] or new_stops[last[t]] != i:
                    last[t] += 1
                    new_starts[last[t]] = i
                new_stops[last[t]] = i + 1
    return new_offsets, new_starts, new_stops
