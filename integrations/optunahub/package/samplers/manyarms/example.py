"""Choose among 2 100 settings of a simulated program with 40 trials."""

import optuna
import optunahub


def objective(trial: optuna.Trial) -> float:
    """The time of a program whose best settings are 64, 0.3 and "row"."""
    block = trial.suggest_int("block", 16, 256, step=16)
    share = trial.suggest_float("share", 0.0, 1.0, step=0.02)
    layout = trial.suggest_categorical("layout", ["row", "column", "tiled"])
    return abs(block - 64) / 64 + 4 * (share - 0.3) ** 2 + 0.5 * (layout != "row")


sampler = optunahub.load_module("samplers/manyarms").ManyArmsSampler(seed=0)
study = optuna.create_study(sampler=sampler)
study.optimize(objective, n_trials=40)
print(study.best_params, study.best_value)
