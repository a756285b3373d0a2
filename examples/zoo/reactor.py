"""A stirred tank reactor: eight PID controllers, or how few?

A tutorial designs one PIDF controller for each of eight steady concentrations
(MathWorks documentation, "Design Family of PID Controllers for Multiple Operating
Points"), for a crossover of 10 rad/h and a phase margin of 60°. The reactor is that of
Seborg's textbook: C' = (10 - C) - k C, T' = (298.2 - T) + 11.92 k C - 0.3 (T - Tc),
k = 34,930,800 exp(-E / (R T)), per hour. It is open-loop unstable in the middle.
At the steady concentration C everything follows in closed form.
"""

import numpy as np
from problem import Problem, show

import taskspace as ts
from taskspace.systems import ContextAxis, LinearFamily, Pid

K0, E_OVER_R = 34_930_800.0, 11_843 / 1.985875  # 1/h, K
CROSSOVER, PHASE_MARGIN = 10.0, 60.0  # rad/h, degrees


def slope(C):
    """Return what one more kelvin takes from the concentration, per hour."""
    return (10 - C) * np.log(K0 * C / (10 - C)) ** 2 / E_OVER_R


reactor = LinearFamily(
    [ContextAxis("C", 5.0, "kmol/m³", low=2.0, high=9.0)],
    A=lambda C: [
        [-10 / C, -slope(C)],
        [11.92 * (10 - C) / C, -1.3 + 11.92 * slope(C)],
    ],
    B=[[0.0], [0.3]],
    Q=np.eye(2),
    R=[[1.0]],
    C=[[-1.0, 0.0]],  # more cooling temperature, less concentration
    name="stirred tank reactor",
    output_names=["concentration [kmol/m³]"],
)


def pidf(C):
    """Return K (1 + wi / s) (1 + Td s) / (1 + Tf s) as the tutorial's design rule."""
    wi, tf, w = CROSSOVER / 20, 1 / (20 * CROSSOVER), CROSSOVER
    A, B, _, _ = reactor.matrices(C[:, None])
    c = reactor.output_matrix(C[:, None])
    plant = (c @ np.linalg.solve(1j * w * np.eye(2) - A, B))[:, 0, 0]
    known = plant * (1 + wi / (1j * w)) / (1 + 1j * w * tf)
    lead = np.radians(PHASE_MARGIN - 180) - np.angle(known)
    lead = (lead + np.pi) % (2 * np.pi) - np.pi
    td = np.tan(lead) / w
    gain = 1 / np.abs(known * (1 + 1j * w * td))
    ki = gain * wi
    kp = gain * (1 + wi * td) - ki * tf
    return Pid(kp, ki, gain * td - kp * tf, filter_time=np.full_like(C, tf))


def crossings(loop):
    """Return where |L(jw)| = 1, and L there; the loop is opened at its input."""
    A, C = loop.F - loop.E @ loop.U, -loop.U
    poles = np.linalg.eigvals(np.block([[A, loop.E @ loop.E.T], [-C.T @ C, -A.T]]))
    w = poles.imag[(np.abs(poles.real) < 1e-6 * np.abs(poles)) & (poles.imag > 0)]
    resolvent = np.linalg.solve(1j * w[:, None, None] * np.eye(len(A)) - A, loop.E)
    return w, (C @ resolvent)[:, 0, 0]


@ts.measure("crossover_factor", larger_is_better=False)
def crossover_factor(loop):
    """Return how far the last crossover is from 10 rad/h, as a factor up or down."""
    w, _ = crossings(loop)
    if not len(w):
        return np.inf
    return float(max(w.max() / CROSSOVER, CROSSOVER / w.max()))


@ts.measure("phase_margin", larger_is_better=True, unit="deg")
def phase_margin(loop):
    """Return the least angle between L and -1 where |L| = 1."""
    _, L = crossings(loop)
    return float(np.degrees(np.abs(np.angle(-L))).min()) if len(L) else 180.0


space = ts.Grid(C=(2.0, 9.0, 57))


def make_study():
    policies = pidf(space.points[:, 0])
    return ts.evaluate_policies(reactor, policies, space, sources=space)


def ask(factor):
    """Return the demand with the crossover within a factor of 10 rad/h."""
    return f"crossover_factor <= {factor} and phase_margin >= 50 and sensitivity <= 1.5"


PROBLEM = Problem(
    name="reactor",
    plant="stirred tank reactor, PIDF",
    contexts="concentration 2 to 9 kmol/m³",
    in_use="8 controllers",
    source='MathWorks documentation, "Design Family of PID Controllers for Multiple '
    'Operating Points"',
    demand="crossover 8 to 12.5 rad/h, phase margin 50°, sensitivity at most 1.5",
    questions={factor - 1: ask(factor) for factor in (1.25, 1.5, 2)},
    system=reactor,
    space=space,
    make_study=make_study,
    prove="disk_margin >= 0.7",
    candidates=15,  # every half unit
    used_at=(2, 3, 4, 5, 6, 7, 8, 9),
    design=False,
)

if __name__ == "__main__":
    show(PROBLEM)
