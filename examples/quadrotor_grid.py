"""A quadrotor whose motors wear: our cover beside a published grid of controllers.

Preiss & Sukhatme (L4DC 2021) prove that a geometric grid of 4⁴ = 256 guaranteed-cost
controllers keeps the cost of every σ in [0.1, 1]⁴ within a factor α = 2 of the optimum.
Here the LQR gains of the grid's own points are the candidates. What we count holds for
the points of our grid, proven; what lies between them is sampled, not proven. So this
says how much of the 256 is the price of that proof, not that the proof is not needed.

    python examples/quadrotor_grid.py
"""

import numpy as np

import taskspace as ts

PUBLISHED = 256


def main(n: int = 4, n_samples: int = 2000, seed: int = 0) -> None:
    system = ts.systems.Quadrotor()
    axis = (0.1, 1.0, n, "log")
    space = ts.Grid(thrust=axis, roll=axis, pitch=axis, yaw=axis)
    trainer = ts.trainers.Lqr()
    study = ts.evaluate(system, trainer, space, seed=0)
    assert study.policies is not None
    between = 10 ** np.random.default_rng(seed).uniform(-1, 0, (n_samples, 4))
    optimum = system.optimum(between)
    assert optimum is not None
    print(f"published: {PUBLISHED} controllers for α = 2, proven for every σ")
    for alpha in (2.0, 1.5, 1.2, 1.1):
        question = ts.Question("ratio", epsilon=alpha - 1)
        cover = ts.minimum_cover(study, question, time_limit=20)
        score = system.performance(study.policies[cover.sources], between)[:, 0]
        # Each sample gets the best of the chosen gains.
        ratio = (score / optimum).min(0)
        proof = "proven least" if cover.optimal else f"at least {cover.lower_bound:g}"
        print(
            f"α = {alpha}: {cover.size} LQR gains serve all {space.size} points of the "
            f"grid ({proof}); of {n_samples} random σ between them "
            f"{100 * (ratio <= alpha).mean():.1f} % are within α, the worst "
            f"{ratio.max():.2f}"
        )


if __name__ == "__main__":
    main()
