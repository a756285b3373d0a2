# pyright: reportAttributeAccessIssue=false, reportIndexIssue=false, reportArgumentType=false
# pyright: reportCallIssue=false, reportOptionalMemberAccess=false
"""Figures show what the answers say, and the pictures exist."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import taskspace as ts
from taskspace.runs import load_experiment, run_experiment
from taskspace.show.curves import draw_run, run_coverage
from taskspace.show.maps import axes_of, cell_edges
from taskspace.show.regions import boxes_title
from taskspace.show.style import colour, colour_numbers, ink, title_of, touching_sources


@pytest.fixture(scope="module")
def run_path(tmp_path_factory):
    return tmp_path_factory.mktemp("run") / "msd"


@pytest.fixture(scope="module")
def finished(run_path):
    options = ["space.n=6", "cover.n_repeats=4", "trainer.n_policies=2"]
    experiment = load_experiment("msd", options)
    return experiment, run_experiment(experiment, run_path).results


def lines_of(axes):
    """The lines of a panel by label: x and y."""
    return {
        str(line.get_label()): (list(line.get_xdata()), list(line.get_ydata()))
        for line in axes.lines
    }


def test_the_coverage_of_a_run_is_that_of_its_covers(finished):
    experiment, results = finished
    figure = run_coverage(results, experiment.ask)
    n = len(experiment.ask)
    for column, question in enumerate(experiment.ask):
        top, bottom = (lines_of(figure.axes[i]) for i in (column, n + column))
        cover, best = (
            a
            for a in results.covers
            if a.question == question and a.method in ("greedy", "minimum")
        )
        assert (top["greedy"][0][-1], top["greedy"][1][-1]) == (
            cover.size,
            cover.coverage,
        )
        assert top[f"minimum: {best.size}"] == ([best.size], [best.coverage])
        bound = max(a.lower_bound for a in results.covers
                    if a.question == question)  # fmt: skip
        assert top[f"proven: at least {bound:g}"][0] == [bound, bound]
        # An oracle trains everything; the others what they select.
        assert bottom["greedy, of all 72"][0] == [36 * 2]
        assert bottom["random"][0] == [2 * n for n in top["random"][0]]


def test_a_map_has_the_axes_and_sources_of_its_cover(finished, run_path):
    _, results = finished
    study = ts.open(run_path)
    for answer in results.covers:
        (axes,) = ts.show.map(study, answer).axes
        assert axes.get_xlabel() == "spring stiffness k [N/m]"
        assert axes.get_ylabel() == "damping c [N s/m]"
        marks = [line.get_xydata()[0].tolist() for line in axes.lines]
        assert marks == study.sources.points[answer.sources].tolist()
        numbers = [text.get_text() for text in axes.texts]
        assert numbers == [str(i + 1) for i in range(answer.size)]


def touching(region):
    """Pairs of cells that touch, along an axis or at a corner of a plane."""
    for axis in range(region.ndim):
        moved = np.moveaxis(region, axis, 0)
        yield moved[1:], moved[:-1]
    if region.ndim == 2:
        yield region[1:, 1:], region[:-1, :-1]
        yield region[1:, :-1], region[:-1, 1:]


@pytest.mark.parametrize(("shape", "n"), [((6, 6), 6), ((12, 12), 90), ((4, 5, 6), 40)])
def test_touching_regions_have_different_colours(shape, n):
    rng = np.random.default_rng(0)
    region = rng.integers(-1, n, shape)
    numbers = np.array([*colour_numbers(touching_sources(region, n)), -1])
    for a, b in touching(region):
        touch = (a != b) & (a >= 0) & (b >= 0)
        assert (numbers[a] != numbers[b])[touch].all()
    used = {colour(int(i)) for i in numbers[:-1]}
    assert len(used) == len(set(numbers[:-1].tolist()))


def test_colours_do_not_end_and_can_be_written_on():
    colours = [colour(i) for i in range(200)]
    assert len(set(colours)) == 200

    def light(hex_colour):
        parts = np.array([int(hex_colour[i : i + 2], 16) for i in (1, 3, 5)]) / 255
        linear = np.where(
            parts <= 0.04045, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4
        )
        return linear @ [0.2126, 0.7152, 0.0722]

    for back in colours:
        low, high = sorted([light(back), light(ink(back))])
        assert (high + 0.05) / (low + 0.05) >= 4.5


@pytest.mark.parametrize(
    "space",
    [
        ts.Grid(k=(0.1, 8.0, 9)),
        ts.Grid(k=(0.1, 8.0, 5, "log"), c=(0.1, 8.0, 4)),
        ts.Grid(k=(0.1, 8.0, 3), c=(0.1, 8.0, 4), m=(0.5, 2.0, 3)),
        ts.Points(["k", "c"], [[0.5, 1.0], [3.0, 0.2], [7.0, 7.0], [1.0, 4.0]]),
        ts.Points(["k", "c", "m"], [[0.5, 1.0, 1.0], [3.0, 0.2, 2.0], [7, 7, 0.5]]),
    ],
    ids=["strip", "plane", "slices", "dots", "dots in space"],
)
def test_a_map_in_one_line_stays_inside_its_range(space):
    trainer = ts.trainers.Lqr(n_policies=1, noise=0.0)
    table = ts.evaluate(ts.systems.MassSpringDamper(), trainer, space, seed=0).table
    cover = ts.greedy_cover(ts.Question("regret", "worst", epsilon=0.2).sets(table))
    figure = ts.show.map(table, cover)
    records = axes_of(space)
    shown = [axes for axes in figure.axes if axes.get_visible()]
    assert shown
    is_grid = records[0].values is not None
    for axes in shown:
        if is_grid and len(records) == 2:
            for axis, limits in zip(
                records, (axes.get_xlim(), axes.get_ylim()), strict=True
            ):
                assert limits == pytest.approx((axis.low, axis.high))
                edges = cell_edges(np.array(axis.values), axis.scale)
                assert (edges[0], edges[-1]) == (axis.low, axis.high)
    if is_grid:
        scales = {axis.scale for axis in records}
        assert ("log" in scales) == (shown[0].get_xscale() == "log")
    figure.canvas.draw()


def test_a_map_of_another_table_is_refused(finished):
    _, results = finished
    table = ts.performance.table_from_matrix(np.eye(3))
    with pytest.raises(ts.TaskspaceError, match="must be one of this table"):
        ts.show.map(table, results.covers[0])


def test_names_do_not_start_mathematics():
    table = ts.performance.table_from_matrix(
        -np.abs(np.subtract.outer(range(4), range(5))) * 1.0
    )
    table = table.assign_coords(
        source=["$x_", "a^{", "<b>", r"\frac"], target=list("$_^{}")
    )
    question = ts.Question("regret", epsilon=1.0)
    cover = ts.greedy_cover(question.sets(table))
    ts.show.map(table, cover).canvas.draw()


def test_the_profile_copes_with_a_tolerance_of_zero(finished):
    table = ts.performance.table_from_matrix(
        -np.abs(np.subtract.outer(range(9), range(9))) * 1.0
    )
    figure = ts.show.profile(table, ts.Question(epsilon=0.0), time_limit=1.0)
    axes = figure.axes[0]
    assert axes.get_xscale() == "symlog"
    assert axes.get_xlim()[0] == 0
    figure.canvas.draw()


def test_both_renderers_have_the_same_colours():
    import re
    from importlib import resources

    from taskspace.show.style import COLOURS

    folder = resources.files("taskspace.show.page") / "web"
    text = (folder / "colours.js").read_text(encoding="utf-8")
    palette = re.search(r"PALETTE = \[(.*?)\]", text, re.S)[1]
    assert tuple(re.findall(r"#\w{6}", palette)) == COLOURS


def test_axis_names_do_not_start_mathematics():
    space = ts.Grid(**{"$x_": (0.0, 1.0, 4), "a^{$": (0.0, 1.0, 3), "b": (0.0, 1.0, 2)})
    scores = -np.abs(np.subtract.outer(np.arange(24.0), np.arange(24.0)))
    table = ts.performance.table_from_matrix(scores, sources=space, targets=space)
    question = ts.Question("signed", epsilon=3.0)
    cover = ts.greedy_cover(question.sets(table))
    ts.show.map(table, cover).canvas.draw()
    ts.show.tolerance(table, question).canvas.draw()


def test_a_tolerance_set_lies_in_the_plane_of_its_source():
    space = ts.Grid(x=(0.0, 3.0, 4), y=(0.0, 2.0, 3), z=(0.0, 1.0, 2))
    gaps = np.abs(space.points[:, None] - space.points).sum(-1)
    table = ts.performance.table_from_matrix(-gaps, sources=space, targets=space)
    question = ts.Question("regret", epsilon=1.0)
    for source in (0, 13):
        (axes,) = ts.show.tolerance(table, question, source=source).axes
        left_out, served = (np.asarray(c.get_offsets()) for c in axes.collections)
        plane = space.points[:, 2] == space.points[source, 2]
        mine = gaps[source] <= 1.0
        np.testing.assert_array_equal(served, space.points[plane & mine, :2])
        np.testing.assert_array_equal(left_out, space.points[plane & ~mine, :2])


def certified(space, epsilon=0.4, **options):
    """A study of springs and what is certified about it."""
    study = ts.evaluate(ts.systems.MassSpringDamper(), ts.trainers.Lqr(), space)
    question = ts.Question("regret", epsilon=epsilon)
    return study, ts.certify(study, question, time_limit=4.0, **options)


@pytest.mark.parametrize(
    "space",
    [
        ts.Grid(k=(0.5, 8.0, 9)),
        ts.Grid(k=(0.1, 8.0, 8, "log"), c=(0.1, 8.0, 8)),
        ts.Grid(k=(1.0, 8.0, 4), c=(1.0, 8.0, 4), m=(0.8, 1.2, 3)),
    ],
    ids=["strip", "plane", "slices"],
)
def test_touching_boxes_differ_in_colour(space):
    study, result = certified(space)
    figure = ts.show.boxes(study, result)
    figure.canvas.draw()
    assert len(figure.axes) == (3 if len(space.names) == 3 else 1)
    if len(space.names) != 2:
        return
    axes, found = figure.axes[0], result.continuum
    assert (axes.get_xscale(), axes.get_yscale()) == ("log", "linear")
    shade = {}
    faces = np.concatenate([np.asarray(c.get_facecolor()) for c in axes.collections])
    for source, face in zip(found.assignment, faces, strict=True):
        assert shade.setdefault(int(source), tuple(face)) == tuple(face)
    low, high = found.boxes.low, found.boxes.high
    live = low.min(0) < high.max(0)
    for box in range(len(low)):
        touch = (low[:, live] <= high[box, live]) & (high[:, live] >= low[box, live])
        for other in found.assignment[touch.all(1)]:
            if other != found.assignment[box]:
                assert shade[int(other)] != shade[int(found.assignment[box])]


def test_the_title_of_boxes_stays_true():
    _, result = certified(ts.Grid(k=(0.1, 8.0, 8), c=(0.1, 8.0, 8)), 1.0)
    found = result.continuum
    assert boxes_title(found).endswith("on the whole box (proof)")
    halves = np.where(found.boxes.low[:, 0] < 1, 1, 0).astype(np.int8)
    part = replace(found, status=halves)
    said = float(boxes_title(part).split(" on ")[1].split(" %")[0])
    assert 0 < said <= 100 * part.share(0) < 100
    none = replace(part, status=np.ones_like(halves))
    assert boxes_title(none).endswith("is certified nowhere in the box")


def test_the_picture_of_a_design_shows_every_target_once():
    space = ts.Grid(k=(0.1, 8.0, 4), c=(0.1, 8.0, 4))
    system = ts.systems.MassSpringDamper()
    made = ts.design(system, space, "regret <= 0.5", time_limit=5.0)
    (axes,) = ts.show.gains(made).axes
    drawn = np.concatenate([np.asarray(c.get_offsets()) for c in axes.collections])
    optimal = system.optimal_gain(system.contexts(space))[0].reshape(-1, 2)
    assert sorted(drawn.tolist()) == sorted(optimal.tolist())
    stars = [line.get_xydata()[0].tolist() for line in axes.lines[1:]]
    assert stars == made.gains.reshape(-1, 2).tolist()


def test_a_long_tolerance_is_rounded_to_the_true_side():
    for text in ("regret <= 0.123456789", "score >= 0.123456789"):
        question = ts.Question(text)
        shown = ts.Question(title_of(question).replace("≤", "<=").replace("≥", ">="))
        assert 0 <= shown.epsilon - question.epsilon < 2e-6
    assert title_of(ts.Question("regret <= 0.2")) == "regret ≤ 0.2"


def test_every_figure_of_a_run_is_drawn(small_run, tmp_path):
    study, question = ts.open(small_run), ts.Question("regret", epsilon=0.5)
    cover = ts.minimum_cover(study, question, time_limit=4.0)
    for name, figure in (
        ("map", ts.show.map(study, cover)),
        ("coverage", ts.show.coverage(study, question)),
        ("profile", ts.show.profile(study, question, time_limit=4.0)),
        ("transfer", ts.show.transfer(study, question, cover=cover)),
        ("tolerance", ts.show.tolerance(study, question)),
        ("boxes", ts.show.boxes(study, ts.certify(study, question, time_limit=4.0))),
    ):
        figure.savefig(tmp_path / f"{name}.png")
        assert (tmp_path / f"{name}.png").read_bytes().startswith(b"\x89PNG")


def test_every_figure_of_a_matrix_is_drawn(tmp_path):
    scores = -np.abs(np.subtract.outer(np.arange(6.0), np.arange(6.0)))
    study, question = ts.study_from(scores), ts.Question("regret", epsilon=1.0)
    for name, figure in (
        ("map", ts.show.map(study, ts.minimum_cover(study, question))),
        ("coverage", ts.show.coverage(study, question, methods=("greedy", "random"))),
        ("profile", ts.show.profile(study, question, time_limit=1.0)),
        ("transfer", ts.show.transfer(study, question)),
    ):
        figure.savefig(tmp_path / f"{name}.svg")
        assert (tmp_path / f"{name}.svg").read_text().startswith("<?xml")


def test_files_are_written_and_repeat(finished, run_path):
    _, results = finished
    first = draw_run(run_path, results)
    assert {file.name for file in first} == {
        "coverage.png", "map-signed-worst-0.2.png", "map-regret-worst-0.2.png",
    }  # fmt: skip
    folder = run_path / "figures"
    before = {file.name: file.read_bytes() for file in folder.iterdir()}
    assert {Path(name).suffix for name in before} == {".png", ".pdf"}
    assert all(before[f.name].startswith(b"\x89PNG") for f in first)
    (folder / "coverage.pdf").write_bytes(b"damaged")
    assert draw_run(run_path, results) == first
    assert {f.name: f.read_bytes() for f in folder.iterdir()} == before
