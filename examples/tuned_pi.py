"""PI gains by simulation alone, for a plant that is no formula: a valve that saturates.

Each tank is tuned by search over simulations, from the rule SIMC (Skogestad 2003) and
from random gains. Which few of the controllers serve all the tanks?

    python examples/tuned_pi.py
"""

import tempfile
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from scipy.optimize import minimize

import taskspace as ts
from taskspace.systems import ContextAxis, FunctionSystem, Pi
from taskspace.trainers import Trained, Trainer
from taskspace.trainers.base import context_seed

GAIN, STEP = 2.0, 0.1


def tank(context, controller) -> float:
    """Minus ∫ |error| after a step, with a valve that is open between 0 and 1."""
    pi, level, state, cost = controller.sampled(STEP), 0.0, np.zeros(1), 0.0
    for _ in range(150):
        u, after = pi.step(state, np.array([level]), np.array([1.0]))
        opening = np.clip(u[0], 0.0, 1.0)
        state = after if opening == u[0] else state
        level += STEP * (GAIN * opening - context["flow"] * level)
        cost += STEP * abs(1.0 - level)
    return -cost


def simc(flow: float) -> tuple[float, float]:
    """SIMC for GAIN / (s + flow), with one step of the sampling as its delay."""
    kp = 1 / (GAIN * 2 * STEP)
    return kp, kp / min(1 / flow, 8 * STEP)


@dataclass(frozen=True)
class TunedPi(Trainer):
    """The PI gains of least simulated cost: Nelder and Mead from the best start."""

    low: tuple[float, float] = (0.05, 0.01)
    high: tuple[float, float] = (20.0, 20.0)
    n_starts: int = 12
    n_steps: int = 60
    n_policies: int = 1
    id: ClassVar[str] = "tuned-pi"

    def train(self, system, contexts, *, seed, progress=None):  # noqa: D102
        low, high = np.log(self.low), np.log(self.high)
        found = []
        for context in contexts:

            def cost(logs, context=context):
                gains = Pi(*np.exp(np.clip(logs, low, high))[:, None, None])
                return -system.performance(gains, context[None]).item()

            rng = np.random.default_rng(context_seed(seed, context))
            starts = rng.uniform(low, high, (self.n_starts, 2))
            starts = [np.log(simc(float(context[0]))), *starts]
            limit = {"maxfev": self.n_steps}
            best = min(starts, key=cost)
            best = minimize(cost, best, method="Nelder-Mead", options=limit).x
            found.append(np.exp(np.clip(best, low, high)))
        kp, ki = np.array(found).T[:, :, None]
        return Trained(Pi(kp, ki), np.zeros(kp.shape, np.int64))


def main(n: int = 7, n_starts: int = 12, n_steps: int = 60) -> None:
    system = FunctionSystem(tank, [ContextAxis("flow", 1.0, "l/s", low=0.0)])
    trainer = TunedPi(n_starts=n_starts, n_steps=n_steps)
    space = ts.Grid(flow=(0.4, 1.6, n))
    study = ts.evaluate(system, trainer, space, seed=0)
    home = np.diagonal(study.table["performance"].values[:, 0])
    rule = [tank({"flow": flow}, Pi(*simc(flow))) for flow in space.points[:, 0]]
    print(f"search costs at most {(home / rule).max():.0%} of what the rule SIMC costs")
    cover = ts.minimum_cover(study, ts.Question("regret", epsilon=0.1))
    print(f"{cover.size} of {n} PI controllers serve all {n} tanks")
    library = ts.library(study, cover)
    runner = ts.export.PidRunner(library, STEP, low=0.0, high=1.0)
    print(f"the valve opens to {runner.step([1.0], 0.2, 1.0)[0]:.2f}")
    with tempfile.TemporaryDirectory() as folder:
        files = ts.export.export_tables(library, f"{folder}/tables").iterdir()
        print(f"written: {', '.join(sorted(file.name for file in files))}")


if __name__ == "__main__":
    main()
