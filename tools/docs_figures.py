"""Figures of the documentation site, made when it is built."""

import io
import tomllib
from pathlib import Path

import numpy as np

ROOT = Path(__file__).parents[1]
WIDTH, ROW = 640, 34


def layers_drawing() -> str:
    """Return the layers of the package as SVG, from the contract of import-linter."""
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    contract = tomllib.loads(text)["tool"]["importlinter"]["contracts"][0]
    rows = [
        layer.replace("taskspace.", "").split(" | ") for layer in contract["layers"]
    ]
    parts = []
    for k, names in enumerate(rows):
        width = (WIDTH - 60) / len(names)
        for i, name in enumerate(names):
            x, y = 40 + i * width, 4 + k * ROW
            parts.append(
                f'<rect x="{x + 3:g}" y="{y}" width="{width - 6:g}" height="{ROW - 8}" '
                'rx="5" fill="currentColor" fill-opacity="0.08" stroke="currentColor"/>'
                f'<text x="{x + width / 2:g}" y="{y + 18}" text-anchor="middle" '
                f'fill="currentColor">{name}</text>'
            )
    bottom = len(rows) * ROW
    parts.append(
        f'<path d="M20 12 V{bottom - 14} m-5 -8 l5 8 l5 -8" fill="none" '
        'stroke="currentColor" stroke-width="1.5"/>'
    )
    return (
        f'<svg viewBox="0 0 {WIDTH} {bottom}" role="img" style="max-width: {WIDTH}px" '
        'font-size="14" aria-label="Rooms of the package; each imports those below it">'
        + "".join(parts)
        + "</svg>"
    )


def criteria_figures() -> dict[str, bytes]:
    """Return a picture per criterion as SVG: where one policy serves, and why."""
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    mpl.rcParams["svg.hashsalt"] = "taskspace"  # the same bytes in every build
    t = np.linspace(0, 10, 400)
    best = 9 - 0.35 * t
    score = best - 0.35 - 0.16 * (t - 3) ** 2 / (1 + 0.02 * (t - 3) ** 2)
    home, epsilon, floor = 3.0, 1.5, 5.0
    own = float(np.interp(home, t, score))
    asked = {
        "regret": (f"{epsilon} below the best", best - epsilon),
        "floor": (f"at least {floor}", np.full_like(t, floor)),
        "signed": (f"{epsilon} below its own", np.full_like(t, own - epsilon)),
    }
    pictures = {}
    for name, (words, level) in asked.items():
        figure, axis = plt.subplots(figsize=(3.3, 3.0), layout="tight")
        axis.plot(t, best, color="0.55", lw=1, label="best known")
        axis.plot(t, score, color="#3949ab", lw=2, label="this policy")
        axis.plot(t, level, color="#c62828", lw=1.2, ls="--", label=words)
        served = (score >= level).tolist()
        axis.fill_between(t, 0, 10, where=served, color="#3949ab", alpha=0.12, lw=0)
        axis.plot(home, own, "o", color="#3949ab")
        axis.set(xlim=(0, 10), ylim=(1, 10), xlabel="context", title=name)
        axis.set_ylabel("performance J")
        axis.legend(fontsize=8, loc="lower left")
        stream = io.BytesIO()
        figure.savefig(stream, format="svg", metadata={"Date": None})
        plt.close(figure)
        pictures[f"images/criterion-{name}.svg"] = stream.getvalue()
    return pictures
