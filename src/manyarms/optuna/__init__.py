"""A sampler for Optuna that treats a search space as a pool of candidates.

Install with `pip install 'manyarms[optuna]'`. The guide is docs/optuna.md.
"""

try:
    from manyarms.optuna.sampler import ManyArmsSampler
except ModuleNotFoundError as problem:
    if problem.name is None or problem.name.partition(".")[0] != "optuna":
        raise
    from manyarms.errors import MissingExtraError

    raise MissingExtraError("optuna", "optuna", "manyarms.optuna") from None

__all__ = ["ManyArmsSampler"]
