"""Choose well among very many candidates when each trial is noisy and costly."""

from manyarms import errors
from manyarms.history import History
from manyarms.kernels import RBF, Hamming, Linear, Matern, Product, Scale, SklearnKernel, Sum, Tanimoto
from manyarms.pool import Pool
from manyarms.posterior import Posterior

__version__ = "0.1.0"

__all__ = [
    "RBF",
    "Hamming",
    "History",
    "Linear",
    "Matern",
    "Pool",
    "Posterior",
    "Product",
    "Scale",
    "SklearnKernel",
    "Sum",
    "Tanimoto",
    "errors",
]
