"""The next ask as a pure function of what is stored: settings, pool, and one snapshot of the database.

The model starts from the state that the last ask left, is rescaled to the units of everything told since,
takes the new results in sorted by ticket, and chooses. Whoever asks, on whatever machine, after whatever
interruption, gets the same batch.

Learning needs only the arms that were pulled, so it happens on a pool of those, and the whole pool is passed
over once, on the sketch that came out. That pass costs O(A·m²): the sketch is held to `most_inducing` arms.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from manyarms.campaigns.assumptions import Units, assumed_units, grouped, most_inducing
from manyarms.campaigns.settings import Settings
from manyarms.campaigns.store import Result, Snapshot
from manyarms.light_state import from_bytes, narrowed, to_bytes, widened
from manyarms.optimizer import Optimizer
from manyarms.policies import Policy, Sparse
from manyarms.pool import Pool
from manyarms.trace import Batch
from manyarms.validation import Floats, Ints

BULK = 200  # results at once
_THINNINGS = 20


@dataclass(frozen=True)
class Proposal:
    """A batch that could be handed out, with what is to be stored about it; values in the user's units."""

    batch: Batch
    names: list[str]
    predicted: list[float]
    predicted_std: list[float]
    facts: dict[str, Any]  # the batch's columns in the database
    state: bytes


def current(pool: Pool, settings: Settings, seen: Snapshot, plate: bool = False) -> tuple[Optimizer, Units]:
    """The model with every result told so far, about to be asked, and the units it works in."""
    told = [(each.arm, each.value) for each in seen.results if each.value is not None]
    units = assumed_units(settings.sign, settings.noise, settings.signal, settings.mean, told)
    policy = settings.build_policy(settings.saved_kernel(), units.noise_std, plate)
    if not seen.results or _made_for_the_pool(policy):
        run = _at_the_last_ask(pool, settings, seen, policy)
        _take_in(run, units, seen)
        return run, units
    arms = np.unique([each.arm for each in seen.results])
    if seen.state is not None:
        state, arms = narrowed(seen.state, arms)
        seen = replace(seen, state=state)
    few, seen = _only(pool, arms), _among(seen, arms)
    run = _at_the_last_ask(few, settings, seen, policy)
    _take_in(run, units, seen)
    learned = _thinned(run, most_inducing(pool.n_arms), len(_fresh(seen)))
    return from_bytes(widened(learned, arms, pool), pool, policy), units


def _made_for_the_pool(policy: Policy) -> bool:
    """Whether the policy looks at the whole pool when it begins: for a feature map, or for prior draws."""
    own = ("on", "features", "prior", "posterior")
    return any(getattr(type(policy), name) is not getattr(Policy, name) for name in own)


def _at_the_last_ask(pool: Pool, settings: Settings, seen: Snapshot, policy: Policy) -> Optimizer:
    if seen.state is None:
        return Optimizer(pool, policy, **settings.run_settings())
    return from_bytes(seen.state, pool, policy)


def _only(pool: Pool, arms: Ints) -> Pool:
    return Pool(pool.take(arms), max_memory=pool.max_memory)


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
    learned = to_bytes(run, learn=True)
    if not isinstance(run.policy, Sparse) or (fresh <= BULK and run.posterior.state.width <= most):
        return learned
    oversampling = run.policy.oversampling
    run.extend_horizon(oversampling)
    for _ in range(_THINNINGS):
        if run.posterior.state.width <= most:
            break
        oversampling *= 0.9 * most / run.posterior.state.width
        run.extend_horizon(oversampling)
    return to_bytes(run)


def propose(pool: Pool, settings: Settings, seen: Snapshot, n: int | None, at_most: int | None) -> Proposal:
    """The next batch: by the policy's rule, capped, or exactly n."""
    run, units = current(pool, settings, seen, plate=n is not None)
    batch = run.ask(n, at_most=at_most)
    mean, std = run.predict(batch.arms)
    record = run.trace[-1]
    facts = {
        "number": seen.batches + 1, "size": len(batch), "ended_because": batch.ended_because,
        "ratio": float(record.ratio), "dictionary_size": record.dictionary_size, "width": float(record.width),
        "effective_dimension": float(record.effective_dimension), **_best(run, units),
    }  # fmt: skip
    return Proposal(
        batch, [str(id) for id in batch.ids],
        [units.value(each) for each in mean.tolist()], [units.spread(each) for each in std.tolist()],
        facts, to_bytes(run),
    )  # fmt: skip


def _best(run: Optimizer, units: Units) -> dict[str, Any]:
    if not len(run.history):
        return {"best_arm": None, "best_mean": None, "best_lower": None, "best_upper": None}
    best = run.best()
    lower, upper = units.interval(best.lower, best.upper)
    return {
        "best_arm": best.arm, "best_mean": units.value(best.mean), "best_lower": lower, "best_upper": upper
    }  # fmt: skip


def _fresh(seen: Snapshot) -> list[Result]:
    return [each for each in seen.results if each.sequence > seen.folded]


def _rescale(run: Optimizer, units: Units, known: list[Result]) -> None:
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


def _take_in(run: Optimizer, units: Units, seen: Snapshot) -> None:
    """Results and given-up tickets since the last ask, in an order that does not depend on who was first."""
    if seen.state is not None:
        _rescale(run, units, [each for each in seen.results if each.sequence <= seen.folded])
    fresh = _fresh(seen)
    if seen.forgotten:
        run.forget(list(seen.forgotten))
    asked = {each.ticket: each for each in fresh if each.ticket is not None}
    if asked:
        tickets = sorted(asked)
        run.tell(tickets, **_outcomes([asked[ticket] for ticket in tickets], units))
    unasked = [each for each in fresh if each.ticket is None]
    if unasked:
        run.tell(arms=np.array([each.arm for each in unasked]), **_outcomes(unasked, units))


def _outcomes(results: list[Result], units: Units) -> dict[str, Any]:
    values = [0.0 if each.value is None else each.value for each in results]
    return {"rewards": units.rewards(values).tolist(), "failed": [each.value is None for each in results]}
