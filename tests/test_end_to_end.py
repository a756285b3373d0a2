"""The whole of `taskspace run cartpole`, on 2 × 2 contexts."""

import json

import numpy as np

from taskspace.runs.execute import run_experiment
from taskspace.runs.experiment import load_experiment
from taskspace.runs.folder import RunFolder

SMALL = [
    "space.n=2",
    "system.n_episodes=4",
    "system.horizon=50",
    "trainer.n_policies=2",
    "trainer.total_steps=2048",
    "trainer.evaluate_every=1024",
    "cover.n_repeats=5",
    "cover.time_limit=2.0",
]


def test_small_run_and_its_repetition(tmp_path):
    experiment = load_experiment("cartpole", SMALL)
    result = run_experiment(experiment, tmp_path / "run", workers=0)
    store = RunFolder.open(tmp_path / "run")
    table = store.table()
    performance = table["performance"].values
    assert performance.shape == (4, 2, 4)
    assert (performance >= 1).all()
    assert (performance <= 50).all()
    # J is the mean of the returns that are kept beside it, also at home.
    returns = table["returns"].values
    np.testing.assert_allclose(performance, returns.astype(float).mean(-1))
    home = np.stack([performance[i, :, i] for i in range(4)])
    np.testing.assert_allclose(table["home_performance"].values, home)
    assert (table["environment_steps"].values % 1024 == 0).all()
    assert table.attrs["provenance"] == "sampled"
    assert table.attrs["n_episodes"] == 4
    np.testing.assert_allclose(
        table["standard_error"].values, returns.astype(float).std(-1, ddof=1) / 2
    )
    found = result.results.to_dict()
    asked = {cover["ask"].split()[0] for cover in found["covers"]}
    assert asked == {"signed", "regret"}
    # The same experiment elsewhere ends in the same results.
    again = run_experiment(experiment, tmp_path / "again", workers=0)
    assert json.dumps(again.results.to_dict()) == json.dumps(found)
