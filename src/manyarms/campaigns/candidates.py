"""The candidates of a campaign: its tables, the pool, and which candidates are excluded."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from manyarms.campaigns.assumptions import Units
from manyarms.campaigns.costs import cost_column, costs_of
from manyarms.campaigns.eligible import Mask, column_labels, eligible_by_condition
from manyarms.campaigns.engine_settings import ConnectedEngine, lost_scheduler
from manyarms.campaigns.leakage import check_no_column_holds_results, resembling_columns
from manyarms.campaigns.next_batch import ModelInput, current, values_of
from manyarms.campaigns.pool_file.fingerprints import ProgressCallback
from manyarms.campaigns.pool_file.parts import Candidates, fitting_source, joined
from manyarms.campaigns.pool_file.source import Source
from manyarms.campaigns.resolve_settings import column_spreads
from manyarms.campaigns.settings import Settings
from manyarms.campaigns.store import candidates as stored
from manyarms.campaigns.store.store import Snapshot, Store, now_text
from manyarms.engines.base import Engine
from manyarms.errors import (
    CampaignError,
    InvalidIdError,
    SchedulerLostError,
    TableError,
    UnknownArmError,
    shown,
)
from manyarms.pool.pool import Pool
from manyarms.run.batch_structure import BatchStructure
from manyarms.run.belief import Belief
from manyarms.run.optimizer import Optimizer


class CampaignCandidates:
    """What a campaign knows about its candidates. The pool is read at the first use and after an addition."""

    store: Store
    settings: Settings
    _progress: ProgressCallback | None
    _elsewhere: Path | None
    _source: Candidates | None = None
    _pool: Pool | None = None
    _model_input: ModelInput | None = None
    _engine: str | None = None  # said by the command, instead of what the campaign was created with
    _connected: ConnectedEngine | None = None
    _belief: Belief | None = None  # of the last ask or query in this process; it only saves time

    # ------------------------------------------------------------------ tables

    @property
    def source(self) -> Candidates:
        """The tables of candidates, located and checked to be unchanged."""
        if self._source is None:
            with self.store.reading() as connection:
                added = stored.additions(connection, self.store.id)
            more = [Source.from_plain(json.loads(each)) for each in added]
            first = self.settings.source.moved(self._located(self.settings.source.path, self._elsewhere))
            self._source = Candidates((first, *(each.moved(self._located(each.path, None)) for each in more)))
        return self._source

    @property
    def never_overwritten(self) -> tuple[Path, ...]:
        """The tables of candidates, for `manyarms.support.output_files`; databases recognise themselves."""
        with self.store.reading() as connection:
            added = stored.additions(connection, self.store.id)
        recorded = [self.settings.source.path, *(Source.from_plain(json.loads(each)).path for each in added)]
        elsewhere = () if self._elsewhere is None else (self._elsewhere,)
        return (*recorded, *(self._located(path, None) for path in recorded), *elsewhere)

    def _located(self, recorded: Path, elsewhere: Path | None) -> Path:
        """The path given to the constructor, the recorded path, or a file next to the campaign."""
        if elsewhere is not None:
            return elsewhere
        if not recorded.is_file() and self.store.where.file is not None:
            beside = self.store.where.file.parent / recorded.name
            return beside if beside.is_file() else recorded
        return recorded

    @property
    def pool(self) -> Pool:
        """The candidates, read at the first use."""
        if self._pool is None:
            self._pool = self.source.read(self._progress)
        return self._pool

    @property
    def model_input(self) -> ModelInput:
        """The settings and the prepared pool that every ask needs, made at the first use."""
        if self._model_input is None:
            found = ModelInput.of(self.settings, self.pool, self.source.starts[1:])
            costs = costs_of(self.settings, self.source.parts)
            self._model_input = replace(found, engine=self._connected_engine(), costs=costs)
        return self._model_input

    def _connected_engine(self) -> Engine | None:
        """The engine of this campaign, connected at the first use."""
        if self._connected is None:
            self._connected = self.settings.on_engine.elsewhere(self._engine).connect()
        return self._connected.engine

    def _disconnect(self) -> None:
        """Let go of the engine, and of what it holds."""
        connected, self._connected = self._connected, None
        self._model_input = self._belief = None
        if connected is not None:
            connected.close()

    def current(self, seen: Snapshot) -> tuple[Optimizer, Units]:
        """The run with every result of a snapshot used, and the units of its rewards.

        The columns that the last call computed are used again where they still apply.
        """
        model_input = self.model_input
        try:
            run, units = current(model_input, seen, self._belief)
        except SchedulerLostError as problem:
            self._disconnect()  # the next call connects again
            raise lost_scheduler(problem) from problem
        self._belief = run.state.belief
        return run, units

    @property
    def id_column(self) -> str:
        """The name of the id column in batch files and results files."""
        return self.settings.source.id or "id"

    def columns_at(self, n_arms: int) -> tuple[tuple[str, float], ...]:
        """Name and spread of each numeric column of a learned model when there were `n_arms` candidates."""
        with self.store.reading() as connection:
            added = stored.columns_after(connection, self.store.id)
        columns, total = self.settings.columns, self.settings.source.n_arms
        for more, described in added:
            total += more
            if total <= n_arms:
                columns = tuple((name, spread) for name, spread in json.loads(described))
        return columns

    def _keep_up(self, n_arms: int) -> None:
        """Read the tables again if another process has added candidates."""
        if self._source is not None and n_arms != self._source.n_arms:
            self._source = self._pool = self._model_input = self._belief = None

    # ------------------------------------------------------------------ adding and excluding

    def add(self, path: str | Path, **form: str | None) -> int:
        """Add the candidates of a further table with the same columns; returns how many there are.

        `form` may hold the delimiter, encoding, decimal and sheet of the file.
        """
        with self.store.reading() as connection:
            self._keep_up(self.store.row(connection)["n_arms"])
        before, pool = self.source, self.pool
        source, more = fitting_source(before.first, Path(path).absolute(), form, self._progress)
        if source.cost is not None:
            cost_column(source)  # refuses what is no cost
        if self.id_column == "id" and before.id is None and source.digest in {p.digest for p in before.parts}:
            raise TableError(f"{path}: the candidates of this file are already in the campaign")
        try:
            larger = joined([pool, more])
        except InvalidIdError as problem:
            raise type(problem)(f"{path}: {problem}") from None
        prepared = ModelInput.of(self.settings, larger, [*before.starts[1:], larger.n_arms]).prepared
        columns = column_spreads(prepared, before.first.blocks(larger.names or []))
        table = {
            "source": json.dumps(source.plain()), "n_arms": more.n_arms, "columns": json.dumps(columns),
            "added_at": now_text(),
        }  # fmt: skip
        with self.store.writing() as connection:
            if self.store.row(connection)["n_arms"] != before.n_arms:
                raise CampaignError(f"{self.store.where}: candidates were added meanwhile: try again")
            stored.add_table(connection, self.store.id, table, larger.n_arms)
        self._source = self._pool = self._model_input = self._belief = None
        return more.n_arms

    def exclude(self, ids: Iterable[str], note: str | None = None) -> int:
        """Never ask for these candidates again; returns how many were not excluded before."""
        arms = self._arms_by_id(ids)
        with self.store.writing() as connection:
            known = {*stored.excluded(connection, self.store.id)}
            fresh = {arm: name for name, arm in arms.items() if arm not in known}
            self.store.name_arms(connection, fresh)
            stored.exclude(connection, self.store.id, sorted(fresh), note, now_text())
        return len(fresh)

    def readmit(self, ids: Iterable[str]) -> int:
        """Undo the exclusion of these candidates; a candidate that is not excluded is an error."""
        arms = self._arms_by_id(ids)
        with self.store.writing() as connection:
            known = {*stored.excluded(connection, self.store.id)}
            other = next((name for name, arm in arms.items() if arm not in known), None)
            if other is not None:
                raise UnknownArmError(f"the candidate {shown(other)} is not excluded")
            stored.readmit(connection, self.store.id, sorted(arms.values()))
        return len(arms)

    def excluded(self) -> list[str]:
        """The ids of the candidates that are excluded."""
        with self.store.reading() as connection:
            arms = stored.excluded(connection, self.store.id)
            names = self.store.arm_names(connection, arms)
        return [names[arm] for arm in sorted(arms)]

    def _arms_by_id(self, ids: Iterable[str]) -> dict[str, int]:
        names = dict.fromkeys((str(each) for each in ids), "")
        with self.store.reading() as connection:
            arms = self.store.known_arms(connection, names)
        missing: Mapping[str, str] = {name: "" for name in names if name not in arms}
        return arms | self.source.arms_of(missing) if missing else arms

    def check_columns(self, seen: Snapshot) -> tuple[str, ...]:
        """Raise an error if a column that the user did not choose as a feature holds the results.

        Returns warnings of columns that resemble the results.
        """
        if self.settings.features_chosen or self.settings.source.molecular:
            return ()
        check_no_column_holds_results(self.pool, values_of(seen))
        return resembling_columns(self.pool, values_of(seen))

    def eligible(self, condition: str | None = None, ids: Mapping[str, str] | None = None) -> Mask | None:
        """The candidates that satisfy a condition on the columns and have one of these ids, as a mask."""
        masks = []
        if condition is not None:
            masks.append(eligible_by_condition(condition, self.source))
        if ids is not None:
            masks.append(self.eligible_among(ids))
        return None if not masks else masks[0] if len(masks) == 1 else masks[0] & masks[1]

    def structure(
        self, same: str | None = None, at_most: Sequence[tuple[str, int]] = ()
    ) -> BatchStructure | None:
        """Rules for one batch: a column in which all have the same value, and limits for values of others."""
        if same is None and not at_most:
            return None
        labels = None if same is None else column_labels(same, self.source)
        return BatchStructure(labels, [(column_labels(name, self.source), most) for name, most in at_most])

    def eligible_among(self, ids: Mapping[str, str]) -> Mask:
        """The candidates with these ids, as a mask. Each maps to the place that an error names."""
        arms = self.source.arms_of(ids)
        mask = np.zeros(self.source.n_arms, dtype=bool)
        mask[list(arms.values())] = True
        return mask
