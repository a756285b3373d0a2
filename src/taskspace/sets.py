"""The targets that each source serves, as runs of consecutive targets.

On a grid a tolerance set is a blob, so a few dozen runs hold thousands of targets.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Final, final

import numba
import numpy as np
from llvmlite import ir
from numba.core import types
from numba.extending import intrinsic
from numpy.typing import ArrayLike, NDArray

from taskspace._util import cache as cache  # before kernels are compiled or loaded
from taskspace._util.files import check_memory
from taskspace._util.threads import over_rows
from taskspace.errors import InvalidInputError

__all__ = ["LossRow", "TargetSets", "pack"]

LossRow = Callable[[int], NDArray[np.floating]]
"""The losses of one source at every target."""

# Below this many bytes of bits, a thread costs more than it gives.
MIN_THREADED_BYTES: Final = 2**21


@final
@dataclass(frozen=True, eq=False, repr=False)
class TargetSets:
    """For each source, the set of targets that it serves.

    Sources and targets are numbered from 0 and may be two different sets. Source `s`
    owns the runs `offsets[s]` to `offsets[s + 1]`; run `r` holds the targets from
    `starts[r]` up to, not including, `stops[r]`. Runs ascend, none is empty, no two
    touch: equal sets have equal arrays. All values are immutable.

    Args:
        offsets: `int64[n_sources + 1]`.
        starts: `int32[n_runs]`.
        stops: `int32[n_runs]`.
        n_targets: number of targets.
        losses: gives the losses of one source at every target, by which a cover
            decides who serves a target best; None where they are not known.
        question: what the sets answer, None where that is not known.
    """

    offsets: NDArray[np.int64]
    starts: NDArray[np.int32]
    stops: NDArray[np.int32]
    n_targets: int
    losses: LossRow | None = None
    question: Any = None

    @property
    def arrays(self) -> tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.int32]]:
        """Offsets, starts and stops, as the compiled kernels take them."""
        return self.offsets, self.starts, self.stops

    @property
    def n_sources(self) -> int:
        """Number of sources."""
        return len(self.offsets) - 1

    @property
    def nbytes(self) -> int:
        """Memory that the arrays take."""
        return self.offsets.nbytes + self.starts.nbytes + self.stops.nbytes

    @cached_property
    def sizes(self) -> NDArray[np.int64]:
        """Number of targets that each source serves, `[n_sources]`."""
        until = np.zeros(len(self.starts) + 1, np.int64)
        np.cumsum(self.stops - self.starts, out=until[1:])
        return np.diff(until[self.offsets])

    @cached_property
    def coverable(self) -> NDArray[np.bool_]:
        """Targets that some source serves, as `bool[n_targets]`."""
        return _unite(self.starts, self.stops, self.n_targets)

    @cached_property
    def inverse(self) -> "TargetSets":
        """For each target, the sources that serve it, as runs of sources."""
        runs = _transpose_runs(*self.arrays, self.n_targets)
        return TargetSets(*runs, n_targets=self.n_sources)

    @cached_property
    def words(self) -> NDArray[np.uint64]:
        """The same sets as bits: target `t` is bit `t % 64` of word `t // 64`."""
        words = np.zeros((self.n_sources, -(-self.n_targets // 64)), np.uint64)
        _set_bits(*self.arrays, words)
        return words

    @property
    def is_dense(self) -> bool:
        """Whether bits are smaller than runs, as where sets are noise."""
        return len(self.starts) > self.n_sources * -(-self.n_targets // 64)

    def row(self, source: int) -> NDArray[np.bool_]:
        """Return the targets that one source serves, as `bool[n_targets]`.

        Args:
            source: its index.
        """
        a, b = self.offsets[source], self.offsets[source + 1]
        change = np.zeros(self.n_targets + 1, np.int8)
        change[self.starts[a:b]] = 1
        change[self.stops[a:b]] = -1
        return np.cumsum(change[:-1], dtype=np.int8).view(np.bool_)

    def to_bool(self) -> NDArray[np.bool_]:
        """Return these sets as `bool[n_sources, n_targets]`."""
        bits = np.unpackbits(
            self.words.view(np.uint8), axis=1, count=self.n_targets, bitorder="little"
        )
        return bits.view(np.bool_)

    def union(self, sources: ArrayLike) -> NDArray[np.bool_]:
        """Return the targets that at least one source serves, as `bool[n_targets]`.

        Args:
            sources: indices of sources.
        """
        runs = self._runs_of(self._indices(sources))[1]
        return _unite(self.starts[runs], self.stops[runs], self.n_targets)

    def subset(self, sources: ArrayLike) -> "TargetSets":
        """Return the same targets with only these sources, in this order.

        Args:
            sources: indices of sources.
        """
        indices, losses = self._indices(sources), self.losses
        offsets, runs = self._runs_of(indices)
        if losses is not None:
            whole = losses
            losses = lambda source: whole(int(indices[source]))  # noqa: E731
        return TargetSets(
            offsets, self.starts[runs], self.stops[runs], self.n_targets, losses,
            self.question,
        )  # fmt: skip

    def keep_targets(self, kept: NDArray[np.bool_]) -> "TargetSets":
        """Return the sets with only some targets, numbered anew, without losses.

        Args:
            kept: True where a target stays, `bool[n_targets]`.
        """
        new_index = np.zeros(self.n_targets + 1, np.int32)
        np.cumsum(kept, out=new_index[1:])
        runs = _renumber_runs(*self.arrays, new_index)
        return TargetSets(*runs, n_targets=int(new_index[-1]))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, TargetSets):
            return NotImplemented
        return self.n_targets == other.n_targets and all(
            map(np.array_equal, self.arrays, other.arrays)
        )

    __hash__ = None  # type: ignore[assignment]

    def __len__(self) -> int:
        return self.n_sources

    def __repr__(self) -> str:
        return (
            f"TargetSets({self.n_sources} sources, {self.n_targets} targets, "
            f"{len(self.starts)} runs)"
        )

    def _indices(self, sources: ArrayLike) -> NDArray[np.int64]:
        indices = np.asarray(sources)
        if indices.size == 0:
            return np.zeros(0, np.int64)
        if indices.ndim != 1 or indices.dtype.kind not in "iu":
            raise InvalidInputError(
                "sources must be a list of integers, but got "
                f"an array of type {indices.dtype} and shape {indices.shape}."
            )
        if indices.min() < 0 or indices.max() >= self.n_sources:
            raise InvalidInputError(
                f"0 <= source < {self.n_sources} must hold for every source, but got "
                f"values from {indices.min()} to {indices.max()}."
            )
        return indices.astype(np.int64)

    def _runs_of(
        self, sources: NDArray[np.int64]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the offsets of a selection, and the indices of its runs."""
        first, counts = self.offsets[sources], np.diff(self.offsets)[sources]
        offsets = np.zeros(len(sources) + 1, np.int64)
        np.cumsum(counts, out=offsets[1:])
        runs = np.repeat(first - offsets[:-1], counts) + np.arange(offsets[-1])
        return offsets, runs


