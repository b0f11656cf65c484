"""Old results: measurements of candidates that need not be in the pool, which teach the model.

They are never offered, and they are not results of the run: only new ones count for `best` and `history`. A
candidate of the pool that also has an old result is offered like any other.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from manyarms.errors import InvalidFeaturesError, InvalidParameterError
from manyarms.learning import Prepared
from manyarms.learning.categorical import as_table
from manyarms.policies import Policy
from manyarms.pool.pool import Pool
from manyarms.posterior.history import History
from manyarms.run.results import own_noise
from manyarms.support.random_streams import RandomStreams
from manyarms.support.validation import finite_rewards

LEAST = 3  # results of a source, of which a model is learned


class PriorResults:
    """Old results of one source, such as an earlier campaign or another laboratory.

    features: their rows, as a pool takes them. The columns of a frame are matched to those of the pool by
        name; without names there must be as many columns, in the same order.
    values: one value for each row, in any units: offset and scale are learned.
    noise_std, replicates: the noise of each value, as for `Optimizer.tell`.
    """

    def __init__(
        self,
        features: Any,
        values: ArrayLike,
        *,
        noise_std: ArrayLike | None = None,
        replicates: ArrayLike | None = None,
    ) -> None:
        rows = features if isinstance(features, Pool) else Pool(features)
        if rows.n_arms < LEAST:
            raise InvalidParameterError("features", f"{rows.n_arms} rows", f"at least {LEAST} old results")
        self.names = rows.names
        self.features = _rows_of(rows)
        self.values = finite_rewards(values, rows.n_arms)
        self.noise = own_noise(noise_std, replicates, rows.n_arms)

    def __len__(self) -> int:
        return len(self.values)

    def __repr__(self) -> str:
        return f"PriorResults({len(self)} results, {self.features.shape[1]} features)"

    def rows_for(self, pool: Pool) -> NDArray[Any]:
        """The rows in the columns of the pool; a column that is missing or of another kind is an error."""
        rows, texts = self.features, _texts_of(pool)
        if self.names is not None and pool.names is not None:
            rows = _by_name(rows, self.names, pool.names)
        elif rows.shape[1] != len(texts):
            rule = f"rows of {len(texts)} features, like those of the pool"
            raise InvalidParameterError("prior", f"rows of {rows.shape[1]}", rule)
        for j, (there, here) in enumerate(zip(texts, _texts_in(rows), strict=True)):
            if there != here:
                column = f"column {j if pool.names is None else repr(pool.names[j])}"
                kind = "texts" if there else "numbers"
                raise InvalidFeaturesError(f"old results: {column} of the pool holds {kind}, theirs does not")
        if pool.features.dtype == object:
            return rows.astype(object)
        return rows if all(texts) else rows.astype(np.float64)

    def history(self, sign: float) -> History:
        """The results as utilities of arms numbered by row."""
        return History(len(self)).recorded(np.arange(len(self)), sign * self.values, self.noise)

    def to_plain(self) -> dict[str, Any]:
        """Everything as arrays, for a saved run."""
        return {
            "features": _columns_of(self.features), "names": self.names, "values": self.values,
            "stds": self.noise.stds, "replicates": self.noise.replicates,
        }  # fmt: skip

    @classmethod
    def from_plain(cls, plain: Mapping[str, Any]) -> PriorResults:
        """The results that `to_plain` wrote."""
        stds: Any = [None if np.isnan(std) else std for std in np.asarray(plain["stds"]).tolist()]
        features = plain["features"]
        if isinstance(features, Mapping):
            features = np.column_stack([np.asarray(column, dtype=object) for column in features.values()])
        rows = Pool(features, names=plain["names"])
        return cls(rows, plain["values"], noise_std=stds, replicates=plain["replicates"])


def _rows_of(pool: Pool) -> NDArray[Any]:
    """The features of a pool as rows and columns; where some are texts, as objects."""
    rows: NDArray[Any] = np.array(pool.take(np.arange(pool.n_arms)))
    if rows.dtype != object and rows.ndim == 2:
        return rows
    try:
        return as_table(rows)
    except InvalidFeaturesError:
        raise InvalidFeaturesError("old results need rows of numbers and texts") from None


def _texts_of(pool: Pool) -> list[bool]:
    """Whether each column of a pool holds texts."""
    if pool.features.dtype == object:
        return _texts_in(_rows_of(pool))
    return [pool.features.dtype.kind in "US"] * pool.n_features


def _texts_in(rows: NDArray[Any]) -> list[bool]:
    """Whether each column holds texts."""
    if rows.dtype != object:
        return [rows.dtype.kind in "US"] * rows.shape[1]
    return [not all(isinstance(cell, Real) for cell in column) for column in rows.T]


def _columns_of(rows: NDArray[Any]) -> Any:
    """Rows as an array, or, where some columns are texts, as an array for each column."""
    if rows.dtype != object:
        return rows
    texts = _texts_in(rows)
    return {
        f"column {j}": np.array(column.tolist(), dtype=str if texts[j] else np.float64)
        for j, column in enumerate(rows.T)
    }


def _by_name(rows: NDArray[Any], names: Sequence[str], wanted: Sequence[str]) -> NDArray[Any]:
    """The columns in the order of the pool's; an indicator of a kind that never occurred is zero."""
    place = {name: i for i, name in enumerate(names)}
    categories = {name.partition(" = ")[0] for name in wanted if " = " in name}
    for name in names:
        column, found, kind = name.partition(" = ")
        if found and column in categories and name not in wanted:
            raise InvalidParameterError("prior", kind, f"a kind of column {column!r} that the pool has, too")
    there = {name.partition(" = ")[0] for name in names if " = " in name}
    columns = []
    for name in wanted:
        if name in place:
            columns.append(rows[:, place[name]])
        elif " = " in name and name.partition(" = ")[0] in there:
            columns.append(np.zeros(len(rows), dtype=rows.dtype))
        else:
            raise InvalidParameterError("prior", list(names), f"old results with a column {name!r}")
    return np.column_stack(columns)


def checked_prior(prior: Any, policy: Policy, pool: Pool) -> tuple[PriorResults, ...]:
    """The sources as a tuple, if this policy can use them."""
    sources = (prior,) if isinstance(prior, PriorResults) else tuple(prior)
    for source in sources:
        if not isinstance(source, PriorResults):
            raise InvalidParameterError("prior", source, "PriorResults, or a list of them")
        source.rows_for(pool)
    if sources and policy.kernel != "auto":
        raise InvalidParameterError("prior", prior, "left out where the kernel is given: nothing is learned")
    if sources and type(policy).feature_map is not Policy.feature_map:
        name = type(policy).__name__
        raise InvalidParameterError("prior", prior, f"left out with {name}, whose features fix its kernel")
    return sources


def with_prior(prepared: Prepared, pool: Pool, prior: tuple[PriorResults, ...], sign: float) -> Prepared:
    """The preparation with what each source predicts as a further column."""
    from manyarms.learning.old_results import old_mean, with_old_means  # only if there are old results

    means = [
        old_mean(pool, source.rows_for(pool), source.history(sign), RandomStreams(number).at("old results"))
        for number, source in enumerate(prior)
    ]
    return with_old_means(prepared, pool, means)
