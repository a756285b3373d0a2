"""A table is as good as the weakest of its parts, and what is made of it says so."""

import json
import warnings

import numpy as np
import pytest
import typer
import xarray as xr
from typer.testing import CliRunner

import taskspace as ts
from taskspace.certificates import certify
from taskspace.cli.commands.profile import profile as profile_command
from taskspace.cover import complexity_profile
from taskspace.errors import UnknownNameError
from taskspace.performance import provenance_of

RNG = np.random.default_rng(3)
SPACE = ts.Points(["x"], [0.0, 1.0, 2.0])


def made(provenance, errors=None):
    return ts.performance.table_from_matrix(
        RNG.normal(size=(3, 3)), sources=SPACE, targets=SPACE, provenance=provenance,
        standard_error=errors,
    )  # fmt: skip


EXACT, GIVEN = made("exact"), made("given")
SAMPLED, MEANS = made("sampled"), made("sampled", np.ones((3, 3)))


@pytest.fixture(params=[True, False], ids=["new defaults", "old defaults"])
def defaults(request):
    """Both ways in which xarray joins what is not told how to be joined."""
    with (
        xr.set_options(use_new_combine_kwarg_defaults=request.param),
        warnings.catch_warnings(),
    ):
        warnings.simplefilter("ignore", FutureWarning)
        yield


@pytest.mark.usefixtures("defaults")
def test_what_was_made_by_one_stays_what_it_is():
    for table, word in ((EXACT, "exact"), (GIVEN, "given"), (SAMPLED, "sampled")):
        assert provenance_of(table) == word
        for part in (
            table.isel(source=[0, 2]),
            table.isel(target=slice(2)),
            table.sel(source=[1]),
            table.copy(deep=True),
            xr.concat([table, table], "source"),
            table.assign_attrs(best_known_kind="stated"),
            table.assign_coords(source_kind=("source", ["a", "b", "c"])),
        ):
            assert provenance_of(part) == word
    with pytest.raises(UnknownNameError, match="Did you mean 'exact'"):
        provenance_of(EXACT.assign_attrs(provenance="exat"))


JOINED = {
    "rows": lambda a, b: xr.concat([a, b], "source"),
    "columns": lambda a, b: xr.concat([a, b], "target"),
    "nested": lambda a, b: xr.combine_nested([a, b], "source"),
    "where": lambda a, b: a.where(a["performance"] > 0, b),
    "xr.where": lambda a, b: xr.where(a["performance"] > 0, a, b),
    "fillna": lambda a, b: a.where(a["performance"] > 0).fillna(b),
    "combine_first": lambda a, b: a.combine_first(b),
    "sum": lambda a, b: a + b,
    "assign": lambda a, b: a.assign(performance=b["performance"]),
    "merge": lambda a, b: xr.merge(
        [a.drop_vars("performance"), b[["performance"]]], compat="override"
    ),
}


@pytest.mark.usefixtures("defaults")
@pytest.mark.parametrize("join", JOINED.values(), ids=JOINED)
@pytest.mark.parametrize(
    "other", [GIVEN, SAMPLED, MEANS], ids=["given", "sampled", "means"]
)
def test_a_table_of_several_is_as_weak_as_the_weakest(join, other):
    if other is MEANS and join not in (JOINED["rows"], JOINED["columns"]):
        pytest.skip("xarray refuses tables with different variables")
    for first, second in ((EXACT, other), (other, EXACT)):
        assert provenance_of(join(first, second)) != "exact"
    # Negative control: the attribute alone passes for exact.
    if join in (JOINED["rows"], JOINED["assign"]):
        assert join(EXACT, other).attrs["provenance"] == "exact"


def test_numbers_of_ones_own_are_given():
    cells = ("source", "policy", "target"), RNG.normal(size=(3, 1, 3))
    assert provenance_of(EXACT.assign(performance=cells)) == "given"
    bare = xr.Dataset({"performance": cells}, attrs={"provenance": "exact"})
    assert provenance_of(bare) == "given"


def test_a_joined_table_proves_nothing():
    joined = xr.concat(
        [EXACT, MEANS], "source", data_vars="minimal", coords="minimal",
        compat="override",
    )  # fmt: skip
    assert joined.attrs["provenance"] == "exact"
    question = ts.Question("floor", epsilon=10.0)
    kinds = {
        word: certify(table, question, time_limit=2)["grid cover"].kind
        for word, table in (
            ("exact", EXACT),
            ("joined", joined),
        )
    }
    assert kinds == {"exact": "proof", "joined": "estimate"}


# --- profiles -------------------------------------------------------------------------

WORDS = {
    "exact": "",
    "sampled": " on the estimated table",
    "given": " on the given table",
}


@pytest.mark.parametrize("word", WORDS)
def test_a_profile_says_what_it_is_of(word, tmp_path):
    table = {"exact": EXACT, "sampled": MEANS, "given": GIVEN}[word]
    question = ts.Question("regret", epsilon=0.0)
    for points in (
        complexity_profile(ts.Study.of(table), question, epsilons=[0.0, 9.0]),
        complexity_profile(question.losses(table), epsilons=[0.0, 9.0]),
    ):
        assert points.provenance == word
        assert repr(points).splitlines()[0].endswith(f"2 proven{WORDS[word]}")
        axes = ts.show.profile(table, question, points=points).axes[0]
        labels = axes.get_legend_handles_labels()[1]
        assert f"lower bound, proven{WORDS[word]}" in labels
    file = tmp_path / "m.npz"
    ts.performance.write_matrix(table, file)
    app = typer.Typer()
    app.command()(profile_command)
    command = [str(file), "--at", "0,9"]
    told = CliRunner().invoke(app, command)
    assert told.exit_code == 0, told.output
    assert f"2 proven{WORDS[word]}" in " ".join(told.stdout.split())
    record = CliRunner().invoke(app, [*command, "--format", "json"])
    assert {p["provenance"] for p in json.loads(record.stdout)} == {word}


def test_a_plain_matrix_is_given():
    points = complexity_profile(np.zeros((2, 2)), epsilons=[0.0])
    assert points.provenance == "given"
