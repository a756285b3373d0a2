"""The CartPole data of examples/data: table, pilot and policies fit together."""

from pathlib import Path

import numpy as np

import taskspace as ts
from taskspace.certificates.pilot import shortlist
from taskspace.performance import source_space, target_space
from taskspace.policies import Mlp
from taskspace.systems import CartPole

DATA = Path(__file__).parents[1] / "examples" / "data"


def shipped():
    with np.load(DATA / "cartpole_policies.npz") as data:
        arrays = {name: data[name] for name in data.files if name != "sources"}
        sources = data["sources"]
    policies = Mlp.from_arrays(arrays, {"head": "argmax"})
    return sources, policies, ts.performance.read_matrix(DATA / "cartpole_pilot.npz")


def test_the_pilot_is_of_the_shortlist_of_the_table():
    table = ts.open(DATA / "cartpole.npz").table
    sources, _, pilot = shipped()
    found = shortlist(table, ts.Question("regret", epsilon=5.0), len(sources))
    np.testing.assert_array_equal(found, sources)
    np.testing.assert_array_equal(
        source_space(pilot).points, source_space(table).points[sources]
    )
    np.testing.assert_array_equal(
        target_space(pilot).points, target_space(table).points
    )
    assert pilot.attrs["provenance"] == "sampled"
    assert pilot.attrs["n_episodes"] == 256


def test_the_shipped_policies_play_as_the_pilot_says():
    """Episodes 32 to 287, at the hardest context and with a short pole."""
    _, policies, pilot = shipped()
    system, targets = CartPole(), [-1, 60]
    rows = system.contexts(target_space(pilot))[targets]
    said, error = (
        pilot[name].values[..., targets] for name in ("performance", "standard_error")
    )
    played = system.returns(policies[[3, 8]], rows, episodes=range(32, 288)).mean(-1)
    # Another processor orders sums differently: an episode on the edge may end else.
    slack = 0.5 * error + 1e-3
    assert (np.abs(played - said[[3, 8]]) <= slack[[3, 8]]).all()
    # The check can fail: the two sources do not play alike.
    assert (np.abs(played - said[[8, 3]]) > slack[[8, 3]]).any()
