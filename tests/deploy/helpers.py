"""Libraries to test with, and C programs compiled from them."""

import functools
import itertools
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

import taskspace as ts
from taskspace.deploy import (
    BoxRegions,
    Entry,
    Guarantee,
    PolicyLibrary,
    Status,
    regions_of,
)
from taskspace.export.c99 import export_c99
from taskspace.policies import LinearGain, Mlp, TabularPolicy

STRICT = ["-std=c99", "-Wall", "-Wextra", "-Werror", "-pedantic"]
SANITIZE = ["-fsanitize=address,undefined", "-fno-sanitize-recover=all"]

needs_cc = pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler")


def program(name, n_in, n_out, body, start="", real=None) -> str:
    """A C program: from rows of n_in numbers to rows of n_out."""
    return f"""
#include "{name}.h"
#include <stdio.h>
int main(void)
{{
    {real or name + "_real"} in[{n_in}]; double out[{n_out}]; int i = 0; {start}
    while (fread(in, sizeof in, 1, stdin) == 1) {{
        {body}
        (void)i;
        fwrite(out, sizeof out, 1, stdout);
    }}
    return 0;
}}
"""


DRIVER = program(
    "lib", "LIB_N_AXES + LIB_N_OBSERVATIONS", "4 + LIB_N_ACTIONS",
    """lib_selection s = lib_control(in, in + LIB_N_AXES, action);
    lib_selection h = lib_select_held(&hold, in);
    out[0] = s.policy; out[1] = s.status; out[2] = h.policy; out[3] = h.status;
    for (i = 0; i < LIB_N_ACTIONS; i++) out[4 + i] = (double)action[i];""",
    "lib_real action[LIB_N_ACTIONS]; lib_hold hold; lib_hold_start(&hold);",
)  # fmt: skip


def compile_c(folder: Path, files: list[str], flags: list[str] = SANITIZE) -> Path:
    """The program of some C files of a folder; any warning is an error."""
    program = folder / "program"
    subprocess.run(
        ["cc", *STRICT, *flags, *files, "-lm", "-o", str(program)],
        cwd=folder, check=True, capture_output=True, text=True,
    )  # fmt: skip
    return program


def played(folder, files, driver, rows, flags=SANITIZE):
    """What a driver makes of rows of numbers."""
    (folder / "driver.c").write_text(driver)
    made_of = compile_c(folder, [*files, "driver.c"], flags)
    done = subprocess.run(
        [made_of], input=rows.tobytes(), capture_output=True, check=False
    )
    assert done.returncode == 0, done.stderr.decode()
    return np.frombuffer(done.stdout).reshape(len(rows), -1)


def run_c(library, folder: Path, contexts, observations, *, precision="double", **kw):
    """Policy, status, held policy, held status and actions as C gives them."""
    export_c99(library, folder, name="lib", precision=precision, **kw)
    kind = np.float64 if precision == "double" else np.float32
    data = np.column_stack([contexts, observations]).astype(kind)
    out = played(folder, ["lib.c"], DRIVER, data)
    return (*out[:, :4].T.astype(int), out[:, 4:])


def in_float(status):
    """What C `float` says where Python says `status`: rounded gains are not proven."""
    status = np.asarray(status, int)
    return np.where(status == Status.GUARANTEED, Status.ESTIMATED, status)


def gains(n: int, n_inputs: int = 1, n_states: int = 2, seed: int = 0) -> LinearGain:
    rng = np.random.default_rng(seed)
    return LinearGain(rng.standard_normal((n, n_inputs, n_states)))


def networks(n: int, head="argmax", activation="tanh", hidden=(8, 8), seed=0, **kw):
    rng = np.random.default_rng(seed)
    sizes = [4, *hidden, 2]
    weights = tuple(
        (rng.standard_normal((n, a, b)) / np.sqrt(a)).astype(np.float32)
        for a, b in itertools.pairwise(sizes)
    )
    biases = tuple(rng.standard_normal((n, b)).astype(np.float32) for b in sizes[1:])
    return Mlp(weights, biases, head=head, activation=activation, **kw)


def tables(n: int, seed: int = 0) -> TabularPolicy:
    rng = np.random.default_rng(seed)
    return TabularPolicy(np.eye(3)[rng.integers(0, 3, (n, 7))])


