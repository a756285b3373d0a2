"""The numbers of this project that must not move, from its public functions.

Small grids run with every commit; the full sizes of README and docs/measured are slow.
This file uses only names that other programs rely on, so it never has to change.
"""

import gzip
import hashlib
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

import taskspace as ts

ASSETS = Path(__file__).parent / "assets"
EXACT = {"n_policies": 1, "noise": 0.0}
FAMILY = {"n_policies": 10, "noise": 0.1}


def spring(n, **trainer):
    space = ts.Grid(k=(0.1, 8.0, n), c=(0.1, 8.0, n))
    system = ts.systems.MassSpringDamper()
    return ts.evaluate(system, ts.trainers.Lqr(**trainer), space, seed=0)


def regret(epsilon):
    return ts.Question("regret", judge="worst", epsilon=epsilon)


def ratio(epsilon):
    return ts.Question("ratio", epsilon=epsilon)


def sizes(study, question):
    """Minimum (proven), greedy, uniform, mean and standard error of 100 random ones."""
    minimum = ts.minimum_cover(study, question, time_limit=60)
    assert minimum.optimal
    assert minimum.lower_bound == minimum.size
    assert ts.verify_cover(minimum, study)
    uniform = ts.coverage_curve(study, question, method="uniform")
    random = ts.coverage_curve(study, question, method="random", n_repeats=100, seed=0)
    error = np.std(random.sizes, ddof=1) / np.sqrt(100)
    found = minimum.size, ts.greedy_cover(study, question).size, uniform.sizes[0]
    return *found, round(np.mean(random.sizes)), round(error)


# --- the mass-spring-damper ---------------------------------------------------------


def test_sizes_of_covers():
    assert sizes(spring(20, **EXACT), regret(0.2)) == (7, 10, 121, 114, 6)
    assert sizes(spring(40, **EXACT), regret(0.2)) == (7, 9, 121, 164, 8)
    assert sizes(spring(20, **FAMILY), regret(0.2)) == (13, 16, 256, 220, 7)


@pytest.mark.slow
def test_sizes_of_covers_at_full_size():
    assert sizes(spring(100, **EXACT), regret(0.2)) == (7, 10, 121, 172, 11)
    assert sizes(spring(100, **FAMILY), regret(0.2)) == (10, 16, 289, 482, 19)


def test_sources_of_covers():
    study = spring(20, **EXACT)
    greedy = ts.greedy_cover(study, regret(0.2)).sources
    assert sorted(greedy) == [0, 6, 21, 23, 26, 105, 120, 124, 140, 162]
    family = ts.greedy_cover(spring(20, **FAMILY), regret(0.2)).sources
    assert sorted(family) == [
        0, 4, 5, 10, 23, 40, 60, 62, 66, 123, 141, 144, 146, 180, 181, 323,
    ]  # fmt: skip


def test_profile_is_proven():
    profile = ts.complexity_profile(spring(20, **EXACT), regret(0.2))
    found = [(p.greedy, p.lower, p.upper) for p in profile]
    assert found[:4] == [(400,) * 3, (203, 196, 196), (176, 168, 168), (162, 144, 144)]
    assert found[-4:] == [(5, 4, 4), (3, 3, 3), (3, 2, 2), (1, 1, 1)]
    assert all(lower == upper for _, lower, upper in found)


@pytest.mark.parametrize(
    ("trainer", "shape", "digest"),
    [
        (EXACT, (400, 1, 400), "35bc295e4484e719"),
        (FAMILY, (400, 10, 400), "2ddc9d559e0cd23a"),
    ],
)
def test_bytes_of_the_table(trainer, shape, digest):
    values = spring(20, **trainer).table["performance"].values
    assert values.shape == shape
    assert hashlib.sha256(values.tobytes()).hexdigest().startswith(digest)


@pytest.mark.parametrize(
    ("seed", "trained", "kept"), [(0, 19, 18), (1, 22, 18), (2, 18, 17)]
)
def test_selection(seed, trained, kept):
    space = ts.Grid(k=(0.1, 8.0, 20), c=(0.1, 8.0, 20))
    trainer = ts.trainers.Lqr(**FAMILY)
    system = ts.systems.MassSpringDamper()
    found = ts.select(system, trainer, space, regret(0.2), seed=seed)
    assert (found.trainings, found.cover.size, found.coverage) == (trained, kept, 1.0)
    assert found.evaluations == trained * 10 * 400


