"""A run on a box. Its pool holds the centroids of the cells and the points tried, and grows with every step.

With a given kernel it is Ada-BKB, or its batched form if the policy works in batches (theory §13.2, §13.3).
With a learned kernel the tree proposes where to look, and gradient ascent finds the point (theory §13.4).
"""

from __future__ import annotations

import time
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, DTypeLike

from manyarms.choice.selection import UpperBounds
from manyarms.continuous import ada_bkb, by_ascent, choosing, learned
from manyarms.continuous.box import Box
from manyarms.continuous.choosing import BoxRun
from manyarms.continuous.descent import Division
from manyarms.continuous.partition import Partition
from manyarms.engines.base import Engine
from manyarms.errors import CheckpointError, InvalidParameterError
from manyarms.kernels.log_features import LogFeatures
from manyarms.policies import Policy, Sparse, default_policy
from manyarms.pool.pool import Pool
from manyarms.run import checkpoint
from manyarms.run.asking import handed_out, requested_size
from manyarms.run.batch_structure import BatchStructure
from manyarms.run.certificate import CERTIFICATE, Certificate
from manyarms.run.context import DROP, RunContext
from manyarms.run.growing import with_more_arms
from manyarms.run.optimizer import Optimizer
from manyarms.run.prior_results import PriorResults
from manyarms.run.state import RunState
from manyarms.run.trace import Batch
from manyarms.support.threads import one_thread
from manyarms.support.validation import Floats, Ints, count


@dataclass(frozen=True)
class Polished:
    """A point whose posterior mean is a local maximum; `mean` and `std` are the model's, in reward units.

    It has not been evaluated, and no theorem covers it.
    """

    features: Floats
    mean: float
    std: float


