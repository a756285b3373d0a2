"""What a check found, and the sentence of a test that fails."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

__all__ = ["Check", "assert_all", "first_problems"]


@dataclass(frozen=True)
class Check:
    """What a check found.

    Args:
        check: its name.
        ok: whether all is well; `None` where that was not checked.
        detail: one sentence with the numbers, and what to do if all is not well or
            was not checked.
    """

    check: str
    ok: bool | None
    detail: str

    @property
    def state(self) -> Literal["ok", "failed", "skipped"]:
        """In one word."""
        return "skipped" if self.ok is None else "ok" if self.ok else "failed"


def first_problems(
    names: Sequence[str], problems: Iterable[tuple[str, str]], fine: str
) -> list[Check]:
    """Return one check per name: its first problem, or that all is well.

    Args:
        names: the checks.
        problems: names of checks, and what is wrong.
        fine: what is said of a check without a problem.
    """
    found: dict[str, str] = {}
    for name, problem in problems:
        found.setdefault(name, problem)
    return [Check(name, name not in found, found.get(name, fine)) for name in names]


def assert_all(checks: Iterable[Check]) -> None:
    """Raise an AssertionError that lists every check that fails.

    Args:
        checks: what was found; a check that was skipped is passed over.
    """
    failed = [f"{c.check}: {c.detail}" for c in checks if c.ok is False]
    assert not failed, "\n".join(failed)