# --- the whole box ------------------------------------------------------------------


def proven(study, question, time_limit=120.0):
    """Size and lower bound of a cover that is proven for every context of the box."""
    proof = ts.certify(study, question, time_limit=time_limit)["continuum cover"]
    assert proof.holds
    assert proof.kind == "proof"
    return proof.values["size"], proof.values["lower_bound"]


def test_box_of_the_spring():
    assert proven(spring(20, **EXACT), regret(0.2)) == (8, 8)
    assert proven(spring(12, **EXACT), regret(0.5)) == (4, 4)


@pytest.mark.slow
def test_box_of_the_spring_at_full_size():
    assert proven(spring(100, **EXACT), regret(0.2)) == (7, 7)


def linear(axes, A, B, Q, R):
    axes = [ts.systems.ContextAxis(name, value) for name, value in axes.items()]
    return ts.systems.LinearFamily(axes, A=A, B=B, Q=Q, R=R)


def car():
    front, rear = 1.2, 1.5

    def A(speed, mass, stiffness):
        inertia, c = mass * front * rear, 1e4 * stiffness
        matrix = np.zeros((4, 4))
        matrix[0, 0] = -2 * c / (mass * speed)
        matrix[0, 1] = -1 - c * (front - rear) / (mass * speed**2)
        matrix[1, 0] = -c * (front - rear) / inertia
        matrix[1, 1] = -c * (front**2 + rear**2) / (inertia * speed)
        matrix[2, 1], matrix[3, 0], matrix[3, 2] = 1.0, speed, speed
        return matrix

    def B(speed, mass, stiffness):
        c, inertia = 1e4 * stiffness, mass * front * rear
        return [[c / (mass * speed)], [c * front / inertia], [0], [0]]

    axes = {"speed": 20.0, "mass": 1500.0, "stiffness": 8.0}
    plant = linear(axes, A, B, np.diag([1.0, 1.0, 10.0, 0.1]), [[10.0]])
    space = ts.Grid(
        speed=(10.0, 35.0, 4), mass=(1200.0, 2000.0, 4), stiffness=(6.0, 12.0, 4)
    )
    return ts.evaluate(plant, ts.trainers.Lqr(**EXACT), space, seed=0)


def crane(n):
    def A(rope, load):
        pull = load * 9.81 / 500
        return [
            [0, 1, 0, 0],
            [0, -0.1, pull, 0],
            [0, 0, 0, 1],
            [0, 0.1 / rope, -(9.81 + pull) / rope, 0],
        ]

    def B(rope, load):
        return [[0], [2.0], [0], [-2.0 / rope]]

    axes, Q = {"rope": 5.0, "load": 200.0}, np.diag([1.0, 0.1, 10.0, 1.0])
    space = ts.Grid(rope=(2.0, 10.0, n), load=(50.0, 800.0, n))
    plant = linear(axes, A, B, Q, np.eye(1))
    return ts.evaluate(plant, ts.trainers.Lqr(**EXACT), space, seed=0)


@pytest.mark.parametrize(("epsilon", "size"), [(0.1, 1), (0.05, 2)])
def test_box_of_the_car(epsilon, size):
    assert proven(car(), ratio(epsilon)) == (size, size)


@pytest.mark.parametrize(("n", "epsilon", "size"), [(4, 0.1, 6), (6, 0.05, 8)])
def test_box_of_the_crane(n, epsilon, size):
    assert proven(crane(n), ratio(epsilon)) == (size, size)


def quadrotor(*contexts):
    system = ts.systems.Quadrotor()
    names = ("thrust", "roll", "pitch", "yaw")
    side = np.geomspace(0.1, 1.0, 3).tolist()
    space, sources = ts.Grid(**dict.fromkeys(names, side)), ts.Points(names, contexts)
    trainer = ts.trainers.Lqr(**EXACT)
    return ts.evaluate(system, trainer, sources, targets=space, seed=0)


def test_box_of_the_quadrotor():
    """One gain where the published covering has 256."""
    assert proven(quadrotor([0.178] * 4), ratio(1.0))[0] == 1


