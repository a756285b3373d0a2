"""Choosing ε: how many policies each tolerance needs.

python examples/choose_epsilon.py
"""

import taskspace as ts


def main(n: int = 20, n_epsilons: int = 12, time_limit: float = 20.0) -> None:
    space = ts.Grid(k=(0.1, 8.0, n), c=(0.1, 8.0, n))
    trainer = ts.trainers.Lqr()
    study = ts.evaluate(ts.systems.MassSpringDamper(), trainer, space, seed=0)
    question = ts.Question("regret", epsilon=0.0)  # a profile asks at many ε
    points = ts.complexity_profile(
        study, question, n_epsilons=n_epsilons, time_limit=time_limit
    )
    print("   ε      policies needed")
    for point in points:
        if point.upper is None:
            continue  # some target is served by no policy at this tolerance
        known = (
            f"{point.upper}"
            if point.lower == point.upper
            else (f"{point.lower} to {point.upper}")
        )
        print(f"{point.epsilon:7.3f}   {known:>9}  {'#' * min(point.upper, 60)}")
    # A good place to stop is before the last policies that save little tolerance.
    few = next(p for p in points if p.upper is not None and p.upper <= 5)
    print(f"Five policies or fewer suffice from ε = {few.epsilon:.3g} on.")


if __name__ == "__main__":
    main()
