"""The next ask as a pure function of what is stored: settings, pool, and one snapshot of the database.

The model starts from the state that the last ask left, takes in the new results, in an order of their own,
and chooses. A learned model is part of that state, and is learned again as results grow in number; beside a
kernel that was given, rewards are rescaled to the units of everything told so far. Whoever asks, on whatever
machine, after whatever interruption, gets the same batch.

Learning needs only the arms that were pulled, so it happens on a pool of those, and the whole pool is passed
over once, on the sketch that came out. That pass costs O(A·m²): the sketch is held to `most_inducing` arms.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from manyarms.campaigns.assumptions import Units, assumed_units, grouped, most_inducing
from manyarms.campaigns.resolve_settings import prepared_for
from manyarms.campaigns.settings import Settings
from manyarms.campaigns.store.store import Snapshot, StoredResult
from manyarms.learning import Prepared
from manyarms.policies import Policy, Sparse
from manyarms.pool.pool import Pool
from manyarms.run.compact_state import from_bytes, narrowed, take_in, to_bytes, widened
from manyarms.run.optimizer import Optimizer
from manyarms.run.trace import Batch
from manyarms.support.validation import Floats, Ints

BULK = 200  # results at once
SHARE = 0.9
_THINNINGS = 20


@dataclass(frozen=True)
class Prediction:
    """What the model thinks of a candidate, in the user's units.

    SHARE of the measured values are expected between `lower` and `upper`, which count the noise. A learned
    model without any result does not know the user's units, and has no interval to give.
    """

    mean: float
    std: float
    lower: float | None = None
    upper: float | None = None


@dataclass(frozen=True)
class Proposal:
    """A batch that could be handed out, with what is to be stored about it."""

    batch: Batch
    names: list[str]
    predictions: list[Prediction]
    facts: dict[str, Any]  # the batch's columns in the database
    state: bytes


@dataclass(frozen=True)
class Ground:
    """What every ask stands on and none changes: the settings, and the candidates as the model sees them.

    `prepared` is None where the kernel was given. Looking at the pool for a learned model takes all of it:
    the scale of a column must not depend on which candidates were measured.
    """

    settings: Settings
    pool: Pool
    prepared: Prepared | None = None

    @classmethod
    def of(cls, settings: Settings, pool: Pool) -> Ground:
        """For a campaign's pool."""
        if not settings.learned:
            return cls(settings, pool)
        prepared = prepared_for(settings.source, pool)
        return cls(settings, prepared.pool, prepared)

    def only(self, arms: Ints) -> Ground:
        """With these candidates alone."""
        few = Pool(self.pool.take(arms), max_memory=self.pool.max_memory)
        return replace(self, pool=few, prepared=self.prepared and replace(self.prepared, pool=few))

    def assumed(self, seen: Snapshot, plate: bool) -> tuple[Policy, Units]:
        """The policy, and the units its rewards are in."""
        given = self.settings
        if given.learned:
            return given.build_policy(None, plate), Units(given.sign)
        units = assumed_units(given.sign, given.noise, given.signal, given.mean, values_of(seen))
        return given.build_policy(units.noise_std, plate), units

    def run(self, policy: Policy, state: bytes | None) -> Optimizer:
        """The run as the last ask left it."""
        if state is None:
            return Optimizer(self.pool, policy, **self.settings.run_settings(), prepared=self.prepared)
        return from_bytes(state, self.pool, policy, self.prepared)


def values_of(seen: Snapshot) -> list[tuple[int, float]]:
    """Everything told that was no failure, as (arm, value)."""
    return [(each.arm, each.value) for each in seen.results if each.value is not None]


def current(ground: Ground, seen: Snapshot, plate: bool = False) -> tuple[Optimizer, Units]:
    """The model with every result told so far, about to be asked, and the units it works in."""
    policy, units = ground.assumed(seen, plate)
    if not seen.results or _made_for_the_pool(policy):
        run = ground.run(policy, seen.state)
        _tell(run, units, seen)
        take_in(run)
        return run, units
    arms = np.unique([each.arm for each in seen.results])
    if seen.state is not None:
        state, arms = narrowed(seen.state, arms)
        seen = replace(seen, state=state)
    few, seen = ground.only(arms), _among(seen, arms)
    run = few.run(policy, seen.state)
    _tell(run, units, seen)
    learned = _thinned(run, most_inducing(ground.pool.n_arms), len(_fresh(seen)))
    return ground.run(policy, widened(learned, arms, ground.pool)), units


def _made_for_the_pool(policy: Policy) -> bool:
    """Whether the policy looks at the whole pool when it begins: for a feature map, or for prior draws."""
    own = ("on", "feature_map", "prior", "posterior")
    return any(getattr(type(policy), name) is not getattr(Policy, name) for name in own)


