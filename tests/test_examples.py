"""Every example runs, at a small size."""

import importlib.util
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[1] / "examples"
SMALL = {
    "choose_epsilon": ({"n": 8, "n_epsilons": 6, "time_limit": 3.0}, "policies needed"),
    "control_proof": ({"n": 2, "epsilon": 0.5}, "Every (rope, load) in the box"),
    "deploy": ({"n": 6, "n_contexts": 60}, "Worst loss of"),
    "gain_schedule": ({"n": 10, "seconds": 5.0}, "gains serve 10 rope lengths"),
    "gymnasium_sb3": ({"n": 2, "total_steps": 1024, "horizon": 40}, "of 4 trainings"),
    "jax_system": ({"n": 2, "total_steps": 2048}, "of 4 policies are enough"),
    "own_plant": ({"n": 6}, "gains serve all 36 pendulums"),
    "quadrotor_proof": ({"alphas": (3.0,), "n": 1, "low": 0.15}, "proven for every σ"),
    "vehicle": ({"n": 2, "epsilon": 1.0}, "Every (speed, mass, stiffness)"),
    "quadrotor_grid": ({"n": 2, "n_samples": 20}, "LQR gains serve all 16 points"),
    "select_expensive": ({"n": 3}, "trainings instead of 9"),
    "spreadsheet": ({}, "flat, uphill"),
    "tuned_pi": ({"n": 3, "n_starts": 3, "n_steps": 20}, "PI controllers serve all 3"),
    "paper_toys": ({}, "D(1; 2) = 5, D(2; 1) = 8"),
    "transfer_matrix": ({}, "within 5 of the best"),
    "classic_loops": ({"names": ("aircraft",), "n": 4}, "of 4 PI controllers"),
    "wind_turbine_pi": ({"n": 12, "time_limit": 10.0}, "points are enough"),
}


@pytest.mark.parametrize("name", SMALL)
def test_example(name, capsys):
    options, says = SMALL[name]
    if name == "gymnasium_sb3":
        pytest.importorskip("stable_baselines3", reason="needs the extra 'rl'")
    if name in ("control_proof", "gain_schedule"):
        pytest.importorskip("control", reason="needs the extra 'control'")
    spec = importlib.util.spec_from_file_location(name, FOLDER / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    # Dataclasses look their module up by name.
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(__import__("sys").modules, name, module)
        spec.loader.exec_module(module)
        module.main(**options)
    printed = capsys.readouterr().out
    assert says in printed
    assert ": failed. " not in printed


def test_every_example_is_run():
    assert {path.stem for path in FOLDER.glob("*.py")} == set(SMALL)