@pytest.mark.slow
def test_box_of_the_quadrotor_at_ten_percent():
    contexts = [
        [0.3125, 0.1318, 0.1318, 0.2674],
        [0.2343, 0.4928, 0.4586, 0.2738],
        [0.2674, 0.1302, 0.4988, 0.2610],
        [0.2738, 0.4754, 0.1416, 0.3924],
        [0.2839, 0.2771, 0.2839, 0.2400],
    ]
    assert proven(quadrotor(*contexts), ratio(0.1), 600.0)[0] == 5


# --- gains of any design ------------------------------------------------------------


def designed(system, space, question):
    made = ts.design(system, space, question, time_limit=300.0)
    return made.size, made.lower_bound_all


def test_no_smaller_design():
    space = ts.Grid(k=(0.1, 8.0, 12), c=(0.1, 8.0, 12))
    system = ts.systems.MassSpringDamper()
    assert designed(system, space, regret(1.0)) == (2, 2)
    assert designed(system, space, regret(0.5)) == (3, 3)


@pytest.mark.slow
@pytest.mark.parametrize(("epsilon", "size"), [(1.0, 2), (0.5, 3), (0.2, 6)])
def test_no_smaller_design_at_full_size(epsilon, size):
    """At 0.2 no five gains of any design serve the range."""
    space = ts.Grid(k=(0.1, 8.0, 40), c=(0.1, 8.0, 40))
    system = ts.systems.MassSpringDamper()
    assert designed(system, space, regret(epsilon)) == (size, size)


def test_designs_of_the_scalar_family():
    """The closed form says 3: fewest points that meet all intervals of good gains."""
    space = ts.Grid(b=(0.01, 1.0, 100))
    study = ts.evaluate(ts.systems.ScalarLqr(), ts.trainers.Lqr(**EXACT), space, seed=0)
    assert ts.minimum_cover(study, ratio(1.0)).size == 3
    assert designed(ts.systems.ScalarLqr(), space, ratio(1.0)) == (3, 3)


# --- tables and files ---------------------------------------------------------------


@pytest.mark.parametrize(
    ("epsilon", "minimum", "greedy"), [(0.0, 2, 3), (5.0, 2, 2), (25.0, 1, 1)]
)
def test_covers_of_the_cartpole_table(epsilon, minimum, greedy):
    data = Path(__file__).parents[1] / "examples" / "data" / "cartpole.npz"
    with np.load(data) as arrays:
        performance = arrays["performance"].astype(np.float64)
    study = ts.study_from(performance)
    found = ts.minimum_cover(study, regret(epsilon), time_limit=60)
    assert (found.size, found.optimal, found.uncoverable.size) == (minimum, True, 0)
    assert ts.greedy_cover(study, regret(epsilon)).size == greedy


def set_cover(name):
    """Membership `(source, target)` and cost of each source of a public file."""
    path = ASSETS / "setcover" / f"{name}.txt"
    if path.exists():
        text = path.read_text()
    else:
        text = gzip.decompress(Path(f"{path}.gz").read_bytes()).decode()
    numbers = iter(map(int, text.split()))
    if name.startswith("sts"):
        n_sources, n_targets = next(numbers), next(numbers)
        costs = np.ones(n_sources)
        rows = [[next(numbers) for _ in range(3)] for _ in range(n_targets)]
    else:
        n_targets, n_sources = next(numbers), next(numbers)
        costs, rows = np.ones(n_sources), [[] for _ in range(n_targets)]
        if name.startswith("rail"):
            for source in range(n_sources):
                costs[source] = next(numbers)
                for _ in range(next(numbers)):
                    rows[next(numbers) - 1].append(source + 1)
        else:
            costs[:] = [next(numbers) for _ in range(n_sources)]
            rows = [[next(numbers) for _ in range(next(numbers))] for _ in rows]
    covers = np.zeros((n_sources, n_targets), bool)
    for target, sources in enumerate(rows):
        covers[np.array(sources) - 1, target] = True
    return covers, costs


def best_of_file(name, time_limit):
    covers, costs = set_cover(name)
    study = ts.study_from(covers.astype(float))
    unit = {} if (costs == 1).all() else {"costs": costs}
    found = ts.minimum_cover(study, regret(0.0), time_limit=time_limit, **unit)
    assert covers[found.sources].any(0).all()
    return costs[found.sources].sum(), found.optimal


