"""Draw the reactor: crossover and phase margin of eight, three and interpolated PIDFs.

python examples/zoo/reactor_picture.py [FILE]
"""

import sys
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from reactor import CROSSOVER, PROBLEM, ask, pidf, reactor

import taskspace as ts

FREQUENCIES = np.geomspace(1.0, 100.0, 4000)


def margins(parameters, concentrations):
    """Return crossover and phase margin of one controller per concentration."""
    s = 1j * FREQUENCIES
    found = []
    for (kp, ki, kd, tau), C in zip(parameters, concentrations, strict=True):
        A, B, _, _ = (m[0] for m in reactor.matrices(np.array([[C]])))
        row = reactor.output_matrix(np.array([[C]]))[0]
        plant = (row @ np.linalg.solve(s[:, None, None] * np.eye(2) - A, B))[:, 0, 0]
        L = plant * (kp + ki / s + kd * s / (1 + tau * s))
        last = np.flatnonzero(np.abs(L) >= 1).max()
        found.append((FREQUENCIES[last], np.degrees(np.abs(np.angle(-L[last])))))
    return np.array(found).T


def main(path: Path) -> None:
    study = PROBLEM.study()
    question = ask(1.25)
    cover = ts.minimum_cover(study, question)
    table = ts.schedule(study, question, constant_pieces=False)
    fine = np.linspace(2.0, 9.0, 141)
    of_sources = study.policies.parameters[:, 0]
    points = study.sources.points[:, 0]
    index = np.abs(fine[:, None] - points).argmin(1)
    eight = np.arange(2.0, 10.0)
    drawn = {
        f"{len(eight)} controllers, the nearest": (
            pidf(eight).parameters[np.abs(fine[:, None] - eight).argmin(1)], "0.6", "-"
        ),
        f"{cover.size} of them, constant": (
            of_sources[cover.assignment[index]], "tab:blue", "-"
        ),
        f"{table.size} rows, interpolated": (
            table.numbers_at(fine[:, None]), "tab:orange", "-"
        ),
        "1 controller, that of C = 2": (
            np.tile(of_sources[0], (len(fine), 1)), "tab:red", ":"
        ),
    }  # fmt: skip
    figure, axes = plt.subplots(
        2, 1, figsize=(8, 4.6), sharex=True, layout="constrained"
    )
    for label, (parameters, colour, style) in drawn.items():
        for panel, values in zip(axes, margins(parameters, fine), strict=True):
            panel.plot(fine, values, style, color=colour, label=label, linewidth=1.8)
    axes[0].axhspan(CROSSOVER / 1.25, CROSSOVER * 1.25, color="tab:green", alpha=0.12)
    axes[1].axhspan(50, 90, color="tab:green", alpha=0.12)
    axes[0].set(ylabel="crossover [rad/h]", ylim=(1, 19))
    axes[1].set(ylabel="phase margin [°]", ylim=(20, 75), xlim=(2, 9))
    axes[1].set_xlabel("concentration [kmol/m³]; the demand is shaded")
    axes[0].legend(ncols=2, fontsize=8, frameon=False, loc="upper left")
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=150)


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "docs/images/reactor.png"))
