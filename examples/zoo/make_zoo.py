"""Compute the whole zoo, and write its table and its figure.

    python examples/zoo/make_zoo.py [FOLDER]

Numbers go to runs/zoo, a file per plant; what is there for the same code is not
computed again. The table is FOLDER/zoo.md, the figure FOLDER/images/zoo.png, with
FOLDER = docs by default.
"""

import importlib
import sys
import time
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from problem import Problem, number, stored

NAMES = (
    "reactor", "turbine", "car", "carts", "carts_two", "missile", "quadrotor",
    "unicycle", "pressure", "wing",
)  # fmt: skip
PAGE = """# The zoo: how many controllers do published problems need?

Each row is a problem from the literature or from a tool that people use, with the
number of controllers in use today and what `taskspace` answers. Each plant is a file in
`examples/zoo`: it states the formulas, the range, the source, and where the published
problem differs. `make zoo` makes this page.

{table}

- *constant*: the fewest of the candidates that serve every context of the grid, one
  gain per context: the proven minimum of that table unless a lower bound is given.
- *interpolated*: the fewest breakpoints of a table whose gains are interpolated, of the
  same candidates; tested at the grid and between its points.
- *any design*: designed gains in place of candidates, and a bound over all gains.
- *proven for*: what holds at every context, not only at those of the grid. A dash means
  that nothing is proven between the points: the demand has a measure that is a function
  in the plant's file, or the table is given.

![Number of controllers against the tolerance](images/zoo.png)

*The complexity of a plant: how many constant gains (filled) and how many interpolated
vertices (open) the range needs, against the tolerance. Pale lines for the two plants in
which only the gain changes: ceil(ln range / ln f), f = (1 + tolerance)².*

{plants}
"""


def cell(problem: Problem, record: dict) -> list[str]:
    """Return the row of one problem."""
    interpolated = "–"
    if "interpolated" in record:
        low, high = record["interpolated"]
        shape = " × ".join(map(str, record["shape"]))
        interpolated = shape if len(record["shape"]) == 1 else f"{high} ({shape})"
        interpolated += "" if low == high else f", at least {low}"
    proven = []
    if record.get("proven_constant"):
        proven.append(f"{record['proven_constant']} constant, every context")
    if record.get("proven_interpolated"):
        proven.append("the table, every context")
    if proven and problem.prove:
        proven.append(f"each for `{problem.prove}`")
    design = number(record["any_design"]) if "any_design" in record else "–"
    return [
        f"[{problem.plant}](#{problem.name.replace('_', '-')})",
        problem.contexts,
        problem.demand,
        problem.in_use,
        number(record["constant"], record["candidates"]),
        interpolated,
        design,
        "; ".join(proven) or "–",
    ]


def table(answers: dict[str, tuple[Problem, list[dict]]]) -> str:
    """Return the table of all plants."""
    head = "plant|contexts|demand|in use|constant|interpolated|any design|proven for"
    rows = [head.split("|"), ["---"] * 8]
    rows += [cell(problem, records[0]) for problem, records in answers.values()]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def plants(answers: dict[str, tuple[Problem, list[dict]]]) -> str:
    """Return a short section per plant: the numbers at all tolerances, the source."""
    parts = []
    for name, (problem, records) in answers.items():
        lines = [
            f"## {name.replace('_', '-')}",
            f"{problem.plant}; {problem.contexts}. In use: {problem.in_use} "
            f"({problem.source}). File: `examples/zoo/{name}.py`.",
            "| question | constant | interpolated |\n|---|---|---|\n"
            + "\n".join(
                f"| `{r['ask']}` | {number(r['constant'])} | "
                f"{' × '.join(map(str, r.get('shape', ['–'])))} |"
                for r in records
            ),
        ]
        parts.append("\n\n".join(lines))
    return "\n\n".join(parts)


def draw(answers: dict[str, tuple[Problem, list[dict]]], path: Path) -> None:
    """Draw number against tolerance for all plants."""
    figure, axes = plt.subplots(figsize=(8.5, 5.2), layout="constrained")
    colours = [plt.get_cmap("tab10")(k) for k in range(10)]
    for colour, (name, (problem, records)) in zip(
        colours, answers.items(), strict=False
    ):
        order = sorted(records, key=lambda r: r["tolerance"])
        x = [100 * r["tolerance"] for r in order]
        y = [r["constant"][1] for r in order]
        axes.plot(x, y, "-o", color=colour, label=problem.plant, markersize=5)
        if "interpolated" in order[0]:
            y = [r["interpolated"][1] for r in order]
            axes.plot(x, y, ":s", color=colour, markerfacecolor="none", markersize=7)
        law = getattr(importlib.import_module(name), "law", None)
        if law is not None:
            t = np.geomspace(0.07, 1.2, 400)
            y = [law((1 + v) ** 2) for v in t]
            axes.plot(100 * t, y, "-", color=colour, alpha=0.35, linewidth=3)
    axes.set(xscale="log", yscale="log")
    axes.set_xlabel(
        "tolerance [%] (of the cost; for gain-only plants of the loop gain)"
    )
    axes.set_ylabel("controllers (filled), vertices (open)")
    axes.xaxis.set_major_formatter("{x:g}")
    ticks = (1, 2, 3, 4, 6, 8, 12, 17)
    axes.set_yticks(ticks, labels=map(str, ticks))
    axes.minorticks_off()
    axes.grid(alpha=0.3)
    figure.legend(loc="outside right upper", fontsize=8, frameon=False)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=150)


def main(folder: Path, names: tuple[str, ...] = NAMES) -> None:
    begin = time.perf_counter()
    answers = {}
    for count, name in enumerate(names):
        print(f"[{count + 1}/{len(names)}] {name}", flush=True)
        problem: Problem = importlib.import_module(name).PROBLEM
        answers[name] = problem, stored(problem, Path("runs/zoo"), print)
    draw(answers, folder / "images" / "zoo.png")
    page = PAGE.format(table=table(answers), plants=plants(answers))
    (folder / "zoo.md").write_text(page)
    print(f"{folder / 'zoo.md'}: {time.perf_counter() - begin:.0f} s")


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "docs"))
