"""Exports of a policy library, one file each; a new one is one line in `EXPORTERS`."""

from collections.abc import Callable
from pathlib import Path

from taskspace.export.c99 import export_c99 as export_c99
from taskspace.export.onnx import export_onnx as export_onnx
from taskspace.export.pid import PidRunner as PidRunner
from taskspace.export.pid import export_pid as export_pid
from taskspace.export.tables import export_tables as export_tables

EXPORTERS: dict[str, Callable[..., Path]] = {
    "c": export_c99,
    "onnx": export_onnx,
    "pid": export_pid,
    "tables": export_tables,
}
"""Exporters by the name of the folder that they write."""
