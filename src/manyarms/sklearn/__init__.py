"""Estimators for scikit-learn: a sparse Gaussian process, and a search through a grid with few fits.

Install with `pip install 'manyarms[sklearn]'`. The guide is docs/scikit-learn.md.
"""

try:
    from manyarms.sklearn.gp_regressor import SparseGPRegressor
    from manyarms.sklearn.search import ManyArmsSearchCV
except ModuleNotFoundError as problem:
    if problem.name is None or problem.name.partition(".")[0] != "sklearn":
        raise
    from manyarms.errors import MissingExtraError

    raise MissingExtraError("scikit-learn", "sklearn", "manyarms.sklearn") from None

__all__ = ["ManyArmsSearchCV", "SparseGPRegressor"]
