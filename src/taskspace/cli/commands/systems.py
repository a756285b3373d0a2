"""`taskspace systems`: what is built in."""

from typing import Any

from rich.table import Table

from taskspace.cli.output import Format, FormatOption, console, print_json, shown
from taskspace.errors import MissingExtraError
from taskspace.runs import builtin_experiments
from taskspace.systems import SYSTEMS

EXAMPLES = (
    "taskspace systems",
    "taskspace systems --format json",
)


def systems(output: FormatOption = Format.TEXT) -> None:
    """List the built-in systems, their context axes, and the experiments."""
    records = [_record(name) for name in SYSTEMS]
    if output == Format.JSON:
        print_json(records)
        return
    for record in records:
        if "needs" in record:
            console.print(f"[bold]{record['id']}[/bold]  {shown(record['needs'])}")
            continue
        table = Table(
            "axis", "unit", "default", "bounds", "meaning", title_justify="left"
        )
        table.title = f"[bold]{record['id']}[/bold]  {record['summary']}"
        for axis in record["axes"]:
            table.add_row(
                axis["name"],
                axis["unit"],
                f"{axis['default']:g}",
                axis["bounds"],
                axis["description"],
            )
        console.print(table)
    names = builtin_experiments()
    console.print(f"Experiments: {', '.join(names)}")
    console.print(f"Next: taskspace run {'msd' if 'msd' in names else names[0]}")


def _record(name: str) -> dict[str, Any]:
    """Describe a system, or say which extra it needs."""
    try:
        cls = SYSTEMS[name]
    except MissingExtraError as error:
        return {"id": name, "needs": str(error)}
    axes = [
        {
            "name": axis.name,
            "unit": axis.unit,
            "default": axis.default,
            "bounds": axis.bounds,
            "description": axis.description,
        }
        for axis in cls().axes
    ]
    summary = (cls.__doc__ or "").strip().splitlines()[0]
    return {"id": name, "summary": summary, "axes": axes}
