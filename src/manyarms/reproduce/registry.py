"""All experiments by name."""

from __future__ import annotations

from manyarms.errors import UnknownExperimentError
from manyarms.reproduce import duets, linear_sketch, real_pools, sgpts, starvation
from manyarms.reproduce.experiment import Experiment

EXPERIMENTS: dict[str, Experiment] = {
    experiment.name: experiment
    for experiment in (
        starvation.EXPERIMENT,
        *real_pools.EXPERIMENTS,
        duets.EXPERIMENT,
        sgpts.EXPERIMENT,
        linear_sketch.EXPERIMENT,
    )
}


def named(name: str) -> Experiment:
    """The experiment of this name; the error for an unknown name lists the known names."""
    if name not in EXPERIMENTS:
        raise UnknownExperimentError(
            f"unknown experiment {name!r}; the experiments are {', '.join(EXPERIMENTS)}"
        )
    return EXPERIMENTS[name]
