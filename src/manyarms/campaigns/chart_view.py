"""A campaign as the charts show it (`manyarms.plots`)."""

from __future__ import annotations

from dataclasses import fields
from functools import cache
from typing import Any

import numpy as np

from manyarms.campaigns.assumptions import Units
from manyarms.campaigns.campaign import Campaign
from manyarms.campaigns.next_batch import values_of
from manyarms.campaigns.queries import batches, history, snapshot
from manyarms.plots.sources import model_view
from manyarms.plots.view import BatchLine, Measurement, ModelView, RunView
from manyarms.run.optimizer import Optimizer
from manyarms.support.validation import Floats


def campaign_view(campaign: Campaign) -> RunView:
    """The view of a campaign; the model is computed at the first chart that needs it."""

    @cache
    def model() -> ModelView | None:
        seen = snapshot(campaign)
        return model_in_units(campaign, *campaign.current(seen)) if values_of(seen) else None

    title, goal = campaign.store.where.name, campaign.settings.goal
    return RunView(title, goal, measurements(campaign), batch_lines(campaign), model)


def model_in_units(campaign: Campaign, run: Optimizer, units: Units) -> ModelView:
    """The model of a campaign, in the user's units and with the columns of the user's table."""

    def to_user(rewards: Floats) -> Floats:
        values: Any = units.value(rewards)  # type: ignore[arg-type]  # linear, so arrays work as well
        return np.asarray(values)

    pool = campaign.pool
    owners = None if pool.names is None else campaign.source.first.blocks(pool.names)
    return model_view(run, pool, owners, to_user)


def present_best(run: Optimizer, units: Units) -> tuple[float, float, float]:
    """The model's mean of its best candidate and the ends of its interval, in the user's units."""
    best = run.best()
    return units.value(best.mean), *units.interval(best.lower, best.upper)


def measurements(campaign: Campaign) -> list[Measurement]:
    """Every recorded result."""
    shared = [each.name for each in fields(Measurement)]
    return [Measurement(**{name: getattr(each, name) for name in shared}) for each in history(campaign)]


def batch_lines(campaign: Campaign) -> list[BatchLine]:
    """Every batch handed out."""
    names = [each.name for each in fields(BatchLine)]
    return [BatchLine(**{name: batch[name] for name in names}) for batch in batches(campaign)]
