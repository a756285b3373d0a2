"""Figures: the records behind them hold the truth, and the pictures exist."""

import json

import numpy as np
import pytest

from taskspace.runs import load_experiment, run_experiment
from taskspace.show import context_map, coverage_plot, save_figures
from taskspace.show.figures import _colour_sources


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    options = ["space.n=9", "cover.n_repeats=7", "trainer.n_policies=2"]
    experiment = load_experiment("msd", options)
    path = tmp_path_factory.mktemp("run") / "msd"
    return experiment, run_experiment(experiment, path).results


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
        record = context_map(experiment, answer, labels)
        assert record.shape == [9, 9]
        assert record.labels == ["spring stiffness k [N/m]", "damping c [N s/m]"]
        assert len(record.sources) == cover.size
        served = np.array(record.assignment)
        source_of = np.array([*cover.sources, -1])
        np.testing.assert_array_equal(source_of[served], cover.assignment)


def test_no_map_beyond_two_axes(tmp_path):
    experiment = load_experiment("msd", ["space.m=[0.5, 2.0, 2]", "space.n=3"])
    result = run_experiment(experiment, tmp_path / "run")
    assert context_map(experiment, result.results.covers[0], {}) is None


def test_touching_regions_have_different_colours():
    rng = np.random.default_rng(0)
    region = np.kron(rng.integers(-1, 6, (6, 6)), np.ones((4, 4), int))
    entry = _colour_sources(region, 6)
    colour = entry[region]
    assert (colour[region < 0] == 0).all()
    assert (colour[region >= 0] > 0).all()
    for a, b, ca, cb in (
        (region[1:], region[:-1], colour[1:], colour[:-1]),
        (region[:, 1:], region[:, :-1], colour[:, 1:], colour[:, :-1]),
    ):
        assert ((ca != cb) | (a == b)).all()


def test_files_are_written_and_repeat(finished, tmp_path):
    experiment, results = finished
    axes = [{"name": "k", "label": "k [N/m]"}, {"name": "c", "label": "c"}]
    first = save_figures(experiment, results, {"axes": axes}, tmp_path / "a")
    save_figures(experiment, results, {"axes": axes}, tmp_path / "b")
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
