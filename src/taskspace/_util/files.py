"""Files: written whole or not at all, checked for damage, and no larger than memory."""

import json
import math
import os
import shutil
import tokenize
import zipfile
import zlib
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import MISSING, fields, is_dataclass
from pathlib import Path
from typing import Any, Literal, TypeVar, get_args, get_origin, get_type_hints

import msgspec
import numpy as np

from taskspace.errors import DamagedFileError, InvalidInputError, OutOfMemoryError

T = TypeVar("T")

UNREADABLE = (
    OSError, AttributeError, LookupError, TypeError, ValueError, EOFError, MemoryError,
    RecursionError, NotImplementedError, RuntimeError, zipfile.BadZipFile, zlib.error,
    tokenize.TokenError,
)  # fmt: skip
"""What reading a file of arrays, or a zip file, may raise if it is damaged."""

PARTIAL = ".partial-"
"""How the names of files begin that are still being written."""

UNKNOWN = 2**33
"""What is taken for the memory of a machine that does not say."""


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Open a temporary file that takes the place of `path` once it is written.

    What was there stays until then; after it, the new file is on the disk, not only
    in a cache. A symbolic link is replaced, not followed.

    Args:
        path: the file to write.
    """
    temporary = path.with_name(f"{PARTIAL}{os.getpid()}-{path.name}")
    temporary.unlink(missing_ok=True)  # it might be a link that leads elsewhere
    try:
        yield temporary
        with temporary.open("rb") as file:
            os.fsync(file.fileno())
        temporary.replace(path)
        _sync_directory(path.parent)
    finally:
        temporary.unlink(missing_ok=True)


def write_atomically(path: Path, content: str | bytes) -> None:
    """Write a file so that it is there whole or not at all.

    Args:
        path: the file.
        content: text or bytes.
    """
    with replacing(path) as temporary:
        if isinstance(content, str):
            temporary.write_text(content, encoding="utf-8")
        else:
            temporary.write_bytes(content)


def clean_leftovers(folder: Path) -> None:
    """Remove what a writer that was killed left behind.

    Args:
        folder: where to look, with everything below it.
    """
    for leftover in list(folder.rglob(f"{PARTIAL}*")):
        if leftover.is_dir() and not leftover.is_symlink():
            shutil.rmtree(leftover)
        else:
            leftover.unlink(missing_ok=True)


def inside(folder: Path, path: Path) -> Path:
    """Return the path, if it is in the folder also when links are followed.

    Args:
        folder: where it must be.
        path: a file or folder that may not exist yet.
    """
    if not path.resolve().is_relative_to(folder.resolve()):
        raise InvalidInputError(
            f"{path} must lie in {folder}, but a link leads out of it. Nothing was "
            "written; name another folder."
        )
    return path


def no_links_out(folder: Path) -> None:
    """Refuse to write into a folder from which a link leads out, at any depth.

    Args:
        folder: the folder; that it is a link itself is its owner's affair.
    """
    for here, folders, files in os.walk(folder):
        for name in (*folders, *files):
            path = Path(here, name)
            if path.is_symlink():
                inside(folder, path)


def checksum(data: bytes) -> str:
    """CRC-32 of some bytes, as eight hexadecimal digits.

    Args:
        data: the bytes.
    """
    return f"{zlib.crc32(data):08x}"


def seal(content: Any) -> str:
    """One line of JSON with its own checksum, as `unseal` reads it.

    Args:
        content: a record of msgspec, or anything that `plain` can turn into JSON.
    """
    if isinstance(content, msgspec.Struct):
        body = msgspec.json.encode(content).decode()
    else:
        body = json.dumps(plain(content), ensure_ascii=False)
    return f'{{"crc32": "{checksum(body.encode())}", "content": {body}}}\n'


def unseal(text: str, kind: Any = Any) -> Any:
    """Return what `seal` wrote; a `ValueError` says what is wrong with it.

    Args:
        text: the line.
        kind: the type that it must have.
    """
    head, _, rest = text.partition(', "content": ')
    body = rest.removesuffix("}\n")
    if head != f'{{"crc32": "{checksum(body.encode())}"' or len(rest) == len(body):
        raise ValueError("its checksum does not fit")
    return msgspec.json.decode(body, type=kind)


def write_sealed(path: Path, content: Any) -> None:
    """Write a JSON value with its own checksum.

    Args:
        path: the file.
        content: a record of msgspec, or anything that `plain` can turn into JSON.
    """
    write_atomically(path, seal(content))


def read_sealed(path: Path, kind: Any = Any) -> Any:
    """Return the JSON value that `write_sealed` wrote; raise if it is damaged.

    Args:
        path: the file.
        kind: the type that it must have.
    """
    try:
        return unseal(path.read_text(encoding="utf-8"), kind)
    except (ValueError, RecursionError) as error:
        raise DamagedFileError(f"{path} is damaged: {error}.") from error
    except OSError as error:
        raise DamagedFileError(
            f"{path} cannot be read: {error.strerror or error}."
        ) from error


def append_sealed(path: Path, content: Any) -> None:
    """Add a line with its own checksum to a file, and have it on the disk.

    Args:
        path: the file; made if it is not there.
        content: see `seal`.
    """
    is_new = not path.exists()
    with path.open("ab") as file:
        file.write(seal(content).encode())
        file.flush()
        os.fsync(file.fileno())
    if is_new:
        _sync_directory(path.parent)


def read_sealed_lines(path: Path, kind: Any) -> tuple[list[Any], list[str]]:
    """Return the records of a sealed log up to the first damage, and what is damaged.

    A last line that a kill cut short counts as not written.

    Args:
        path: the file.
        kind: the type of a line.
    """
    records = []
    try:
        for line in path.read_bytes().splitlines(keepends=True):
            if line.endswith(b"\n"):
                record = unseal(line.decode(), kind)
                records.append(record)
    except (ValueError, RecursionError) as error:
        return records, [f"line {len(records) + 1} of {path} is damaged: {error}"]
    except OSError as error:
        return records, [f"{path} cannot be read: {error.strerror or error}"]
    return records, []


def plain(
    value: Any,
    *,
    nonfinite: Literal["none", "text", "keep"] = "none",
    without_none: bool = False,
) -> Any:
    """Plain values, as JSON and TOML have them: dicts, lists, texts and numbers.

    Args:
        value: numbers, strings, NumPy arrays, and lists, dicts and dataclasses of them.
        nonfinite: what infinities and NaN become, which JSON does not have: None,
            text such as `"inf"`, or themselves.
        without_none: leave out entries of dicts that are None, which TOML has not.
    """

    def convert(value: Any) -> Any:
        if isinstance(value, Mapping):
            items = {str(key): convert(item) for key, item in value.items()}
            return {k: v for k, v in items.items() if not (without_none and v is None)}
        if isinstance(value, np.ndarray | np.generic):
            return convert(value.tolist())
        if is_dataclass(value):
            return convert(
                {each.name: getattr(value, each.name) for each in fields(value)}
            )
        if isinstance(value, list | tuple):
            return [convert(item) for item in value]
        if isinstance(value, float) and not math.isfinite(value):
            return {"none": None, "text": str(value), "keep": value}[nonfinite]
        return value

    return convert(value)


def read_record(values: Any, kind: type[T], what: str, **given: Any) -> T:
    """Return plain values as a record; refuse values of wrong types.

    Args:
        values: what a file holds: dicts, lists, texts and numbers. Keys that the
            record does not have are passed over.
        kind: a dataclass or a `msgspec.Struct`.
        what: what to call it, the subject of a sentence.
        given: fields of a dataclass that are not plain values, and were read before.
    """
    try:
        if not given:
            return msgspec.convert(values, kind, dec_hook=_decoded)
        rest = msgspec.convert(values, _without(kind, given), dec_hook=_decoded)
        return kind(**msgspec.structs.asdict(rest), **given)
    except (msgspec.ValidationError, RecursionError) as error:
        raise InvalidInputError(
            f"{what} must be as taskspace writes it, but is not: {error}."
        ) from error


def _without(kind: Any, given: Collection[str]) -> type[msgspec.Struct]:
    """Return the type of a dataclass without some of its fields."""
    hints = get_type_hints(kind)
    rest: list[Any] = []
    for each in fields(kind):
        defaults = {
            name: value
            for name in ("default", "default_factory")
            if (value := getattr(each, name)) is not MISSING
        }
        if each.name not in given:
            more = [msgspec.field(**defaults)] if defaults else []
            rest.append((each.name, hints[each.name], *more))
    return msgspec.defstruct(kind.__name__, rest, kw_only=True)


def _decoded(kind: Any, value: Any) -> Any:
    """Return a list as the array that an annotation asks for."""
    if get_origin(kind) is not np.ndarray:
        raise NotImplementedError(f"{kind} has no reader.")
    dtype = get_args(get_args(kind)[1])[0]
    array = np.array(value)
    if array.size and not np.can_cast(array.dtype, dtype):
        raise ValueError(f"expected a list of {np.dtype(dtype)}")
    return array.astype(dtype).reshape(-1)


# --- memory -------------------------------------------------------------------------


def data_size(n_bytes: float) -> str:
    """Bytes in the unit that suits them.

    Args:
        n_bytes: a number of bytes, `>= 0`.
    """
    for unit, size in (("TB", 1e12), ("GB", 1e9), ("MB", 1e6)):
        if n_bytes >= size:
            return f"{n_bytes / size:.3g} {unit}"
    return f"{n_bytes / 1e3:.3g} kB"


def available_memory() -> int:
    """Return the bytes of memory that the machine has."""
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, OSError, ValueError):
        return UNKNOWN


def memory_limit() -> int:
    """Return the bytes that anything may take: half of the memory."""
    return available_memory() // 2


def check_memory(
    n_bytes: int, what: str, advice: str = "Take fewer sources or targets."
) -> None:
    """Refuse what would take more than half of the memory.

    Args:
        n_bytes: what it takes.
        what: what to call it, the subject of a sentence.
        advice: what to do instead.
    """
    limit = memory_limit()
    if n_bytes > limit:
        raise OutOfMemoryError(
            f"{what} must fit into half of the memory ({data_size(limit)}), but need "
            f"{data_size(n_bytes)}. {advice}"
        )


def check_cells(n_cells: int, origin: str) -> None:
    """Refuse a matrix with more cells than fit as 8-byte numbers.

    Args:
        n_cells: how many it declares.
        origin: what to call the file.
    """
    advice = "Is the file damaged? Otherwise split it by targets."
    check_memory(8 * n_cells, f"The numbers of {origin}", advice)


def check_file(path: Path, factor: int = 1) -> None:
    """Refuse a path that is no file, or one too large to be read whole.

    Args:
        path: the file.
        factor: bytes of memory that one byte of it takes.
    """
    if not path.is_file():
        raise InvalidInputError(f"Cannot read {path}: there is no such file.")
    check_cells(factor * path.stat().st_size // 8, str(path))


def _sync_directory(folder: Path) -> None:
    """Make a rename durable; not every file system can."""
    try:
        handle = os.open(folder, os.O_RDONLY)
    except OSError:
        return
    try:
        os.fsync(handle)
    except OSError:
        pass
    finally:
        os.close(handle)
