"""Checks of a question in three parts, until it travels whole."""

from taskspace.criteria import criterion_named, judge_named


def check_criterion(criterion: str, family: str) -> None:
    """Refuse an unknown criterion or judge."""
    criterion_named(criterion)
    judge_named(family)


def check_epsilon(epsilon: float, criterion: str | None = None) -> None:
    """Refuse a tolerance that has no meaning."""
    criterion_named(criterion or "regret").check_epsilon(epsilon)
