"""The next ask as a pure function of the settings, the pool and one snapshot of the database.

The run starts from the state that the last ask left, records the new results in an order that depends only on
their contents, then chooses a batch. A learned model is part of that state and is learned again as results
accumulate. With a given kernel, rewards are converted to units that follow from all results so far. If a
result that the state includes was corrected, the run begins again from all results, with the tickets as they
were handed out. Whoever asks, on any machine and after any interruption, gets the same batch.

Learning needs only the arms that were pulled, so it happens on a pool of those arms. The whole pool is then
passed over once, on the resulting sketch. That pass costs O(A·m²), so the sketch is limited to
`most_inducing` arms.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from manyarms.campaigns.assumptions import Units, assumed_units, grouped, most_inducing
from manyarms.campaigns.certify import certificate_in_units, check_gap
from manyarms.campaigns.failures import failure_facts
from manyarms.campaigns.old_results import prepared_with
from manyarms.campaigns.orders import Order
from manyarms.campaigns.outlook import check_gain, of_batch
from manyarms.campaigns.resolve_settings import prepared_for
from manyarms.campaigns.settings import Settings
from manyarms.campaigns.sketch_limit import policy_in_use, thinned, with_kept_oversampling
from manyarms.campaigns.store.result_noise import USUAL
from manyarms.campaigns.store.store import Snapshot, StoredResult
from manyarms.embeddings.grouped_nystrom import GroupedNystrom
from manyarms.engines.base import Engine
from manyarms.errors import InvalidParameterError
from manyarms.learning import Prepared
from manyarms.learning.prepared_pool import takes
from manyarms.policies import Policy
from manyarms.pool.costs import Costs
from manyarms.pool.pool import Pool
from manyarms.run.belief import Belief
from manyarms.run.compact_state import CompactState
from manyarms.run.context import RunContext
from manyarms.run.feedback import relearned, with_feedback
from manyarms.run.improvement import expected_improvements
from manyarms.run.optimizer import Optimizer
from manyarms.run.state import RunState
from manyarms.run.telling import told
from manyarms.run.tickets import Tickets
from manyarms.run.trace import Batch
from manyarms.support.threads import one_thread, threads_for
from manyarms.support.validation import Floats, Ints

SHARE = 0.9  # the probability of a prediction interval


@dataclass(frozen=True)
class Prediction:
    """The prediction for a candidate, in the user's units.

    SHARE of the measured values are expected between `lower` and `upper`, noise included. A learned model
    without any result does not know the user's units, so there is no interval.
    """

    mean: float
    std: float
    lower: float | None = None
    upper: float | None = None


@dataclass(frozen=True)
class Proposal:
    """A batch that can be handed out, and what has to be stored with it."""

    batch: Batch
    names: list[str]
    predictions: list[Prediction]
    facts: dict[str, Any]  # the batch's columns in the database
    state: bytes
    outlook: dict[str, Any] | None = None  # what the batch is expected to add
    costs: list[float] | list[None] = field(default_factory=list)  # of each ticket
    gains: list[float] | list[None] = field(default_factory=list)  # by each candidate alone


@dataclass(frozen=True)
class ModelInput:
    """What every ask reads and none changes: the settings, and the candidates in the form the model uses.

    `prepared` is None if the kernel was given. Preparing the pool for a learned model needs all of it: the
    scale of a column must not depend on which candidates were measured.
    """

    settings: Settings
    pool: Pool
    prepared: Prepared | None = None
    prepared_at: int = 0  # the number of arms when the features were last prepared from scratch
    engine: Engine | None = None  # where all candidates are held; None: in this process
    costs: Costs | None = None

    @classmethod
    def of(cls, settings: Settings, pool: Pool, sizes: Sequence[int] = ()) -> ModelInput:
        """Prepare the pool of a campaign. `sizes` are its numbers of arms after each table was added.

        Added arms are encoded like those before them, so that the model stays valid. If they cannot be, all
        arms are prepared again, and the next ask learns the model again.
        """
        if not settings.learned:
            return cls(settings, pool)
        first, *larger = [pool if size == pool.n_arms else pool.first(size) for size in sizes] or [pool]
        prepared, prepared_at = _prepared(settings, first), first.n_arms
        for grown in larger:
            more = prepared.encode(grown.features[first.n_arms :])
            accepted = all(takes(family.kernel(family.typical), more) for family in prepared.families)
            if prepared.suits(more) and accepted:
                ids = grown.ids[first.n_arms :] if grown.has_ids else None
                encoded = grown if prepared.pool is first else prepared.pool.extended(more, ids)
                prepared = prepared.extended(encoded)
            else:
                prepared, prepared_at = _prepared(settings, grown), grown.n_arms
            first = grown
        return cls(settings, prepared.pool, prepared, prepared_at)

    def only(self, arms: Ints) -> ModelInput:
        """The same with these candidates only."""
        few = Pool(self.pool.take(arms), max_memory=self.pool.max_memory)
        prepared = self.prepared and replace(self.prepared, pool=few)
        return replace(self, pool=few, prepared=prepared, engine=None, costs=None)

    def assumed(self, seen: Snapshot) -> tuple[Policy, Units]:
        """The policy, and the units of its rewards."""
        given = self.settings
        if given.learned:
            return given.build_policy(None), Units(given.sign)
        units = units_of(given, seen)
        return given.build_policy(units.noise_std), units

    def context(self, policy: Policy) -> RunContext:
        """The context of a run on these candidates."""
        return RunContext.checked(
            self.pool, policy, **self.settings.run_settings(), prepared=self.prepared, engine=self.engine,
            costs=self.costs,
        )  # fmt: skip


def _prepared(settings: Settings, pool: Pool) -> Prepared:
    prepared = prepared_for(settings.source, pool)
    return prepared_with(prepared, pool, settings.prior, settings.sign)


def units_of(given: Settings, seen: Snapshot) -> Units:
    """The units of a campaign with a given kernel, from every result so far."""
    weights = [each.noise.weight for each in seen.results if each.value is not None]
    return assumed_units(given.sign, given.noise, given.signal, given.mean, values_of(seen), weights)


def values_of(seen: Snapshot) -> list[tuple[int, float]]:
    """Every result that is not a failure, as (arm, value)."""
    return [(each.arm, each.value) for each in seen.results if each.value is not None]


def current(model_input: ModelInput, seen: Snapshot, warm: Belief | None = None) -> tuple[Optimizer, Units]:
    """The run with every result used, ready to be asked, and the units of its rewards.

    A belief `warm` of an earlier ask of the same campaign saves time and does not change the result.
    """
    with threads_for(model_input.pool.n_arms):
        run, units = _current(model_input, seen, warm)
    return Optimizer.of(run.context, replace(run.state, cost_spent=seen.cost_spent)), units


def _current(model_input: ModelInput, seen: Snapshot, warm: Belief | None) -> tuple[Optimizer, Units]:
    policy, units = model_input.assumed(seen)
    context = model_input.context(policy)
    saved = None if seen.state is None else CompactState.from_bytes(seen.state)
    again = saved is not None and saved.n_arms < model_input.prepared_at
    corrected = seen.issued is not None
    if saved is not None and saved.n_arms < model_input.pool.n_arms:
        saved = saved.expanded(np.arange(saved.n_arms), model_input.pool.n_arms)
    if saved is not None and seen.issued is not None:
        saved = replace(saved, tickets=Tickets(saved.tickets.next_ticket, dict(seen.issued)))
    elif saved is not None and not model_input.settings.learned:
        saved = _rescaled(saved, units, [each for each in seen.results if each.sequence <= seen.folded])
    if not seen.results or _made_for_the_pool(policy):
        state = _restored(context, saved, again, corrected)
        return Optimizer.of(context, with_feedback(context, _told(context, state, units, seen))), units
    arms = np.unique([each.arm for each in seen.results])
    if saved is not None:
        saved, arms = saved.restricted(arms)
    few = model_input.only(arms).context(policy)
    with one_thread():  # on the arms that were pulled, however large the pool is
        state = _restored(few, saved, again, corrected, None if warm is None else warm.state.grouped)
        embedding = state.belief.state.grouped
        state = with_feedback(few, _told(few, state, units, _among(seen, arms)))
        few, state = thinned(few, state, most_inducing(model_input.pool.n_arms), len(_fresh(seen)))
    learned = CompactState.of(few, state).expanded(arms, model_input.pool.n_arms)
    context = replace(context, policy=policy_in_use(few, state))
    return Optimizer.of(context, learned.on(context, warm, embedding)), units


def _restored(
    context: RunContext,
    saved: CompactState | None,
    again: bool,
    corrected: bool,
    embedding: GroupedNystrom | None = None,
) -> RunState:
    """The saved run; an `embedding` that it shares saves time.

    With `again`, it is under a model learned anew, because its features were prepared again. With
    `corrected`, only its tickets, design and counters are kept: a result that it includes has changed.
    """
    if saved is None:
        return RunState.initial(context)
    if not again and not corrected:
        return with_kept_oversampling(saved.on(context, embedding=embedding))
    initial = RunState.initial(context)
    kept = {name: getattr(saved, name) for name in ("tickets", "design", "n_batches", "n_feedbacks")}
    if corrected:
        return replace(initial, **kept)
    belief = relearned(context, initial.belief, saved.history) if len(saved.history) else initial.belief
    kept["n_feedbacks"] += 1
    return replace(initial, belief=belief, history=saved.history, n_unasked=saved.n_unasked, **kept)


def _made_for_the_pool(policy: Policy) -> bool:
    """Whether the policy needs the whole pool at its start, for a feature map or for prior draws."""
    own = ("on", "feature_map", "prior", "process")
    return any(getattr(type(policy), name) is not getattr(Policy, name) for name in own)


def _among(seen: Snapshot, arms: Ints) -> Snapshot:
    """The same results on a pool of these arms only."""
    places = np.searchsorted(arms, [each.arm for each in seen.results]).tolist()
    results = (replace(each, arm=place) for each, place in zip(seen.results, places, strict=True))
    return replace(seen, results=tuple(results))


def propose(
    settings: Settings,
    now: tuple[Optimizer, Units],
    seen: Snapshot,
    order: Order,
    warnings: tuple[str, ...] = (),
) -> Proposal:
    """The next batch of a run: ended by the stopping rule, limited to `at_most`, or of exactly n candidates.

    It is an error if the gap of the certificate is already at most `until_gap`, or if the batch is expected
    to add at most `until_gain`. `warnings` about the table are stored with the state.
    """
    run, units = now
    before = run.state
    certificate = certificate_in_units(run, units, settings)
    if order.until_gap is not None:
        check_gap(certificate, order.until_gap)
    allowed = _allowed(run.pool.n_arms, order.eligible, seen.excluded)
    batch = run.ask(
        order.n, at_most=order.at_most, eligible=allowed, structure=order.structure,
        max_cost=order.max_cost, per_cost=order.per_cost,
    )  # fmt: skip
    outlook = of_batch(run, before, batch.arms, units)
    if order.until_gain is not None:
        check_gain(outlook, order.until_gain)
    record = run.trace[-1]
    facts = {
        "number": seen.batches + 1, "size": len(batch), "ended_because": batch.ended_because,
        "ratio": float(record.ratio), "dictionary_size": record.dictionary_size, "width": float(record.width),
        "effective_dimension": float(record.effective_dimension), **_best(run, units),
    }  # fmt: skip
    names = [str(id) for id in batch.ids]
    saved = replace(
        run.compact(), certificate=certificate, outlook=outlook, warnings=warnings,
        failures=failure_facts(run, before, batch, settings),
    )  # fmt: skip
    predictions = _predictions(run, units, batch.arms)
    costs, gains = _costs_and_gains(run, before, batch, units)
    return Proposal(batch, names, predictions, facts, saved.to_bytes(), outlook, costs, gains)


def _costs_and_gains(
    run: Optimizer, before: RunState, batch: Batch, units: Units
) -> tuple[list[float] | list[None], list[float] | list[None]]:
    """What each candidate costs, and by how much it alone is expected to improve the best one."""
    unknown: list[None] = [None] * len(batch)
    if batch.costs is None:
        return unknown, unknown
    if not before.belief.state.pulls:
        return batch.costs.tolist(), unknown
    gains = expected_improvements(run.context, before, batch.arms)
    return batch.costs.tolist(), [units.spread(gain) for gain in gains.tolist()]


def _allowed(n_arms: int, eligible: Any, excluded: Sequence[int]) -> Any:
    """The mask of the candidates that may be chosen; None if all of them may."""
    if eligible is None and not excluded:
        return None
    mask = np.ones(n_arms, dtype=bool) if eligible is None else np.array(eligible, dtype=bool)
    if mask.shape != (n_arms,):
        raise InvalidParameterError("eligible", mask.shape, f"a mask over all {n_arms} candidates")
    mask[list(excluded)] = False
    return mask


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


def _rescaled(saved: CompactState, units: Units, known: list[StoredResult]) -> CompactState:
    """The state with the same results in the present units."""
    by_arm = grouped((each.arm, each.value) for each in known)
    history = saved.history.with_rewards(*_sums(saved.history.arms, by_arm, units))
    posterior = replace(saved.posterior, sums=_sums(saved.posterior.arms, by_arm, units)[0])
    if any(each.noise != USUAL for each in known):
        counts, sums = _weighted(saved.posterior.arms, known, units)
        posterior = replace(posterior, counts=counts, sums=sums)
    return replace(saved, history=history, posterior=posterior)


def _sums(arms: Ints, by_arm: dict[int, list[float]], units: Units) -> tuple[Floats, Floats]:
    rewards = [units.rewards(sorted(by_arm[arm])).tolist() for arm in arms.tolist()]
    sums = np.array([math.fsum(each) for each in rewards])
    return sums, np.array([math.fsum(r * r for r in each) for each in rewards])


def _weighted(arms: Ints, known: list[StoredResult], units: Units) -> tuple[Floats, Floats]:
    """Counts and sums by arm with the weight of each result, which changes with the units if it is stated."""
    by_arm: dict[int, list[tuple[float, float]]] = {arm: [] for arm in arms.tolist()}
    for each in known:
        if each.value is not None:
            by_arm[each.arm].append((each.value, units.weight(each.noise.std, each.noise.weight)))
    counts = [math.fsum(weight for _, weight in each) for each in by_arm.values()]
    sums = [
        math.fsum(weight * float(units.rewards([value])[0]) for value, weight in sorted(each))
        for each in by_arm.values()
    ]
    return np.array(counts), np.array(sums)


def _told(context: RunContext, state: RunState, units: Units, seen: Snapshot) -> RunState:
    """The state with the results and forgotten tickets since the last ask, in an order of their contents."""
    fresh = _fresh(seen)
    if seen.forgotten:
        state = replace(state, tickets=state.tickets.given_up(list(seen.forgotten)))
    asked = {each.ticket: each for each in fresh if each.ticket is not None}
    if asked:
        tickets = sorted(asked)
        state = told(context, state, tickets, **_outcomes([asked[ticket] for ticket in tickets], units))
    unasked = sorted((each for each in fresh if each.ticket is None), key=_by_content)
    if unasked:
        arms = np.array([each.arm for each in unasked])
        state = told(context, state, arms=arms, **_outcomes(unasked, units))
    return state


def _by_content(result: StoredResult) -> tuple[int, bool, float, float, int]:
    noise = result.noise
    return result.arm, result.value is None, result.value or 0.0, noise.std or 0.0, noise.replicates or 1


def _outcomes(results: list[StoredResult], units: Units) -> dict[str, Any]:
    values = [0.0 if each.value is None else each.value for each in results]
    outcomes = {"rewards": units.rewards(values).tolist(), "failed": [each.value is None for each in results]}
    if all(each.noise == USUAL for each in results):
        return outcomes
    return outcomes | {
        "noise_std": [None if each.noise.std is None else each.noise.std / units.scale for each in results],
        "replicates": [each.noise.replicates or 1 for each in results],
    }
