"""Figures: the records behind them hold the truth, and the pictures exist."""

import json

import numpy as np
import pytest

import taskspace as ts
from taskspace.errors import InvalidInputError
from taskspace.runs import Experiment, load_experiment, run_experiment, run_selection
from taskspace.show.figures.boxes import BoxMap, draw_box_map
from taskspace.show.figures.coverage import coverage_plot, save_figures
from taskspace.show.figures.map import _edges, context_map
from taskspace.show.figures.price import PricePoint, draw_prices, unbeaten
from taskspace.show.figures.tolerance import table_balls, tolerance_plot
from taskspace.show.style import colour, colour_numbers, ink, touching_sources


@pytest.fixture(scope="module")
def run_path(tmp_path_factory):
    return tmp_path_factory.mktemp("run") / "msd"


@pytest.fixture(scope="module")
def finished(run_path):
    options = ["space.n=9", "cover.n_repeats=7", "trainer.n_policies=2"]
    experiment = load_experiment("msd", options)
    return experiment, run_experiment(experiment, run_path).results


@pytest.fixture(scope="module")
def small_run(tmp_path_factory):
    path = tmp_path_factory.mktemp("run") / "msd"
    options = ["space.n=6", "cover.n_repeats=2", "trainer.n_policies=1"]
    run_experiment(load_experiment("msd", options), path)
    return path


def test_coverage_record_says_what_the_covers_say(finished):
    experiment, results = finished
    for question in experiment.questions:
        plot = coverage_plot(results, question)
        assert [curve.method for curve in plot.curves] == [
            "greedy",
            "uniform",
            "random",
        ]
        greedy = plot.curves[0]
        cover, best = (
            a.cover
            for a in results.covers
            if a.question == question and a.cover.method in ("greedy", "minimum")
        )
        assert greedy.n_sources[-1] == cover.size
        assert greedy.coverage[-1] == cover.coverage
        assert plot.lower_bound <= cover.size
        assert plot.covers == [("minimum", best.size, best.coverage)]
        assert best.size <= cover.size
        # An oracle trains everything; the others what they select.
        assert set(greedy.trainings) == {81 * 2}
        assert plot.curves[2].trainings == [2 * n for n in plot.curves[2].n_sources]


def test_context_map_names_a_server_of_every_target(finished):
    experiment, results = finished
    labels = {axis.name: axis.label for axis in experiment.built_system.axes}
    for answer in results.covers:
        cover = answer.cover
        record = context_map(
            experiment.target_space, experiment.sources, cover, labels=labels
        )
        assert record.shape == [9, 9]
        assert [axis.label for axis in record.axes] == [
            "spring stiffness k [N/m]",
            "damping c [N s/m]",
        ]
        assert len(record.sources) == cover.size
        served = np.array(record.assignment)
        source_of = np.array([*cover.sources, -1])
        np.testing.assert_array_equal(source_of[served], cover.assignment)


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
    record = context_map(space, space, cover)
    shown = [axes for axes in figure.axes if axes.get_visible()]
    assert shown
    for axes in shown:
        if record.shape is not None and len(record.axes) == 2:
            for axis, limits in zip(
                record.axes, (axes.get_xlim(), axes.get_ylim()), strict=True
            ):
                assert limits == pytest.approx((axis.low, axis.high))
                edges = _edges(axis)
                assert (edges[0], edges[-1]) == (axis.low, axis.high)
    if record.shape is not None:
        scales = {axis.scale for axis in record.axes}
        assert ("log" in scales) == (shown[0].get_xscale() == "log")
    figure.canvas.draw()


def test_a_map_of_another_table_is_refused(finished):
    _, results = finished
    table = ts.performance.table_from_matrix(np.eye(3))
    with pytest.raises(ts.TaskspaceError, match="must be one of this table"):
        ts.show.map(table, results.covers[0].cover)


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
    study = ts.Study.of(table)
    question = ts.Question("regret", epsilon=1.0)
    for source in (0, 13):
        record = tolerance_plot(study, None, question, source)
        inside = space.points[:, 2] == space.points[source, 2]
        assert record.targets == space.points[inside, :2].tolist()
        assert record.served == (gaps[source] <= 1.0)[inside].tolist()
        assert record.inner is None
    balls = table_balls(table, ts.Question("signed", epsilon=1.0))
    with pytest.raises(ts.TaskspaceError, match="Balls are derived"):
        tolerance_plot(study, balls, question, 0)


def box_record(status, assignment, n=4, d=2):
    """An n × … × n lattice of unit boxes."""
    low = np.stack(np.meshgrid(*[np.arange(float(n))] * d, indexing="ij"), -1)
    low = low.reshape(-1, d)
    names = list("xyz"[:d])
    n_sources = max(assignment) + 1
    return BoxMap(
        "boxes", "proof", names, names, low.tolist(), (low + 1).tolist(),
        list(status), list(assignment), [0.1] * len(low),
        np.linspace([0.5] * d, [n - 0.5] * d, n_sources).tolist(),
        list(range(n_sources)),
    )  # fmt: skip


