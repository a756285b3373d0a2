"""Exports of libraries: one file each, registered by `@exporter`."""

from taskspace.export.base import EXPORTERS as EXPORTERS
from taskspace.export.base import SCHEDULE_EXPORTERS as SCHEDULE_EXPORTERS
from taskspace.export.base import exporter as exporter
from taskspace.export.c99 import export_c99 as export_c99
from taskspace.export.onnx import export_onnx as export_onnx
from taskspace.export.pid import PidRunner as PidRunner
from taskspace.export.pid import export_pid as export_pid
from taskspace.export.schedules import export_schedule_c99 as export_schedule_c99
from taskspace.export.tables import export_schedule_tables as export_schedule_tables
from taskspace.export.tables import export_tables as export_tables
from taskspace.export.tables import schedule_arrays as schedule_arrays
