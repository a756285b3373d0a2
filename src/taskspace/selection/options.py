"""What a selection may spend, and how patient it is."""

from dataclasses import dataclass

from taskspace.errors import InvalidInputError

LEAST = {"budget": 0, "environment_steps": 0, "n_parallel": 1, "patience": 1}


@dataclass(frozen=True)
class Options:
    """How a selection proceeds; None is no limit.

    Args:
        budget: trainings, at most; failed ones count.
        environment_steps: simulated steps of all trainings, at most. A training is
            begun only if its steps still fit: as many as the trainer says, or as the
            longest one so far took.
        n_parallel: trainings under way at a time.
        patience: trainings without a newly covered target, once every uncovered target
            was tried at its own context, after which the selection stops; twice the
            number of axes plus one if left out.
    """

    budget: int | None = None
    environment_steps: int | None = None
    n_parallel: int = 1
    patience: int | None = None

    def __post_init__(self):
        for name, least in LEAST.items():
            value = getattr(self, name)
            if value is None and name != "n_parallel":
                continue
            if isinstance(value, bool) or not isinstance(value, int) or value < least:
                raise InvalidInputError(
                    f"{name} must be an integer >= {least}, but got {value!r}."
                )
