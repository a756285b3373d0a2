# pyright: reportAttributeAccessIssue=false, reportIndexIssue=false, reportArgumentType=false
# pyright: reportCallIssue=false, reportOptionalMemberAccess=false
"""Figures of interpolated schedules show breakpoints, losses and counts."""

import numpy as np
import pytest

import taskspace as ts
from taskspace.errors import InvalidInputError

MSD = ts.systems.MassSpringDamper()


def study_of(space):
    return ts.evaluate(MSD, ts.trainers.Lqr(), space)


def labelled(axes, word):
    return [line for line in axes.lines if str(line.get_label()).startswith(word)]


def regret(table, **context):
    """The loss of the interpolated gain, from the system alone."""
    row = MSD.contexts(ts.Grid(**{name: [x] for name, x in context.items()}))
    gain = ts.policies.LinearGain(table(context).gain[None, None])
    return float(MSD.optimum(row)[0] - MSD.performance(gain, row)[0, 0, 0])


def test_a_map_has_breakpoints_as_lines_the_worst_context_and_the_contour():
    study = study_of(ts.Grid(k=(0.1, 8.0, 9), c=ts.Axis("c", 0.1, 8.0, 7, scale="log")))
    found = ts.schedule(study, "regret <= 0.3", constant_pieces=False)
    figure = ts.show.schedule(study, found)
    axes, bar = figure.axes
    assert (axes.get_xscale(), axes.get_yscale()) == ("linear", "log")
    lines = labelled(axes, "breakpoints")
    upright = [line.get_xdata()[0] for line in lines if line.get_ydata()[1] == 1]
    level = [line.get_ydata()[0] for line in lines if line.get_xdata()[1] == 1]
    assert upright == found.breakpoints["k"].tolist()
    assert level == found.breakpoints["c"].tolist()
    assert bar.get_ylim()[1] == pytest.approx(0.3)
    (star,) = labelled(axes, "largest loss")
    k, c = star.get_xdata()[0], star.get_ydata()[0]
    drawn = axes.collections[0].get_array()
    assert drawn.max() == pytest.approx(regret(found, k=k, c=c))
    assert found.worst <= drawn.max() * (1 + 1e-12)
    assert not labelled(axes, "loss = ε")  # it serves everywhere
    stricter = ts.show.schedule(study, found, "regret <= 0.05").axes[0]
    (masked,) = [c.get_array() for c in stricter.collections if c.get_array().ndim == 2]
    assert masked.mask.any()
    assert masked.max() <= 0.05
    assert len(labelled(stricter, "loss = ε")) == 1


def test_one_axis_has_the_loss_above_and_the_numbers_below():
    study = study_of(ts.Grid(k=(0.1, 8.0, 20)))
    found = ts.schedule(study, "regret <= 0.005", constant_pieces=False)
    top, bottom = ts.show.schedule(study, found).axes
    at = found.breakpoints["k"].tolist()
    for axes in (top, bottom):
        assert [line.get_xdata()[0] for line in labelled(axes, "breakpoints")] == at
    assert labelled(top, "ε")[0].get_ydata()[0] == 0.005
    x, losses = top.lines[0].get_data()
    for i in (0, 100, 250, len(x) - 1):
        assert losses[i] == pytest.approx(regret(found, k=x[i]), abs=1e-12)
    (first,) = labelled(bottom, "K[1,1]")
    kept = np.isin(first.get_xdata(), at)
    assert first.get_ydata()[kept].tolist() == found.gains[:, 0].tolist()


def test_a_schedule_of_three_axes_or_of_others_is_refused():
    axes = {name: [1.0] for name in "kcm"}
    found = ts.Schedule.of_gains(axes, np.ones((1, 1, 1, 1, 2)))
    study = study_of(ts.Grid(k=(0.1, 8, 3), c=(0.1, 8, 3), m=(0.5, 2, 3)))
    with pytest.raises(InvalidInputError, match="one or two axes that vary"):
        ts.show.schedule(study, found, "regret <= 5")
    with pytest.raises(InvalidInputError, match="axes of the study"):
        ts.show.schedule(study_of(ts.Grid(k=(0.1, 8, 3))), found, "regret <= 5")
    table = ts.Schedule.of_gains({"k": [1.0]}, [[[1.0, 1.0]]])
    with pytest.raises(InvalidInputError, match="needs a question"):
        ts.show.schedule(study_of(ts.Grid(k=(0.1, 8, 3))), table)


def test_a_profile_of_one_axis_is_that_of_single_questions():
    study = study_of(ts.Grid(k=(0.1, 8.0, 12)))
    epsilons = [1e-9, 0.001, 0.01, 0.1]
    profile = ts.schedules.schedule_profile(study, "regret", epsilons)
    assert profile.sizes[0] is None  # no schedule at all
    for epsilon, size, point in zip(
        epsilons[1:], profile.sizes[1:], profile.constant[1:], strict=True
    ):
        found = ts.schedule(study, f"regret <= {epsilon}")
        assert found.size == size
        if found.constant_pieces is not None:
            assert found.constant_pieces == (point.lower, point.upper)
    with pytest.raises(InvalidInputError, match="finite numbers"):
        ts.schedules.schedule_profile(study, "regret", [])