def pack(
    data: Any,
    *,
    n_targets: int | None = None,
    losses: LossRow | None = None,
    question: Any = None,
) -> TargetSets:
    """Return the tolerance sets of a boolean matrix or of a stream of its row blocks.

    Args:
        data: boolean matrix `(source, target)` (NumPy or xarray); or an iterable of
            blocks of its rows, of which only one is held at a time. A block may also
            be bits, `uint64[n_rows, n_words]`, where `n_targets` is given.
        n_targets: number of targets; needed for a stream that may be empty.
        losses: gives the losses of one source at every target, by which a cover
            assigns targets; called for selected sources only.
        question: what the sets answer.

    Returns:
        The sets, as runs.
    """
    parts: list[TargetSets] = []
    n_runs = 0
    for block in [data] if hasattr(data, "shape") else data:
        array = np.asarray(block)
        if array.dtype == np.uint64 and n_targets is not None:
            parts.append(_find_runs(array, n_targets))
        else:
            parts.append(_pack_matrix(array, n_targets))
        n_targets = parts[0].n_targets
        n_runs += len(parts[-1].starts)
        check_memory(8 * n_runs, "The tolerance sets")
    if n_targets is None:
        raise InvalidInputError(
            "n_targets must be given for an empty stream of blocks, but got none."
        )
    sets = parts[0] if len(parts) == 1 else join(parts, n_targets)
    return replace(sets, losses=losses, question=question)


