"""The table of candidates of a campaign: the file is never copied, only read and checked for changes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from manyarms.campaigns.pool_file import cache
from manyarms.campaigns.pool_file.columns import BITS, CATEGORY, COST, ID, NUMBER, SMILES, UNUSED, ColumnPlan
from manyarms.campaigns.pool_file.files import (
    column_names,
    digest,
    has_columns,
    is_parquet,
    plain_format,
    text_columns,
)
from manyarms.campaigns.pool_file.fingerprints import ProgressCallback, fingerprints
from manyarms.campaigns.pool_file.understanding import Cells, Roles, encode, read_cells, understand
from manyarms.errors import (
    ChangedPoolError,
    InvalidIdError,
    SettingsError,
    TableError,
    TextColumnError,
    UnknownArmError,
    shown,
)
from manyarms.pool.pool import Pool
from manyarms.pool.tables import check_file, row_format
from manyarms.pool.text_format import TextFormat

_DIGITS = 18  # most digits of a row number


@dataclass(frozen=True)
class Source:
    """A file with one candidate per row, and the roles of its columns.

    `digest` and `n_arms` are empty until `described` has read the file, `form` and `columns` until
    `understood` has. A source without them was stored before columns were understood; it is read by the same
    rules, which then find numbers only, besides the declared categories.
    """

    path: Path
    id: str | None = None  # the id column; None: the row number is the id
    features: tuple[str, ...] | None = None  # None: all columns but the id and the categories
    categories: tuple[str, ...] = ()  # categorical columns
    smiles: str | None = None
    bits: str | None = None
    digest: str = ""
    n_arms: int = 0
    form: TextFormat | None = None
    columns: tuple[ColumnPlan, ...] = ()
    cost: str | None = None  # the column that says what a trial costs

    def __post_init__(self) -> None:
        plain = self.categories or self.features
        if sum(given is not None for given in (plain, self.smiles, self.bits)) > 1:
            raise SettingsError("specify only one of features, a SMILES column and a column of bits")
        twice = {*self.categories} & {*(self.features or ()), *([self.id] if self.id else [])}
        if twice:
            raise SettingsError(f"column {min(twice)!r} is a category and also the id or a feature")
        if len({*self.categories}) < len(self.categories):
            raise SettingsError(f"the categories {shown(self.categories)} name a column twice")
        if self.cost is not None and self.cost == self.id:
            raise SettingsError(f"column {self.cost!r} is the id and cannot be the cost")

    @property
    def molecular(self) -> bool:
        """Whether candidates are fingerprints, compared by the Tanimoto kernel."""
        return self.smiles is not None or self.bits is not None

    def described(self, pool: Pool) -> Source:
        """This source with the digest and the number of rows of the file."""
        return replace(self, digest=digest(self.path), n_arms=pool.n_arms)

    def moved(self, path: Path) -> Source:
        """The same table at another path; an error if the content differs."""
        if not path.is_file():
            raise ChangedPoolError(f"{path}: the table of candidates is missing; use --pool if it has moved")
        if digest(path) != self.digest:
            raise ChangedPoolError(f"{path}: the content has changed since the campaign was created")
        return replace(self, path=path)

    @property
    def text_form(self) -> TextFormat:
        """How to read the cells of the table."""
        return plain_format(self.path) if self.form is None else self.form

    def understood(
        self, given: Mapping[str, str | None], progress: ProgressCallback | None = None
    ) -> tuple[Source, Pool]:
        """This source with its format and the use of every column, and the candidates.

        `given` may hold the delimiter, encoding, decimal and sheet, as far as the user stated them.
        """
        check_file(self.path)
        if not has_columns(self.path):
            return self, self.read(progress)
        source = self
        if not is_parquet(self.path):
            names = ("delimiter", "encoding", "decimal", "sheet")
            source = replace(self, form=row_format(self.path, *(given.get(name) for name in names)))
        if self.molecular:
            return replace(source, columns=source._molecular_plans()), source.read(progress)
        with _hints():
            cells = read_cells(source.path, source.text_form, source._roles)
            plans = understand(source.path, source.text_form, cells, source._roles)
            source = source._with_plans(plans)
            return source, source._pool(cells)

    @property
    def _roles(self) -> Roles:
        return Roles(self.id, self.features, self.categories, self.cost)

    def _with_plans(self, plans: tuple[ColumnPlan, ...]) -> Source:
        """This source with what was understood; features and categories keep the order that was given."""
        found = [plan.name for plan in plans if plan.is_number]
        numbers = tuple(found) if self.features is None else self.features
        kinds = [plan.name for plan in plans if plan.role == CATEGORY and plan.name not in self.categories]
        if not numbers and not kinds and not self.categories:
            left_out = "; ".join(f"{each.name!r}: {each.note}" for each in plans if each.role == UNUSED)
            raise TableError(f"{self.path}: no feature column{f' is left ({left_out})' if left_out else ''}")
        id = next((plan.name for plan in plans if plan.role == ID), None)
        return replace(self, id=id, features=numbers, categories=(*self.categories, *kinds), columns=plans)

    def read(self, progress: ProgressCallback | None = None) -> Pool:
        """Read the candidates."""
        check_file(self.path)
        if self.molecular:
            features = self._fingerprints(progress) if self.smiles is not None else self._bits()
            if not len(features):
                raise TableError(f"{self.path}: the file has a header but no rows")
            return Pool(features, None if self.id is None else self._checked_names())
        if not has_columns(self.path):
            return Pool.read(self.path, id=self.id, features=self.features)
        if not self.columns or is_parquet(self.path) or self.n_arms < cache.SMALL_TABLE:
            return self._from_cells()
        meaning = [self.id, self.features, self.categories, self.text_form.plain(), self.plain()["columns"]]
        places = cache.pool_places(self.path, self.digest, meaning)
        pool = cache.cached_pool(places, self.n_arms)
        if pool is None:
            pool = self._from_cells()
            cache.keep_pool(places, pool)
        return pool

    def _from_cells(self) -> Pool:
        if self.columns and self._keeps_precision(self.columns):
            return Pool.read(self.path, id=self.id, features=self.features)
        with _hints():
            return self._pool(read_cells(self.path, self.text_form, self._roles))

    def _pool(self, cells: Cells) -> Pool:
        plans = self.columns or understand(self.path, self.text_form, cells, self._roles)
        source = self if self.columns else self._with_plans(plans)
        if source._keeps_precision(plans):
            return Pool.read(self.path, id=self.id, features=source.features)
        features, names = encode(self.path, source._used(plans), cells)
        try:
            return Pool(features, cells.ids, names=names)
        except InvalidIdError as problem:
            raise type(problem)(f"{self.path}: {problem}") from None

    def _used(self, plans: Sequence[ColumnPlan]) -> list[ColumnPlan]:
        """The plans of the columns that become features."""
        by_name = {plan.name: plan for plan in plans}
        return [by_name[name] for name in (*(self.features or ()), *self.categories)]

    def _keeps_precision(self, plans: Sequence[ColumnPlan]) -> bool:
        """Whether the features are numbers of a Parquet file, which are taken in their own precision."""
        plain = all(plan.role == NUMBER and plan.fill is None for plan in self._used(plans))
        return is_parquet(self.path) and plain

    def _molecular_plans(self) -> tuple[ColumnPlan, ...]:
        roles = {self.id: (ID, ""), self.smiles: (SMILES, "fingerprints"), self.bits: (BITS, "fingerprints")}
        roles |= {} if self.cost is None else {self.cost: (COST, "what a trial costs")}
        unused = UNUSED, "not used beside fingerprints"
        return tuple(
            ColumnPlan(name, *roles.get(name, unused)) for name in column_names(self.path, self.text_form)
        )

    def blocks(self, names: Sequence[str]) -> list[str]:
        """The user's column of each feature; the indicators of a category share a length-scale."""
        return [self._column_of(name) for name in names]

    def _column_of(self, name: str) -> str:
        return next((column for column in self.categories if name.startswith(f"{column} = ")), name)

    def _fingerprints(self, progress: ProgressCallback | None) -> NDArray[np.uint8]:
        assert self.smiles is not None
        column = self.smiles
        key = self.digest or digest(self.path)
        return fingerprints(
            self.path, column, key, lambda: text_columns(self.path, self.text_form, [column])[0], progress,
            self.n_arms or None,
        )  # fmt: skip

    def _bits(self) -> NDArray[np.uint8]:
        """The bit strings, all of the same length, packed into bytes."""
        assert self.bits is not None
        (texts,) = text_columns(self.path, self.text_form, [self.bits])
        for row, text in enumerate(texts):
            if not text or text.strip("01") or len(text) != len(texts[0]):
                raise TableError(
                    f"{self.path}: row {row}, column {self.bits!r}: {shown(text)} is not "
                    f"a string of {len(texts[0])} digits 0 and 1"
                )
        letters = np.frombuffer("".join(texts).encode(), dtype=np.uint8).reshape(len(texts), -1)
        return np.packbits(letters == ord("1"), axis=1)

    def _checked_names(self) -> list[str]:
        names = self.names()
        for row, name in enumerate(names):
            if not name:
                raise TableError(f"{self.path}: row {row}, column {self.id!r}: the id is empty")
        return names

    def names(self) -> list[str]:
        """The id of every candidate as text, in row order, without reading the features."""
        if self.id is None:
            return [str(arm) for arm in range(self.n_arms)]
        if not has_columns(self.path):
            return [str(id) for id in self.read().ids]
        return text_columns(self.path, self.text_form, [self.id])[0]

    def arms_of(self, names: Mapping[str, str]) -> dict[str, int]:
        """The rows of these ids. Each id maps to the place that the error names if it is unknown."""
        if self.id is None:
            return {name: self._row_number(name, where) for name, where in names.items()}
        place = {name: arm for arm, name in enumerate(self.names())}
        for name, where in names.items():
            if name not in place:
                raise UnknownArmError(f"{where}no candidate of {self.path.name} has the id {shown(name)}")
        return {name: place[name] for name in names}

    def _row_number(self, name: str, where: str) -> int:
        if not name.isdecimal() or len(name) > _DIGITS or int(name) >= self.n_arms:
            raise UnknownArmError(
                f"{where}{shown(name)} is not a row number of {self.path.name} (0 to {self.n_arms - 1})"
            )
        return int(name)

    def cells_of(self, arms: Sequence[int]) -> list[dict[str, str]]:
        """The user's columns of some candidates as text, without the id; numbers have decimal points."""
        names = [name for name in self.column_names() if name != self.id]
        if not names or not len(arms):
            return [{} for _ in arms]
        cells = text_columns(self.path, self.text_form, names, arms)
        if self.text_form.decimal == ",":
            numeric = {*self.feature_columns()}
            pairs = zip(names, cells, strict=True)
            cells = [[c.replace(",", ".") for c in column] if n in numeric else column for n, column in pairs]
        return [dict(zip(names, row, strict=True)) for row in zip(*cells, strict=True)]

    def column_names(self) -> list[str]:
        """The names of the user's columns; empty for an array file."""
        return column_names(self.path, self.text_form) if has_columns(self.path) else []

    def feature_columns(self) -> list[str]:
        """The columns of numbers, and that of costs."""
        if self.molecular:
            return [] if self.cost is None else [self.cost]
        if self.columns:
            return [plan.name for plan in self.columns if plan.role in (NUMBER, COST)]
        if self.features is not None:
            return list(self.features)
        return [name for name in self.column_names() if name not in (self.id, *self.categories)]

    def plain(self) -> dict[str, Any]:
        """This source as JSON data."""
        form = None if self.form is None else self.form.plain()
        columns = [plan.plain() for plan in self.columns]
        return {**self.__dict__, "path": str(self.path), "form": form, "columns": columns}

    @classmethod
    def from_plain(cls, plain: dict[str, Any]) -> Source:
        """The source that `plain` returned as data."""
        features, categories = plain["features"], tuple(plain.get("categories", ()))
        form = plain.get("form")
        return cls(
            **{
                **plain, "path": Path(plain["path"]), "categories": categories,
                "features": None if features is None else tuple(features),
                "form": None if form is None else TextFormat(**form),
                "columns": tuple(ColumnPlan.from_plain(plan) for plan in plain.get("columns", ())),
            }
        )  # fmt: skip


@contextmanager
def _hints() -> Iterator[None]:
    """Add the options that settle it to an error about a column of texts."""
    try:
        yield
    except TextColumnError as problem:
        raise TableError(
            f"{problem}; use --categories for a categorical column, "
            f"or --features to select the numeric columns"
        ) from None
