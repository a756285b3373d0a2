"""A policy library in a page: its map, margins, guarantee and contract."""

import json
import shlex
from pathlib import Path
from typing import Any

import numpy as np

from taskspace.deploy import PolicyLibrary, Status
from taskspace.deploy.files import MANIFEST, contract, policy_table
from taskspace.deploy.regions import BoxRegions, GridRegions
from taskspace.show.page.build import about_page
from taskspace.show.page.data import FORMAT_VERSION
from taskspace.show.page.html import Blobs, render
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


def library_page(path: Path) -> str:
    """Return the page of a policy library as HTML.

    Args:
        path: its folder, as a user calls it.
    """
    blobs, made = Blobs(), PolicyLibrary.load(path)
    head, rows = policy_table(made)
    question = made.question
    units = dict(zip(made.names, made.units, strict=True))
    system = str(made.provenance.get("system", ""))
    about = about_page(path.resolve().name, shlex.quote(str(path)), system)
    stored = _contract(path, made)
    if command := stored.get("made", {}).get("command"):
        about["reproduce"] = f"{command}\n{about['reproduce']}"
    status = made.guarantee.status
    about["warnings"] = []
    if status == Status.ESTIMATED:
        about["warnings"] = ["What this library says of its contexts is estimated."]
    elif status != Status.GUARANTEED:
        about["warnings"] = ["This library guarantees nothing about single contexts."]
    header = {
        "format": "taskspace-page",
        "version": FORMAT_VERSION,
        "about": about,
        "library": {
            "names": list(made.names),
            "system": system if system in SYSTEMS else "",  # `evaluate` knows it
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
                "status": status.name.lower(),
            },
            "entries": [entry.to_dict() for entry in made.entries],
            "shares": made.shares().tolist(),
            "regions": _regions(made, blobs),
            "table": {"head": head, "rows": [[_text(c) for c in r] for r in rows]},
            "contract": json.dumps(stored, indent=1),
        },
    }
    return render(header, blobs)


def _contract(path: Path, made: PolicyLibrary) -> Any:
    """Return the contract beside the library; it has the command that made it."""
    now = contract(made)
    try:
        stored = json.loads((path / "contract.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return now
    stored["guarantee"] = now["guarantee"]
    stored["outputs"]["status"] = now["outputs"]["status"]
    return stored


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


def _text(cell: Any) -> str:
    return f"{cell:.6g}" if isinstance(cell, float) else str(cell)
