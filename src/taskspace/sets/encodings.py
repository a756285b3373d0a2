"""Two encodings of the targets that each source serves.

One interface, `TargetSets`, and two encodings that give the same results:
`PackedSets` keeps one bit per (source, target) pair, `RunSets` keeps for each
source its runs of consecutive targets. On a grid a tolerance set is a blob, so a
few dozen runs stand for thousands of bits.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from taskspace._util import memory as _memory
from taskspace._util.threads import over_rows
from taskspace.errors import InvalidInputError
from taskspace.sets import kernels

LossRow = Callable[[int], NDArray[np.floating]]
"""The losses of one source at every target."""

# Below this many bytes of bits, a thread costs more than it gives.
MIN_THREADED_BYTES: Final = 2**21


class TargetSets(ABC):
    """For each source, the set of targets that it serves.

    Sources and targets are numbered from 0 and may be two different sets. All
    values are immutable. `losses`, where it is known, gives the losses of one source
    at every target: by them a cover decides who serves a target best. It is a
    reference to where losses come from, not a copy of them. `question`, where it is
    known, is what the sets answer; a cover of them carries it on.
    """

    n_targets: int
    losses: LossRow | None
    question: Any

    @property
    @abstractmethod
    def n_sources(self) -> int:
        """Number of sources."""

    @cached_property
    def sizes(self) -> NDArray[np.int64]:
        """Number of targets that each source serves, `[n_sources]`."""
        return self._count()

    @property
    @abstractmethod
    def nbytes(self) -> int:
        """Memory that the encoding takes."""

    @abstractmethod
    def row(self, source: int) -> NDArray[np.bool_]:
        """Targets that one source serves, as `bool[n_targets]`."""

    @abstractmethod
    def subset(self, sources: ArrayLike) -> "TargetSets":
        """Return the same targets with only these sources, in this order."""

    @abstractmethod
    def to_runs(self) -> "RunSets":
        """Return these sets in the run-length encoding."""

    @abstractmethod
    def to_packed(self) -> "PackedSets":
        """Return these sets as packed bits."""

    @abstractmethod
    def _count(self) -> NDArray[np.int64]: ...

    @abstractmethod
    def _unite(self) -> NDArray[np.bool_]: ...

    def to_bool(self) -> NDArray[np.bool_]:
        """Return these sets as `bool[n_sources, n_targets]`."""
        matrix = np.zeros((self.n_sources, self.n_targets), bool)
        for source in range(self.n_sources):
            matrix[source] = self.row(source)
        return matrix

    def union(self, sources: ArrayLike) -> NDArray[np.bool_]:
        """Targets that at least one of `sources` serves, as `bool[n_targets]`."""
        covered = np.zeros(self.n_targets, bool)
        for source in self._indices(sources):
            covered |= self.row(int(source))
        return covered

    @cached_property
    def coverable(self) -> NDArray[np.bool_]:
        """Targets that some source serves, as `bool[n_targets]`."""
        return self._unite()

    @cached_property
    def inverse(self) -> "RunSets":
        """For each target, the sources that serve it, as runs of sources."""
        return RunSets(
            *kernels.transpose_runs(*self.to_runs().arrays, self.n_targets),
            n_targets=self.n_sources,
        )

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, TargetSets):
            return NotImplemented
        if (self.n_sources, self.n_targets) != (other.n_sources, other.n_targets):
            return False
        own, others = self.to_runs(), other.to_runs()
        return all(
            np.array_equal(getattr(own, name), getattr(others, name))
            for name in ("offsets", "starts", "stops")
        )

    __hash__ = None  # type: ignore[assignment]

    def __len__(self) -> int:
        return self.n_sources

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


@final
@dataclass(frozen=True, eq=False, repr=False)
class PackedSets(TargetSets):
    """Tolerance sets as bits: target `t` is bit `t % 64` of word `t // 64`.

    Args:
        words: `uint64[n_sources, n_words]`; bits from `n_targets` on are zero.
        n_targets: number of targets, `<= 64 * n_words`.
        losses: losses of one source at every target, None where they are not known.
        question: what the sets answer, None where that is not known.
    """

    words: NDArray[np.uint64]
    n_targets: int
    losses: LossRow | None = None
    question: Any = None

    def __post_init__(self):
        n_words = -(-self.n_targets // 64)
        if self.words.dtype != np.uint64 or self.words.shape[1:] != (n_words,):
            raise InvalidInputError(
                f"words must be uint64 of shape (n_sources, {n_words}) for "
                f"{self.n_targets} targets, but got {self.words.dtype} of shape "
                f"{self.words.shape}."
            )

    @classmethod
    def from_bool(cls, matrix: ArrayLike) -> "PackedSets":
        """Pack a boolean matrix `(source, target)`."""
        return pack_bits(as_bool_matrix(matrix))

    @classmethod
    def from_blocks(cls, blocks: Iterable[ArrayLike], n_targets: int) -> "PackedSets":
        """Pack blocks of rows as they arrive; only one block is held unpacked."""
        parts = [as_packed(block, n_targets) for block in blocks]
        return join_packed(parts, n_targets)

    @property
    def n_sources(self) -> int:
        """Number of sources."""
        return self.words.shape[0]

    def _count(self) -> NDArray[np.int64]:
        return kernels.count_bits(self.words)

    def _unite(self) -> NDArray[np.bool_]:
        return self.union(np.arange(self.n_sources))

    @property
    def nbytes(self) -> int:
        """Memory that the arrays take."""
        return self.words.nbytes

    def row(self, source: int) -> NDArray[np.bool_]:
        """Targets that one source serves."""
        return kernels.unpack_rows(self.words[source : source + 1], self.n_targets)[0]

    def to_bool(self) -> NDArray[np.bool_]:
        """All bits unpacked."""
        return kernels.unpack_rows(self.words, self.n_targets)

    def subset(self, sources: ArrayLike) -> "PackedSets":
        """Only these sources, in this order."""
        indices = self._indices(sources)
        losses = _losses_of(self.losses, indices)
        return PackedSets(self.words[indices], self.n_targets, losses, self.question)

    def union(self, sources: ArrayLike) -> NDArray[np.bool_]:
        """Targets that at least one of `sources` serves."""
        words = kernels.or_rows(self.words, self._indices(sources))
        return kernels.unpack_rows(words[None], self.n_targets)[0]

    def to_packed(self) -> "PackedSets":
        """Return these sets themselves."""
        return self

    def to_runs(self) -> "RunSets":
        """Return the same sets as runs, found once."""
        return self._runs

    @cached_property
    def _runs(self) -> "RunSets":
        words = self.words
        offsets = np.zeros(len(words) + 1, np.int64)
        counts = offsets[1:]
        over_rows(
            lambda a, b: kernels.count_runs(words[a:b], counts[a:b]),
            len(words),
            in_threads=words.nbytes >= MIN_THREADED_BYTES,
        )
        np.cumsum(offsets, out=offsets)
        starts, stops = (np.empty(offsets[-1], np.int32) for _ in range(2))
        over_rows(
            lambda a, b: kernels.find_runs(words[a:b], offsets[a:], starts, stops),
            len(words),
            in_threads=words.nbytes >= MIN_THREADED_BYTES,
        )
        return RunSets(
            offsets, starts, stops, self.n_targets, self.losses, self.question
        )

    def __repr__(self) -> str:
        return f"PackedSets({self.n_sources} sources, {self.n_targets} targets)"


@final
@dataclass(frozen=True, eq=False, repr=False)
class RunSets(TargetSets):
    """Tolerance sets as runs `[start, stop)` of consecutive targets.

    Source `s` owns the runs `offsets[s]` to `offsets[s + 1]`, in ascending order,
    none empty, no two touching, so that equal sets have equal arrays.

    Args:
        offsets: `int64[n_sources + 1]`.
        starts: `int32[n_runs]`.
        stops: `int32[n_runs]`.
        n_targets: number of targets.
        losses: losses of one source at every target, None where they are not known.
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

    @classmethod
    def from_runs(
        cls, offsets: ArrayLike, starts: ArrayLike, stops: ArrayLike, n_targets: int
    ) -> "RunSets":
        """Make sets from runs that were found elsewhere; check their order."""
        offsets = np.asarray(offsets, np.int64)
        starts, stops = np.asarray(starts, np.int32), np.asarray(stops, np.int32)
        if not (
            offsets.ndim == starts.ndim == stops.ndim == 1
            and len(offsets) > 0
            and len(starts) == len(stops) == offsets[-1]
            and kernels.runs_are_canonical(offsets, starts, stops, n_targets)
        ):
            raise InvalidInputError(
                "Runs must be ascending, not empty, not touching and within "
                f"[0, {n_targets}) for every source. RunSets.from_bool makes such runs."
            )
        return cls(offsets, starts, stops, n_targets)

    @classmethod
    def from_bool(cls, matrix: ArrayLike) -> "RunSets":
        """Find the runs of a boolean matrix `(source, target)`."""
        return PackedSets.from_bool(matrix).to_runs()

    @classmethod
    def from_blocks(cls, blocks: Iterable[ArrayLike], n_targets: int) -> "RunSets":
        """Find the runs of blocks of rows as they arrive."""
        return cls.concatenate(
            (as_packed(block, n_targets).to_runs() for block in blocks),
            n_targets,
        )

    @classmethod
    def concatenate(cls, parts: Iterable["RunSets"], n_targets: int) -> "RunSets":
        """All sources of all parts, one part after the other."""
        offsets, starts, stops, n_runs = [np.zeros(1, np.int64)], [], [], 0
        for part in parts:
            if part.n_targets != n_targets:
                raise InvalidInputError(
                    f"Every part must have {n_targets} targets, but got one "
                    f"with {part.n_targets}."
                )
            offsets.append(part.offsets[1:] + n_runs)
            starts.append(part.starts)
            stops.append(part.stops)
            n_runs += len(part.starts)
            _memory.check(8 * n_runs, "The tolerance sets")
        return cls(
            np.concatenate(offsets), _join_int32(starts), _join_int32(stops), n_targets
        )

    @property
    def n_sources(self) -> int:
        """Number of sources."""
        return len(self.offsets) - 1

    def _count(self) -> NDArray[np.int64]:
        return kernels.count_run_targets(*self.arrays)

    def _unite(self) -> NDArray[np.bool_]:
        # +1 where a run starts, -1 where it stops: each run is looked at, not walked.
        change = kernels.count_ends(self.starts, self.stops, self.n_targets)
        return np.cumsum(change[:-1]) > 0

    @property
    def nbytes(self) -> int:
        """Memory that the arrays take."""
        return self.offsets.nbytes + self.starts.nbytes + self.stops.nbytes

    def row(self, source: int) -> NDArray[np.bool_]:
        """Targets that one source serves."""
        return self.union([source])

    def subset(self, sources: ArrayLike) -> "RunSets":
        """Only these sources, in this order."""
        indices = self._indices(sources)
        return RunSets(
            *kernels.take_runs(*self.arrays, indices),
            n_targets=self.n_targets,
            losses=_losses_of(self.losses, indices),
            question=self.question,
        )

    def keep_targets(self, kept: NDArray[np.bool_]) -> "RunSets":
        """Only the targets marked in `bool[n_targets]`, numbered anew, without losses.

        Args:
            kept: True where a target stays.
        """
        new_index = np.zeros(self.n_targets + 1, np.int32)
        np.cumsum(kept, out=new_index[1:])
        return RunSets(
            *kernels.renumber_runs(*self.arrays, new_index),
            n_targets=int(new_index[-1]),
        )

    def union(self, sources: ArrayLike) -> NDArray[np.bool_]:
        """Targets that at least one of `sources` serves."""
        covered = np.zeros(self.n_targets, bool)
        indices = self._indices(sources)
        kernels.mark_runs(*self.arrays, indices, covered)
        return covered

    def to_packed(self) -> "PackedSets":
        """Return the same sets as bits."""
        words = np.zeros((self.n_sources, -(-self.n_targets // 64)), np.uint64)
        kernels.runs_to_bits(*self.arrays, words)
        return PackedSets(words, self.n_targets, self.losses, self.question)

    def to_runs(self) -> "RunSets":
        """Return these sets themselves."""
        return self

    def __repr__(self) -> str:
        return (
            f"RunSets({self.n_sources} sources, {self.n_targets} targets, "
            f"{len(self.starts)} runs)"
        )


def as_bool_matrix(matrix: ArrayLike, n_targets: int | None = None) -> NDArray:
    """Return a boolean matrix as it must be, or raise.

    Args:
        matrix: dims `(source, target)`.
        n_targets: how many targets it must have, None for any number.
    """
    array = np.asarray(matrix)
    if array.ndim != 2 or array.dtype != np.bool_:
        raise InvalidInputError(
            "Sets must be a boolean matrix with dims (source, target), but got "
            f"{array.dtype} of shape {array.shape}. "
            "A tolerance set of a loss matrix is `loss <= epsilon`."
        )
    if n_targets is not None and array.shape[1] != n_targets:
        raise InvalidInputError(
            f"Every block must have {n_targets} targets, but got {array.shape[1]}."
        )
    return np.ascontiguousarray(array)


def _losses_of(losses: LossRow | None, sources: NDArray[np.int64]) -> LossRow | None:
    """Losses of some of the sources, numbered anew."""
    if losses is None:
        return None
    return lambda source: losses(int(sources[source]))


def _join_int32(parts: list[NDArray[np.int32]]) -> NDArray[np.int32]:
    joined = np.concatenate(parts) if parts else np.zeros(0, np.int32)
    parts.clear()  # so that starts are freed before stops are joined
    return joined


def pack_bits(matrix: NDArray[np.bool_]) -> PackedSets:
    """Return the bits of a boolean matrix.

    Args:
        matrix: dims `(source, target)`, contiguous.
    """
    n_sources, n_targets = matrix.shape
    words = np.zeros((n_sources, -(-n_targets // 64)), np.uint64)
    sizes = np.zeros(n_sources, np.int64)
    rows = matrix.view(np.uint8)
    over_rows(
        lambda a, b: kernels.pack_rows(rows[a:b], words[a:b], sizes[a:b]),
        n_sources,
        in_threads=words.nbytes >= MIN_THREADED_BYTES,
    )
    packed = PackedSets(words, n_targets)
    object.__setattr__(packed, "sizes", sizes)  # known: fill the cached property
    return packed


def as_packed(block: Any, n_targets: int) -> PackedSets:
    """Return the bits of a block of rows.

    Args:
        block: a boolean matrix, or sets that are packed already.
        n_targets: how many targets it must have.
    """
    if isinstance(block, PackedSets):
        return block
    return pack_bits(as_bool_matrix(block, n_targets))


def join_packed(parts: list[PackedSets], n_targets: int) -> PackedSets:
    """All sources of all parts, one part after the other.

    Args:
        parts: sets of the same targets; may be none.
        n_targets: how many targets they have.
    """
    if len(parts) == 1:
        return parts[0]
    empty = np.zeros((0, -(-n_targets // 64)), np.uint64)
    return PackedSets(np.concatenate([empty, *(p.words for p in parts)]), n_targets)
