r"""Model smoothness against performance smoothness, for tabular families.

Proposition 2 of the paper: where the start distribution is fixed, γ < 1 and rewards
are bounded, $L_{perf}(\Pi) \le L_{model} = \frac{L_r}{1 - \gamma} + \frac{\gamma L_p
R_{max}}{(1 - \gamma)^2}$.
"""

from typing import NamedTuple

import numpy as np

from taskspace._util.arrays import Array
from taskspace.certificates.statements import Certificate
from taskspace.errors import InvalidInputError
from taskspace.policies import Policy
from taskspace.systems.tabular import TabularFamily


class ModelSmoothness(NamedTuple):
    r"""Lipschitz constants of a tabular family's model in its context.

    Args:
        kernel: $L_p$, of $p^\theta(\cdot | s, a)$ in the 1-norm, over all s and a.
        reward: $L_r$, of $r^\theta(s, a)$.
        reward_max: $R_{max}$.
        model: $L_{model}$, which no |J(θ1, π) − J(θ2, π)| / |θ1 − θ2| exceeds.
        formula: how `model` follows from the others.
    """

    kernel: float
    reward: float
    reward_max: float
    model: float
    formula: str


def model_smoothness(family: TabularFamily) -> ModelSmoothness:
    r"""Return $L_p$, $L_r$, $R_{max}$ and $L_{model}$ of a family.

    For a finite horizon T it is $T L_r + \frac{T(T-1)}{2} L_p R_{max}$: the same proof,
    summed over steps.

    Args:
        family: must have a fixed start distribution, or this is refused.
    """
    start = np.asarray(family.start)
    if (start != start[0]).any():
        raise InvalidInputError(
            "The start distribution must be the same in every context for L_model to "
            f"bound performance, but in {family.name!r} it differs by up to "
            f"{abs(start - start[0]).max():g}."
        )
    rewards = np.asarray(family.rewards)
    kernel = _lipschitz(family, np.asarray(family.transitions), norm_last=True)
    reward, reward_max = _lipschitz(family, rewards), float(abs(rewards).max())
    if family.discount is not None:
        gamma = family.discount
        model = reward / (1 - gamma) + gamma * kernel * reward_max / (1 - gamma) ** 2
        formula = "L_r / (1 - gamma) + gamma L_p R_max / (1 - gamma)^2"
    else:
        steps = int(family.horizon or 0)
        model = steps * reward + steps * (steps - 1) / 2 * kernel * reward_max
        formula = "T L_r + T (T - 1) / 2 L_p R_max"
    return ModelSmoothness(kernel, reward, reward_max, model, formula)


def performance_smoothness(family: TabularFamily, policies: Policy) -> float:
    r"""Return $L_{perf}(\Pi)$: the largest |ΔJ| / |θ1 − θ2| of any policy given.

    Args:
        family: contexts θ are its values.
        policies: a stack; every policy in it counts, whatever its source.
    """
    contexts = np.asarray(family.values)[:, None]
    performance = family.performance(policies, contexts)
    return _lipschitz(family, np.moveaxis(performance, -1, 0))


def _lipschitz(
    family: TabularFamily, array: Array, *, norm_last: bool = False
) -> float:
    """Return the largest change per unit of theta; on a line neighbours suffice."""
    values = np.asarray(family.values)
    order = np.argsort(values)
    change = abs(np.diff(array[order], axis=0))
    if norm_last:
        change = change.sum(-1)
    step = np.diff(values[order]).reshape(-1, *[1] * (change.ndim - 1))
    return float((change / step).max(initial=0.0))


def smoothness_certificate(family: TabularFamily, policies: Policy) -> Certificate:
    """Certify L_perf ≤ L_model with the numbers, or say which hypothesis fails.

    Args:
        family: the tasks.
        policies: a stack of policies.
    """
    measured = performance_smoothness(family, policies)
    try:
        model = model_smoothness(family)
    except InvalidInputError as error:
        values = {"l_perf": measured}
        return Certificate("model smoothness", False, "vacuous", str(error), values)
    values = {
        "l_perf": measured,
        "l_model": model.model,
        "l_p": model.kernel,
        "l_r": model.reward,
        "r_max": model.reward_max,
        "ratio": model.model / measured if measured > 0 else np.inf,
    }
    # 1e-9 of the bound is far above what solving for J loses to rounding.
    holds = measured <= model.model * (1 + 1e-9)
    why = f"Start fixed, rewards bounded: L_perf <= L_model = {model.formula}."
    return Certificate("model smoothness", holds, "proof", why, values)