def _among(seen: Snapshot, arms: Ints) -> Snapshot:
    """The same results on a pool of these arms alone."""
    places = np.searchsorted(arms, [each.arm for each in seen.results]).tolist()
    results = (replace(each, arm=place) for each, place in zip(seen.results, places, strict=True))
    return replace(seen, results=tuple(results))


def _thinned(run: Optimizer, most: int, fresh: int) -> bytes:
    """The run with everything learned, on a sketch that is not too large.

    A draw takes the leverage from before the update (BBKB l. 14), by which nearly all of very many new arms
    would enter, so after bulk results the sketch is drawn again. Fewer arms than a draw asks for widen the
    model's intervals and cost accuracy of its mean; they never make it overconfident (spec §1).
    """
    take_in(run)
    if not isinstance(run.policy, Sparse) or (fresh <= BULK and run.posterior.state.sketch_size <= most):
        return to_bytes(run)
    oversampling = run.policy.oversampling
    run.extend_horizon(oversampling)
    for _ in range(_THINNINGS):
        if run.posterior.state.sketch_size <= most:
            break
        oversampling *= 0.9 * most / run.posterior.state.sketch_size
        run.extend_horizon(oversampling)
    return to_bytes(run)


def propose(ground: Ground, seen: Snapshot, n: int | None, at_most: int | None) -> Proposal:
    """The next batch: by the policy's rule, capped, or exactly n."""
    run, units = current(ground, seen, plate=n is not None)
    batch = run.ask(n, at_most=at_most)
    record = run.trace[-1]
    facts = {
        "number": seen.batches + 1, "size": len(batch), "ended_because": batch.ended_because,
        "ratio": float(record.ratio), "dictionary_size": record.dictionary_size, "width": float(record.width),
        "effective_dimension": float(record.effective_dimension), **_best(run, units),
    }  # fmt: skip
    names = [str(id) for id in batch.ids]
    return Proposal(batch, names, _predictions(run, units, batch.arms), facts, to_bytes(run))


def _predictions(run: Optimizer, units: Units, arms: Ints) -> list[Prediction]:
    numbers = zip(*(each.tolist() for each in (*run.predict(arms), *run.interval(arms, SHARE))), strict=True)
    if run.model is not None and not run.model.n_pulls:
        return [Prediction(units.value(mean), units.spread(std)) for mean, std, _, _ in numbers]
    return [
        Prediction(units.value(mean), units.spread(std), *units.interval(lower, upper))
        for mean, std, lower, upper in numbers
    ]


def _best(run: Optimizer, units: Units) -> dict[str, Any]:
    if not len(run.history):
        return {"best_arm": None, "best_mean": None, "best_lower": None, "best_upper": None}
    best = run.best()
    lower, upper = units.interval(best.lower, best.upper)
    return {
        "best_arm": best.arm, "best_mean": units.value(best.mean), "best_lower": lower, "best_upper": upper
    }  # fmt: skip


def _fresh(seen: Snapshot) -> list[StoredResult]:
    return [each for each in seen.results if each.sequence > seen.folded]


def _rescale(run: Optimizer, units: Units, known: list[StoredResult]) -> None:
    """Replace the rewards of the state by the same results in today's units."""
    by_arm = grouped((each.arm, each.value) for each in known)
    history = run.history
    sums, squares = _sums(history.arms, by_arm, units)
    history.restore(history.arms, history.counts, sums, squares)
    run.posterior.refit(run.posterior.state.arms, _sums(run.posterior.state.arms, by_arm, units)[0])


def _sums(arms: Ints, by_arm: dict[int, list[float]], units: Units) -> tuple[Floats, Floats]:
    rewards = [units.rewards(sorted(by_arm[arm])).tolist() for arm in arms.tolist()]
    sums = np.array([math.fsum(each) for each in rewards])
    return sums, np.array([math.fsum(r * r for r in each) for each in rewards])


def _tell(run: Optimizer, units: Units, seen: Snapshot) -> None:
    """Results and given-up tickets since the last ask, in an order that does not depend on who was first."""
    if seen.state is not None and run.model is None:
        _rescale(run, units, [each for each in seen.results if each.sequence <= seen.folded])
    fresh = _fresh(seen)
    if seen.forgotten:
        run.forget(list(seen.forgotten))
    asked = {each.ticket: each for each in fresh if each.ticket is not None}
    if asked:
        tickets = sorted(asked)
        run.tell(tickets, **_outcomes([asked[ticket] for ticket in tickets], units))
    unasked = sorted((each for each in fresh if each.ticket is None), key=_by_content)
    if unasked:
        run.tell(arms=np.array([each.arm for each in unasked]), **_outcomes(unasked, units))


def _by_content(result: StoredResult) -> tuple[int, bool, float]:
    return result.arm, result.value is None, result.value or 0.0


def _outcomes(results: list[StoredResult], units: Units) -> dict[str, Any]:
    values = [0.0 if each.value is None else each.value for each in results]
    return {"rewards": units.rewards(values).tolist(), "failed": [each.value is None for each in results]}
