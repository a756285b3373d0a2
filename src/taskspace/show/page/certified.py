"""Certificates in a page: what holds around and between the targets of its table."""

from collections.abc import Iterable
from typing import Any

import numpy as np
import xarray as xr

from taskspace._util.files import plain
from taskspace.certificates.certify import CertifyResult
from taskspace.cover import Cover
from taskspace.performance.study import Study
from taskspace.questions import Question
from taskspace.show.figures.boxes import box_map, varies
from taskspace.show.page.encode import Blobs
from taskspace.show.page.layers import layer_key

METHOD = "certified"
"""What the cover of a continuum certificate is called among the methods."""
NONE = 65535
"""Place of the source of a box that has none."""


def certified_covers(
    results: Iterable[CertifyResult], table: xr.Dataset
) -> list[tuple[Question, Cover]]:
    """Return the sources of continuum certificates as covers of the table's targets.

    Args:
        results: what was certified.
        table: the performance table.
    """
    covers = []
    for result in results:
        continuum = result.continuum
        if continuum is None or not continuum.size:
            continue
        assignment = result.question.assign(table, continuum.sources)
        cover = Cover(
            method=METHOD,
            sources=continuum.sources,
            assignment=assignment,
            coverage=float((assignment >= 0).mean()),
            uncoverable=result.cover.uncoverable,
            size=continuum.size,
            cost=continuum.size,
            lower_bound=0,
            lower_bound_kind="size",
            optimal=False,
            stop_reason=continuum.certificate.kind,
            seconds=result.seconds,
            n_sources=table.sizes["source"],
            n_targets=table.sizes["target"],
        )
        covers.append((result.question, cover))
    return covers


def certificate_records(
    results: Iterable[CertifyResult], study: Study, blobs: Blobs
) -> list[dict[str, Any]]:
    """Return certificates as a page holds them, one entry per question.

    Args:
        results: what was certified.
        study: what it is about.
        blobs: gets the arrays.
    """
    keys = ("name", "holds", "kind", "scope", "why")
    return [
        {
            "key": layer_key(result.question),
            "epsilon": result.question.epsilon,
            "question": result.question.statement,
            "items": [
                {key: plain(getattr(item, key)) for key in keys}
                for item in result.certificates
            ],
            "boxes": _boxes(result, study, blobs),
        }
        for result in results
    ]


def _boxes(result: CertifyResult, study: Study, blobs: Blobs) -> dict[str, Any] | None:
    """Return the record of a figure of boxes, its numbers as arrays, axis by axis."""
    continuum = result.continuum
    if continuum is None or not varies(continuum):
        return None
    record = box_map(continuum, study)
    place = np.array(record.assignment, np.int64)
    bound = np.array([np.inf if b is None else b for b in record.bound])
    return {
        "title": record.title,
        "kind": record.kind,
        "holds": bool(continuum.certificate.holds),
        "why": continuum.certificate.why,
        "names": record.names,
        "sources": record.numbers,
        "n": len(record.status),
        "low": blobs.add(np.array(record.low).T),
        "high": blobs.add(np.array(record.high).T),
        "status": blobs.add(np.array(record.status, np.uint8)),
        "who": blobs.add(np.where(place < 0, NONE, place).astype(np.uint16)),
        "bound": blobs.add(bound),
        "share": blobs.add(np.asarray(continuum.boxes.share, np.float64)),
    }
