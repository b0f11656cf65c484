"""What defines a posterior on a sketch: inducing arms in groups, and the pulls with their rewards.

A run that goes on in one process and one that is restored elsewhere must choose the same arms. Both compute
the posterior from such a definition (`built`): columns group by group in the order in which the arms
were appended, all values from the columns. What one process keeps in memory then only saves time.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from manyarms.embeddings.grouped_nystrom import GroupedNystrom
from manyarms.kernels.describe import same_kernel
from manyarms.posterior.pool_step import Rebuild
from manyarms.posterior.sparse_gp import SparseGP
from manyarms.posterior.state import PosteriorState, SharedArrays
from manyarms.support.validation import Floats, Ints


@dataclass(frozen=True)
class Definition:
    """Inducing arms, how many of them were appended together, arms pulled, pull counts and reward sums."""

    inducing: Ints
    groups: tuple[int, ...]
    arms: Ints
    counts: Floats
    sums: Floats

    @classmethod
    def of(cls, state: PosteriorState) -> Definition:
        """The definition of a state."""
        return cls(state.inducing, state.groups, state.arms, state.counts, state.sums)

    def parts(self) -> list[Ints]:
        """The arms of each group."""
        return np.split(self.inducing, np.cumsum(self.groups)[:-1]) if self.groups else []

    def shared_groups(self, known: PosteriorState) -> int:
        """How many groups a state has that are the first ones of this definition; 0 if it has any other.

        Only a state that was itself built from a definition has columns that were computed by groups.
        """
        if known.grouped is None:
            return 0
        n = len(known.groups)
        same = self.groups[:n] == known.groups
        return n if same and np.array_equal(self.inducing[: len(known.inducing)], known.inducing) else 0

    def defines(self, known: PosteriorState) -> bool:
        """Whether a state that was built from a definition was built from this one."""
        names = ("inducing", "arms", "counts", "sums")
        same = all(np.array_equal(getattr(self, name), getattr(known, name)) for name in names)
        return same and self.groups == known.groups and known.grouped is not None


def built(
    process: SparseGP,
    definition: Definition,
    known: PosteriorState | None = None,
    embedding: GroupedNystrom | None = None,
) -> PosteriorState:
    """The posterior that a definition defines, whoever computes it (theory §2.9).

    A state `known` of the same process, built before, saves computing its columns if its groups are the first
    ones of the definition. An `embedding` of another pool saves factorising the groups that it shares. The
    result is the same to the last bit.
    """
    if process.feature_map is not None:
        none = np.empty(0, dtype=np.int64)
        return process.rebuilt(process.empty(), none, definition.arms, definition.counts, definition.sums)
    if known is not None and definition.defines(known):
        return known
    shared = 0 if known is None else definition.shared_groups(known)
    base = process.started() if known is None or not shared else known
    begun = base.grouped if shared else _shared_part(process, definition, embedding)
    embedding = _embedding(process, definition, begun)
    state = replace(base, **vars(definition))
    rows = embedding.matrix(process.pool.take(state.arms))
    weights, rule = process.weights_from(rows, state)
    rule = replace(rule, single=process.storage == np.float32)
    columns_known = sum(definition.groups[:shared])
    message = Rebuild(embedding, rule, process.leverage_scale(state, state.counts), columns_known)
    return replace(
        state,
        weights=weights,
        pulled_residual=np.maximum(state.at(state.arms).prior - np.einsum("ij,ij->i", rows, rows), 0.0),
        over_pool=state.over_pool.rebuilt(message),
        shared=SharedArrays.of(rows, state.arms),
        grouped=embedding,
    )


def _shared_part(
    process: SparseGP, definition: Definition, embedding: GroupedNystrom | None
) -> GroupedNystrom | None:
    """The first groups of an embedding, as far as the definition has the same; None if there is none."""
    if embedding is None or embedding.storage != process.storage:
        return None
    if not same_kernel(embedding.kernel, process.kernel):
        return None
    shared = first = 0
    for group, size in zip(definition.parts(), embedding.groups, strict=False):
        points = process.pool.take(group)
        if len(group) != size or not np.array_equal(points, embedding.points[first : first + size]):
            break
        shared, first = shared + 1, first + size
    return embedding.first(shared)


def _embedding(process: SparseGP, definition: Definition, begun: GroupedNystrom | None) -> GroupedNystrom:
    """z on the groups of a definition, the first of which are those that have begun it."""
    embedding = GroupedNystrom.empty(process.kernel, process.storage) if begun is None else begun
    for group in definition.parts()[len(embedding.groups) :]:
        embedding = embedding.appended(process.pool.take(group))
    return embedding
