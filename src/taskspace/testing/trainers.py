"""What a trainer and its policies must satisfy, ours or yours."""

import pickle
from typing import Any

import numpy as np

from taskspace.errors import TaskspaceError
from taskspace.performance.blocks import BlockFolder, Layout
from taskspace.performance.work import Block, TrainedBlock
from taskspace.policies import Policy, check_storable
from taskspace.spaces import Space
from taskspace.systems.base import System
from taskspace.testing.checks import Check, assert_all
from taskspace.trainers.base import Trained, Trainer

__all__ = ["assert_policy", "assert_trainer", "check_policy", "check_trainer"]


def check_trainer(
    trainer: Trainer, system: System, space: Space, *, seed: int = 0
) -> list[Check]:
    """Return what holds of a trainer, one check for each promise.

    Trains every source of the space twice, and the last one alone.

    Args:
        trainer: makes the policies of each source.
        system: the tasks.
        space: a few sources, at least two.
        seed: of the trainings.
    """
    rows = system.contexts(space)
    trained = trainer.train(system, rows, seed=seed)
    shape = len(rows), trainer.n_policies
    sizes = trained.policies.stack_shape[:2], trained.environment_steps.shape
    if sizes != (shape, shape):
        text = f"It must give {shape} policies and counts of steps, but gave {sizes}."
        return [Check("sizes", False, text)]
    scores = system.performance(trained.policies, rows)

    def differs(other: Trained, part: Any = slice(None)) -> bool:
        # What policies do counts, not what they are made of.
        again = system.performance(other.policies, rows)
        return not np.array_equal(again, scores[part], equal_nan=True)

    again = trainer.train(system, rows, seed=seed)
    alone = trainer.train(system, rows[-1:], seed=seed)
    back = trainer.train(system, rows[::-1], seed=seed)
    most = trainer.steps_per_source
    spent = trained.environment_steps.sum(1)
    home = system.home_performance(trained.policies, rows)
    whys = {
        "sizes": "",
        "repeatable": "The same seed gave other policies." * differs(again),
        "alone": "A source alone got other policies than among others."
        * differs(alone, slice(-1, None)),
        "order": "Sources in another order got other policies."
        * differs(back, slice(None, None, -1)),
        "steps": f"It promised at most {most} steps per source and took {spent.max()}."
        * (most is not None and bool((spent > most).any())),
        "scores": "A policy has NaN or +inf at home; −inf is a failure."
        * bool((np.isnan(home) | (home == np.inf)).any()),
    }
    checks = [Check(name, not why, why or "holds") for name, why in whys.items()]
    return checks + check_policy(trained.policies)


def check_policy(policies: Policy, observation: Any = None) -> list[Check]:
    """Return what holds of a class of policies, one check for each promise.

    Args:
        policies: a stack with leading dims `(source, policy)`.
        observation: where the first policy acts before and after it was stored;
            actions are not compared if left out.
    """
    try:
        check_storable(type(policies))
    except TaskspaceError as error:
        return [Check("storable", False, str(error))]
    shape, arrays = policies.stack_shape, policies.arrays()
    whys = {"storable": "", "dims": ""}
    for name, array in arrays.items():
        if np.shape(array)[:2] != shape or np.asarray(array).dtype.kind not in "fiub":
            whys["dims"] = (
                f"Every array must hold numbers and begin with the dims {shape}, but "
                f"{name} is {np.asarray(array).dtype} of shape {np.shape(array)}."
            )
    if whys["dims"]:
        return [Check(name, not why, why or "holds") for name, why in whys.items()]
    makers = {
        "stored": lambda: _stored(policies),
        "sent": lambda: pickle.loads(pickle.dumps(policies)),
        "joined": lambda: type(policies).concatenate([policies[:1], policies[1:]]),
    }
    for name, make in makers.items():
        try:
            whys[name] = _difference(policies, make(), observation)
        except Exception as error:
            whys[name] = f"{type(error).__name__}: {error}"
    return [Check(name, not why, why or "holds") for name, why in whys.items()]


def _stored(policies: Policy) -> Policy:
    """Return policies as a run gives them back."""
    import tempfile
    from pathlib import Path

    shape = policies.stack_shape
    zeros = np.zeros(shape)
    block = TrainedBlock(Trained(policies, zeros.astype(np.int64)), zeros)
    with tempfile.TemporaryDirectory() as name:
        layout = Layout(shape[1], 1, 0, shape[0], ())
        folder = BlockFolder(Path(name), layout, "", np.zeros((1, 1)))
        found = folder.write("0", Block(block, None), np.zeros((shape[0], 1)))
        back = found.policies
    assert back is not None
    return back.trained.policies


def _difference(policies: Policy, other: Policy, observation: Any) -> str:
    """Return in what other policies differ from those that they should be."""
    if type(other) is not type(policies):
        return f"They became {type(other).__name__}."
    if other.settings() != policies.settings():
        return f"Their settings became {other.settings()}."
    arrays, others = policies.arrays(), other.arrays()
    for name, array in arrays.items():
        there = others.get(name)
        if there is None or not np.array_equal(array, there, equal_nan=True):
            return f"Their array {name} became another one."
    if observation is not None:
        first, again = (one[0, 0].act(observation) for one in (policies, other))
        if not np.array_equal(first, again):
            return f"Their first action {first} became {again}."
    return ""


def assert_trainer(trainer: Trainer, system: System, space: Space) -> None:
    """Raise an AssertionError that names every promise which a trainer breaks.

    Args:
        trainer: makes the policies of each source.
        system: the tasks.
        space: a few sources.
    """
    assert_all(check_trainer(trainer, system, space))


def assert_policy(policies: Policy, observation: Any = None) -> None:
    """Raise an AssertionError that names every promise which policies break.

    Args:
        policies: a stack with leading dims `(source, policy)`.
        observation: where the first policy acts, see `check_policy`.
    """
    assert_all(check_policy(policies, observation))
