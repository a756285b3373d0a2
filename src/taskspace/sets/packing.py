"""Tolerance sets of a matrix, or of a stream of its rows, in the encoding that fits."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Final, Literal

from numpy.typing import ArrayLike

from taskspace._util import memory as _memory
from taskspace.errors import InvalidInputError, UnknownNameError
from taskspace.sets.encodings import (
    LossRow,
    PackedSets,
    RunSets,
    TargetSets,
    as_bool_matrix,
    as_packed,
    join_packed,
)

Encoding = Literal["auto", "bits", "runs"]
ENCODINGS: Final = ("auto", "bits", "runs")

# Above this many bytes of bits, `encoding="auto"` goes over to runs.
MAX_PACKED_BYTES: Final = 256 * 2**20


def pack(
    data: Any,
    *,
    n_targets: int | None = None,
    encoding: Encoding = "auto",
    losses: LossRow | None = None,
    question: Any = None,
) -> TargetSets:
    """Tolerance sets of a boolean matrix or of a stream of its row blocks.

    Args:
        data: boolean matrix `(source, target)` (NumPy or xarray), or an iterable of
            blocks of its rows (some may be packed already), of which only one is
            held at a time.
        n_targets: number of targets; needed for a stream that may be empty.
        encoding: `"bits"`, `"runs"`, or `"auto"`: bits up to 256 MiB, then runs.
        losses: gives the losses of one source at every target, by which a cover
            assigns targets; called for selected sources only.
        question: what the sets answer.

    Returns:
        The packed sets.
    """
    sets = _pack(data, n_targets, encoding)
    if losses is None and question is None:
        return sets
    stated = replace(sets, losses=losses, question=question)
    object.__setattr__(stated, "sizes", sets.sizes)  # fill the cached property
    return stated


def _pack(data: Any, n_targets: int | None, encoding: Encoding) -> Any:
    if encoding not in ENCODINGS:
        raise UnknownNameError("encoding", encoding, ENCODINGS)
    if isinstance(data, TargetSets):
        too_large = data.n_sources * data.n_targets / 8 > MAX_PACKED_BYTES
        wanted = ("runs" if too_large else "bits") if encoding == "auto" else encoding
        return data.to_runs() if wanted == "runs" else data.to_packed()
    if hasattr(data, "shape"):
        matrix = as_bool_matrix(data, n_targets)
        data, n_targets = [matrix], matrix.shape[1]
    stream, n_targets = _peek_width(iter(data), n_targets)
    if encoding == "bits":
        return PackedSets.from_blocks(stream, n_targets)
    if encoding == "runs":
        return RunSets.from_blocks(stream, n_targets)
    return _pack_until_large(stream, n_targets)


def _pack_until_large(stream: Iterator[ArrayLike], n_targets: int) -> TargetSets:
    parts: list[PackedSets] = []
    n_bytes, most = 0, min(MAX_PACKED_BYTES, _memory.available() // 8)
    for block in stream:
        parts.append(as_packed(block, n_targets))
        n_bytes += parts[-1].nbytes
        if n_bytes > most:
            head = [part.to_runs() for part in parts]
            rest = RunSets.from_blocks(stream, n_targets)
            return RunSets.concatenate([*head, rest], n_targets)
    return join_packed(parts, n_targets)


def _peek_width(
    stream: Iterator[ArrayLike], n_targets: int | None
) -> tuple[Iterator[ArrayLike], int]:
    if n_targets is not None:
        return stream, n_targets
    first = next(stream, None)
    if first is None:
        raise InvalidInputError(
            "n_targets must be given for an empty stream of blocks, but got none."
        )
    first = as_bool_matrix(first)

    def whole() -> Iterator[ArrayLike]:
        yield first
        yield from stream

    return whole(), first.shape[1]