class BoxOptimizer(Optimizer):
    """One run of a policy on a box; `Optimizer(box, …)` makes one.

    parts: into how many parts a cell is split. An odd number keeps the centroid of the cell.
    max_depth: the largest depth of the tree of cells; None for no limit.
    max_splits: the largest number of cells that are split before a point is chosen.

    The other settings are those of `Optimizer`. With a given kernel the policy must choose by upper bounds,
    and points may be repeated. Arms are points: `run.pool.features[arm]`, or `run.points(batch)`.
    """

    def __init__(
        self,
        pool: Box,
        policy: Policy | None = None,
        seed: int = 0,
        *,
        budget: int | None = None,
        repeats: str | int | None = None,
        failures: str = DROP,
        max_failures: int | str | None = 1,
        storage: DTypeLike = np.float64,
        lazy: bool = True,
        minimize: bool = False,
        prepared: None = None,
        engine: Engine | None = None,
        costs: None = None,
        prior: Sequence[PriorResults] = (),
        parts: int = 3,
        max_depth: int | None = None,
        max_splits: int = 30,
    ) -> None:
        if prepared is not None:
            raise InvalidParameterError("prepared", prepared, "left out for a box")
        if failures != DROP:
            raise InvalidParameterError("failures", failures, "left out, or 'drop', for a box")
        if costs is not None:
            raise InvalidParameterError("costs", costs, "left out for a box")
        if prior:
            raise InvalidParameterError(
                "prior", prior, "left out for a box: old results teach models of pools"
            )
        policy = _suitable(default_policy() if policy is None else policy, pool, repeats)
        centre = pool.points(np.full((1, len(pool)), 0.5))
        start = Pool(centre)
        context = RunContext.checked(
            start, policy, seed, budget=budget, repeats=repeats, max_failures=max_failures, storage=storage,
            lazy=lazy, minimize=minimize, engine=engine,
            prepared=learned.prepared(pool, start) if policy.kernel == "auto" else None,
        )  # fmt: skip
        self._box = pool
        self._settings: dict[str, Any] = {
            "parts": count("parts", parts, minimum=2),
            "max_depth": None if max_depth is None else count("max_depth", max_depth),
            "max_splits": count("max_splits", max_splits),
        }
        self._partition = Partition.root(pool.coordinates(centre)[0])
        self._division(context, RunState.initial(context))  # an unsuitable kernel is refused here
        self._move(context, RunState.initial(context))

    # ------------------------------------------------------------------ asking and telling

    def ask(
        self,
        n: int | None = None,
        *,
        at_most: int | None = None,
        eligible: ArrayLike | None = None,
        structure: BatchStructure | None = None,
        max_cost: float | None = None,
        per_cost: bool | None = None,
    ) -> Batch:
        """The next points to evaluate, each with a ticket; `points(batch)` gives them as rows.

        n: ask for exactly n points. Without n, the policy's stopping rule ends the batch.
        at_most: the largest size of a batch that the stopping rule ends.
        eligible, structure, max_cost, per_cost: must be left out.
        """
        unused = {"eligible": eligible, "structure": structure, "max_cost": max_cost, "per_cost": per_cost}
        for name, given in unused.items():
            if given is not None:
                raise InvalidParameterError(name, given, "left out for a box")
        started = time.perf_counter()
        limit, exactly, _ = requested_size(self._context, self._state, n, at_most)
        with one_thread():
            run = self._run()
            width = run.state.belief.width()
            rule = ada_bkb if self._context.prepared is None else by_ascent
            run, filled = rule.filled(run, limit, exactly)
            state, batch = handed_out(run.context, run.state, filled, width, started)
        self._partition = run.partition
        self._move(run.context, state)
        return batch

    def tell(
        self,
        tickets: Batch | ArrayLike | None = None,
        rewards: ArrayLike | None = None,
        *,
        arms: ArrayLike | None = None,
        failed: bool | Sequence[bool] = False,
        noise_std: ArrayLike | None = None,
        replicates: ArrayLike | None = None,
        points: ArrayLike | None = None,
    ) -> None:
        """Record results as `Optimizer.tell` does, or those of `points` of the box (rows) not asked for."""
        if points is None:
            super().tell(
                tickets, rewards, arms=arms, failed=failed, noise_std=noise_std, replicates=replicates
            )
            return
        if tickets is not None or arms is not None:
            raise InvalidParameterError("points", points, "given without tickets or arms")
        run, found = self._run().with_points(self._box.checked(points))
        told = Optimizer.of(run.context, self._with_arms(run.context))
        told.tell(arms=found, rewards=rewards, failed=failed, noise_std=noise_std, replicates=replicates)
        self._move(told.context, told.state)

    def _with_arms(self, context: RunContext) -> RunState:
        if context.pool is self.pool:
            return self._state
        return with_more_arms(self._context, self._state, context.pool)[1]

    def add_arms(
        self, features: Any, ids: Sequence[Hashable] | None = None, *, costs: ArrayLike | None = None
    ) -> Ints:
        """Not for a box, which contains every point already."""
        raise InvalidParameterError("add_arms", features, "left out for a box, which contains every point")

    def points(self, batch: Batch | ArrayLike) -> Floats:
        """The points of a batch or of some arms, one per row."""
        return self.pool.take(batch.arms if isinstance(batch, Batch) else batch)

    # ------------------------------------------------------------------ reading

    @property
    def domain(self) -> Box:
        """The box."""
        return self._box

    @property
    def partition(self) -> Partition:
        """The tree of cells."""
        return self._partition

    def predict_at(self, points: ArrayLike) -> tuple[Floats, Floats]:
        """Posterior mean and standard deviation, in reward units, at any points of the box (rows)."""
        rows = self._box.checked(points)
        belief = self._looked_ahead().belief
        encoded = rows if self._context.prepared is None else self._context.prepared.encode(rows)
        mean, variance = belief.posterior.at(encoded)
        return self._scale(belief.model).spread(mean, belief.std_factor * np.sqrt(np.maximum(variance, 0.0)))

    def polished(self) -> Polished:
        """Climb the posterior mean from the best result to the nearest maximum, without an evaluation.

        This is outside the theory: no bound covers the point, and nobody has tried it. Evaluate it before
        relying on it, for example with `tell(points=…)`.
        """
        best = self.best()
        with one_thread():
            place = by_ascent.summit(self._run(), best.features)
        mean, std = self.predict_at(place)
        return Polished(place, float(mean[0]), float(std[0]))

    def certificate(self) -> Certificate:
        """How far the best result can be from the maximum over the whole box (theory §13.5).

        With a given kernel, noise and norm bound it is proved, from the indices of the leaves. If the model
        is learned, it is an estimate over the points of the pool, not over the box.
        """
        found = super().certificate()
        if found.kind != CERTIFICATE:
            return found
        with one_thread():
            return ada_bkb.certified(self._run(), found)

    # ------------------------------------------------------------------ inside

    def _division(self, context: RunContext, state: RunState) -> Division:
        return choosing.division(self._box, context, state, self._settings)

    def _run(self) -> BoxRun:
        """The run with every recorded result used and the cells measured with the kernel in use."""
        state = self._looked_ahead()
        division = self._division(self._context, state)
        return BoxRun(self._context, state, self._partition.measured(division), division)

    # ------------------------------------------------------------------ saving

    def save(self, path: str | Path) -> None:
        """Write the whole run to one file at `path`, which `Optimizer.load` reads."""
        domain = {
            "name": Box.domain,
            "box": self._box.to_plain(),
            "settings": self._settings,
            "partition": self._partition.to_plain(self._state.belief.policy),
        }
        checkpoint.save(self._context, self._state, Path(path), domain)

    @classmethod
    def _from_plain(cls, plain: Mapping[str, Any], path: Path, *given: Any) -> BoxOptimizer:
        saved, (pool, policy, engine) = plain["domain"], given
        try:
            box = Box.from_plain(saved["box"])
            if policy is not None:
                policy = _suitable(policy, box, None)
            context, state = checkpoint.restored(
                plain, path, pool, policy, engine, lambda begun: learned.prepared(box, begun)
            )
            run: BoxOptimizer = cls.__new__(cls)
            run._box, run._settings = box, dict(saved["settings"])
            run._partition = Partition.from_plain(saved["partition"], state.belief.policy)
        except (KeyError, ValueError, TypeError, IndexError) as problem:
            if isinstance(problem, InvalidParameterError | CheckpointError):
                raise
            raise CheckpointError(f"{path}: damaged: {problem!r}") from None
        run._move(context, state)
        return run


def _suitable(policy: Policy, box: Box, repeats: str | int | None) -> Policy:
    """The policy as it is used on this box; an error if it cannot be."""
    if not isinstance(policy, Policy):
        raise InvalidParameterError("policy", policy, "a policy such as manyarms.BKB()")
    by_bounds = isinstance(policy.selection_rule(), UpperBounds)
    if not by_bounds or policy.proved_width is None:
        rule = "one that chooses by upper bounds on inducing points, such as BKB, BBKB, GPUCB or GPBUCB"
        raise InvalidParameterError("policy", type(policy).__name__, rule)
    if policy.kernel == "auto":
        unbounded = isinstance(policy, Sparse) and policy.max_inducing is None
        return replace(policy, max_inducing=learned.MAX_INDUCING) if unbounded else policy  # type: ignore[call-arg]
    if repeats not in (None, "allow"):
        raise InvalidParameterError("repeats", repeats, "'allow' for a box with a given kernel")
    axes = np.flatnonzero(box.log).tolist()
    if axes and not isinstance(policy.kernel, LogFeatures):
        return replace(policy, kernel=LogFeatures(policy.covariance, axes))
    return policy
