"""How the work of a run is cut into blocks, and what of it is stored."""

from taskspace.performance.ledger import Task, kept_variables
from taskspace.performance.store.records import Layout
from taskspace.runs.experiment import Experiment
from taskspace.systems import SYSTEMS

__all__ = ["layout_of", "selection_layout"]

# A block of the table holds about this many cells of each variable (20 MB), plays about
# this many episodes of a simulated system (a minute or less), or calls a function of
# the user's so often.
BLOCK_CELLS = 2_500_000
BLOCK_EPISODES = 160_000
BLOCK_CALLS = 1_000
# The table of a built-in exact system is computed when read if it has more cells.
STORED_CELLS = 8_000_000


def layout_of(experiment: Experiment) -> Layout:
    """Return the layout of a new run.

    Args:
        experiment: what will be run.
    """
    system, trainer = experiment.built_system, experiment.built_trainer
    n_sources, n_targets = experiment.sources.size, experiment.target_space.size
    variables = kept_variables(
        system,
        n_sources,
        trainer.n_policies,
        n_targets,
        experiment.judges,
        experiment.measures,
    )
    cells, per_source = BLOCK_CELLS, n_targets
    if "performance" in variables:
        per_source *= trainer.n_policies
    if system.n_episodes:
        variables = system.measures
        cells, per_source = BLOCK_EPISODES, per_source * system.n_episodes
    elif system.provenance != "exact":
        cells = BLOCK_CALLS
    n_cells = (
        n_sources
        * n_targets
        * (trainer.n_policies if "performance" in variables else len(variables))
    )
    is_computed = (
        system.provenance == "exact"
        and system.id in SYSTEMS
        and not experiment.names_code
        and n_cells > STORED_CELLS
    )
    if is_computed and trainer.n_policies == 1:
        variables = ("performance", *experiment.measures)
    return Layout(
        n_policies=trainer.n_policies,
        n_targets=n_targets,
        n_episodes=system.n_episodes,
        train_rows=min(trainer.sources_per_block, n_sources),
        table_rows=min(max(1, cells // per_source), n_sources),
        variables=variables,
        is_computed=is_computed,
    )


def selection_layout(task: Task) -> Layout:
    """Return the layout of a selection: one source per block, in the order of proposal.

    Args:
        task: what is trained and where it is tried.
    """
    return Layout(
        n_policies=task.trainer.n_policies,
        n_targets=len(task.targets),
        n_episodes=task.system.n_episodes,
        train_rows=1,
        table_rows=1,
        variables=task.keep,
    )
