"""What exporters share."""

from dataclasses import replace

from taskspace.deploy.base import PolicyLibrary
from taskspace.deploy.records import Status
from taskspace.errors import InvalidInputError
from taskspace.policies import LinearController, LinearGain


def memoryless(library: PolicyLibrary, what: str) -> PolicyLibrary:
    """Return a library whose policies act on what is seen now; refuse states.

    Controllers without states become gains of what is measured.

    Args:
        library: the library.
        what: what knows no states.
    """
    stack = library.policies
    if not isinstance(stack, LinearController):
        return library
    if stack.n_states:
        raise InvalidInputError(
            f"{what} maps what is measured to an action, but these controllers have "
            f"states of their own ({stack.n_states}). PI and PID controllers run as C "
            "with export_pid (--as pid --dt STEP); tables (--as tables) hold them all."
        )
    return replace(library, policies=LinearGain(stack.D))


def as_estimate(library: PolicyLibrary, about: str, advice: str = "") -> PolicyLibrary:
    """Return a library whose proof, or confidence, becomes an estimate.

    What was proven of switching is left out.

    Args:
        library: the library.
        about: what was judged, and what runs instead.
        advice: what to do to keep the proof; `{kind}` stands for its kind.
    """
    values = {k: v for k, v in library.guarantee.values.items() if k != "operation"}
    guarantee = replace(library.guarantee, values=values)
    if guarantee.status != Status.GUARANTEED:
        return replace(library, guarantee=guarantee)
    statement = (
        f"{guarantee.statement} This is a {guarantee.kind} for {about}, so it is an "
        f"estimate.{advice.format(kind=guarantee.kind)}"
    )
    guarantee = replace(guarantee, kind="estimate", statement=statement)
    return replace(library, guarantee=guarantee)
