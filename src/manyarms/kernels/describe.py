"""Kernels as plain data and back, so that a saved run can be read without executing foreign code."""

from __future__ import annotations

import dataclasses
from typing import Any

from manyarms.errors import InvalidKernelError
from manyarms.kernels.base import KernelLike
from manyarms.kernels.combine import Product, Scale, Sum
from manyarms.kernels.hamming import Hamming
from manyarms.kernels.linear import Linear
from manyarms.kernels.log_features import LogFeatures
from manyarms.kernels.mixed import Mixed
from manyarms.kernels.on_columns import OnColumns
from manyarms.kernels.one_hot import OneHot
from manyarms.kernels.readings import Reading
from manyarms.kernels.stationary import RBF, Matern
from manyarms.kernels.tanimoto import Tanimoto

_SIMPLE: dict[str, type[Any]] = {
    kind.__name__: kind for kind in (RBF, Matern, Linear, Tanimoto, Hamming, OneHot)
}
_COMBINED: dict[str, type[Sum] | type[Product]] = {"Sum": Sum, "Product": Product}


def describe(kernel: KernelLike) -> dict[str, Any]:
    """Name and settings; a kernel from outside this package is only named and cannot be read back."""
    name = type(kernel).__name__
    if _SIMPLE.get(name) is type(kernel):
        settings = {field.name: getattr(kernel, field.name) for field in dataclasses.fields(_SIMPLE[name])}
        return {"kernel": name, **settings}
    if isinstance(kernel, Mixed):
        readings = [reading.to_plain() for reading in kernel.readings]
        return {"kernel": name, "readings": readings, "lengthscale": kernel.lengthscale, "nu": kernel.nu}
    if isinstance(kernel, Sum | Product):
        return {"kernel": name, "parts": [describe(part) for part in kernel.parts]}
    if isinstance(kernel, Scale):
        return {"kernel": "Scale", "of": describe(kernel.kernel), "variance": kernel.variance}
    if isinstance(kernel, OnColumns):
        return {"kernel": "OnColumns", "of": describe(kernel.kernel), "columns": list(kernel.columns)}
    if isinstance(kernel, LogFeatures):
        return {"kernel": "LogFeatures", "of": describe(kernel.kernel), "columns": list(kernel.columns)}
    return {"kernel": "custom", "is": repr(kernel)}


def from_description(description: dict[str, Any]) -> KernelLike:
    """Read a kernel back from its `describe`."""
    name, settings = (
        description["kernel"],
        {key: value for key, value in description.items() if key != "kernel"},
    )
    if name in _SIMPLE:
        kernel: KernelLike = _SIMPLE[name](**settings)
        return kernel
    if name == "Mixed":
        return Mixed(tuple(Reading(**each) for each in settings.pop("readings")), **settings)
    if name in _COMBINED:
        return _COMBINED[name](*(from_description(part) for part in settings["parts"]))
    if name == "Scale":
        return Scale(from_description(settings["of"]), settings["variance"])
    if name == "OnColumns":
        return OnColumns(from_description(settings["of"]), settings["columns"])
    if name == "LogFeatures":
        return LogFeatures(from_description(settings["of"]), settings["columns"])
    raise InvalidKernelError(f"{description.get('is', name)} is not a kernel of this package")


def same_kernel(one: KernelLike, other: KernelLike) -> bool:
    """Whether two kernels are known to be the same function; foreign ones must be the same object."""
    if one is other:
        return True
    described = describe(one)
    return "custom" not in str(described) and described == describe(other)
