"""Reads the public set-cover files."""

import numpy as np

from taskspace.sets import pack


def read_set_cover(path):
    """Return the sets and costs of a public file; costs are None where all are 1.

    `sts`: variables, triples, the triples. `rail`: rows, columns, then the cost and the
    rows of each column. `scp`: rows, columns, costs, then the columns of each row.
    """
    n_rows, n_columns, *rest = map(int, path.read_text().split())
    costs = []
    if path.name.startswith("sts"):
        n_rows, n_columns = n_columns, n_rows
        pairs = [(v, k // 3) for k, v in enumerate(rest)]
    elif path.name.startswith("rail"):
        words = iter(rest)
        pairs = []
        for column in range(n_columns):
            costs.append(next(words))
            pairs += [(column + 1, next(words) - 1) for _ in range(next(words))]
    else:
        costs, words = rest[:n_columns], iter(rest[n_columns:])
        pairs = [
            (next(words), row) for row in range(n_rows) for _ in range(next(words))
        ]
    sources, targets = np.array(pairs).T
    serves = np.zeros((n_columns, n_rows), bool)
    serves[sources - 1, targets] = True
    is_weighted = len(set(costs)) > 1
    return pack(serves), np.array(costs, float) if is_weighted else None
