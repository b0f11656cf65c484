"""Every figure that can be reproduced, by name."""

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
    """The experiment of this name; an unknown name is an error that lists the known ones."""
    if name not in EXPERIMENTS:
        raise UnknownExperimentError(f"nothing called {name!r}; there are {', '.join(EXPERIMENTS)}")
    return EXPERIMENTS[name]
