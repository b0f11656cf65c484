"""All experiments by name."""

from __future__ import annotations

from manyarms.errors import UnknownExperimentError
from manyarms.reproduce import (
    duets,
    duets_scaling,
    kdpp_chain,
    linear_sketch,
    real_pools,
    sgpts,
    sgpts_screening,
    sgpts_synthetic,
    starvation,
)
from manyarms.reproduce.experiment import Experiment

EXPERIMENTS: dict[str, Experiment] = {
    experiment.name: experiment
    for experiment in (
        starvation.EXPERIMENT,
        *real_pools.EXPERIMENTS,
        duets.EXPERIMENT,
        duets_scaling.EXPERIMENT,
        sgpts.EXPERIMENT,
        sgpts_synthetic.EXPERIMENT,
        sgpts_screening.EXPERIMENT,
        kdpp_chain.EXPERIMENT,
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
