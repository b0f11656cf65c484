"""The choice of one row: an upper bound, a Thompson draw, or the highest mean with random exploration."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from manyarms.choice.highest import TIE
from manyarms.choice.selection import (
    EXPLORATION,
    HIGHEST_MEAN,
    RANDOM_START,
    THOMPSON_DRAW,
    UPPER_BOUND,
    EpsilonGreedy,
    ThompsonDraws,
    UpperBounds,
)
from manyarms.contextual.draws import drawn_values
from manyarms.contextual.model import RowValues
from manyarms.contextual.state import BanditState, Settings
from manyarms.support.frozen import changed
from manyarms.support.validation import Floats

_TIE = TIE[np.dtype(np.float64)]


@dataclass(frozen=True)
class Choice:
    """The index of the chosen row, why it was chosen, and the state after it was handed out."""

    index: int
    why: str
    state: BanditState


def chosen(settings: Settings, state: BanditState, values: RowValues) -> Choice:
    """Choose one of these rows, for the next round of `state`."""
    rule = settings.selection_rule
    columns: Floats = np.empty((len(values.mean), 0))
    leverage = values.leverage
    if settings.uses_open_picks and len(state.open_picks):
        columns = state.model.between(values, state.open_picks.values)
        leverage = state.open_picks.leverage(values, columns)
    if not state.pulls:
        rng = settings.streams.at("start", state.rounds)
        index, why = int(rng.choice(len(values.mean), size=1, replace=False)[0]), RANDOM_START
    elif isinstance(rule, UpperBounds):
        index, why = _highest(values.mean, values.leverage, leverage, _width(settings, state)), UPPER_BOUND
    elif isinstance(rule, ThompsonDraws):
        scale = state.width(settings) / math.sqrt(state.model.ridge)
        drawn = drawn_values(state.model, values, scale, settings.streams, state.rounds)
        index, why = int(np.argmax(drawn)), THOMPSON_DRAW
    else:
        assert isinstance(rule, EpsilonGreedy)
        rng = settings.streams.at("explore", state.rounds)
        random = rng.random() < rule.explore
        index = int(rng.integers(len(values.mean), size=1)[0]) if random else int(np.argmax(values.mean))
        why = EXPLORATION if random else HIGHEST_MEAN
    return Choice(index, why, _after(settings, state, values, index, columns, float(leverage[index])))


def _after(
    settings: Settings, state: BanditState, values: RowValues, index: int, columns: Floats, current: float
) -> BanditState:
    """The state after this pick; only upper bounds need the open picks."""
    picks, own = state.open_picks, values.part(slice(index, index + 1))
    if settings.uses_open_picks:
        picks = picks.with_pick(own, columns[index], settings.max_open)
    since = state.since.counted(float(own.leverage[0]), current)
    return changed(state, open_picks=picks, since=since, rounds=state.rounds + 1, last=own)


def _width(settings: Settings, state: BanditState) -> float:
    """β, times the square root of the excess of the realised ratio over the one that β allows for."""
    policy, width = settings.policy, state.width(settings)
    if not isinstance(policy.width, str) or state.open_picks.bound <= policy.ratio_bound:
        return width
    return width * math.sqrt(max(1.0, state.open_picks.ratio / policy.ratio_bound))


def _highest(mean: Floats, at_renewal: Floats, leverage: Floats, width: float) -> int:
    """The row with the highest bound; of those that rounding errors cannot tell apart, the first."""
    bounds = mean + width * np.sqrt(leverage)
    slack = _TIE * max(float(np.abs(mean + width * np.sqrt(at_renewal)).max()), 1e-300)
    return int(np.argmax(bounds >= bounds.max() - slack))