def _pack_matrix(matrix: NDArray, n_targets: int | None) -> TargetSets:
    """Return the sets of a boolean matrix."""
    if matrix.ndim != 2 or matrix.dtype != np.bool_:
        raise InvalidInputError(
            "Sets must be a boolean matrix with dims (source, target), but got "
            f"{matrix.dtype} of shape {matrix.shape}. "
            "A tolerance set of a loss matrix is `loss <= epsilon`."
        )
    if n_targets is not None and matrix.shape[1] != n_targets:
        raise InvalidInputError(
            f"Every block must have {n_targets} targets, but got {matrix.shape[1]}."
        )
    n_sources, width = matrix.shape
    words = np.zeros((n_sources, -(-width // 64)), np.uint64)
    n_bytes = -(-width // 8)

    def pack_bits(a: int, b: int) -> None:
        bits = np.packbits(matrix[a:b], axis=1, bitorder="little")
        words[a:b].view(np.uint8)[:, :n_bytes] = bits

    over_rows(pack_bits, n_sources, in_threads=words.nbytes >= MIN_THREADED_BYTES)
    return _find_runs(words, width)


def _find_runs(words: NDArray[np.uint64], n_targets: int) -> TargetSets:
    """Return the sets of rows of bits."""
    offsets = np.zeros(len(words) + 1, np.int64)
    in_threads = words.nbytes >= MIN_THREADED_BYTES

    def count(a: int, b: int) -> None:
        # A run starts where a bit is set and the one below it is not.
        below = words[a:b] << np.uint64(1)
        below[:, 1:] |= words[a:b, :-1] >> np.uint64(63)
        offsets[a + 1 : b + 1] = np.bitwise_count(words[a:b] & ~below).sum(1)

    over_rows(count, len(words), in_threads=in_threads)
    np.cumsum(offsets, out=offsets)
    starts, stops = (np.empty(offsets[-1], np.int32) for _ in range(2))
    over_rows(
        lambda a, b: _write_runs(words[a:b], offsets[a:], starts, stops),
        len(words),
        in_threads=in_threads,
    )
    return TargetSets(offsets, starts, stops, n_targets)


def join(parts: Iterable[TargetSets], n_targets: int) -> TargetSets:
    """Return all sources of all parts, one part after the other.

    Args:
        parts: sets of the same targets; may be none.
        n_targets: how many targets they have.
    """
    offsets, starts, stops = [np.zeros(1, np.int64)], [], []
    for part in parts:
        offsets.append(part.offsets[1:] + offsets[-1][-1])
        starts.append(part.starts)
        stops.append(part.stops)
    none = np.zeros(0, np.int32)
    return TargetSets(
        np.concatenate(offsets),
        np.concatenate([none, *starts]),
        np.concatenate([none, *stops]),
        n_targets,
    )


def _unite(
    starts: NDArray[np.int32], stops: NDArray[np.int32], n_targets: int
) -> NDArray[np.bool_]:
    """Return which targets are in some run: each run is looked at, not walked."""
    change = np.bincount(starts, minlength=n_targets + 1)
    change -= np.bincount(stops, minlength=n_targets + 1)
    return np.cumsum(change[:-1]) > 0


# --- compiled kernels -------------------------------------------------------------


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
lowest_bit: Any = _lowest_bit  # position of the lowest bit set; 64 for zero


@numba.njit(cache=True)
def _next_bit(row, position, inverted):
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
def _write_runs(words, offsets, starts, stops):
    """Write the runs of each row from its offset on."""
    for i in range(len(words)):
        row = words[i]
        position = np.int64(0)
        for r in range(offsets[i], offsets[i + 1]):
            first = _next_bit(row, position, False)
            position = _next_bit(row, first + 1, True)
            starts[r], stops[r] = first, position


@numba.njit(cache=True)
def _set_bits(offsets, starts, stops, words):
    for i in range(len(offsets) - 1):
        for r in range(offsets[i], offsets[i + 1]):
            first, last = starts[r] // 64, (stops[r] - 1) // 64
            low = ~np.uint64(0) << np.uint64(starts[r] % 64)
            high = ~np.uint64(0) >> np.uint64(63 - (stops[r] - 1) % 64)
            if first == last:
                words[i, first] |= low & high
                continue
            words[i, first] |= low
            for w in range(first + 1, last):
                words[i, w] = ~np.uint64(0)
            words[i, last] |= high


@numba.njit(cache=True)
def _renumber_runs(offsets, starts, stops, new_index):
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
def _transpose_runs(offsets, starts, stops, n_targets):
    """Return runs of sources for each target, in one counting and one filling sweep."""
    new_offsets = np.zeros(n_targets + 1, np.int64)
    open_until = np.zeros(n_targets, np.int32) - np.int32(1)
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


@numba.njit(cache=True, nogil=True)
def multiply_runs(runs, values):
    """For each source the sum of `values` over its targets, exact for integers."""
    offsets, starts, stops = runs
    prefix = np.zeros(len(values) + 1, values.dtype)
    for i in range(len(values)):
        prefix[i + 1] = prefix[i] + values[i]
    sums = np.zeros(len(offsets) - 1, values.dtype)
    for s in range(len(sums)):
        for r in range(offsets[s], offsets[s + 1]):
            sums[s] += prefix[stops[r]] - prefix[starts[r]]
    return sums
