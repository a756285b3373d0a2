"""The loop: propose, train, evaluate, record, until every target is covered."""

import time
from collections.abc import Callable
from concurrent.futures import FIRST_COMPLETED, Future, wait
from functools import cached_property
from typing import Any

import numpy as np

from taskspace._util.arrays import Array
from taskspace._util.decimals import decimal_text
from taskspace.errors import InvalidInputError
from taskspace.performance.blocks import StoredBlock
from taskspace.performance.ledger import Ledger
from taskspace.performance.work import REGION, TRAINED, Block, RegionTraining, Work
from taskspace.progress import Progress, silent
from taskspace.questions import Question
from taskspace.selection.log import Log, Proposal, Step
from taskspace.selection.result import COVERED, UNKNOWN, Options
from taskspace.selection.selectors.base import Known, RegionPlan, Selector
from taskspace.selection.selectors.baselines import Uniform
from taskspace.trainers.region import Region

CHECKED = 2.0
"""Seconds after which it is looked whether somebody still works."""


class SelectionLoop:
    """A selection under way.

    `run` first takes up what its log says was proposed before. Then it repeats:

    1. Look what is covered (`Selector.look`). Stop if everything is, or if the budget
       is spent, or if the last trainings were in vain, every uncovered target was
       tried at home, and `Selector.may_give_up`.
    2. While trainings are free: contexts to retry, else `Selector.propose`, else
       `Selector.propose_region`. Each proposal is a line of the log before its
       training begins, so a kill loses no decision.
    3. Wait for the next result, the oldest first if `deterministic`. Store its
       policies and its row; a step is a line of the log.

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
        self._submit = submit
        self._progress = progress or silent
        self._check = check or (lambda: None)
        self._running: dict[int, tuple[Work, Future[Any] | None]] = {}
        self._steps: dict[int, int] = {}
        self._evaluations = 0
        self._began, self._hours_before = time.monotonic(), 0.0

    @property
    def history(self) -> list[dict[str, Any]]:
        """After each step what was spent and covered."""
        return [step.entry for step in self.log.steps]

    def look(self) -> Known:
        """Return what is known so far, as the selector sees it."""
        return self.selector.look(self.ledger, self.question)

    # --- what was spent -----------------------------------------------------------

    @property
    def trainings(self) -> int:
        """Trainings begun."""
        return self.ledger.n_sources

    @property
    def environment_steps(self) -> int:
        """Simulated steps of the trainings that are done."""
        return sum(self._steps.values())

    @property
    def hours(self) -> float:
        """Wall-clock time, earlier calls included."""
        return self._hours_before + (time.monotonic() - self._began) / 3600

    def _affordable(self) -> int:
        """Return how many more trainings the budget allows."""
        budget = self.options.budget
        most = 2**62
        if budget.hours is not None and self.hours >= budget.hours:
            return 0
        if budget.trainings is not None:
            most = budget.trainings - self.trainings
        if budget.environment_steps is not None:
            each = self.ledger.task.trainer.steps_per_source
            if each is None:
                each = max(self._steps.values(), default=None)
            room = budget.environment_steps - self.environment_steps
            if each is None:  # the first one shows what a training takes
                most = min(most, 1 if room > 0 and not self._running else 0)
            elif each > 0:
                most = min(most, room // each - len(self._running))
        return max(0, most)

    def _over(self) -> str:
        budget = self.options.budget
        if budget.hours is not None and self.hours >= budget.hours:
            return "budget of hours spent"
        if budget.trainings is not None and self.trainings >= budget.trainings:
            return "budget of trainings spent"
        return "budget of environment steps spent"

    # --- the loop -----------------------------------------------------------------

    def run(self) -> str:
        """Go on until it ends.

        Returns:
            The reason of the stop.
        """
        self._restore()
        while True:
            seen = self.look()
            reason = self._reason(seen)
            if reason is None:
                reason = self._begin(seen)
            if reason is not None and not self._running:
                # Nothing is under way, and all losses are against the reference as
                # it is now: what is covered stays so.
                return reason
            if self._running:
                self._end_next()

    def _reason(self, seen: Known) -> str | None:
        if len(seen.losses) and seen.covered.all():
            if seen.judged.all():
                return COVERED
            return UNKNOWN if self._confirmed() else None
        if self._running:
            return None
        if self._stuck(seen):
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

    def _confirmed(self) -> bool:
        """Whether trainings elsewhere have found nothing better for a while.

        Against the best policy seen, a single one serves everything. To train at
        every target would settle it; a run does that.
        """
        planned = self.look().planned
        if not self.selector.candidates.left(planned).any():
            return True
        last = self._served_shares()[-self.options.patience - 1 :]
        return len(last) > self.options.patience and all(s == 1.0 for s in last)

    def _served_shares(self) -> list[float]:
        """After each training the share of the targets served, judged or not."""
        return [
            s.coverage if s.against_seen is None else s.against_seen
            for s in self.log.steps
        ]

    def _stuck(self, seen: Known) -> bool:
        """Return whether every uncovered target was tried at home, without success."""
        if len(self.log.steps) <= self.options.patience:
            return False
        remaining = self.selector.candidates.left(seen.planned)
        uncovered = self.ledger.target_space.points[~seen.covered]
        if (
            self.selector.tries_homes
            and remaining[self.selector.homes(uncovered)].any()
        ):
            return False
        shares = self._served_shares()
        is_stalled = max(shares[: -self.options.patience]) >= max(shares)
        return is_stalled and self.selector.may_give_up(self.ledger, self.question)

    def _free(self) -> int:
        """Return how many trainings may be begun now."""
        return min(self.options.n_parallel - len(self._running), self._affordable())

    def _begin(self, seen: Known) -> str | None:
        """Begin what can be begun; a reason to stop if that is nothing."""
        free = self._free()
        while self._free() > 0 and self._begin_some(seen, self._free()):
            seen = self.look()
            if not self.selector.needs_regions:
                break  # it was asked for as many as are free
        if self._running:
            return None
        return "every candidate is trained" if free > 0 else self._over()

    def _begin_some(self, seen: Known, free: int) -> bool:
        """Begin at most `free` trainings; return whether there were any to begin."""
        again = self._to_retry(seen)[:free]
        for context in again:
            tried = int((seen.planned == context).all(1).sum())
            why = f"retry {tried}: bad at home"
            self._plan(context, self.ledger.task.seed + tried, seen, why)
        if again:
            return True
        proposer = self.selector
        if len(seen.losses) and seen.covered.all():
            # Nothing is left but targets that have no reference yet.
            proposer = Uniform(self.selector.candidates.space)
        rows = proposer.propose(self.ledger, self.question, free)
        rows = self._fresh(rows, seen)[:free]
        for row in rows:
            self._plan(row, self.ledger.task.seed, seen, proposer.name)
        if len(rows):
            return True
        plan = proposer.propose_region(self.ledger, self.question)
        if plan is not None:
            self._plan_region(plan, seen)
        return plan is not None

    def bad_sources(self) -> list[dict[str, Any]]:
        """Return trainings that failed or are bad at home, one record each."""
        ledger, seen, bad = self.ledger, self.look(), []
        points = ledger.target_space.points
        places, pending = np.cumsum(ledger.evaluated) - 1, ledger.pending
        for number in range(ledger.n_sources):
            if pending[number]:
                continue
            state, reason = ledger.state(number)
            if state in ("ok", "not trained"):
                if not ledger.evaluated[number] or ledger.kinds[number] != TRAINED:
                    continue
                home = (points == ledger.sources.points[number]).all(1)
                losses = seen.losses[places[number], home]
                if not len(losses) or losses.min() <= self.question.epsilon:
                    continue
                most = decimal_text(self.question.epsilon)
                state = "bad at home"
                reason = f"its loss at home is {losses.min():g}, more than {most}"
            where = {"source": number, "context": ledger.sources.context(number)}
            why = {"seed": ledger.seeds[number], "state": state, "reason": reason}
            bad.append(where | why)
        return bad

    def _to_retry(self, seen: Known) -> list[Array]:
        """Return contexts to train once more: bad at home, uncovered, attempts left."""
        ledger, retries = self.ledger, self.options.retries
        contexts = []
        for record in self.bad_sources() if retries else ():
            number, planned = record["source"], ledger.sources.points
            context = planned[number]
            tries = (seen.planned == context).all(1).sum()
            last = np.flatnonzero((planned == context).all(1))[-1]
            home = (ledger.target_space.points == context).all(1)
            if (
                ledger.kinds[number] == TRAINED
                and tries <= retries
                and number == last
                and not (home.any() and seen.covered[home].all())
            ):
                contexts.append(context)
        return contexts

    def _fresh(self, rows: Array, seen: Known) -> Array:
        """Proposals that are not planned yet; the same training twice is no news."""
        rows, n_axes = np.asarray(rows, np.float64), seen.planned.shape[1]
        if not rows.size:
            return np.empty((0, n_axes))
        if rows.ndim != 2 or rows.shape[1] != n_axes or not np.isfinite(rows).all():
            raise InvalidInputError(
                f"A selector must propose one finite row of {n_axes} values per "
                f"context, but {self.selector.name!r} proposed {rows.tolist()}."
            )
        # A dict keeps the order of the proposals.
        fresh = [
            row
            for row in dict.fromkeys(map(tuple, rows))
            if not (seen.planned == row).all(1).any()
        ]
        return np.array(fresh).reshape(-1, n_axes)

    def _plan(self, row: Array, seed: int, seen: Known, why: str, **more: Any) -> None:
        # Where the reference may move, a new policy matters everywhere.
        open_only = self.options.evaluate_uncovered_only and not self.moves
        columns = np.flatnonzero(~seen.covered) if open_only else None
        proposal = Proposal.of(row, seed, columns, why=why, **more)
        proposal.plan(self.ledger)
        self.ledger.task.system.contexts(self.ledger.sources)  # else a sentence
        self.log.add(proposal)
        self._launch(self.ledger.n_sources - 1)

    def _plan_region(self, plan: RegionPlan, seen: Known) -> None:
        """Begin a training on a set of targets, or at a context with other steps."""
        more: dict[str, Any] = {"steps": plan.steps, "start": plan.start}
        if len(plan.targets) > 1:
            more["members"] = plan.targets
        self._plan(plan.context, plan.seed, seen, self.selector.name, **more)

    def _prefix(self, number: int) -> str:
        """Return how the name of the file of a proposal begins."""
        folder, line = self.ledger.folder, self.log.proposals[number]
        return "" if folder is None else folder.prefix(number, line.key)

    def _work(self, number: int) -> Work:
        """Return the work on a proposal."""
        ledger, line, region = self.ledger, self.log.proposals[number], None
        row = ledger.task.system.contexts(ledger.sources)[[number]]
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
        return Work(
            np.array([number]),
            row,
            seed=line.seed,
            region=region,
            columns=line.targets,
        )

    def _launch(self, number: int) -> None:
        """Begin the work on a proposal, unless an earlier call has stored its block."""
        folder, work = self.ledger.folder, self._work(number)
        stored = None if folder is None else folder.find(self._prefix(number))
        if stored is not None:
            future: Future[Any] | None = Future()
            future.set_result(stored)
        elif self._submit is None:
            future = None  # done when its turn comes, and written down before the next
        else:
            future = self._submit(work)
        self._running[number] = work, future

    def _result(self, number: int) -> Block | StoredBlock:
        """Return what a piece of work under way gave; done here without a worker."""
        work, future = self._running[number]
        if future is None:
            return self.ledger.task.do(work, record_failures=True)
        return future.result()

    def _end_next(self) -> None:
        """Take in the next result: the oldest, or whichever is there first."""
        numbers = sorted(self._running)
        if self.options.deterministic:
            numbers = numbers[:1]
        futures = [f for n in numbers if (f := self._running[n][1]) is not None]
        if len(futures) < len(numbers):  # they are done here, one after the other
            number = numbers[0]
        else:
            while not wait(futures, CHECKED, FIRST_COMPLETED).done:
                self._check()
            number = next(n for n, f in zip(numbers, futures, strict=True) if f.done())
        done = self._result(number)
        work, _ = self._running.pop(number)
        self._tell(number, work, done)
        self._note(number)

    def _tell(self, number: int, work: Work, block: Block | StoredBlock) -> None:
        """Count what a source gave, and write it down if it is not stored yet."""
        ledger = self.ledger
        if isinstance(block, StoredBlock):
            ledger.enter(work.numbers, block)
        else:
            self._check_scores(number, block)
            ledger.tell(work, block, self._prefix(number))
        if number in ledger.failures:
            trainer, most = ledger.task.trainer, self.log.proposals[number].steps
            most = trainer.n_policies * most if most else trainer.steps_per_source
            self._steps[number] = most or 0
            return
        done = ledger.policies([number])
        self._steps[number] = int(done.trained.environment_steps.sum())
        n_targets = len(ledger.task.targets)
        columns = n_targets if work.columns is None else len(work.columns)
        self._evaluations += columns * done.home.size

    def _check_scores(self, number: int, block: Block) -> None:
        """Refuse scores that are no numbers: nothing can be said of such a policy."""
        if block.policies is None or block.rows is None:
            return
        scores = {"home_performance": block.policies.home} | block.rows.variables
        for name, values in scores.items():
            worst = -np.inf if name.startswith("gap") else np.inf
            if name == "standard_error":
                continue
            if np.isnan(values).any() or (values == worst).any():
                raise InvalidInputError(
                    "Performance must be a number, −inf for a failure, but a policy of "
                    f"the source at {self.ledger.sources.context(number)} has NaN or "
                    f"+inf in {name}. Mend the system; a run then goes on."
                )

    def _restore(self) -> None:
        """Go on with what was proposed before: what is missing of it is made again."""
        counted = {number for step in self.log.steps for number in step.done}
        for proposal in self.log.proposals:
            proposal.plan(self.ledger)
        for number in range(self.ledger.n_sources):
            self._launch(number)
            if number in counted:
                done = self._result(number)
                work, _ = self._running.pop(number)
                self._tell(number, work, done)
        if self.log.steps:
            self._hours_before = self.log.steps[-1].hours
            self._evaluations = self.log.steps[-1].evaluations

    def _note(self, number: int) -> None:
        seen = self.look()
        step = Step(
            trainings=self.trainings - len(self._running),
            coverage=float(seen.counted.mean()),
            environment_steps=self.environment_steps,
            evaluations=self._evaluations,
            sources=self.ledger.n_sources - len(self._running),
            against_seen=float(seen.covered.mean()) if self.moves else None,
            done=(number,),
            hours=self.hours,
        )
        self.log.add(step)
        note = f"{step.trainings} trainings"
        self._progress("cover", int(seen.counted.sum()), len(seen.counted), note)
