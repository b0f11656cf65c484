"""S-GP-TS: Thompson sampling from a sparse posterior on inducing points (6) or inducing features (7)."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from manyarms.choice.prior_draws import PriorSampler
from manyarms.choice.prior_features import KINDS, eigenfunctions_over, prior_over
from manyarms.embeddings import Embedding
from manyarms.embeddings.eigenfunctions import Eigenfunctions
from manyarms.errors import InvalidParameterError
from manyarms.policies.base import Policy, Sparse
from manyarms.policies.thompson import Thompson
from manyarms.pool.pool import Pool
from manyarms.sketch.inducing import KDPP, InducingRule, NoArms
from manyarms.sketch.published_sizes import ROLES, published_size
from manyarms.support.validation import count

MOST_FEATURES = 20_000


@dataclass(frozen=True, kw_only=True)
class SGPTS(Thompson, Sparse):
    """Vakili et al. 2020, with draws in the corrected form of `manyarms.choice.thompson_draws` (theory §5.8).

    rule: "points" builds the sketch on pulled arms, drawn by leverage scores (`inducing` "fresh", "union" or
        "incremental", as in BKB) or by a k-DPP of `size` arms (`inducing` "kdpp"). "features" builds it on
        the `size` leading eigenfunctions of the kernel on the pool's box (RBF and Matérn).
    size: m, the number of k-DPP arms or eigenfunctions.
    prior_size: M, the dimension of the feature map of prior draws.
    prior_map: the kind of that map (`manyarms.choice.prior_features`).
    horizon: the planned number of pulls. It is needed only if a size is the name of a published rate
        (`manyarms.sketch.published_sizes`) instead of a number.

    The other settings are those of `Thompson`, `Sparse` and `Policy`.
    """

    rule: str = "points"
    size: int | str = 100
    prior_size: int | str = 1000
    prior_map: str = "auto"
    horizon: int | None = None

    def __post_init__(self) -> None:
        if self.rule not in ("points", "features"):
            raise InvalidParameterError("rule", self.rule, "'points' or 'features'")
        if self.prior_map not in KINDS:
            raise InvalidParameterError("prior_map", self.prior_map, f"one of {', '.join(KINDS)}")
        if self.horizon is not None:
            count("horizon", self.horizon, minimum=2)
        _check_size("size", self.size, self.horizon)
        _check_size("prior_size", self.prior_size, self.horizon)
        super().__post_init__()

    def on(self, pool: Pool) -> Policy:
        """The policy with rates replaced by numbers; an error if the pool has fewer than m different arms."""
        size, prior_size = (
            _checked_number(name, self._number(name, pool)) for name in ("size", "prior_size")
        )
        if self.rule == "features":
            prior_size = max(size, prior_size)
        elif self.inducing == "kdpp":
            _check_enough_arms(size, pool)
        return replace(self, size=size, prior_size=prior_size)

    @property
    def proved_width(self) -> str | None:
        """Rule (6) projects on inducing arms; the eigenfunctions of rule (7) only approximate the kernel."""
        return "certified" if self.rule == "points" else None

    def inducing_rule(self) -> InducingRule:
        """Leverage scores or a k-DPP for rule (6), no inducing arms for rule (7)."""
        if self.rule == "features":
            return NoArms()
        if self.inducing == "kdpp":
            return KDPP(1 if isinstance(self.size, str) else self.size)  # `on` replaces a rate by a number
        return super().inducing_rule()

    @property
    def sketch_limit(self) -> float:
        """The compaction factor; a fixed feature map is never rebuilt."""
        return math.inf if self.rule == "features" else super().sketch_limit

    def feature_map(self, pool: Pool, rng: np.random.Generator) -> Embedding | None:
        """The m leading eigenfunctions for rule (7), none for rule (6)."""
        return self._split(pool)[0] if self.rule == "features" else None

    def prior(
        self, pool: Pool, rng: np.random.Generator, storage: DTypeLike = np.float64
    ) -> PriorSampler | None:
        """The whole prior for rule (6); for rule (7) the eigenfunctions after the first m."""
        if self.rule == "points":
            return prior_over(pool, self.covariance, int(self.prior_size), rng, self.prior_map, storage)
        rest = self._split(pool)[1]
        return PriorSampler(pool, self.covariance, rest, storage)

    def _split(self, pool: Pool) -> tuple[Eigenfunctions, Eigenfunctions]:
        """The m leading eigenfunctions, and the remaining M − m."""
        whole = eigenfunctions_over(pool, self.covariance, int(self.prior_size))
        parts = (slice(None, int(self.size)), slice(int(self.size), None))
        first, rest = (
            Eigenfunctions(whole.centre, whole.half_widths, whole.indices[part], whole.weights[part])
            for part in parts
        )
        return first, rest

    def _number(self, name: str, pool: Pool) -> int:
        size = getattr(self, name)
        if isinstance(size, str):
            assert self.horizon is not None
            size = published_size(size, self.covariance, self.horizon, pool.n_features)
        return int(size)


def _check_size(name: str, size: Any, horizon: int | None) -> None:
    if not isinstance(size, str):
        count(name, size)
    elif size not in ROLES:
        raise InvalidParameterError(name, size, f"a number or one of {', '.join(ROLES)}")
    elif horizon is None:
        raise InvalidParameterError(
            "horizon", horizon, f"given with {name}={size!r}, a rate that depends on it"
        )


def _checked_number(name: str, size: int) -> int:
    if size > MOST_FEATURES:
        rule = f"at most {MOST_FEATURES}; a published rate without its constant can be far too large"
        raise InvalidParameterError(name, size, rule)
    return size


def _different(features: NDArray[Any]) -> int:
    """The number of different rows."""
    rows = features.reshape(len(features), -1)
    return len(set(map(repr, rows.tolist())) if rows.dtype == object else np.unique(rows, axis=0))


def _check_enough_arms(size: int, pool: Pool) -> None:
    """m inducing points need m different arms; all arms are counted only if the first 10 m do not suffice."""
    different = _different(pool.features[: 10 * size])
    if different < size:
        different = _different(pool.features)
    if different < size:
        rule = f"at most {different}, the number of different arms; use a smaller size, or leverage scores"
        raise InvalidParameterError("size", size, rule)
