"""Covariance functions of two arms."""

from manyarms.kernels.base import KernelLike
from manyarms.kernels.combine import Kernel, Product, Scale, SklearnKernel, Sum, as_kernel
from manyarms.kernels.hamming import Hamming
from manyarms.kernels.linear import Linear
from manyarms.kernels.mixed import Mixed
from manyarms.kernels.on_columns import OnColumns
from manyarms.kernels.one_hot import OneHot
from manyarms.kernels.readings import Reading
from manyarms.kernels.stationary import RBF, Matern
from manyarms.kernels.tanimoto import Tanimoto

__all__ = [
    "RBF",
    "Hamming",
    "Kernel",
    "KernelLike",
    "Linear",
    "Matern",
    "Mixed",
    "OnColumns",
    "OneHot",
    "Product",
    "Reading",
    "Scale",
    "SklearnKernel",
    "Sum",
    "Tanimoto",
    "as_kernel",
]
