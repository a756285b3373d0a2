r"""A transfer matrix from a spreadsheet: several policies per source, costs, contexts.

    python examples/spreadsheet.py

The same on the command line, once the file is there:

    taskspace cover scores.csv --ask 'ratio <= 0.2' \
        --read 'lower_is_better, missing="not served", ignore=["seed"]'
"""

import tempfile
from pathlib import Path

import taskspace as ts

# Energy per metre of walking controllers, tuned at three slopes with two seeds each,
# on slopes of −10° to 20°. Rows of the same source form a family; the seed is no slope;
# one trial was never made.
SHEET = """\
source,source_slope,seed,slope=-10,slope=0,slope=10,slope=20
downhill,-10,0,2.1,3.2,5.9,9.8
downhill,-10,1,2.2,3.0,6.4,
flat,0,0,2.9,2.5,3.6,6.1
flat,0,1,2.8,2.6,3.5,6.6
uphill,20,0,6.5,4.4,3.4,4.0
uphill,20,1,6.0,4.6,3.5,4.1
"""


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "scores.csv"
        path.write_text(SHEET)
        study = ts.open(
            path, lower_is_better=True, missing="not served", ignore=["seed"]
        )
        # An npz file holds the same, with contexts and names.
        again = ts.open(
            ts.performance.write_matrix(study.table, Path(folder) / "scores.npz")
        )
        assert again.table["performance"].equals(study.table["performance"])
    for note in study.notes:
        print(f"note: {note}")
    for judge, meaning in (("worst", "whichever seed"), ("best", "the best seed")):
        cover = ts.minimum_cover(study, ts.Question("ratio", judge, epsilon=0.2))
        names = study.table["source"].values[cover.sources].tolist()
        text = f"{', '.join(names)} serve {100 * cover.coverage:.0f} % of the slopes"
        print(f"{meaning}: {text} within 20 % of the least energy")


if __name__ == "__main__":
    main()
