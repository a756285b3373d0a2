"""Options of former versions, refused with what to use instead."""

from collections.abc import Sequence

from taskspace.errors import InvalidInputError

_VALUES = 'loop over exclude=, see "The value of a source" in docs/recipes.md'
_BOOTSTRAP = 'see "A bootstrap of runs" in docs/recipes.md'
_RULE = 'see "A rule for new targets" (the nearest context) in docs/recipes.md'
_HOLES = 'make two covers, see "Cells that were not measured" in docs/recipes.md'

OPTIONS: dict[str, dict[str, str]] = {
    "cover": {
        "--values": _VALUES,
        "--resample": _BOOTSTRAP,
        "--aggregate": _BOOTSTRAP,
        "--score-bounds": _BOOTSTRAP,
        "--rules": _RULE,
        "--run-share": _RULE,
        "--save-rule": _RULE,
        "--largest-error": "ask with several values of --error",
        "--unicost": "leave out --costs, then every source costs 1",
    },
    "select": {"--fill": _HOLES},
}
"""For each command its former options, and what to use instead of each."""

VALUES: dict[tuple[str, str], str] = {("--missing", "unknown"): _HOLES}
"""Former values of options, and what to use instead of each."""


def refuse_removed(command: str, words: Sequence[str]) -> None:
    """Refuse an option that a command had in a former version.

    Args:
        command: the name of the command.
        words: what follows it on the command line.
    """
    for place, word in enumerate(words):
        if word == "--":
            return
        name, sign, value = word.partition("=")
        instead, what = OPTIONS.get(command, {}).get(name), name
        if instead is None:
            value = value if sign else "".join(words[place + 1 : place + 2])
            instead, what = VALUES.get((name, value)), f"{name} {value}"
        if instead is not None:
            raise InvalidInputError(
                f"{what} is no option of taskspace {command} any more: {instead}."
            )
