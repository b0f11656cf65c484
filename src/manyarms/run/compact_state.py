"""The compact form of a run, without arrays of the size of the pool: a few kilobytes for millions of arms.

The posterior is built again from what defines it (`posterior/definition.py`), which costs O(A·m²) and agrees
with the original up to rounding errors. (SOFUL's frequent-directions sketch depends on the order of pulls and
is computed from scratch.) Two runs restored from the same bytes are identical bit for bit, also if one of
them reuses columns that it still has.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from manyarms.choice.prior_draws import CorrectedPrior
from manyarms.embeddings.grouped_nystrom import GroupedNystrom
from manyarms.errors import CheckpointError, ManyarmsError
from manyarms.learning import LearnedModel, model_from
from manyarms.posterior.definition import Definition, built
from manyarms.posterior.history import History
from manyarms.run.belief import Belief, Memory
from manyarms.run.context import RunContext
from manyarms.run.results import ToldResult
from manyarms.run.state import RunState
from manyarms.run.tickets import Tickets, relabelled
from manyarms.run.version_2 import upgraded
from manyarms.support.archive import read_archive, unchanged, write_archive
from manyarms.support.validation import Ints

FORMAT, VERSION = "manyarms run without its pool", 5  # 4 had no groups of inducing arms, 3 no digest
_NAME = "the saved state"
_COUNTERS = ("n_unasked", "n_batches", "n_feedbacks")


@dataclass(frozen=True)
class CompactState:
    """A run state without the posterior over the pool and without the trace of past batches."""

    n_arms: int
    n_features: int
    model: LearnedModel | None
    memory: Memory
    posterior: Definition
    history: History
    tickets: Tickets
    waiting: tuple[ToldResult, ...]
    design: tuple[int, ...] | None
    n_unasked: int
    n_batches: int
    n_feedbacks: int
    certificate: dict[str, Any] | None = None  # in the user's units, as of the feedback of this state
    outlook: dict[str, Any] | None = None  # what the last batch was expected to add, in the user's units
    warnings: tuple[str, ...] = ()  # about the table, as of the last ask
    failures: dict[str, Any] | None = None  # what was concluded from failures, as of the last ask

    @classmethod
    def of(cls, context: RunContext, state: RunState) -> CompactState:
        """The compact form of a state."""
        belief, posterior = state.belief, state.belief.state
        if state.elimination is not None:
            raise CheckpointError("a run of BPE has no compact form: its active arms may be the whole pool")
        return cls(
            n_arms=context.pool.n_arms,
            n_features=context.pool.n_features,
            model=belief.model,
            memory=belief.memory,
            posterior=Definition.of(posterior),
            history=state.history,
            tickets=state.tickets,
            waiting=state.waiting,
            design=state.design,
            **{name: getattr(state, name) for name in _COUNTERS},
        )

    def on(
        self,
        context: RunContext,
        warm: Belief | None = None,
        embedding: GroupedNystrom | None = None,
    ) -> RunState:
        """The run state on the context's pool, which must be the saved one, under the context's policy.

        A belief `warm` of an earlier state of the same run saves time if it has the same kernel and sketch,
        and so does an `embedding` of the same run on another pool; they do not change the result.
        """
        shape = context.pool.n_arms, context.pool.n_features
        if (self.n_arms, self.n_features) != shape:
            saved = (self.n_arms, self.n_features)
            raise CheckpointError(
                f"{_NAME}: belongs to a pool of shape {saved}, but this pool has shape {shape}"
            )
        model = self.model if context.prepared is not None else None
        if model is None and context.prepared is not None:
            return RunState.initial(context)
        belief = None if warm is None else warm.under(context, model)
        known = None if belief is None else belief.state
        belief = Belief.initial(context, model) if belief is None else belief
        state = built(belief.process, self.posterior, known, embedding)
        sampler = None if belief.prior is None else belief.prior.sampler
        prior = CorrectedPrior.of(sampler, state)
        return RunState(
            belief=replace(belief, state=state, memory=self.memory, prior=prior),
            history=self.history,
            encoded_arms=self.n_arms,
            modelled_arms=self.n_arms,
            tickets=self.tickets,
            waiting=self.waiting,
            design=self.design,
            **{name: getattr(self, name) for name in _COUNTERS},
        )

    # ------------------------------------------------------------------ on fewer arms, and back

    @property
    def arms(self) -> Ints:
        """Every arm that the state refers to."""
        named = [
            *self.tickets.arms,
            *(result.arm for result in self.waiting),
            *(self.design or ()),
        ]
        parts = [self.memory.drawn, self.posterior.inducing, self.posterior.arms, self.history.arms, named]
        return np.unique(np.concatenate([np.asarray(part, dtype=np.int64) for part in parts]))

    def restricted(self, arms: Ints) -> tuple[CompactState, Ints]:
        """The same run restricted to these arms and those it refers to, and the indices of all these arms.

        The learned model and the posterior depend only on the arms pulled, unless the policy makes a feature
        map for the pool. The model can therefore be learned on the restricted pool, and `expanded` maps the
        state back to the whole pool.
        """
        kept = np.union1d(self.arms, arms)
        return self._relabelled(lambda old: np.searchsorted(kept, old), len(kept)), kept

    def expanded(self, arms: Ints, n_arms: int) -> CompactState:
        """The run on all `n_arms` arms, from its restriction to `arms`; the inverse of `restricted`."""
        return self._relabelled(lambda old: arms[old], n_arms)

    def _relabelled(self, label: Callable[[Ints], Ints], n_arms: int) -> CompactState:
        known = self.posterior
        named = relabelled((result.arm for result in self.waiting), label)
        waiting = (replace(result, arm=arm) for result, arm in zip(self.waiting, named, strict=True))
        return replace(
            self,
            n_arms=n_arms,
            memory=self.memory.relabelled(label),
            posterior=replace(known, inducing=label(known.inducing), arms=label(known.arms)),
            history=self.history.relabelled(label, n_arms),
            tickets=self.tickets.relabelled(label),
            waiting=tuple(waiting),
            design=None if self.design is None else tuple(relabelled(self.design, label)),
        )

    # ------------------------------------------------------------------ bytes

    def to_bytes(self) -> bytes:
        """The state as the bytes of an archive."""
        known = self.posterior
        stream = io.BytesIO()
        write_archive(
            stream,
            {
                "format": FORMAT,
                "version": VERSION,
                "pool": [self.n_arms, self.n_features],
                "model": None if self.model is None else self.model.describe(),
                "memory": self.memory.to_plain(),
                "posterior": {**vars(known), "groups": list(known.groups)},
                "history": self.history.to_plain(),
                "tickets": self.tickets.to_plain(),
                "waiting": [result.to_plain() for result in self.waiting],
                "design": None if self.design is None else list(self.design),
                "certificate": self.certificate,
                "outlook": self.outlook,
                "warnings": list(self.warnings),
                **({} if self.failures is None else {"failures": self.failures}),
                **{name: getattr(self, name) for name in _COUNTERS},
            },
        )
        return stream.getvalue()

    @classmethod
    def from_bytes(cls, data: bytes) -> CompactState:
        """The state that `to_bytes` wrote, in this version of the format or in versions 2 to 4."""
        plain = read_archive(
            io.BytesIO(data), _NAME, FORMAT, VERSION, older={2: upgraded, 3: unchanged, 4: unchanged}
        )
        try:
            return cls._from_plain(plain)
        except ManyarmsError:
            raise
        except (KeyError, ValueError, TypeError, IndexError, AttributeError) as problem:
            raise CheckpointError(f"{_NAME}: damaged: {problem!r}") from None

    @classmethod
    def _from_plain(cls, plain: Mapping[str, Any]) -> CompactState:
        n_arms, n_features = plain["pool"]
        design = plain["design"]
        return cls(
            n_arms=n_arms,
            n_features=n_features,
            model=None if plain["model"] is None else model_from(plain["model"]),
            memory=Memory.from_plain(plain["memory"]),
            posterior=_definition(plain["posterior"]),
            history=History.from_plain(plain["history"], n_arms),
            tickets=Tickets.from_plain(plain["tickets"]),
            waiting=tuple(ToldResult.from_plain(result) for result in plain["waiting"]),
            design=None if design is None else tuple(design),
            certificate=plain.get("certificate"),
            outlook=plain.get("outlook"),
            warnings=tuple(plain.get("warnings", ())),
            failures=plain.get("failures"),
            **{name: plain[name] for name in _COUNTERS},
        )


def _definition(plain: Mapping[str, Any]) -> Definition:
    """What defines the posterior; states of earlier versions have one group of inducing arms."""
    inducing = plain["inducing"]
    groups = plain.get("groups", [len(inducing)] if len(inducing) else [])
    return Definition(**{**plain, "groups": tuple(int(size) for size in groups)})
