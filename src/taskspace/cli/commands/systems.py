"""`taskspace systems`: what is built in."""

from typing import Any

from taskspace.cli.options import as_command
from taskspace.cli.output import Answer, console, show_table, shown
from taskspace.errors import MissingExtraError
from taskspace.runs import builtin_experiments
from taskspace.systems import SYSTEMS

EXAMPLES = (
    "taskspace systems",
    "taskspace systems --format json",
)


@as_command
def systems() -> Answer:
    """List the built-in systems, their context axes, and the experiments."""
    records = [_record(name) for name in SYSTEMS]
    return Answer(lambda: records, lambda: _show(records))


def _show(records: list[dict[str, Any]]) -> None:
    """Print the systems, and the next command."""
    for record in records:
        if "needs" in record:
            console.print(f"[bold]{record['id']}[/bold]  {shown(record['needs'])}")
            continue
        columns = ("axis", "unit", "default", "bounds", "meaning")
        rows = [
            (a["name"], a["unit"], f"{a['default']:g}", a["bounds"], a["description"])
            for a in record["axes"]
        ]
        title = f"[bold]{record['id']}[/bold]  {record['summary']}"
        show_table(columns, rows, title=title, texts=columns)
    names = builtin_experiments()
    console.print(f"Experiments: {', '.join(names)}")
    console.print(f"Next: taskspace run {'msd' if 'msd' in names else names[0]}")


def _record(name: str) -> dict[str, Any]:
    """Describe a system, or say which extra it needs."""
    try:
        cls = SYSTEMS[name]
    except MissingExtraError as error:
        return {"id": name, "needs": str(error)}
    keys = ("name", "unit", "default", "bounds", "description")
    axes = [{key: getattr(axis, key) for key in keys} for axis in cls().axes]
    summary = (cls.__doc__ or "").strip().splitlines()[0]
    return {"id": name, "summary": summary, "axes": axes}
