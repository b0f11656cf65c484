"""Covariance functions: how alike two arms are."""

from manyarms.kernels.base import Kernel, KernelLike
from manyarms.kernels.combine import Product, Scale, Sum
from manyarms.kernels.hamming import Hamming
from manyarms.kernels.linear import Linear
from manyarms.kernels.sklearn import SklearnKernel, as_kernel
from manyarms.kernels.stationary import RBF, Matern
from manyarms.kernels.tanimoto import Tanimoto

__all__ = [
    "RBF",
    "Hamming",
    "Kernel",
    "KernelLike",
    "Linear",
    "Matern",
    "Product",
    "Scale",
    "SklearnKernel",
    "Sum",
    "Tanimoto",
    "as_kernel",
]
