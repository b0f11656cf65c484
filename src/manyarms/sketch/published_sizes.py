"""Published sizes of S-GP-TS: m inducing points or features, and the dimension M of the prior's feature map.

The sizes in the paper are functions of the horizon T and the number of features d (theory §3.7). They are
rates, which are used here with the constant 1; a policy accepts any number instead.

    role        RBF            Matérn
    points      log^{d/2} T    T^{d/(2ν−d)}, ν > d/2      m of rule (6), as published
    safe        log^d T        the same                   m of rule (6): the published RBF rate is optimistic
    features    log^{d/2} T    T^{d/2ν}                   m of rule (7)
    prior       log^d T        T^{3d/2ν}                  M
"""

from __future__ import annotations

import math

from manyarms.errors import InvalidParameterError
from manyarms.kernels import RBF, KernelLike, Matern
from manyarms.kernels.combine import unscaled
from manyarms.support.validation import count

ROLES = ("points", "safe", "features", "prior")


def published_size(role: str, kernel: KernelLike, horizon: int, d: int) -> int:
    """The size in this role (a row of the table above) for `horizon` pulls on arms with d features."""
    if role not in ROLES:
        raise InvalidParameterError("role", role, f"one of {', '.join(ROLES)}")
    kernel, _ = unscaled(kernel)
    horizon, d = count("horizon", horizon, minimum=2), count("d", d)
    if isinstance(kernel, RBF):
        return _rounded(math.log(horizon) ** (d if role in ("safe", "prior") else d / 2))
    if not isinstance(kernel, Matern):
        raise InvalidParameterError("size", role, f"a number, because no size is published for {kernel!r}")
    doubled = 2 * kernel.nu
    if role in ("points", "safe"):
        if doubled <= d:
            raise InvalidParameterError(
                "size", role, f"a number, because ν = {kernel.nu} is not above d/2 = {d / 2}"
            )
        return _rounded(horizon ** (d / (doubled - d)))
    return _rounded(horizon ** ((3 if role == "prior" else 1) * d / doubled))


def _rounded(size: float) -> int:
    return max(1, math.ceil(size))
