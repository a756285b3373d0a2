"""Trajectories in a page: policies at work, at a target and at home."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from taskspace.errors import TaskspaceError
from taskspace.performance.study import Study
from taskspace.policies import Policy
from taskspace.show.page.data import PageData
from taskspace.show.play import can_play, play
from taskspace.spaces import Space
from taskspace.systems.episodic import EpisodicSystem

if TYPE_CHECKING:
    from taskspace.systems.base import System

MAX_TARGETS = 400
"""Targets whose trajectories are in a page; others are shown at the nearest one."""


def judged_policy(
    table: xr.Dataset,
    judge: str,
    sources: NDArray[np.int64],
    targets: NDArray[np.int64],
) -> NDArray[np.int64] | None:
    """Return the policy of each source's family that counts at a target.

    None where the table holds only reductions over families of more than one.

    Args:
        table: a performance table.
        judge: `"worst"` or `"best"`.
        sources: one per pair.
        targets: one per pair.
    """
    if "performance" not in table:
        return None
    scores = np.stack(
        [
            table["performance"][int(s), :, int(t)].values
            for s, t in zip(sources, targets, strict=True)
        ]
    )
    return scores.argmin(1) if judge == "worst" else scores.argmax(1)


def play_record(
    system: "System",
    policies: Policy,
    spaces: tuple[Space, Space],
    sources: NDArray[np.int64],
    members: NDArray[np.int64],
    targets: NDArray[np.int64],
) -> dict[str, Any]:
    """Return pairs of policy and target, and the same policies at home, as arrays.

    Args:
        system: what is played.
        policies: of all sources, dims `(source, policy)`.
        spaces: contexts of sources and of targets.
        sources: one per pair.
        members: which policy of the family, one per pair.
        targets: one per pair.
    """
    at_home, at_target = (system.contexts(space) for space in spaces)
    away = play(system, policies[sources, members], at_target[targets])
    homes, which = np.unique(
        np.stack([sources, members], 1), axis=0, return_inverse=True
    )
    home = play(system, policies[homes[:, 0], homes[:, 1]], at_home[homes[:, 0]])
    names = [axis.name for axis in system.axes]
    length = next((n for n in ("pole_length", "length") if n in names), None)

    def size(rows: NDArray[np.float64]) -> list[float]:
        return rows[:, names.index(length)].tolist() if length else [1.0] * len(rows)

    return {
        "scene": away.scene,
        "names": list(away.names),
        "seconds": away.seconds,
        "start": away.start,
        "targets": targets.tolist(),
        "sources": sources.tolist(),
        "members": members.tolist(),
        "home_of": which.reshape(-1).tolist(),
        "away": away.states,
        "away_ends": away.ends.tolist(),
        "away_scores": _numbers(away.scores),
        "away_sizes": size(at_target[targets]),
        "home": home.states,
        "home_ends": home.ends.tolist(),
        "home_scores": _numbers(home.scores),
        "home_sizes": size(at_home[homes[:, 0]]),
    }


def _numbers(values: NDArray[np.float64]) -> list[float | None]:
    return [float(v) if np.isfinite(v) else None for v in values]


@dataclass(frozen=True, eq=False)
class Stage:
    """Where the policies of a run can be seen at work.

    Args:
        system: what is played.
        policies: of all sources, dims `(source, policy)`.
        sources: contexts of the sources.
        targets: contexts of the targets.
    """

    system: "System"
    policies: Policy
    sources: Space
    targets: Space

    @classmethod
    def of(cls, study: Study) -> "Stage | str":
        """Return the stage of a study, or the sentence that says why it has none.

        Args:
            study: what is known; a run may still be in progress.
        """
        sources, targets = study.sources, study.targets
        is_numbers_alone = study.experiment is None and study.system is None
        if is_numbers_alone or sources is None or targets is None:
            return ""
        try:
            system = study.require_system()
        except TaskspaceError as error:
            return f"The policies cannot be played: {error}"
        if not can_play(system):
            return (
                f"Policies of {system.id} cannot be played: it is neither linear nor "
                "simulated by taskspace."
            )
        if study.policies is None:
            return f"The policies cannot be played: {study.origin} holds none."
        return cls(system, study.policies, sources, targets)

    def record(
        self,
        table: xr.Dataset,
        judge: str,
        sources: NDArray[np.int64],
        targets: NDArray[np.int64],
    ) -> dict[str, Any]:
        """Return trajectories of the policies that count, as `play_record` gives them.

        Args:
            table: the performance table, which says which policy counts.
            judge: `"worst"` or `"best"`.
            sources: one per pair.
            targets: one per pair.
        """
        members = judged_policy(table, judge, sources, targets)
        which = f"the {judge} of its family there"
        if members is None and isinstance(self.system, EpisodicSystem):
            members = np.zeros(len(sources), np.int64)
            which = (
                "the first of its family: the table keeps only reductions, so which "
                f"policy is the {judge} is not known"
            )
        elif members is None:
            members = self._members(judge, sources, targets)
        if self.policies.stack_shape[1] == 1:
            which = ""
        spaces = self.sources, self.targets
        record = play_record(
            self.system, self.policies, spaces, sources, members, targets
        )
        return {**record, "which": which}

    def _members(
        self, judge: str, sources: NDArray[np.int64], targets: NDArray[np.int64]
    ) -> NDArray[np.int64]:
        """Return the policies that count, by computing J again where that is quick."""
        at_target = self.system.contexts(self.targets)
        members = np.zeros(len(sources), np.int64)
        for source in np.unique(sources).tolist():
            places = np.flatnonzero(sources == source)
            family = self.policies[source : source + 1]
            scores = self.system.performance(family, at_target[targets[places]])[0]
            members[places] = scores.argmin(0) if judge == "worst" else scores.argmax(0)
        return members

    def parts(self, page: PageData, table: xr.Dataset) -> dict[str, Any]:
        """Return trajectories of the first question's cover, or why there are none.

        Args:
            page: gets their arrays.
            table: the performance table.
        """
        layer = page.layers[0]
        number = layer.start
        cover = layer.steps[number].best
        if not cover.size:
            return {}
        # The source of least loss, also where it does not serve: failures are seen.
        chosen = np.sort(cover.sources)
        server = chosen[layer.losses[chosen].argmin(0)]
        n_shown = min(MAX_TARGETS, len(server))
        targets = np.linspace(0, len(server) - 1, n_shown).round().astype(int)
        judge = layer.question.judge
        record = self.record(table, judge, server[targets], targets)
        for name in ("away", "home"):
            record[name] = page.blobs.add(record[name])
        return {"play": record}