@pytest.mark.parametrize("d", [1, 2, 3])
def test_touching_boxes_differ_in_colour(d):
    rng = np.random.default_rng(d)
    n = 4**d
    assignment = rng.integers(0, 6, n)
    assignment[0] = 5
    status = (rng.uniform(size=n) < 0.2).astype(int)
    record = box_record(status.tolist(), assignment.tolist(), d=d)
    figure = draw_box_map(record)
    figure.canvas.draw()
    assert len(figure.axes) == (3 if d == 3 else 1)
    if d != 2:
        return
    shade = np.full((4, 4, 3), np.nan)
    for part in figure.axes[0].collections:
        faces = np.asarray(part.get_facecolor())
        for path, face in zip(part.get_paths(), np.tile(faces, (n, 1)), strict=False):
            x, y = np.asarray(path.vertices, int)[0]
            shade[x, y] = face[:3]
    who = np.where(status == 0, assignment, -1).reshape(4, 4)
    for a, b in ((np.s_[1:], np.s_[:-1]), (np.s_[:, 1:], np.s_[:, :-1])):
        touch = (who[a] != who[b]) & (who[a] >= 0) & (who[b] >= 0)
        assert touch.any()
        assert (shade[a] != shade[b]).any(-1)[touch].all()


def test_every_figure_of_a_run_is_drawn(small_run, tmp_path):
    study, question = ts.open(small_run), ts.Question("regret", epsilon=0.5)
    cover = ts.minimum_cover(study, question, time_limit=4.0)
    for name, figure in (
        ("map", ts.show.map(study, cover)),
        ("coverage", ts.show.coverage(study, question)),
        ("profile", ts.show.profile(study, question, time_limit=4.0)),
        ("transfer", ts.show.transfer(study, question, cover=cover)),
        ("tolerance", ts.show.tolerance(study, question)),
        ("boxes", ts.show.boxes(ts.certify(study, question, time_limit=4.0), study)),
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


def test_files_are_written_and_repeat(finished, run_path, tmp_path):
    _, results = finished
    study = ts.open(run_path)
    first = save_figures(study, results, tmp_path / "a")
    save_figures(study, results, tmp_path / "b")
    assert {file.name for file in first} == {
        "coverage.png", "map-signed-worst-0.2.png", "map-regret-worst-0.2.png",
    }  # fmt: skip
    for file in sorted((tmp_path / "a").iterdir()):
        assert file.read_bytes() == (tmp_path / "b" / file.name).read_bytes()
        if file.suffix == ".json":
            json.loads(file.read_text())
        if file.suffix == ".png":
            assert file.read_bytes().startswith(b"\x89PNG")
        if file.suffix == ".pdf":
            assert file.read_bytes().startswith(b"%PDF")


def test_prices_join_what_no_other_selection_beats(rng):
    points = [
        PricePoint("a", int(steps), int(kept), bool(whole))
        for steps, kept, whole in zip(
            rng.integers(1, 30, 40),
            rng.integers(1, 9, 40),
            rng.random(40) < 0.7,
            strict=True,
        )
    ]
    whole = [point for point in points if point.covers_all]
    beaten = {
        p
        for p in whole
        for q in whole
        if (q.environment_steps, q.policies) != (p.environment_steps, p.policies)
        and q.environment_steps <= p.environment_steps
        and q.policies <= p.policies
    }
    front = unbeaten(points)
    assert set(front) == set(whole) - beaten
    (axes,) = draw_prices(points).axes
    (line,) = axes.lines
    assert list(np.asarray(line.get_xdata())) == [p.environment_steps for p in front]


def test_prices_of_a_folder_of_selections(tmp_path):
    text = """
        name = "prices"
        seed = 0
        ask = "regret <= 2"
        [system]
        id = "tests.selection.worlds:Line"
        [space]
        x0 = [0.0, 10.0, 11]
        [trainer]
        id = "tests.selection.worlds:Middle"
        steps = 10
        [select]
        selector = "noisy"
        price = PRICE.0
    """
    for number, price in enumerate((0, 10_000)):
        experiment = Experiment.from_toml(text.replace("PRICE", str(price)))
        run_selection(experiment, tmp_path / str(number))
    (axes,) = ts.show.price(tmp_path).axes
    labels = [text.get_text() for text in axes.get_legend().get_texts()]
    assert labels[1:] == ["noisy", "noisy, 10,000 steps per policy"]
    with pytest.raises(InvalidInputError, match="needs selections"):
        ts.show.price(tmp_path / "0")
    text = text.replace('"noisy"', '"farthest"').replace("PRICE", "1")
    with pytest.raises(InvalidInputError, match="used by 'noisy' only"):
        run_selection(Experiment.from_toml(text), tmp_path / "other")
