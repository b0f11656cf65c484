"""A renewal: results are used, inducing points drawn, and past results discounted if the rewards drift.

The order is that of the papers (BKB Algorithm 1, BBKB l. 11–18): leverage scores from before the update
decide which of the new rows become inducing points, then the posterior is conditioned.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np

from manyarms.choice.widths import guess_and_double
from manyarms.contextual.ledger import Told
from manyarms.contextual.model import RowValues, StreamedPosterior
from manyarms.contextual.open_picks import OpenPicks
from manyarms.contextual.renewal import PicksSince
from manyarms.contextual.state import BanditState, Settings, WindowResult
from manyarms.sketch.inducing import AllPulled, LeverageScores, oversampling_at
from manyarms.support.frozen import changed
from manyarms.support.random_streams import RandomStreams
from manyarms.support.validation import Floats, Ints

_BLOCK = 512
MOST_AT_ONCE = 512  # results of one renewal: it compares all new rows with each other


@dataclass(frozen=True)
class GroupedResults:
    """Results by different rows: the number of results, Σ c and Σ c y of each row, and the place of each."""

    rows: Any
    counts: Floats
    weights: Floats
    sums: Floats
    places: Ints  # the row of each result
    weight_of: Floats  # c of each result
    rewards: Floats


def renewed(
    settings: Settings, state: BanditState, waiting: Sequence[Told], still_open: Sequence[Any]
) -> BanditState:
    """The state with these results used; `still_open` are the rows of the picks that have no result yet.

    Many results, such as a log, are used in several renewals, so that memory does not grow with their square.
    """
    if len(waiting) > MOST_AT_ONCE:
        waiting = sorted(waiting, key=lambda one: one.order)
    for start in range(0, len(waiting), MOST_AT_ONCE):
        state = _renewed_once(settings, state, waiting[start : start + MOST_AT_ONCE])
    return _with_open(settings, state, still_open)


def _renewed_once(settings: Settings, state: BanditState, waiting: Sequence[Told]) -> BanditState:
    """One renewal, with no picks that have no result yet."""
    model, window = state.model, state.window
    elapsed = state.rounds - state.discounted_at
    fade = settings.forgetting**elapsed
    if fade < 1:
        model = model.discounted(fade)
    results = _grouped(settings, state, waiting)
    before = _values(state, model, results.rows)
    leverage = before.leverage[results.places]
    chosen = _drawn(settings, state, results, before)
    if len(chosen):
        model = model.with_inducing(before.part(chosen))
        if settings.max_inducing is not None:
            model, T = model.limited(settings.max_inducing)
            if T is not None:
                window = tuple(replace(one, z=T[:, : len(one.z)] @ one.z) for one in window)
    values = before if model.embedding is state.model.embedding else model.at(results.rows, state.prior_max)
    model = model.conditioned(values, results.weights, results.sums)
    if settings.window is not None:
        model, window = _slid(model, window, values, results, settings.window)
    return changed(
        state,
        model=model,
        window=window,
        last=None,
        discounted_at=state.rounds,
        norm_bound=_norm_bound(settings, state, before, results),
        triple_log_sum=fade * state.triple_log_sum + float(np.log1p(3 * leverage).sum()),
        log_sum=fade * state.log_sum + (float(np.log1p(leverage).sum()) if state.pulls else 0.0),
        pulls=state.pulls + len(waiting),
        renewals=state.renewals + 1,
    )


def _values(state: BanditState, model: StreamedPosterior, rows: Any) -> RowValues:
    """Mean and leverage before the update; if the only row is the last pick, they are known."""
    known = state.last
    if known is not None and len(rows) == 1 and model is state.model and row_key(rows) == row_key(known.rows):
        return known
    return model.at(rows, state.prior_max)


def _with_open(settings: Settings, state: BanditState, rows: Sequence[Any]) -> BanditState:
    """The state whose open picks are these, and in which the rounds since the renewal are counted afresh."""
    later = with_open_rows(settings, state, rows)
    picks = later.open_picks
    if not len(picks):
        return changed(later, since=PicksSince())
    leverage, roots = picks.values.leverage, np.sqrt(picks.counts)
    gain = np.linalg.slogdet(np.eye(len(picks)) + roots[:, None] * picks.between * roots)[1]
    since = PicksSince(
        0, float(picks.counts @ leverage), float(picks.counts @ np.log1p(leverage)), float(gain)
    )
    return changed(later, since=since)


def with_open_rows(settings: Settings, state: BanditState, rows: Sequence[Any]) -> BanditState:
    """The state whose open picks are the most recent different ones of these rows."""
    if not len(rows):
        return changed(state, open_picks=OpenPicks.none(state.open_picks.values))
    counts: dict[bytes, int] = {}
    kept: dict[bytes, Any] = {}
    for row in reversed(rows):
        key = row_key(row)
        if key not in kept and len(kept) == settings.max_open:
            break
        kept[key] = row
        counts[key] = counts.get(key, 0) + 1
    order = list(reversed(kept))
    values = state.model.at(np.concatenate([kept[key] for key in order]), state.prior_max)
    numbers = np.array([counts[key] for key in order], dtype=np.float64)
    return changed(state, open_picks=OpenPicks.of(state.model, values, numbers))


def row_key(row: Any) -> bytes:
    """A name of the row: equal rows have equal names."""
    array = np.asarray(row)
    return repr(array.tolist()).encode() if array.dtype.kind in "OU" else array.tobytes()


def _grouped(settings: Settings, state: BanditState, waiting: Sequence[Told]) -> GroupedResults:
    """The results sorted by ticket, with repeated rows counted together."""
    if len(waiting) == 1:  # the usual case
        one, number, reward = waiting[0], np.ones(1), np.array([waiting[0].reward])
        weight = np.array([_weight(settings, state, one)])
        none = np.zeros(1, dtype=np.int64)
        return GroupedResults(one.row, number, weight, weight * reward, none, weight, reward)
    told = sorted(waiting, key=lambda one: one.order)
    first: dict[bytes, int] = {}
    places = np.array([first.setdefault(row_key(one.row), len(first)) for one in told], dtype=np.int64)
    starts = np.unique(places, return_index=True)[1]
    rows = np.concatenate([told[place].row for place in starts.tolist()])
    rewards = np.array([one.reward for one in told])
    weights = np.array([_weight(settings, state, one) for one in told])
    size = len(first)
    return GroupedResults(
        rows,
        np.bincount(places, minlength=size).astype(np.float64),
        np.bincount(places, weights=weights, minlength=size).astype(np.float64),
        np.bincount(places, weights=weights * rewards, minlength=size).astype(np.float64),
        places,
        weights,
        rewards,
    )


def _weight(settings: Settings, state: BanditState, one: Told) -> float:
    """c: λ/noise² of the result (1 if its noise is the policy's), discounted by its age in rounds."""
    assert settings.policy.ridge is not None
    own = 1.0 if math.isnan(one.noise_std) else settings.policy.ridge / one.noise_std**2
    age = max(state.rounds - 1 - one.round, 0)
    return own * settings.forgetting**age


def _drawn(settings: Settings, state: BanditState, results: GroupedResults, before: RowValues) -> Ints:
    """Which of the new rows become inducing points."""
    rule = settings.inducing_rule
    if isinstance(rule, LeverageScores):
        t = state.pulls + float(results.counts.sum())
        rule = LeverageScores(oversampling_at(rule.oversampling, t), rule.draws)
        chance = rule.probabilities(results.counts, before.leverage)
        if (chance >= 1).all():
            return np.arange(len(chance))
        drawn = np.flatnonzero(_coins(settings, state.renewals, len(chance)) < chance)
        return drawn if len(drawn) or state.model.size else np.arange(1)  # S₁ = {x₁}
    return np.arange(len(results.counts) if isinstance(rule, AllPulled) else 0)


def _coins(settings: Settings, renewal: int, n: int) -> Floats:
    """n uniform numbers for this renewal; the first of each are drawn for many renewals at once."""
    if n == 1:
        coins: Floats = _first_coins(settings.streams, renewal // _BLOCK)[renewal % _BLOCK]
        return coins
    return settings.streams.at("inducing", renewal).random(n)


@lru_cache(maxsize=64)
def _first_coins(streams: RandomStreams, block: int) -> Floats:
    """One coin for each of `_BLOCK` renewals: making a generator takes longer than the rest of a renewal."""
    return streams.at("first coins", block).random((_BLOCK, 1))


def _slid(
    model: StreamedPosterior,
    window: tuple[WindowResult, ...],
    values: RowValues,
    results: GroupedResults,
    most: int,
) -> tuple[StreamedPosterior, tuple[WindowResult, ...]]:
    """The model and the window with these results added and the oldest beyond `most` results removed."""
    added = (
        WindowResult(values.z[place], float(values.residual[place]), weight, weight * reward)
        for place, weight, reward in zip(
            results.places.tolist(), results.weight_of.tolist(), results.rewards.tolist(), strict=True
        )
    )
    window = (*window, *added)
    leaving, window = window[: max(0, len(window) - most)], window[-most:]
    regression, missed, weight = model.regression, model.missed, model.weight
    for one in leaving:
        z = np.zeros(model.size)
        z[: len(one.z)] = one.z
        regression = regression.added(z, -one.weight, -one.total)
        missed, weight = max(missed - one.weight * one.residual, 0.0), weight - one.weight
    return changed(model, regression=regression, missed=missed, weight=max(weight, 0.0)), window


def _norm_bound(settings: Settings, state: BanditState, before: RowValues, results: GroupedResults) -> float:
    """F after guess-and-double (theory §4.9)."""
    policy = settings.policy
    if policy.norm_bound != "double":
        return state.norm_bound
    stds = np.sqrt(before.leverage[results.places])
    uncertain = stds > 1e-6 * math.sqrt(state.prior_max / state.model.ridge)
    errors = np.abs(results.rewards - before.mean[results.places])
    return guess_and_double(
        state.norm_bound,
        errors[uncertain],
        stds[uncertain],
        state.pulls + 1,
        lambda bound: state.width(settings, bound),
        policy.assumptions,
    )