@pytest.mark.parametrize(
    ("name", "value"),
    [("scp41", 429), ("scp46", 560), ("scp51", 253), ("scp61", 138),
     ("sts9", 5), ("sts15", 9), ("sts27", 18)],
)  # fmt: skip
def test_optima_of_public_files(name, value):
    assert best_of_file(name, 60) == (value, True)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "value"),
    [("scpa1", 253), ("scpb1", 69), ("scpe1", 5), ("scpe3", 5), ("sts45", 30)],
)
def test_optima_of_larger_public_files(name, value):
    assert best_of_file(name, 180) == (value, True)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "value"),
    [("scpclr10", 25), ("scpclr11", 23), ("scpcyc06", 60), ("scpcyc07", 144),
     ("sts81", 61), ("rail507", 174)],
)  # fmt: skip
def test_best_known_values_of_public_files(name, value):
    assert best_of_file(name, 120)[0] == value


# --- compiled C ---------------------------------------------------------------------

DRIVER = """
#include "lib.h"
#include <stdio.h>
int main(void)
{
    lib_real in[LIB_N_AXES + LIB_N_OBSERVATIONS], action[LIB_N_ACTIONS];
    double out[2 + LIB_N_ACTIONS];
    int i;
    while (fread(in, sizeof in, 1, stdin) == 1) {
        lib_selection s = lib_control(in, in + LIB_N_AXES, action);
        out[0] = s.policy; out[1] = s.status;
        for (i = 0; i < LIB_N_ACTIONS; i++) out[2 + i] = action[i];
        fwrite(out, sizeof out, 1, stdout);
    }
    return 0;
}
"""


def contexts_and_states():
    """10⁵ contexts in and around the range, on its nodes and edges, and not finite."""
    rng = np.random.default_rng(0)
    rows = rng.uniform(-0.5, 8.6, (100_000, 2))
    nodes = np.linspace(0.1, 8.0, 12)
    rows[:20_000] = rng.choice(nodes, (20_000, 2))
    rows[20_000:40_000] = rng.choice((nodes[1:] + nodes[:-1]) / 2, (20_000, 2))
    rows[40_000:40_100, 0] = np.nan
    rows[40_100:40_200, 1] = np.inf
    rows[40_200:40_300, 0] = -np.inf
    return rows, rng.standard_normal((100_000, 2))


def in_c(library, folder):
    """Policies, statuses and actions of the compiled library, as C gives them."""
    ts.export.export_c99(library, folder, name="lib")
    (folder / "driver.c").write_text(DRIVER)
    flags = ["-std=c99", "-O1", "-Wall", "-Wextra", "-Werror", "-pedantic"]
    subprocess.run(
        ["cc", *flags, "lib.c", "driver.c", "-lm", "-o", "program"],
        cwd=folder, check=True,
    )  # fmt: skip
    rows, states = contexts_and_states()
    data = np.column_stack([rows, states]).tobytes()
    program = folder / "program"
    done = subprocess.run([program], input=data, capture_output=True, check=True)
    return np.frombuffer(done.stdout).reshape(len(rows), 3).T


@pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler")
@pytest.mark.parametrize(
    ("kind", "digest"), [("grid", "6e96faec0e2c6063"), ("boxes", "abd7953b88551ddf")]
)
def test_compiled_c(kind, digest, tmp_path):
    study, question = spring(12, **EXACT), regret(0.2)
    cover = ts.minimum_cover(study, question)
    if kind == "boxes":
        cover = ts.certify(study, question, time_limit=60).continuum
    library = ts.library(study, cover)
    policy, status, action = in_c(library, tmp_path)
    rows, states = contexts_and_states()
    chosen = library.select(rows)
    assert (policy == chosen.policy).all()
    assert (status == chosen.status).all()
    served = policy >= 0
    acted = library.act_as(chosen.policy[served], states[served])[:, 0]
    assert (action[served] == acted).all()
    found = np.where(served, np.stack([policy, status, action]), [[-1], [0], [0]])
    assert hashlib.sha256(found.tobytes()).hexdigest()[:16] == digest
