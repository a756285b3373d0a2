"""The loop: propose, train, evaluate, record, until every target is covered."""

from collections.abc import Callable
from concurrent.futures import Future, wait
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import numpy as np

from taskspace._util.arrays import Array
from taskspace.errors import InvalidInputError
from taskspace.performance.blocks import StoredBlock
from taskspace.performance.ledger import Ledger
from taskspace.performance.work import REGION, Block, RegionTraining, Work
from taskspace.progress import Progress, silent
from taskspace.questions import Question
from taskspace.selection.base import Known, Selector
from taskspace.selection.baselines import Uniform
from taskspace.selection.log import Log, Proposal, Step
from taskspace.trainers.base import Region

COVERED = "covered"
"""The stop reason when every target is served, by evaluation."""

UNKNOWN = "no reference to judge coverage by"
"""The stop reason when nothing trained is better than the best policy seen, and some
targets have no other reference: whether they are covered is not known."""

CHECKED = 2.0
"""Seconds between checks that the workers are alive."""

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


class SelectionLoop:
    """A selection under way.

    `run` first takes up what its log says was proposed before. Then it repeats:

    1. Look what is covered (`Selector.look`). Stop if everything is, or if the budget
       is spent, or if the last trainings were in vain, every uncovered target was
       tried at home, and `Selector.may_give_up`.
    2. While trainings are free: `Selector.propose`, else `Selector.propose_region`.
       Each proposal is a line of the log before its training begins, so a kill loses
       no decision.
    3. Wait for the oldest training. Store its policies and its row; a step is a line
       of the log. Results count in the order of proposals, so the sequence does not
       depend on which training ends first.

    What a selector proposes depends on the ledger, the question and its seed alone.
    So after a kill the same calls give the same sequence.

    Args:
        ledger: what is known, without any source planned.
        selector: proposes.
        question: what shall be covered.
        options: how to proceed.
        submit: hands a piece of work to a worker; done here if left out.
        log: what was proposed so far, and where that is written down.
        progress: told after each training how many targets are covered.
        check: called while it waits; raises if what is under way will not be done.
    """

    def __init__(
        self,
        ledger: Ledger,
        selector: Selector,
        question: Question,
        options: Options,
        *,
        submit: Callable[[Work], "Future[Any]"] | None = None,
        log: Log | None = None,
        progress: Progress | None = None,
        check: Callable[[], None] | None = None,
    ):
        self.ledger, self.selector, self.question = ledger, selector, question
        self.options, self.log = options, log or Log()
        self.patience = options.patience or 2 * len(ledger.target_space.names) + 1
        self.evaluations = 0
        self._submit, self._check = submit, check
        self._progress = progress or silent
        self._running: dict[int, tuple[Work, Callable[[], Any]]] = {}
        self._steps: dict[int, int] = {}

    def look(self) -> Known:
        """Return what is known so far, as the selector sees it."""
        return self.selector.look(self.ledger, self.question)

    @property
    def environment_steps(self) -> int:
        """Simulated steps of the trainings that are done."""
        return sum(self._steps.values())

    def run(self) -> str:
        """Go on until it ends, and return the reason of the stop."""
        self._restore()
        while True:
            seen = self.look()
            reason = self._reason(seen) or self._begin(seen)
            if not self._running:
                # Nothing is under way, and all losses are against the reference as
                # it is now: what is covered stays so.
                assert reason is not None
                return reason
            self._finish(min(self._running))

    # --- when it stops ------------------------------------------------------------

    def _reason(self, seen: Known) -> str | None:
        if len(seen.losses) and seen.covered.all():
            if seen.judged.all():
                return COVERED
            return UNKNOWN if self._confirmed(seen) else None
        if not self._running and self._stuck(seen):
            return "no candidate is expected to help"
        return None

    @cached_property
    def moves(self) -> bool:
        """Whether the reference of the loss may still move as rows arrive."""
        if not self.question.rule.compares_with_best:
            return False
        if self.ledger.reference is not None:
            return False
        task = self.ledger.task
        optimum = task.system.optimum(task.targets)
        return optimum is None or bool(np.isnan(optimum).any())

    def _served_shares(self) -> list[float]:
        """Return after each training the share of the targets served, judged or not."""
        return [
            s.coverage if s.against_seen is None else s.against_seen
            for s in self.log.steps
        ]

    def _confirmed(self, seen: Known) -> bool:
        """Return whether trainings elsewhere have found nothing better for a while.

        Against the best policy seen, a single one serves everything. To train at
        every target would settle it; a run does that.
        """
        if not self.selector.candidates.left(seen.planned).any():
            return True
        last = self._served_shares()[-self.patience - 1 :]
        return len(last) > self.patience and all(share == 1.0 for share in last)

    def _stuck(self, seen: Known) -> bool:
        """Return whether every uncovered target was tried at home, without success."""
        shares = self._served_shares()
        if len(shares) <= self.patience:
            return False
        remaining = self.selector.candidates.left(seen.planned)
        uncovered = self.ledger.target_space.points[~seen.covered]
        homes = self.selector.homes(uncovered)
        if self.selector.tries_homes and remaining[homes].any():
            return False
        is_stalled = max(shares[: -self.patience]) >= max(shares)
        return is_stalled and self.selector.may_give_up(self.ledger, self.question)

    # --- what begins --------------------------------------------------------------

    def _free(self) -> int:
        """Return how many trainings may begin now, by workers and budget."""
        options, running = self.options, len(self._running)
        free = options.n_parallel - running
        if options.budget is not None:
            free = min(free, options.budget - self.ledger.n_sources)
        if options.environment_steps is not None:
            each = self.ledger.task.trainer.steps_per_source
            if each is None:
                each = max(self._steps.values(), default=None)
            room = options.environment_steps - self.environment_steps
            if each is None:  # the first one shows what a training takes
                free = min(free, 1 if room > 0 and not running else 0)
            elif each > 0:
                free = min(free, room // each - running)
        return max(0, free)

    def _begin(self, seen: Known) -> str | None:
        """Start as many trainings as fit; return a stop reason if none can start."""
        is_free = self._free() > 0
        while self._free() > 0 and self._begin_some(seen):
            seen = self.look()
            if not self.selector.needs_regions:
                break  # it was asked for as many as are free
        if self._running:
            return None
        if is_free:
            return "every candidate is trained"
        budget = self.options.budget
        spent = budget is not None and self.ledger.n_sources >= budget
        return f"budget of {'trainings' if spent else 'environment steps'} spent"

    def _begin_some(self, seen: Known) -> bool:
        """Start trainings; return whether there were any to start."""
        proposer, free = self.selector, self._free()
        if len(seen.losses) and seen.covered.all():
            # Nothing is left but targets that have no reference yet.
            proposer = Uniform(self.selector.candidates.space)
        rows = proposer.propose(self.ledger, self.question, free)
        seed = self.ledger.task.seed
        proposals = [
            Proposal.of(row, seed, why=proposer.name)
            for row in self._fresh(rows, seen)[:free]
        ]
        if not proposals:
            region = proposer.propose_region(self.ledger, self.question)
            proposals = [] if region is None else [region]
        for proposal in proposals:
            proposal.plan(self.ledger)
            # A context that the system refuses raises here, before it is logged.
            self.ledger.task.system.contexts(self.ledger.sources)
            self.log.add(proposal)
            self._launch(self.ledger.n_sources - 1)
        return bool(proposals)

    def _fresh(self, rows: Array, seen: Known) -> Array:
        """Return proposals that are not planned yet, each once."""
        rows, n_axes = np.asarray(rows, np.float64), seen.planned.shape[1]
        if not rows.size:
            return np.empty((0, n_axes))
        if rows.ndim != 2 or rows.shape[1] != n_axes or not np.isfinite(rows).all():
            raise InvalidInputError(
                f"A selector must propose one finite row of {n_axes} values per "
                f"context, but {self.selector.name!r} proposed {rows.tolist()}."
            )
        once = dict.fromkeys(map(tuple, rows))  # in the order of the proposals
        fresh = [row for row in once if not (seen.planned == row).all(1).any()]
        return np.array(fresh).reshape(-1, n_axes)

    def _launch(self, index: int) -> None:
        """Begin the work on a proposal, unless an earlier call has stored its block."""
        folder, work, task = self.ledger.folder, self._work(index), self.ledger.task
        stored = None if folder is None else folder.find(self._prefix(index))
        if stored is not None:
            self._running[index] = work, lambda: stored
        elif self._submit is not None:
            self._running[index] = work, partial(self._wait, self._submit(work))
        else:  # done when its turn comes
            self._running[index] = work, partial(task.do, work, record_failures=True)

    def _wait(self, future: "Future[Any]") -> Any:
        """Return the result of a worker; raise if the workers are gone."""
        while not wait([future], CHECKED).done:
            if self._check is not None:
                self._check()
        return future.result()

    def _prefix(self, index: int) -> str:
        """Return how the name of the file of a proposal begins."""
        folder, line = self.ledger.folder, self.log.proposals[index]
        return "" if folder is None else folder.prefix(index, line.key)

    def _work(self, index: int) -> Work:
        """Return the work on a proposal."""
        ledger, line, region = self.ledger, self.log.proposals[index], None
        row = ledger.task.system.contexts(ledger.sources)[[index]]
        if line.kind == REGION or line.steps:
            start = None
            if line.start is not None:
                block = ledger.policies([line.start])
                start = block.trained.policies[0, int(block.home[0].argmax())]
            # The context that stands for the region is first.
            members = ledger.task.targets[line.members]
            members = members[(members != row).any(1)] if line.region else members[:0]
            contexts = Region(np.concatenate([row, members]))
            region = RegionTraining(contexts, line.steps, start)
        return Work(np.array([index]), row, seed=line.seed, region=region)

    # --- what ends ----------------------------------------------------------------

    def _finish(self, index: int) -> None:
        """Wait for a training, take in its result, and log the step."""
        self._take_in(index)
        seen = self.look()
        done = self.ledger.n_sources - len(self._running)
        step = Step(
            trainings=done,
            coverage=float(seen.counted.mean()),
            environment_steps=self.environment_steps,
            evaluations=self.evaluations,
            against_seen=float(seen.covered.mean()) if self.moves else None,
            done=(index,),
        )
        self.log.add(step)
        n_covered, n_targets = int(seen.counted.sum()), len(seen.counted)
        self._progress("cover", n_covered, n_targets, f"{done} trainings")

    def _take_in(self, index: int) -> None:
        """Count what a source gave, and store it if it is not stored yet."""
        ledger, (work, result) = self.ledger, self._running[index]
        block: Block | StoredBlock = result()
        del self._running[index]
        if isinstance(block, StoredBlock):
            ledger.enter(work.numbers, block)
        else:
            self._check_scores(index, block)
            ledger.tell(work, block, self._prefix(index))
        if index in ledger.failures:
            trainer, most = ledger.task.trainer, self.log.proposals[index].steps
            most = trainer.n_policies * most if most else trainer.steps_per_source
            self._steps[index] = most or 0
            return
        policies = block.policies
        assert policies is not None
        self._steps[index] = int(policies.trained.environment_steps.sum())
        self.evaluations += len(ledger.task.targets) * policies.home.size

    def _check_scores(self, index: int, block: Block) -> None:
        """Refuse scores that are no numbers: nothing can be said of such a policy."""
        if block.policies is None:
            return
        scores = {"home_performance": block.policies.home} | block.variables
        scores.pop("standard_error", None)
        for name, values in scores.items():
            worst = -np.inf if name.startswith("gap") else np.inf
            if np.isnan(values).any() or (values == worst).any():
                raise InvalidInputError(
                    "Performance must be a number, −inf for a failure, but a policy of "
                    f"the source at {self.ledger.sources.context(index)} has NaN or "
                    f"+inf in {name}. Mend the system; a run then goes on."
                )

    def _restore(self) -> None:
        """Go on with what was proposed before: what is missing of it is made again."""
        counted = {index for step in self.log.steps for index in step.done}
        for proposal in self.log.proposals:
            proposal.plan(self.ledger)
        for index in range(self.ledger.n_sources):
            self._launch(index)
            if index in counted:
                self._take_in(index)