def random_boxes(rng, n_cuts: int, low, high):
    """Boxes that tile a range, by random cuts of random boxes."""
    boxes = [(np.array(low, float), np.array(high, float))]
    for _ in range(n_cuts):
        a, b = boxes.pop(rng.integers(len(boxes)))
        axis = rng.integers(len(a))
        cut = a[axis] + (b[axis] - a[axis]) * rng.uniform(0.2, 0.8)
        if not a[axis] < cut < b[axis]:
            boxes.append((a, b))
            continue
        c, d = b.copy(), a.copy()
        c[axis] = d[axis] = cut
        boxes += [(a, c), (d, b)]
    return np.array([a for a, _ in boxes]), np.array([b for _, b in boxes])


def made(
    regions, policies, outside="refuse", scope="nodes", kind="proof", log_axes=None
) -> PolicyLibrary:
    """A library of given regions, with a question whose words are not tested."""
    n = len(next(iter(policies.arrays().values())))
    d = len(regions.low)
    return PolicyLibrary(
        tuple(Entry(f"policy {i}", i, 0, {"x": float(i)}) for i in range(n)),
        regions,
        Guarantee(ts.Question("regret", epsilon=0.1), scope, kind, "For the test."),
        tuple("xyz"[:d]),
        tuple(["m", "s", ""][:d]),
        policies,
        outside,
        log_axes=log_axes or (),
    )


def grid_library(policies=None, outside="clamp", n=4) -> PolicyLibrary:
    rng = np.random.default_rng(1)
    space = ts.Grid(x=(-1.0, 2.0, 5), y=(0.1, 10.0, 7, "log"))
    regions = regions_of(
        space.points, rng.integers(0, n, 35), rng.random(35) < 0.8, rng.random(35),
        log_axes=[False, True],
    )  # fmt: skip
    made_of = regions, policies or gains(n), outside
    return made(*made_of, log_axes=(False, True))


def point_library(policies=None, outside="clamp", n=4) -> PolicyLibrary:
    rng = np.random.default_rng(2)
    points = rng.uniform(-1, 1, (23, 3)) * [1.0, 100.0, 1e-3]
    regions = regions_of(
        points, rng.integers(0, n, 23), rng.random(23) < 0.8, rng.random(23)
    )
    return made(regions, policies or gains(n), outside)


def box_library(policies=None, outside="clamp", n=4) -> PolicyLibrary:
    rng = np.random.default_rng(3)
    low, high = random_boxes(rng, 80, [0.1, -5.0], [8.0, 5.0])
    served = rng.random(len(low)) < 0.8
    policy = rng.integers(0, n, len(low))
    regions = BoxRegions.merged(low, high, policy, served, rng.random(len(low)))
    return made(regions, policies or gains(n), outside, "box")


MAKERS = {"grid": grid_library, "points": point_library, "boxes": box_library}


def tricky_contexts(library, n=300, seed=0):
    """Contexts inside, outside, on nodes and borders, and not finite."""
    rng = np.random.default_rng(seed)
    width = library.high - library.low
    drawn = library.low + width * rng.uniform(-0.2, 1.2, (n, len(width)))
    parts = [drawn, library.regions.centres[:50], library.low[None], library.high[None]]
    arrays = library.regions.arrays()
    if "box_low" in arrays:
        parts += [arrays["box_low"], arrays["box_high"]]
    if "borders_0" in arrays:
        # An axis of one value has no border.
        edges = [
            np.append(arrays[f"borders_{i}"], library.low[i]) for i in range(len(width))
        ]
        parts.append(np.stack([rng.choice(e, 40) for e in edges], 1))
    odd = np.tile(library.low, (3 * len(width), 1))
    for i in range(len(width)):
        odd[3 * i : 3 * i + 3, i] = [np.nan, np.inf, -np.inf]
    return np.concatenate([*parts, odd])


@functools.cache
def msd():
    """The study of the mass-spring-damper on a small grid."""
    space = ts.Grid(k=(0.1, 8.0, 12), c=(0.1, 8.0, 12))
    return ts.evaluate(ts.systems.MassSpringDamper(), ts.trainers.Lqr(), space)
