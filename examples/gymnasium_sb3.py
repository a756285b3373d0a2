"""A Gymnasium environment with Stable-Baselines3: few policies for many Acrobots.

Needs the extra `rl`. The links of the Acrobot vary in length; which trainings can be
saved?

    python examples/gymnasium_sb3.py
"""

import taskspace as ts
from taskspace.systems import GymnasiumSystem
from taskspace.testing import check_environment


def main(n: int = 3, total_steps: int = 60_000, horizon: int = 500) -> None:
    system = GymnasiumSystem("Acrobot-v1", n_episodes=10, horizon=horizon)
    # Does every axis reach the physics? Minutes of checking before hours of training.
    for check in check_environment(system.environment, system.axes):
        print(f"{check.check}: {check.detail}")
    space = ts.Grid(link_length_1=(0.5, 2.0, n), link_length_2=(0.5, 2.0, n))
    trainer = ts.trainers.Sb3(
        n_policies=1,
        algorithm="PPO",
        total_steps=total_steps,
        evaluate_every=total_steps,
        n_evaluation_episodes=5,
        options={"n_steps": min(1024, total_steps // 2)},
    )
    table = ts.evaluate(system, trainer, space, seed=0)
    loss = ts.loss(table, criterion="regret")
    for epsilon in (10, 50, 100):
        cover = ts.minimum_cover(ts.tolerance_sets(loss, epsilon))
        print(
            f"{cover.size} of {space.size} trainings serve "
            f"{100 * cover.coverage:.0f} % within {epsilon} steps of the best"
        )


if __name__ == "__main__":
    main()
