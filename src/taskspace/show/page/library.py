"""A policy library in a page: its map, margins, guarantee and contract."""

import json
import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from taskspace.deploy import PolicyLibrary, Status
from taskspace.deploy.files import MANIFEST, contract, policy_table
from taskspace.deploy.regions import BoxRegions, GridRegions
from taskspace.show.page.build import about_page
from taskspace.show.page.data import FORMAT_VERSION, PageData
from taskspace.show.page.encode import Blobs
from taskspace.systems import SYSTEMS

NONE = 2**32 - 1
"""Number of the policy of a region that has none."""
LEAF = 255


def is_library(path: Path) -> bool:
    """Return whether a path is the folder of a policy library.

    Args:
        path: any path.
    """
    return (path / MANIFEST).is_file()


@dataclass
class LibrarySubject:
    """A library that a page shows.

    Args:
        path: what a user calls it.
        library: the library.
    """

    path: Path
    library: PolicyLibrary
    stage: str = ""

    def collect(self, questions: Any = (), **options: Any) -> PageData:
        """Return the data of the page.

        Args:
            questions: not used: a library answers its own.
            options: not used.
        """
        del questions, options
        blobs = Blobs()
        made = self.library
        head, rows = policy_table(made)
        question = made.question
        units = dict(zip(made.names, made.units, strict=True))
        path, system = shlex.quote(str(self.path)), made.provenance.get("system", "")
        about = about_page(self.path.resolve().name, path, system)
        stored = self._contract()
        if command := stored.get("made", {}).get("command"):
            about["reproduce"] = f"{command}\n{about['reproduce']}"
        header = {
            "format": "taskspace-page",
            "version": FORMAT_VERSION,
            "about": about | {"warnings": self._warnings()},
            "library": {
                "names": list(made.names),
                "system": _system(made),
                "labels": [f"{n} [{u}]" if u else n for n, u in units.items()],
                "low": made.low.tolist(),
                "high": made.high.tolist(),
                "fixed": dict(made.fixed),
                "outside": made.outside,
                "rule": made.rule,
                "question": None if question is None else question.statement,
                "epsilon": None if question is None else question.epsilon,
                "guarantee": {
                    "scope": made.guarantee.scope,
                    "kind": made.guarantee.kind,
                    "statement": made.guarantee.statement,
                    "speaks": made.guarantee.speaks,
                    "status": made.guarantee.status.name.lower(),
                },
                "entries": [entry.to_dict() for entry in made.entries],
                "shares": made.shares().tolist(),
                "regions": _regions(made, blobs),
                "table": {"head": head, "rows": [[_text(c) for c in r] for r in rows]},
                "contract": json.dumps(stored, indent=1),
            },
        }
        return PageData(header, blobs)

    def _contract(self) -> Any:
        """Return the contract beside the library; it has the command that made it."""
        now = contract(self.library)
        try:
            text = (self.path / "contract.json").read_text(encoding="utf-8")
            stored = json.loads(text)
        except (OSError, ValueError):
            return now
        # Older contracts called what is estimated guaranteed.
        stored["guarantee"] = now["guarantee"]
        stored["outputs"]["status"] = now["outputs"]["status"]
        return stored

    def _warnings(self) -> list[str]:
        if self.library.guarantee.status == Status.GUARANTEED:
            return []
        if self.library.guarantee.status == Status.ESTIMATED:
            return ["What this library says of its contexts is estimated."]
        return ["This library guarantees nothing about single contexts."]


def _regions(made: PolicyLibrary, blobs: Blobs) -> dict[str, Any]:
    regions = made.regions
    policy = np.where(regions.policy < 0, NONE, regions.policy)
    record: dict[str, Any] = {
        "kind": regions.kind,
        "plural": regions.plural,
        "law": regions.law,
        "n": len(regions.policy),
        "policy": blobs.add(policy.astype(np.uint32)),
        "served": blobs.add(regions.served.astype(np.uint8)),
        "margin": blobs.add(np.asarray(regions.margin, np.float64)),
    }
    if made.targets:
        named = {"kind": "names", "plural": "named targets"}
        record |= {**named, "targets": list(made.targets)}
    elif isinstance(regions, GridRegions):
        record["values"] = [v.tolist() for v in regions.values]
        record["borders"] = [b.tolist() for b in regions.borders]
    elif isinstance(regions, BoxRegions):
        if regions.nodes is not None:
            record["points"] = blobs.add(regions.nodes)
        axis = np.where(regions.axis < 0, LEAF, regions.axis)
        record |= {
            "low": blobs.add(np.ascontiguousarray(regions.box_low.T)),
            "high": blobs.add(np.ascontiguousarray(regions.box_high.T)),
            "axis": blobs.add(axis.astype(np.uint8)),
            "cut": blobs.add(np.asarray(regions.cut, np.float64)),
            "follow": blobs.add(regions.follow.astype(np.uint32)),
        }
    return record


def _system(made: PolicyLibrary) -> str:
    """Return the name of its system, if `taskspace evaluate` knows it."""
    name = str(made.provenance.get("system", ""))
    return name if name in SYSTEMS else ""


def _text(cell: Any) -> str:
    return f"{cell:.6g}" if isinstance(cell, float) else str(cell)
