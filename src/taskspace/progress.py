"""How far a piece of work is: one signature for everything that takes long."""

from typing import Protocol

__all__ = ["Progress", "silent"]


class Progress(Protocol):
    """Told now and then how far a piece of work is; may raise to end it."""

    def __call__(
        self, stage: str, done: float, total: float, note: str = "", /
    ) -> object:
        """One more look at the work.

        Args:
            stage: what is being done, e.g. `"train"`; a bar of its own where drawn.
            done: how much of it is done. A search reports its lower bound here.
            total: of how much. A search reports the best that it has found.
            note: a few words on what is going on.
        """


def silent(stage: str, done: float, total: float, note: str = "", /) -> None:
    """Drop what is told.

    Args:
        stage: not used.
        done: not used.
        total: not used.
        note: not used.
    """
