"""Read the old results of files and of other campaigns, when a campaign is created.

A file of old results has the columns of the table of candidates that are features, a column `value`, and
optionally `noise_std` or `replicates`. It needs no ids and no costs: its rows are not candidates. With a
column `ticket`, as batch files have, or `failed`, rows of trials that failed or were not made are left out.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path

import numpy as np

from manyarms.campaigns.candidates import CampaignCandidates
from manyarms.campaigns.old_results import Plain
from manyarms.campaigns.pool_file.columns import COST
from manyarms.campaigns.pool_file.files import column_names, has_columns, text_columns
from manyarms.campaigns.pool_file.parts import fitting_source
from manyarms.campaigns.pool_file.source import Source
from manyarms.campaigns.pool_file.understanding import place
from manyarms.campaigns.results_file import (
    NOISE_COLUMNS,
    checked_noise,
    checked_value,
    failed_trial,
    usual_names,
)
from manyarms.campaigns.store.result_noise import ResultNoise
from manyarms.errors import NoResultsError, ResultsFileError, SettingsError, shown
from manyarms.pool.pool import Pool
from manyarms.run.prior_results import LEAST

_FAILED, _TICKET = "failed", "ticket"
MOST_ROWS = 20_000  # of old results that a campaign keeps

OpenCampaign = Callable[[str], AbstractContextManager[CampaignCandidates]]


def read_old_results(
    source: Source, files: Sequence[str], campaigns: Sequence[str], opened: OpenCampaign
) -> tuple[Plain, ...]:
    """The old results of these files and campaigns, for a campaign on this table.

    `opened` opens a campaign; it is handed in because campaigns read old results when they are created.
    """
    if not (files or campaigns):
        return ()
    if source.molecular or not has_columns(source.path):
        raise SettingsError("old results need a table of candidates with columns of numbers and categories")
    found = [_from_file(source, Path(file)) for file in files]
    return (*found, *(_from_campaign(campaign, opened) for campaign in campaigns))


def _from_file(source: Source, path: Path) -> Plain:
    if not path.is_file():
        raise ResultsFileError(f"{path}: no such file")
    plans = tuple(plan for plan in source.columns if plan.role != COST)
    read, pool = fitting_source(replace(source, id=None, cost=None, columns=plans), path.absolute(), {})
    header, own = column_names(path, read.text_form), source.column_names()
    names = usual_names(path, header, ("value", _FAILED, _TICKET, *NOISE_COLUMNS), own)
    if "value" not in names:
        raise ResultsFileError(f"{path}: no column 'value'; the file has {shown(header)}")
    point = read.text_form.decimal
    values, noises, kept = list[float](), list[ResultNoise](), list[int]()
    used = ["value", *(name for name in (_FAILED, *NOISE_COLUMNS) if name in names and name not in own)]
    texts = text_columns(path, read.text_form, [header[names.index(name)] for name in used])
    columns = dict(zip(used, texts, strict=True))
    may_be_open = _FAILED in columns or (_TICKET in names and _TICKET not in own)
    for row, text in enumerate(columns["value"]):
        where = place(path, read.text_form, row)
        failed = failed_trial(where, columns[_FAILED][row] if _FAILED in columns else "", text.strip())
        if may_be_open and (failed or not text.strip()):
            continue
        kept.append(row)
        values.append(checked_value(where, text.strip().replace(point, ".")))
        cells = [
            columns[name][row].strip().replace(point, ".") if name in columns else ""
            for name in NOISE_COLUMNS
        ]
        noises.append(checked_noise(f"{where}, ", cells[0] or None, cells[1] or None))
    left_out = pool.n_arms - len(kept)
    if kept and left_out:
        pool = Pool(pool.take(np.array(kept, dtype=np.int64)), names=pool.names)
    return _plain(path.name, pool, values, noises) | ({"left_out": left_out} if left_out else {})


def _from_campaign(campaign: str, opened: OpenCampaign) -> Plain:
    with opened(campaign) as old:
        if old.settings.source.molecular:
            raise SettingsError(
                f"{campaign}: old results need candidates with columns of numbers and categories"
            )
        with old.store.reading() as connection:
            results = old.store.snapshot(connection).results
        seen = [each for each in results if each.value is not None]
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
