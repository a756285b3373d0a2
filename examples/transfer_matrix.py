"""A transfer matrix that exists already: the fewest policies that cover all tasks.

python examples/transfer_matrix.py
"""

import numpy as np

import taskspace as ts

TASKS = ["flat", "slope", "stairs", "ice", "mud"]
# Success rate in per cent of six walking policies on five terrains.
SCORES = np.array(
    [
        [99, 90, 20, 60, 55],
        [95, 97, 45, 50, 60],
        [80, 85, 92, 30, 40],
        [85, 60, 15, 93, 70],
        [82, 70, 30, 75, 91],
        [90, 88, 84, 70, 72],
    ]
)


def main() -> None:
    study = ts.study_from(SCORES)
    for epsilon in (5, 10, 20, 30):
        cover = ts.minimum_cover(study, ts.Question("regret", epsilon=epsilon))
        served = {
            int(source): [TASKS[t] for t in np.flatnonzero(cover.assignment == source)]
            for source in sorted(cover.sources)
        }
        print(f"within {epsilon} of the best: {cover.size} policies, {served}")


if __name__ == "__main__":
    main()
