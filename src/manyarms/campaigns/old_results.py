"""The old results of a campaign: read from files and campaigns when it is created, and kept in its settings.

A file of old results has the columns of the table of candidates that are features, a column `value`, and
optionally `noise_std` or `replicates`. It needs no id: its rows are not candidates. The rows themselves are
stored, so that a file that moves or changes later makes no difference.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from manyarms.campaigns.pool_file.files import column_names, has_columns, text_columns
from manyarms.campaigns.pool_file.parts import fitting_source
from manyarms.campaigns.pool_file.source import Source
from manyarms.campaigns.results_file import NOISE_COLUMNS, checked_noise, checked_value
from manyarms.campaigns.store.result_noise import ResultNoise
from manyarms.errors import ManyarmsError, NoResultsError, ResultsFileError, SettingsError, shown
from manyarms.learning import Prepared
from manyarms.pool.pool import Pool
from manyarms.run.prior_results import LEAST, PriorResults, with_prior

MOST_ROWS = 20_000  # of old results that a campaign keeps

Plain = dict[str, Any]  # the old results of one source, as JSON data


def old_results(source: Source, files: Sequence[str], campaigns: Sequence[str]) -> tuple[Plain, ...]:
    """The old results of these files and campaigns, for a campaign on this table."""
    if not (files or campaigns):
        return ()
    if source.molecular or not has_columns(source.path):
        raise SettingsError("old results need a table of candidates with columns of numbers and categories")
    found = [_from_file(source, Path(file)) for file in files]
    return (*found, *(_from_campaign(campaign) for campaign in campaigns))


def prior_of(plain: Sequence[Mapping[str, Any]]) -> tuple[PriorResults, ...]:
    """The sources that `old_results` returned as data."""
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


def _from_file(source: Source, path: Path) -> Plain:
    if not path.is_file():
        raise ResultsFileError(f"{path}: no such file")
    read, pool = fitting_source(replace(source, id=None), path.absolute(), {})
    header = column_names(path, read.text_form)
    if "value" not in header:
        raise ResultsFileError(f"{path}: no column 'value'; the file has {shown(header)}")
    (texts,) = text_columns(path, read.text_form, ["value"])
    point = read.text_form.decimal
    values, noises = [], list[ResultNoise]()
    used = [name for name in NOISE_COLUMNS if name in header and name not in source.column_names()]
    columns = dict(zip(used, text_columns(path, read.text_form, used) if used else [], strict=True))
    for row, text in enumerate(texts):
        where = f"{path}: row {row}"
        values.append(checked_value(where, text.strip().replace(point, ".")))
        cells = [
            columns[name][row].strip().replace(point, ".") if name in columns else ""
            for name in NOISE_COLUMNS
        ]
        noises.append(checked_noise(f"{where}, ", cells[0] or None, cells[1] or None))
    return _plain(path.name, pool, values, noises)


def _from_campaign(campaign: str) -> Plain:
    from manyarms.campaigns.campaign import Campaign  # which imports the settings that keep old results
    from manyarms.campaigns.queries import snapshot

    with Campaign(campaign) as old:
        if old.settings.source.molecular:
            raise SettingsError(
                f"{campaign}: old results need candidates with columns of numbers and categories"
            )
        seen = [each for each in snapshot(old).results if each.value is not None]
        if not seen:
            raise NoResultsError(f"{campaign}: the campaign has no results")
        rows = old.pool.take(np.array([each.arm for each in seen]))
        pool = Pool(rows, names=old.pool.names)
        return _plain(Path(campaign).name, pool, [each.value for each in seen], [each.noise for each in seen])


def _plain(name: str, pool: Pool, values: Sequence[float | None], noises: Sequence[ResultNoise]) -> Plain:
    if not LEAST <= len(values) <= MOST_ROWS:
        raise SettingsError(f"{name}: {len(values)} old results, from {LEAST} to {MOST_ROWS} can be used")
    return {
        "from": name,
        "names": pool.names,
        "features": np.asarray(pool.take(np.arange(pool.n_arms)), dtype=np.float64).tolist(),
        "values": list(values),
        "noise_std": [noise.std for noise in noises],
        "replicates": [noise.replicates or 1 for noise in noises],
    }


def check_old_results(plain: Sequence[Mapping[str, Any]], pool: Pool) -> None:
    """Raise an error that names the source whose columns do not fit those of the pool."""
    for each, source in zip(plain, prior_of(plain), strict=True):
        try:
            source.rows_for(pool)
        except ManyarmsError as problem:
            raise SettingsError(f"{each['from']}: {problem}") from None
