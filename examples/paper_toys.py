"""The two toys of the paper, as finite MDPs: models far apart, and a one-way transfer.

python examples/paper_toys.py
"""

import numpy as np

import taskspace as ts
from taskspace.policies import TabularPolicy
from taskspace.systems.tabular import TabularFamily, deterministic_policies


def unreachable_state() -> tuple[TabularFamily, TabularPolicy]:
    """Proposition 1: models far apart, performance equal.

    States start, safe, critical, end; two actions; two steps; reward 1 on the step into
    `end`. From `critical`, theta = 1 ends and theta = 2 goes back to `start`: the
    kernels differ by 2 in the 1-norm there, the largest value there is. But no policy
    reaches `critical`, so D = 0 between the contexts.
    """
    first, safe, critical, end = range(4)
    transitions = np.zeros((2, 4, 2, 4))
    transitions[:, first, 0, safe] = 1
    transitions[:, first, 1, end] = 1
    transitions[:, safe, :, end] = 1
    transitions[0, critical, :, end] = 1
    transitions[1, critical, :, first] = 1
    transitions[:, end, :, end] = 1
    rewards = transitions[..., end].copy()
    rewards[:, end] = 0
    family = TabularFamily(
        values=[1.0, 2.0],
        transitions=transitions,
        rewards=rewards,
        start=[1.0, 0.0, 0.0, 0.0],
        horizon=2,
        name="unreachable state",
    )
    return family, deterministic_policies([[0, 0, 0, 0]] * 2, n_actions=2)


def directionality_toy() -> tuple[TabularFamily, TabularPolicy]:
    """Appendix, one step: D(1; 2) = 5, D(2; 1) = 8.

    One state, actions A and B; rewards (10, 0) at theta = 1 and (5, 8) at theta = 2.
    With the family {A, B} at both contexts the choice of the source matters for ε in
    [5, 8): theta = 1 covers both contexts, theta = 2 does not.
    """
    family = TabularFamily(
        values=[1.0, 2.0],
        transitions=[[[1.0], [1.0]]],
        rewards=[[[10.0, 0.0]], [[5.0, 8.0]]],
        start=[1.0],
        horizon=1,
        name="directionality toy",
    )
    return family, deterministic_policies([[[0], [1]]] * 2, n_actions=2)


def main() -> None:
    space = ts.Points(["theta"], [1.0, 2.0])
    question = ts.Question("signed", epsilon=5.0)
    for make in (unreachable_state, directionality_toy):
        family, policies = make()
        study = ts.evaluate_policies(family, policies, space, sources=space)
        losses = ts.loss(study, question).values
        cover = ts.minimum_cover(study, question)
        print(
            f"{family.name}: D(1; 2) = {losses[0, 1]:g}, D(2; 1) = {losses[1, 0]:g}; "
            f"theta = {space.points[cover.sources, 0].tolist()} serves both within 5"
        )


if __name__ == "__main__":
    main()
