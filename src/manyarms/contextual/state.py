"""The settings of a contextual bandit, and its state between two rounds as one frozen value."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from manyarms.choice.selection import SelectionRule, UpperBounds
from manyarms.choice.stopping import StoppingRule
from manyarms.choice.widths import RunStatistics, Width
from manyarms.contextual.linear_sketch import SketchedPosterior
from manyarms.contextual.model import RowValues, StreamedPosterior
from manyarms.contextual.open_picks import OpenPicks
from manyarms.contextual.regression import Regression
from manyarms.contextual.renewal import PicksSince
from manyarms.embeddings import Embedding, Nystrom
from manyarms.embeddings.linear import LinearFeatures
from manyarms.policies import SOFUL, Policy
from manyarms.pool.pool import Pool
from manyarms.sketch.inducing import InducingRule
from manyarms.support.random_streams import RandomStreams
from manyarms.support.validation import Floats


@dataclass(frozen=True)
class Settings:
    """What results do not change."""

    policy: Policy
    seed: int
    max_inducing: int | None
    max_open: int
    expire_after: int | None
    forgetting: float
    window: int | None

    @cached_property
    def streams(self) -> RandomStreams:
        """The random streams of the seed."""
        return RandomStreams(self.seed)

    # The rules of the policy, which makes and checks them anew at every call.

    @cached_property
    def inducing_rule(self) -> InducingRule:
        """Which rows become inducing points."""
        return self.policy.inducing_rule()

    @cached_property
    def selection_rule(self) -> SelectionRule:
        """Which row is chosen."""
        return self.policy.selection_rule()

    @cached_property
    def stopping_rule(self) -> StoppingRule:
        """When results are used."""
        return self.policy.stopping_rule()

    @cached_property
    def width_function(self) -> Width:
        """β as a function of the statistics."""
        return self.policy.width_function()

    @property
    def uses_open_picks(self) -> bool:
        """Whether picks without a used result change the choice: draws and means do not depend on them."""
        return isinstance(self.selection_rule, UpperBounds)


@dataclass(frozen=True, eq=False)
class WindowResult:
    """One result inside the sliding window, as it entered V."""

    z: Floats
    residual: float
    weight: float
    total: float  # weight · reward


@dataclass(frozen=True, eq=False)
class BanditState:
    """Everything that the next round reads, except tickets and results that are still to be used."""

    model: StreamedPosterior
    open_picks: OpenPicks
    norm_bound: float  # F: the policy's, or the present value of guess-and-double
    prior_max: float = 0.0  # κ², the largest k(x, x) of any row so far
    since: PicksSince = PicksSince()  # noqa: RUF009  (frozen)
    rounds: int = 0  # asks
    renewals: int = 0
    pulls: int = 0  # results used
    triple_log_sum: float = 0.0  # Σ log(1 + 3σ̃²_fb)
    log_sum: float = 0.0  # Σ log(1 + σ̃²_fb) without the first renewal
    discounted_at: int = 0  # the round up to which past weights are discounted
    window: tuple[WindowResult, ...] = ()
    last: RowValues | None = None  # the last pick, if there was no renewal since

    @classmethod
    def initial(cls, settings: Settings, rows: NDArray[Any]) -> BanditState:
        """The state before the first round, whose rows are these."""
        policy = settings.policy
        assert policy.ridge is not None
        n_features = rows.shape[1] if rows.ndim > 1 else 1
        if isinstance(policy, SOFUL):
            feature_map: Embedding | None = LinearFeatures(policy.covariance, n_features)
        else:  # the feature maps of the policies that are accepted depend on the number of features alone
            shape = Pool(np.zeros((1, n_features)))
            feature_map = policy.feature_map(shape, settings.streams.at("features"))
        embedding = feature_map or Nystrom(policy.covariance, rows[:0].copy(), np.empty((0, 0)))
        model = StreamedPosterior(
            policy.covariance,
            embedding,
            Regression.empty(embedding.dimension, policy.ridge),
            keeps_residual=policy.keeps_residual and not isinstance(policy, SOFUL),
        )
        if isinstance(policy, SOFUL):
            model = SketchedPosterior.of(model, policy.size)
        guess = 1.0 if isinstance(policy.norm_bound, str) else float(policy.norm_bound)
        return cls(model, OpenPicks.none(model.at(rows[:0], 0.0)), guess)

    def statistics(self) -> RunStatistics:
        """The statistics that widths depend on."""
        return RunStatistics(
            pulls=self.pulls,
            effective_dimension=self.model.effective_dimension,
            log_det=self.model.log_det,
            prior_variance=self.prior_max,
            triple_log_sum=self.triple_log_sum,
            log_sum=self.log_sum,
            escaped=self.model.escaped,
            residual_trace=self.model.missed,
        )

    def width(self, settings: Settings, norm_bound: float | None = None) -> float:
        """β for the norm bound in use, or for another one."""
        bound = self.norm_bound if norm_bound is None else norm_bound
        return settings.width_function(self.statistics(), settings.policy.assumptions(bound))
