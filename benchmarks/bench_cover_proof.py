"""Proven minimum covers at n = 400: every criterion, many tolerances, 60 s each."""

from cover_instances import blob_sets, msd_losses

from taskspace.cover import greedy_cover, minimum_cover
from taskspace.sets import pack


def main():
    minimum_cover(pack(blob_sets(12, radius=0.2)), time_limit=30)  # compile
    print("| criterion | epsilon | greedy | minimum | proven | seconds |")
    print("|---|---|---|---|---|---|")
    cases = [
        (name, float(epsilon), pack(loss <= epsilon))
        for name, loss in msd_losses(20).items()
        for epsilon in (0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5)
    ]
    worst = 0.0
    for name, epsilon, sets in cases:
        cover = minimum_cover(sets, time_limit=60)
        worst = max(worst, cover.seconds)
        print(
            f"| {name} | {epsilon} | {greedy_cover(sets).size} | {cover.size} "
            f"| {'yes' if cover.optimal else f'no, >= {cover.lower_bound}'} "
            f"| {cover.seconds:.2f} |",
            flush=True,
        )
    print(f"slowest: {worst:.1f} s")


if __name__ == "__main__":
    main()
