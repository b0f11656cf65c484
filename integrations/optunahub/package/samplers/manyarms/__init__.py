"""The package that OptunaHub loads; the sampler itself is part of manyarms."""

from manyarms.optuna import ManyArmsSampler

__all__ = ["ManyArmsSampler"]
