"""Which columns of a table are targets, and which only notes on the training.

`seed`, `run`, `step(s)`, `timestep(s)`, `episode(s)`, `iteration(s)`, also with
`total_`, `n_` or `num_` in front, hold whole numbers about how a policy was made, and
`id`, `idx`, `index` and `row` count rows. Such a column is no target unless the user
says so, and neither is a level of an index.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, get_args

from taskspace.errors import InvalidInputError, UnknownNameError
from taskspace.performance.io.cells import Frame, is_empty, is_number, number_of
from taskspace.performance.io.names import squeezed

STANDARD_ERROR = "standard_error:"
"""`standard_error:easy` holds the standard errors of the column `easy`."""

TARGET = "target:"
"""`target:seed` is a target called `seed`, whatever its name would mean otherwise."""

SPECIAL = ("source", "policy", "home", "provenance", "n_episodes")

NAMED = ("source", "policy", "target", "context", "name")

Missing = Literal["error", "not served", "unknown"]

_NOTE = re.compile(
    r"(total_|n_|num_)?(seed|run|step|timestep|time_step|episode|iteration)s?"
    r"|id|idx|index|row"
)


@dataclass(frozen=True)
class Choices:
    """What a user says about a matrix that the matrix does not say itself.

    Args:
        lower_is_better: the cells are costs; they are negated. None if not said.
        targets: names of the targets; None for all that are found.
        ignore: names of columns or targets to leave out.
        missing: `"error"` refuses a matrix with empty cells, `"not served"` takes them
            for failures (−inf), `"unknown"` for cells that were not measured.
        header: whether the first row of a text file holds names; None to find out.
        row_names: whether the first column holds names; None to find out.
        long: which columns of a table with one row per run are its source, target and
            value, see `records`; None for a table that says it itself.
    """

    lower_is_better: bool | None = None
    targets: Sequence[str] | None = None
    ignore: Sequence[str] = ()
    missing: Missing = "error"
    header: bool | None = None
    row_names: bool | None = None
    long: Mapping[str, str] | None = None

    def __post_init__(self):
        if self.missing not in get_args(Missing):
            raise UnknownNameError("missing", self.missing, get_args(Missing))
        for name in ("targets", "ignore"):
            if isinstance(getattr(self, name), str):
                raise InvalidInputError(
                    f"{name} must be a list of names, but got the text "
                    f"{getattr(self, name)!r}."
                )
        both = set(self.targets or ()) & set(self.ignore)
        if both:
            raise InvalidInputError(
                f"A column is either a target or ignored, but {min(both)!r} is named "
                "in both targets and ignore."
            )

    @property
    def may_be_empty(self) -> bool:
        """Whether cells may have no value."""
        return self.missing != "error"

    def with_long(self, long: Mapping[str, str]) -> "Choices":
        """Return the same choices for a table of such columns.

        Args:
            long: name of the column of each role.
        """
        return replace(self, long=dict(long))

    def check_known(self, known: Sequence[str], origin: str) -> None:
        """Refuse names that a matrix does not have.

        Args:
            known: all names of the matrix.
            origin: what to call it.
        """
        for name in (*(self.targets or ()), *self.ignore):
            if name not in known:
                names = list(filter(None, dict.fromkeys(known)))
                raise UnknownNameError(f"column or target of {origin}:", name, names)


def means_something(name: str) -> bool:
    """Whether a column of this name is no target, or not as it stands.

    Args:
        name: name of a column.
    """
    return (
        name in (*SPECIAL, "target", "performance", "")
        or name.startswith(("source_", "target_", STANDARD_ERROR, TARGET))
        or _is_note_name(name)
        or is_number(name)
    )


def may_hold_names(name: str) -> bool:
    """Whether cells of a column of this name are told apart by how they are written.

    Args:
        name: name of a column.
    """
    return name in (*NAMED, "provenance") or _is_note_name(name)


def is_note(frame: Frame, place: int) -> bool:
    """Whether a column holds a note on the training: by its name and whole numbers.

    Args:
        frame: the table.
        place: which column.
    """
    return _is_note_name(frame.names[place]) and all(
        not is_number(cell) or is_empty(cell) or number_of(cell).is_integer()
        for cell in frame.columns[place]
    )


def _is_note_name(name: str) -> bool:
    return _NOTE.fullmatch(squeezed(name)) is not None


def note_on(names: Sequence[str]) -> str:
    """Return the sentence about columns that were taken for notes.

    Args:
        names: the columns.
    """
    one = len(names) == 1
    return (
        f"{'Column' if one else 'Columns'} {', '.join(map(repr, names))} "
        f"{'is' if one else 'are'} taken for {'a note' if one else 'notes'} on the "
        f"training, not for {'a target' if one else 'targets'}. If that is wrong, name "
        "all targets with targets=[...] (--targets a,b,c)."
    )


def target_columns(
    frame: Frame, choices: Choices, sources: Sequence[str]
) -> tuple[list[int], list[str]]:
    """Return the columns of a wide table that are targets, and those that are notes.

    Args:
        frame: the table, one row per policy.
        choices: what the user says.
        sources: names of the sources; a column of the same name is a target.

    Returns:
        Places of the targets, in the order of the table, and names of the notes.
    """
    called = [name.removeprefix(TARGET) for name in frame.names]
    choices.check_known([*frame.names, *called], frame.origin)
    if choices.targets is not None:
        wanted = set(choices.targets)
        return [i for i, name in enumerate(called) if name in wanted], []
    keep, notes = [], []
    for place, name in enumerate(frame.names):
        is_special = name in SPECIAL or name.startswith(("source_", STANDARD_ERROR))
        if is_special or place < frame.n_index or called[place] in choices.ignore:
            continue
        if name not in sources and is_note(frame, place):
            notes.append(name)
        else:
            keep.append(place)
    if not keep:
        lost = f" beside {', '.join(notes)}" if notes else ""
        raise InvalidInputError(
            f"{frame.origin} has no column of a target{lost}. Name the targets with "
            "targets=[...] (--targets a,b,c)."
        )
    return keep, notes
