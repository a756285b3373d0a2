"""Designed gains against LQR gains, bounds over all gains, proofs between nodes.

python benchmarks/bench_design.py [msd|quadrotor|crane|car|scalar|speed ...]

Every row answers one question: the least number of static gains whose loss is at most
epsilon on a whole box. `LQR` is the minimum cover of the nodes by optimal gains of the
nodes; `designed` what `ts.design` found, for the nodes, or (msd) for contexts between
them, too; `at least` the bound over all gains there; `box` whether `ts.certify` proves
the designed gains for the whole box.
"""

import sys
import time

import numpy as np

import taskspace as ts
from taskspace.designs import bound_all_gains
from taskspace.trainers.minimax import GainRegion, design_gains, gain_mask


def row(
    name, system, space, question, *, k=None, whole=False, seconds=120.0, prove=None
) -> None:
    """Design, bound, prove, print."""
    made = ts.design(system, space, question, k=k, whole=whole, time_limit=seconds)
    asked = made.question if prove is None else question.at(prove)
    proofs = ts.certify(
        made.study, asked, selection=range(made.size), time_limit=seconds
    )
    proof = proofs["continuum cover"]
    print(
        f"{name:<10} {asked.rule.sentence(asked.epsilon)}: LQR {made.size_candidates}, "
        f"designed {made.size} (worst node {made.worst:.4g}), at least "
        f"{made.lower_bound_all} of any ({made.bound.argument}), box "
        f"{'proven' if proof.holds else 'not proven'}; {made.seconds:.0f} s + "
        f"{proofs.seconds:.0f} s",
        flush=True,
    )


def msd() -> None:
    space = ts.Grid(k=(0.1, 8.0, 40), c=(0.1, 8.0, 40))
    for epsilon, seconds in ((1.0, 60.0), (0.5, 60.0), (0.2, 1000.0), (0.1, 600.0)):
        question = ts.Question("regret", epsilon=epsilon)
        system = ts.systems.MassSpringDamper()
        row("msd", system, space, question, whole=True, seconds=seconds)


def quadrotor() -> None:
    side = np.geomspace(0.1, 1.0, 4).tolist()
    space = ts.Grid(thrust=side, roll=side, pitch=side, yaw=side)
    question = ts.Question("ratio", epsilon=0.5)
    system = ts.systems.Quadrotor()
    for k, prove in ((1, 0.5), (4, 0.1)):
        row("quadrotor", system, space, question, k=k, prove=prove, seconds=500)


def crane() -> None:
    from examples.control_proof import Q, R, crane

    family = ts.systems.control_family(
        crane,
        [
            ts.systems.ContextAxis("rope", 5.0, "m", low=0.0, low_open=True),
            ts.systems.ContextAxis("load", 200.0, "kg", low=0.0),
        ],
        Q=Q,
        R=R,
        name="crane",
    )
    space = ts.Grid(rope=(2.0, 10.0, 12), load=(50.0, 800.0, 12))
    row("crane", family, space, ts.Question("ratio", epsilon=0.1))


def car() -> None:
    from examples.vehicle import make_car

    space = ts.Grid(
        speed=(10.0, 35.0, 8), mass=(1200.0, 2000.0, 5), stiffness=(6.0, 12.0, 5)
    )
    row("car", make_car(), space, ts.Question("ratio", epsilon=0.05))


def scalar() -> None:
    """Print the bound and the design against the number in closed form."""
    from tests.designs.test_bound import stabbing_number

    space = ts.Grid(b=(0.01, 1.0, 1000))
    for epsilon in (0.01, 0.1, 1.0):
        question = ts.Question("ratio", epsilon=epsilon)
        truth = stabbing_number(space.points[:, 0], epsilon)
        print(f"scalar     closed form: {truth}")
        row("scalar", ts.systems.ScalarLqr(), space, question, seconds=60)


def speed() -> None:
    """One gain for 256 contexts of 12 states; the bound for 1,600 contexts."""
    system = ts.systems.Quadrotor()
    side = np.geomspace(0.1, 1.0, 4).tolist()
    contexts = system.contexts(ts.Grid(thrust=side, roll=side, pitch=side, yaw=side))
    best = -system.performance(
        system.gains(system.optimal_gain(contexts)[0]), contexts
    )[:, 0].max(0)
    region = GainRegion.of(system, contexts, best, best)
    start = system.optimal_gain(contexts)[0][85:86]
    mask = gain_mask(system, None)
    design_gains(region.at(np.arange(8)), start, mask)
    began = time.process_time()
    found = design_gains(region, start, mask)
    spent = time.process_time() - began
    print(
        f"speed      one gain for 256 contexts: worst {found.worst:.4g}, {spent:.1f} s"
    )
    msd, space = (
        ts.systems.MassSpringDamper(), ts.Grid(k=(0.1, 8.0, 40), c=(0.1, 8.0, 40))
    )  # fmt: skip
    for epsilon, goal in ((1.0, 2), (0.5, 3), (0.2, 6)):
        question = ts.Question("regret", epsilon=epsilon)
        began = time.process_time()
        bound = bound_all_gains(msd, space, question, goal=goal, time_limit=300)
        spent = time.process_time() - began
        print(
            f"speed      1,600 contexts, regret ≤ {epsilon}: at least {bound.value}, "
            f"{bound.n_boxes} boxes, {spent:.1f} s of a processor"
        )


def main(*names: str) -> None:
    for name in names or ("scalar", "speed", "msd", "quadrotor", "crane", "car"):
        globals()[name]()


if __name__ == "__main__":
    sys.path.insert(0, str(__import__("pathlib").Path(__file__).parents[1]))
    main(*sys.argv[1:])
