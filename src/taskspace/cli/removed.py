"""Commands and options of former versions, refused with what to use instead."""

from collections.abc import Sequence

from taskspace.errors import InvalidInputError

_VALUES = 'loop over exclude=, see "The value of a source" in docs/recipes.md'
_BOOTSTRAP = 'see "A bootstrap of runs" in docs/recipes.md'
_RULE = 'see "A rule for new targets" (the nearest context) in docs/recipes.md'
_HOLES = 'make two covers, see "Cells that were not measured" in docs/recipes.md'
_NETWORKS = "benchmarks/bench_learned.py trains a network that sees the context"

_PAGE = "open the page that explore writes; write it again to see what is new"

COMMANDS = {
    "archive": "zip the run directory, every command opens the zip file as the run",
    "plot": "use --plot FILE of cover and profile, or ts.show in Python",
    "report": "run it again, taskspace run RUN/experiment.toml --out RUN",
    "systems": "use taskspace init without a name",
}
"""Former commands, and what to use instead of each."""

OPTIONS: dict[str, dict[str, str]] = {
    "cover": {
        "--values": _VALUES,
        "--resample": _BOOTSTRAP,
        "--aggregate": _BOOTSTRAP,
        "--score-bounds": _BOOTSTRAP,
        "--rules": _RULE,
        "--run-share": _RULE,
        "--save-rule": _RULE,
        "--memory": "it uses what the machine has",
        "--unservable": "targets that no source serves are left out, and named",
        "--assignment": "--format json has the assignment",
        "--require-full": "--format json has the coverage",
        "--largest-error": "ask with several errors, 'regret <= 0.2 with mass=3 %'",
        "--unicost": "leave out --costs, then every source costs 1",
    },
    "explore": {
        "--serve": _PAGE,
        "--host": _PAGE,
        "--port": _PAGE,
        "--rows": "give more_rows=... to ts.explore",
        "--certify-limit": "certify the question first, taskspace certify --time-limit",
        "--seed": "give seed=... to ts.explore",
    },
    "select": {"--fill": _HOLES},
    "profile": {
        "--n": "name the tolerances with --at, or give n_epsilons=... in Python",
        "--seed": "give seed=... to ts.complexity_profile",
        "--budget": "use taskspace cover --budget",
        "--budgets": "use taskspace cover --budget, with --objective mean for means",
    },
    "certify": {
        "--rate": "give rates=... to ts.certify",
        "--radius": "give radius=... to ts.certify",
    },
    "design": {
        "--mask": "give mask=... to ts.design",
        "--out": "--save FILE writes the gains, --plot FILE the figure",
        "--curve": "ask with --k for one number of gains at a time",
        "--library": "make it in Python: ts.library(made.study, cover)",
        "--page": "make it in Python: ts.explore(made.study, file)",
    },
    "export": {
        "--time-limit": "save a cover (taskspace cover --time-limit), then --cover",
        "--anti-windup": "leave it out: the integral stops at a limit",
        "--tracking-time": "leave it out: the integral stops at a limit",
        "--cost-factor": "--switching proves stability while contexts move",
        "--method": "save a cover (taskspace cover --method) and name it with --cover",
        "--rule": "leave it out: of the policies that serve, the best one is used",
    },
    "evaluate": {
        "--run": "name the run in place of the system",
        "--drift": "stability while the context moves is proven by export --switching",
        "--networks": _NETWORKS,
        "--network-steps": _NETWORKS,
    },
}
"""For each command its former options, and what to use instead of each."""

READING = {
    "--lower-is-better": "lower_is_better",
    "--higher-is-better": "'lower_is_better=false'",
    "--contexts": "'contexts=\"FILE\"'",
    "--targets": '\'targets=["a", "b"]\'',
    "--ignore": '\'ignore=["a", "b"]\'',
    "--missing": "'missing=\"not served\"'",
    "--header": "header or 'header=false'",
    "--row-names": "row_names or 'row_names=false'",
    "--long": '\'long=["source", "target", "value"]\'',
}
ASKING = {
    "--epsilon": "'regret <= 0.2'",
    "--criterion": "'ratio <= 5 %'",
    "--judge": "'regret <= 0.2 best'",
    "--measure": "'disk_margin >= 0.5'",
    "--and": "'ratio <= 5 % and disk_margin >= 0.5'",
    "--error": "'regret <= 0.2 with mass=3 %'",
}
for _command in ("cover", "profile", "certify", "export", "explore"):
    _options = {name: f"say --read {text}" for name, text in READING.items()}
    OPTIONS[_command] = _options | OPTIONS.get(_command, {})
for _command in (
    *("cover", "profile", "certify", "export", "explore"),
    *("select", "design", "verify"),
):
    _options = {name: f"say --ask, e.g. --ask {text}" for name, text in ASKING.items()}
    OPTIONS[_command] = _options | OPTIONS.get(_command, {})
OPTIONS["profile"]["--epsilon"] = "name tolerances with --at, e.g. --at 0.1,0.2"


def refuse_removed_command(name: str) -> None:
    """Refuse a command of a former version.

    Args:
        name: what stands in the place of a command.
    """
    if name in COMMANDS:
        raise InvalidInputError(
            f"taskspace {name} is no command any more: {COMMANDS[name]}."
        )


def refuse_removed(command: str, words: Sequence[str]) -> None:
    """Refuse an option that a command had in a former version.

    Args:
        command: the name of the command.
        words: what follows it on the command line.
    """
    for word in words:
        if word == "--":
            return
        name = word.partition("=")[0]
        if (instead := OPTIONS.get(command, {}).get(name)) is not None:
            raise InvalidInputError(
                f"{name} is no option of taskspace {command} any more: {instead}."
            )
