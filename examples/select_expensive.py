"""Train only what is needed: a slow tuner of your own, and a range of ovens.

An oven heats with some gain and some delay; a PI controller is tuned for one oven by
search over simulations, which stands for any training that takes hours. Which ovens to
tune for, so that some controller holds every oven of the range at a cost of 0.12?

    python examples/select_expensive.py
"""

import numpy as np
from scipy.optimize import minimize

import taskspace as ts
from taskspace.systems import ContextAxis, FunctionSystem
from taskspace.systems.function import PythonPolicies
from taskspace.trainers import Trained, Trainer


def performance(context: dict[str, float], gains: np.ndarray) -> float:
    """Minus the mean square error of a step of the set point, and of the effort."""
    temperature, integral, cost = 0.0, 0.0, 0.0
    pipe = [0.0] * round(context["delay"] / 0.1)
    for _ in range(200):
        error = 1.0 - temperature
        integral += 0.1 * error
        pipe.append(float(np.clip(gains[0] * error + gains[1] * integral, -50, 50)))
        temperature += 0.1 * (context["gain"] * pipe.pop(0) - temperature)
        cost += error**2 + 0.01 * (pipe[-1] if pipe else 0.0) ** 2
    return -cost / 200


class Tuner(Trainer):
    """The best PI gains of one oven, by search; every simulation is a step spent."""

    id, n_policies = "tuner", 1

    def train(self, system, contexts, *, seed, progress=None):  # noqa: D102
        names = [axis.name for axis in system.axes]
        found = [self.tune(dict(zip(names, row, strict=True))) for row in contexts]
        steps = np.array([[each.nfev * 200] for each in found])
        return Trained(PythonPolicies([each.x for each in found]), steps)

    def tune(self, oven: dict[str, float]):
        """Search for the gains of one oven."""

        def cost(gains):
            return -performance(oven, gains)

        return minimize(cost, [1.0, 0.5], method="Nelder-Mead", options={"maxfev": 60})


def main(n: int = 9) -> None:
    axes = [ContextAxis("gain", 1.0), ContextAxis("delay", 0.5, "s")]
    ovens = FunctionSystem(performance, axes)
    space = ts.Grid(gain=(0.5, 4.0, n, "log"), delay=(0.1, 1.0, n))
    question = ts.Question("floor", epsilon=0.12)  # J >= −0.12, no reference needed
    result = ts.select(ovens, Tuner(), space, question, seed=0)
    print(
        f"{result.trainings} trainings instead of {space.size}, "
        f"{result.environment_steps:,} simulated steps: {result.stop_reason}, "
        f"{result.cover.size} controllers serve {result.coverage:.0%} of the ovens."
    )
    assert result.table is not None
    for source in result.cover.sources:
        where = {k: result.table[f"source_{k}"].values[source] for k in space.names}
        print("  tuned for", ", ".join(f"{k} {v:.2f}" for k, v in where.items()))
    print(result.statement)


if __name__ == "__main__":
    main()
