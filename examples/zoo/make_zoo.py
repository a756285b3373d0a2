"""Compute the whole zoo, and write its table and its figure.

    python examples/zoo/make_zoo.py [FOLDER]

Numbers go to runs/zoo, a file per plant; what is there for the same code is not
computed again. The table is FOLDER/zoo.md, the figure FOLDER/images/zoo.png, and each
plant has a picture FOLDER/images/zoo-NAME.png; FOLDER is docs by default.
"""

import importlib
import sys
import time
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.ticker import LogLocator, MaxNLocator
from problem import Problem, number, stored

NAMES = (
    "reactor", "turbine", "car", "carts", "carts_two", "missile", "quadrotor",
    "unicycle", "pressure", "wing",
)  # fmt: skip
PAGE = """# The zoo: how many controllers do published problems need?

Ten problems from the literature, or from tools that people use: the number of
controllers in use today beside what `taskspace` answers. A plant is a file in
`examples/zoo`. It states the formulas, the range, the source, and where the published
problem differs from ours. `make zoo` makes this page and its pictures.

{table}

- *in use*: {sources}.
- *constant*: the fewest of the candidates that serve every context of the grid, one
  gain per context: the proven minimum for this table, unless a lower bound is given.
- *interpolated*: the fewest breakpoints of a table whose gains are interpolated, from
  the same candidates or an even choice of them; tested at the grid and between its
  points.
- *any design*: designed gains in place of candidates, and a bound over all gains.
- *proven for every context*, not only for those of the grid. A dash: nothing is proven
  between the points, because the demand has a measure that is a function in the
  plant's file, or because the table is given.

![Number of controllers against the tolerance](images/zoo.png)

*The complexity of a plant: how many constant gains (filled) and how many interpolated
breakpoints (open) the range needs, against the tolerance. Thick pale lines, for the two
plants in which only the gain changes: the law ⌈ln range / ln f⌉, where f is the highest
over the lowest loop gain that a controller serves, here (1 + tolerance)².*

Vehicles, turbines and aircraft need few controllers. Lightly damped resonances whose
frequency moves need many.
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
        proven.append(f"{record['proven_constant']} constant")
    if record.get("proven_interpolated"):
        proven.append("the interpolated table")
    standing = " and ".join(proven) or "–"
    if proven and problem.prove:
        standing += f", for `{problem.prove}`"
    design = number(record["any_design"]) if "any_design" in record else "–"
    return [
        f"[{problem.plant}](../examples/zoo/{problem.name}.py), {problem.contexts}",
        problem.demand,
        problem.in_use,
        number(record["constant"], record["candidates"]),
        interpolated,
        design,
        standing,
    ]


def table(answers: dict[str, tuple[Problem, list[dict]]]) -> str:
    """Return the table of all plants."""
    head = "plant, range|demand|in use|constant|interpolated|any design|"
    head += "proven for every context"
    rows = [head.split("|"), ["---"] * 7]
    rows += [cell(problem, records[0]) for problem, records in answers.values()]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


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
        "tolerance [%] of the cost (reactor: crossover; gain-only plants: loop gain)"
    )
    axes.set_ylabel("controllers (filled), breakpoints (open)")
    axes.xaxis.set_major_formatter("{x:g}")
    ticks = (1, 2, 3, 4, 6, 8, 12, 17)
    axes.set_yticks(ticks, labels=map(str, ticks))
    axes.minorticks_off()
    axes.grid(alpha=0.3)
    figure.legend(loc="outside right upper", fontsize=8, frameon=False)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=150)


def draw_plant(problem: Problem, records: list[dict], path: Path) -> None:
    """Draw one plant: where its controllers are used, and how many it needs."""
    drawn = records[0]["drawn"]
    n_axes = len(drawn["contexts"])
    height = 3.4 if "dense" in drawn or n_axes > 1 else 2.4
    figure = plt.figure(figsize=(8.5, height), layout="constrained")
    if n_axes > 2:
        axes = figure.add_subplot()
    else:
        left, right = figure.subfigures(1, 2, squeeze=False, width_ratios=(2, 1))[0]
        axes = right.add_subplot()
        (draw_strips if n_axes == 1 else draw_map)(left, problem, records[0])
    order = sorted(records, key=lambda r: r["tolerance"])
    x = [100 * r["tolerance"] for r in order]
    axes.plot(x, [r["constant"][1] for r in order], "-o", label="constant")
    if problem.interpolate:
        y = [r["interpolated"][1] for r in order]
        axes.plot(x, y, ":s", markerfacecolor="none", label="interpolated")
    axes.set(xscale="log", xlabel="tolerance [%]", ylabel="controllers, breakpoints")
    axes.set_xticks(x, labels=[f"{v:g}" for v in x])
    axes.minorticks_off()
    axes.set_ylim(bottom=0)
    axes.yaxis.set_major_locator(MaxNLocator(integer=True))
    axes.grid(alpha=0.3)
    axes.legend(fontsize=8, frameon=False)
    figure.savefig(path, dpi=120)
    plt.close(figure)


def draw_strips(figure, problem: Problem, record: dict) -> None:
    """Draw the range of one axis: controllers in use, constant and interpolated."""
    drawn = record["drawn"]
    [(name, x)] = drawn["contexts"].items()
    has_losses = "dense" in drawn
    panels = figure.subplots(
        1 + has_losses,
        1,
        sharex=True,
        squeeze=False,
        height_ratios=(2, 3)[: 1 + has_losses],
    )
    top = panels[0, 0]
    rows = []
    if problem.used_at:
        rows.append(f"in use: {len(problem.used_at)}")
        top.plot(
            problem.used_at,
            [0] * len(problem.used_at),
            "k|",
            markersize=12,
            clip_on=False,
        )
    edges = [x[0], *((np.array(x[1:]) + x[:-1]) / 2), x[-1]]
    for colour, source in enumerate(drawn["sources"]):
        fill = plt.get_cmap("tab10")(colour % 10)
        for k, served_by in enumerate(drawn["assignment"]):
            if served_by == source:
                width = edges[k + 1] - edges[k]
                top.barh(len(rows), width, 0.6, edges[k], color=fill, alpha=0.45)
        top.plot(x[source], len(rows), "o", color=fill)
    rows.append(f"constant: {len(drawn['sources'])}")
    if "breakpoints" in record:
        at = record["breakpoints"][name]
        top.plot(
            at, [len(rows)] * len(at), "k-s", markerfacecolor="white", clip_on=False
        )
        rows.append(f"interpolated: {len(at)}")
    top.set(yticks=range(len(rows)), yticklabels=rows, ylim=(len(rows) - 0.4, -0.6))
    if has_losses:
        axes = panels[1, 0]
        scale = 100 if record["ask"].startswith("ratio") else 1
        for kind, style in (("constant", "-"), ("interpolated", ":")):
            if f"{kind}_loss" in drawn:
                y = scale * np.array(drawn[f"{kind}_loss"])
                axes.plot(drawn["dense"], y, style, color="C0", label=kind)
        first = record["ask"].partition(" and ")[0]
        limit = float(first.split()[2])
        axes.axhline(limit, color="C3", linestyle="--", label="allowed")
        words = first.split("(")[0].split()[0].replace("_", " ")
        axes.set_ylabel("cost above optimum [%]" if scale == 100 else words, fontsize=9)
        bottom, highest = axes.get_ylim()
        axes.set_ylim(top=highest + 0.25 * (highest - bottom))
        axes.legend(fontsize=8, frameon=False, ncols=3, loc="upper center")
    top.set_xlim(x[0], x[-1])
    panels[-1, 0].set_xlabel(problem.contexts)
    if x[0] > 0 and abs(x[1] / x[0] - x[-1] / x[-2]) < 1e-9:
        top.set_xscale("log")
        top.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        top.xaxis.set_major_formatter("{x:g}")
        top.minorticks_off()


def draw_map(figure, problem: Problem, record: dict) -> None:
    """Draw the range of two axes: who serves what, and the breakpoints."""
    drawn = record["drawn"]
    (one, x), (two, y) = drawn["contexts"].items()
    colours = {s: plt.get_cmap("tab10")(k % 10) for k, s in enumerate(drawn["sources"])}
    axes = figure.add_subplot()
    axes.scatter(
        x, y, s=60, marker="s", c=[colours[s] for s in drawn["assignment"]], alpha=0.45
    )
    at = drawn["sources"]
    axes.scatter(
        np.array(x)[at],
        np.array(y)[at],
        c=list(colours.values()),
        edgecolors="black",
        label=f"constant: {len(at)}",
    )
    grid = record["breakpoints"]
    mesh = np.meshgrid(grid[one], grid[two])
    axes.plot(
        *(values.ravel() for values in mesh),
        "ks",
        markerfacecolor="none",
        markersize=11,
        label=f"interpolated: {' × '.join(map(str, record['shape']))}",
    )
    axes.set(xlabel=f"{one} ({problem.contexts})", ylabel=two)
    figure.legend(loc="outside upper center", fontsize=8, frameon=False, ncols=2)


def main(folder: Path, names: tuple[str, ...] = NAMES) -> None:
    begin = time.perf_counter()
    answers = {}
    for count, name in enumerate(names):
        print(f"[{count + 1}/{len(names)}] {name}", flush=True)
        problem: Problem = importlib.import_module(name).PROBLEM
        answers[name] = problem, stored(problem, Path("runs/zoo"), print)
    draw(answers, folder / "images" / "zoo.png")
    for name, (problem, records) in answers.items():
        draw_plant(problem, records, folder / "images" / f"zoo-{name}.png")
    sources = "; ".join(
        f"{p.name.replace('_', ' ')}: {p.source}" for p, _ in answers.values()
    )
    page = PAGE.format(table=table(answers), sources=sources)
    (folder / "zoo.md").write_text(page)
    print(f"{folder / 'zoo.md'}: {time.perf_counter() - begin:.0f} s")


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "docs"))
