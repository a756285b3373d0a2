"""Candidates of another kind: one network that sees the context, frozen at many.

The network is trained once, on contexts drawn from the box of the candidates; frozen at
any of them it costs an evaluation, not a training. All are screened by evaluation, and
the fewest that serve what can be served enter the table as sources of their own kind. A
target that none serves is trained for as usual. Hand it to `taskspace.select`:
`ts.select(..., selector=Conditioned(space, seed))`.
"""

from typing import Any, ClassVar

import numpy as np

from taskspace.cover.minimum import minimum_cover
from taskspace.errors import InvalidInputError
from taskspace.performance import make_table
from taskspace.performance.ledger import Ledger, TrainedBlock, best_known
from taskspace.policies import Mlp
from taskspace.questions import Question
from taskspace.select.base import Array, Offer, Selector
from taskspace.sets import PackedSets
from taskspace.spaces import Points, Space
from taskspace.trainers.base import Trained

__all__ = ["CONDITIONED", "Conditioned"]

CONDITIONED = "conditioned"
"""The kind of a source whose policies are a network that sees the context, frozen."""

COVER_SECONDS = 20.0


class Conditioned(Selector):
    """Trains one network for all contexts, then where none of its frozen ones serves.

    A family of several policies is as many networks, each with its own seed. Their
    environment steps count as those of the first source that they give.

    Args:
        space: contexts at which the network is frozen; their box is trained on.
        seed: of the networks.
        total_steps: environment steps of each; what the trainer may spend on one
            policy where not given.
    """

    name: ClassVar[str] = CONDITIONED

    def __init__(self, space: Space, seed: int = 0, total_steps: int | None = None):
        super().__init__(space, seed)
        self.total_steps = total_steps
        self._block: TrainedBlock | None = None
        self._served: PackedSets | None = None
        self._spent = 0

    def propose(self, ledger: Ledger, question: Question, n: int) -> Array:
        """Homes of targets that no frozen network serves; none before it is tried.

        Args:
            ledger: what is trained and evaluated so far.
            question: what shall be covered.
            n: how many contexts, at most.
        """
        none = np.empty((0, len(ledger.target_space.names)))
        if CONDITIONED not in ledger.kinds and self._block is None:
            return none
        seen = self.look(ledger, question)
        _, homes = self.wanted(seen, ledger.target_space.points)
        return self.candidates.points[np.unique(homes)[:n]] if len(homes) else none

    def offer(self, ledger: Ledger, question: Question) -> Offer | None:
        """The fewest frozen networks that, with what is trained, serve all they can.

        Args:
            ledger: what is trained and evaluated so far.
            question: what shall be covered.
        """
        if CONDITIONED in ledger.kinds:
            return None
        block = self._frozen(ledger)
        served = self._screened(ledger, question, block)
        seen = self.look(ledger, question)
        own = PackedSets.from_bool(
            seen.served if len(seen.losses) else np.zeros((0, served.n_targets), bool)
        )
        both = PackedSets(np.concatenate([own.words, served.words]), served.n_targets)
        covered = seen.covered if len(seen.losses) else np.zeros(both.n_targets, bool)
        if not (served.coverable & ~covered).any():
            return None
        found = minimum_cover(both, time_limit=COVER_SECONDS, seed=self.seed)
        chosen = np.sort(found.sources[found.sources >= own.n_sources]) - own.n_sources
        policies = block[chosen]
        steps = np.zeros_like(policies.trained.environment_steps)
        steps[:1] = block.trained.environment_steps[:1]
        trained = Trained(policies.trained.policies, steps, policies.trained.log)
        return Offer(
            CONDITIONED,
            self.candidates.points[chosen],
            TrainedBlock(trained, policies.home, policies.failed),
            (),
        )

    def spent(self) -> int:
        """Evaluations of the screen since this was last asked."""
        spent, self._spent = self._spent, 0
        return spent

    def _frozen(self, ledger: Ledger) -> TrainedBlock:
        """The networks, trained once, frozen at every candidate."""
        if self._block is not None:
            return self._block
        from taskspace.systems.simulated import SimulatedSystem  # brings JAX
        from taskspace.trainers.conditioned import train_conditioned
        from taskspace.trainers.ppo import Ppo

        system, trainer = ledger.task.system, ledger.task.trainer
        if not isinstance(system, SimulatedSystem) or not isinstance(trainer, Ppo):
            raise InvalidInputError(
                "A network that sees the context is trained by PPO in JAX, but the "
                f"system is {system.id!r} and the trainer {trainer.id!r}. Use another "
                "selector."
            )
        points, names = self.candidates.points, ledger.target_space.names
        rows = system.contexts(Points(names, points))
        networks = [
            train_conditioned(
                system,
                rows.min(0),
                rows.max(0),
                recipe=trainer,
                total_steps=self.total_steps or trainer.total_steps,
                seed=self.seed + k,
            )
            for k in range(trainer.n_policies)
        ]
        columns = [list(names).index(axis) for axis in networks[0].axes]
        frozen = [one.frozen(points[:, columns]).arrays() for one in networks]
        arrays = {
            name: np.stack([each[name] for each in frozen], axis=1)
            for name in frozen[0]
        }
        policies = Mlp.from_arrays(arrays, networks[0].network.settings())
        home = system.home_performance(policies, rows)
        steps = np.zeros(home.shape, np.int64)
        steps[0] = [one.environment_steps for one in networks]
        solved = system.solved_return if system.solved_return is not None else np.inf
        log: dict[str, Any] = {
            "home_return": home.astype(np.float32),
            "solved": home >= solved,
            "evaluations": np.zeros(home.shape, np.int32),
        }
        trained = Trained(policies, steps, log)
        self._block = TrainedBlock(trained, home, np.zeros(len(home), bool))
        return self._block

    def _screened(
        self, ledger: Ledger, question: Question, block: TrainedBlock
    ) -> PackedSets:
        """What every frozen network serves, by evaluation."""
        if self._served is None:
            task = ledger.task
            rows = task.rows(block)
            # What is screened is seen: it counts for the best policy seen.
            reference, kind = best_known(task.system, task.targets, rows.top)
            if ledger.limit is not None:
                reference, kind = np.fmax(ledger.limit, rows.top), "stated limit"
            if ledger.evaluated.any():
                reference = np.fmax(reference, ledger.best_known()[0])
            table = make_table(
                {
                    **rows.variables,
                    "home_performance": block.home,
                    "best_known": reference,
                },
                None,
                None,
                {"best_known_kind": kind, "provenance": task.system.provenance},
            )
            self._served = question.sets(table).to_packed()
            self._spent += block.home.size * len(task.targets)
        return self._served
