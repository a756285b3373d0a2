"""Other programs for the same problem, for the cover benchmarks."""

import time

import numpy as np
from ortools.set_cover import set_cover_pb2
from ortools.set_cover.python import set_cover


def naive_greedy(matrix):
    """Greedy in NumPy on the boolean matrix, as the paper writes it."""
    left = matrix.any(0)
    chosen = []
    while left.any():
        best = int((matrix & left).sum(1).argmax())
        chosen.append(best)
        left &= ~matrix[best]
    return chosen


def apricot_greedy(matrix, n_samples):
    """Lazy greedy of apricot-select (numba), told how many sources to take."""
    from apricot import MaxCoverageSelection

    selector = MaxCoverageSelection(n_samples, optimizer="lazy")
    return np.asarray(selector.fit(matrix.astype(np.float64)).ranking).tolist()


def ortools_model(matrix):
    """OR-tools' set-cover model, by its protocol buffer: faster than by calls."""
    proto = set_cover_pb2.SetCoverProto()
    for row in matrix:
        subset = proto.subset.add()
        subset.cost = 1.0
        subset.element.extend(np.flatnonzero(row).tolist())
    model = set_cover.SetCoverModel()
    model.import_model_from_proto(proto)
    model.create_sparse_row_view()
    return model


def ortools_greedy(model):
    """Greedy of OR-tools; returns its invariant, which holds the cover."""
    invariant = set_cover.SetCoverInvariant(model)
    assert set_cover.GreedySolutionGenerator(invariant).next_solution()
    return invariant


def ortools_search(model, name, seconds):
    """Greedy, then one of OR-tools' searches with random destruction, for a time.

    Each round starts a new invariant from the best cover less some of its sources:
    reusing one (`clear_random_subsets`, import of solutions) crashed in OR-tools 9.15.
    """
    invariant = ortools_greedy(model)
    best = list(invariant.is_selected())
    end = time.perf_counter() + seconds
    rng = np.random.default_rng(0)
    while time.perf_counter() < end:
        selected = np.flatnonzero(best)
        n_cleared = int(rng.integers(1, max(2, len(selected) // 3)))
        invariant = set_cover.SetCoverInvariant(model)
        for source in rng.permutation(selected)[n_cleared:].tolist():
            invariant.select(source, set_cover.consistency_level.FREE_AND_UNCOVERED)
        set_cover.GreedySolutionGenerator(invariant).next_solution()
        if name == "steepest":
            set_cover.SteepestSearch(invariant).next_solution()
        else:
            search = {
                "guided local": set_cover.GuidedLocalSearch,
                "guided tabu": set_cover.GuidedTabuSearch,
            }[name](invariant)
            search.set_max_iterations(200)
            search.next_solution()
        found = list(invariant.is_selected())
        if invariant.num_uncovered_elements() == 0 and sum(found) <= sum(best):
            best = found
    return sum(best)
