"""Lists of a page against brute force."""

from itertools import combinations

import numpy as np

import taskspace as ts
from taskspace.show.page import lists
from taskspace.show.page.build import collect


def test_lists_hold_what_brute_force_finds(monkeypatch):
    scores = np.random.default_rng(0).random((5, 9))
    study = ts.study_from(scores)
    question = ts.Question("regret", epsilon=0.3)
    loss = scores.max(0) - scores
    made = collect(study.table, [question], n_steps=2).header["about"]["tables"]
    assert len(made) == len(lists.LISTS)
    for k, worst, mean in made[0]["rows"]:
        chosen = [list(c) for c in combinations(range(5), k)]
        assert worst == f"{min(loss[c].min(0).max() for c in chosen):.5g}"
        assert mean == f"{min(loss[c].min(0).mean() for c in chosen):.5g}"
    size = min(
        k
        for k in range(1, 6)
        for c in combinations(range(5), k)
        if (loss[list(c)].min(0) <= 0.3).all()
    )
    assert [row[0] for row in made[0]["rows"]][-1] == size
    monkeypatch.setattr(lists, "MAX_CELLS", 44)
    assert "tables" not in collect(study.table, [question], n_steps=2).header["about"]
