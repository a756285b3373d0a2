"""A Gymnasium environment with Stable-Baselines3: few policies for many CartPoles.

Needs the extra `rl`, and less than a minute. The pole varies in length and the push in
force; which trainings can be saved?

    python examples/gymnasium_sb3.py
"""

import time

import taskspace as ts
from taskspace.systems import GymnasiumSystem
from taskspace.testing import dead_axes, environment_outcomes


def main(n: int = 2, total_steps: int = 24_576, horizon: int = 500) -> None:
    began = time.perf_counter()
    system = GymnasiumSystem("CartPole-v1", n_episodes=10, horizon=horizon)
    # Does every axis reach the physics? Seconds of checking before hours of training.
    dead = dead_axes(environment_outcomes(system.environment), system.axes)
    print(f"axes that change nothing: {dead}")
    space = ts.Grid(pole_length=(0.25, 2.0, n), force=(5.0, 20.0, n))
    trainer = ts.trainers.Sb3(
        n_policies=1,
        algorithm="PPO",
        total_steps=total_steps,
        n_envs=16,
        evaluate_every=total_steps // 2,
        n_evaluation_episodes=5,
        options={"n_steps": 64, "batch_size": 256, "learning_rate": 1e-3},
    )

    def progress(stage: str, done: float, total: float, note: str = "", /) -> None:
        seconds = time.perf_counter() - began
        print(f"{stage} {done} of {total} ({seconds:.0f} s)", flush=True)

    study = ts.evaluate(system, trainer, space, seed=0, progress=progress)
    scores = study.table["home_performance"].values.ravel()
    print(f"scores at home: {scores.tolist()}")
    for epsilon in (10, 50, 100):
        cover = ts.minimum_cover(study, ts.Question("regret", epsilon=epsilon))
        print(
            f"{cover.size} of {space.size} trainings serve "
            f"{100 * cover.coverage:.0f} % within {epsilon} steps of the best"
        )


if __name__ == "__main__":
    main()
