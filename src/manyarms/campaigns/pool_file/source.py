"""The table of candidates of a campaign: the file is never copied, only read and checked for changes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from manyarms.campaigns.pool_file.files import column_names, digest, text_columns
from manyarms.campaigns.pool_file.fingerprints import ProgressCallback, fingerprints
from manyarms.errors import (
    ChangedPoolError,
    SettingsError,
    TableError,
    TextColumnError,
    UnknownArmError,
    shown,
)
from manyarms.pool.pool import Pool
from manyarms.pool.tables import read_table

MAX_CATEGORIES = 100  # most different texts of a category
_DIGITS = 18  # most digits of a row number


@dataclass(frozen=True)
class Source:
    """A file with one candidate per row, and the roles of its columns.

    `digest` and `n_arms` are empty until `described` has read the file.
    """

    path: Path
    id: str | None = None  # the id column; None: the row number is the id
    features: tuple[str, ...] | None = None  # None: all columns but the id and the categories
    categories: tuple[str, ...] = ()  # categorical columns
    smiles: str | None = None
    bits: str | None = None
    digest: str = ""
    n_arms: int = 0

    def __post_init__(self) -> None:
        plain = self.categories or self.features
        if sum(given is not None for given in (plain, self.smiles, self.bits)) > 1:
            raise SettingsError("specify only one of features, a SMILES column and a column of bits")
        twice = {*self.categories} & {*(self.features or ()), *([self.id] if self.id else [])}
        if twice:
            raise SettingsError(f"column {min(twice)!r} is a category and also the id or a feature")
        if len({*self.categories}) < len(self.categories):
            raise SettingsError(f"the categories {shown(self.categories)} name a column twice")

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

    def read(self, progress: ProgressCallback | None = None) -> Pool:
        """Read the candidates."""
        try:
            return self._read(progress)
        except TextColumnError as problem:
            raise TableError(
                f"{problem}; use --categories for a categorical column, "
                f"or --features to select the numeric columns"
            ) from None

    def _read(self, progress: ProgressCallback | None) -> Pool:
        if not self.molecular and not self.categories:
            return Pool.read(self.path, id=self.id, features=self.features)
        if not self.path.is_file():
            raise TableError(f"{self.path}: no such file")
        names = None
        if self.categories:
            features, names = self._mixed()
        else:
            features = self._fingerprints(progress) if self.smiles is not None else self._bits()
        if not len(features):
            raise TableError(f"{self.path}: the file has a header but no rows")
        return Pool(features, None if self.id is None else self._checked_names(), names=names)

    def _mixed(self) -> tuple[NDArray[Any], list[str]]:
        """The numeric columns, followed by one indicator column for each text of each category."""
        names = self.feature_columns()
        parts = [read_table(self.path, features=names).features] if names else []
        for name in names:
            if self._column_of(name) != name:
                raise TableError(
                    f"{self.path}: the name of column {name!r} clashes with a category: rename the column"
                )
        for column, texts in zip(self.categories, text_columns(self.path, self.categories), strict=True):
            empty = next((row for row, text in enumerate(texts) if not text.strip()), None)
            if empty is not None:
                raise TableError(f"{self.path}: row {empty}, column {column!r}: the cell is empty")
            kinds, codes = np.unique(texts, return_inverse=True)
            if len(kinds) > MAX_CATEGORIES:
                raise TableError(
                    f"{self.path}: column {column!r} holds {len(kinds)} different texts, "
                    f"more than the {MAX_CATEGORIES} that a category may have; "
                    f"use --features to select the numeric columns without it"
                )
            parts.append(np.eye(len(kinds))[codes])
            names += [f"{column} = {kind}" for kind in kinds.tolist()]
        return np.hstack(parts), names

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
            self.path, column, key, lambda: text_columns(self.path, [column])[0], progress,
            self.n_arms or None,
        )  # fmt: skip

    def _bits(self) -> NDArray[np.uint8]:
        """The bit strings, all of the same length, packed into bytes."""
        assert self.bits is not None
        (texts,) = text_columns(self.path, [self.bits])
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
        if not column_names(self.path):  # an array file
            return [str(id) for id in self.read().ids]
        return text_columns(self.path, [self.id])[0]

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

    def columns(self, arms: Sequence[int]) -> list[dict[str, str]]:
        """The user's columns of some candidates as text, without the id column."""
        names = [name for name in column_names(self.path) if name != self.id]
        if not names or not len(arms):
            return [{} for _ in arms]
        cells = text_columns(self.path, names, arms)
        return [dict(zip(names, row, strict=True)) for row in zip(*cells, strict=True)]

    def feature_columns(self) -> list[str]:
        """The numeric columns."""
        if self.molecular:
            return []
        if self.features is not None:
            return list(self.features)
        return [name for name in column_names(self.path) if name not in (self.id, *self.categories)]

    def plain(self) -> dict[str, Any]:
        """This source as JSON data."""
        return {**self.__dict__, "path": str(self.path)}

    @classmethod
    def from_plain(cls, plain: dict[str, Any]) -> Source:
        """The source that `plain` returned as data."""
        features, categories = plain["features"], tuple(plain.get("categories", ()))
        return cls(
            **{
                **plain, "path": Path(plain["path"]), "features": features and tuple(features),
                "categories": categories,
            }
        )  # fmt: skip
