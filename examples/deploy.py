"""From a plant of your own to C: a crane whose rope length and load vary.

    python examples/deploy.py [FOLDER]

Writes the library and its C99 code into FOLDER (a new one) and tries it at random
contexts, beside one gain and interpolated gains.
"""

import sys
import tempfile
from pathlib import Path

import numpy as np

import taskspace as ts
from taskspace.deploy import try_library
from taskspace.export import export_c99
from taskspace.systems import ContextAxis, LinearFamily

GRAVITY, TROLLEY = 9.81, 2.0

crane = LinearFamily(
    context_axes=[
        ContextAxis("rope", 1.0, "m", low=0.0, low_open=True),
        ContextAxis("load", 1.0, "kg", low=0.0, low_open=True),
    ],
    # State: trolley position and speed, swing angle and rate; input: force.
    A=lambda rope, load: [
        [0, 1, 0, 0],
        [0, 0, load * GRAVITY / TROLLEY, 0],
        [0, 0, 0, 1],
        [0, 0, -(TROLLEY + load) * GRAVITY / (TROLLEY * rope), 0],
    ],
    B=lambda rope, load: [[0], [1 / TROLLEY], [0], [-1 / (TROLLEY * rope)]],
    Q=np.diag([4.0, 1.0, 10.0, 1.0]),
    R=[[0.1]],
    name="crane",
)


def main(n: int = 30, folder: str | None = None, n_contexts: int = 1000) -> None:
    space = ts.Grid(rope=(0.5, 5.0, n), load=(0.5, 20.0, n, "log"))
    trainer = ts.trainers.Lqr()
    study = ts.evaluate(crane, trainer, space, seed=0)
    question = ts.Question("ratio", epsilon=0.1)
    cover = ts.minimum_cover(study, question, time_limit=10)
    library = ts.library(study, cover)
    print(
        f"{library.size} gains for {space.size} cranes: {library.guarantee.statement}"
    )
    with tempfile.TemporaryDirectory() as other:
        to = Path(folder or other)
        library.save(to / "library")
        export_c99(library, to / "c", name="crane", precision="float")
        lines = len((to / "c" / "crane.c").read_text().splitlines())
        print(f"crane.c has {lines} lines; compile it with: cc -std=c99 -c crane.c")
    trial = try_library(library, crane, n_contexts=n_contexts)
    for one in trial.contenders:
        print(f"  {one.name}: loses {one.mean_percent:.2f} % on average,", end=" ")
        print(f"{one.worst_percent:.1f} % at worst")
    print(trial.line)


if __name__ == "__main__":
    main(folder=sys.argv[1] if len(sys.argv) > 1 else None)
