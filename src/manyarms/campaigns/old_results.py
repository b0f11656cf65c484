"""The old results of a campaign, as its settings keep them and as a run uses them.

`read_old_results.py` reads them from files and campaigns when a campaign is created. The rows themselves are
stored, so that a file that moves or changes later makes no difference.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from manyarms.errors import ManyarmsError, SettingsError
from manyarms.learning import Prepared
from manyarms.pool.pool import Pool
from manyarms.run.prior_results import PriorResults, with_prior

Plain = dict[str, Any]  # the old results of one source, as JSON data


def prior_of(plain: Sequence[Mapping[str, Any]]) -> tuple[PriorResults, ...]:
    """The sources that `read_old_results` returned as data."""
    return tuple(
        PriorResults(
            Pool(np.array(each["features"], dtype=np.float64), names=each["names"]), each["values"],
            noise_std=each["noise_std"], replicates=each["replicates"],
        )
        for each in plain
    )  # fmt: skip


def prepared_with(
    prepared: Prepared, pool: Pool, plain: Sequence[Mapping[str, Any]], sign: float
) -> Prepared:
    """The preparation of a pool, with what the old results predict."""
    return with_prior(prepared, pool, prior_of(plain), sign) if plain else prepared


def left_out(plain: Sequence[Mapping[str, Any]]) -> list[str]:
    """A sentence for each source some of whose rows have no value."""
    return [
        f"old results of {each['from']}: {len(each['values'])} used; "
        f"{each['left_out']} that failed or have no value left out"
        for each in plain
        if each.get("left_out")
    ]


def check_old_results(plain: Sequence[Mapping[str, Any]], pool: Pool) -> None:
    """Raise an error that names the source whose columns do not fit those of the pool."""
    for each, source in zip(plain, prior_of(plain), strict=True):
        try:
            source.rows_for(pool)
        except ManyarmsError as problem:
            raise SettingsError(f"{each['from']}: {problem}") from None
