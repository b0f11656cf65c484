"""The state of a run as one frozen value. Every step of a run is a function from one state to the next.

    told(context, state, …)            results come in                     (telling.py)
    with_feedback(context, state)      the belief is brought up to date     (feedback.py)
    asked(context, state, request)     a batch is chosen                    (asking.py)
    with_more_arms(context, state, …)  the pool grows                       (growing.py)

A step that fails leaves the state as it was, because nothing modifies a state.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from manyarms.learning import learn
from manyarms.posterior.history import History
from manyarms.run.belief import Belief
from manyarms.run.context import RunContext
from manyarms.run.results import ToldResult
from manyarms.run.tickets import Tickets
from manyarms.run.trace import Trace


@dataclass(frozen=True)
class RunState:
    """Everything that changes in a run.

    `history` holds every reward told, as utilities (larger is better); `waiting` those that the belief has
    not been conditioned on yet. `design` is the initial design once there is one. `n_batches` and
    `n_feedbacks` address the random streams of the next ask and the next feedback. `encoded_arms` and
    `modelled_arms` say how many arms the pool had when its features were prepared and when the model was
    learned, so that a saved run can prepare and learn on the same arms.
    """

    belief: Belief
    history: History
    encoded_arms: int
    modelled_arms: int
    tickets: Tickets = Tickets()  # noqa: RUF009  (frozen)
    trace: Trace = Trace()  # noqa: RUF009  (frozen)
    waiting: tuple[ToldResult, ...] = ()
    design: tuple[int, ...] | None = None
    n_unasked: int = 0
    n_batches: int = 0
    n_feedbacks: int = 0

    @classmethod
    def initial(cls, context: RunContext) -> RunState:
        """Before anything was asked or told."""
        history, model = History(context.pool.n_arms), None
        if context.prepared is not None:
            model = learn(context.prepared, history, context.streams.at("learning"))
        n_arms = context.pool.n_arms
        return cls(Belief.initial(context, model), history, encoded_arms=n_arms, modelled_arms=n_arms)

    def to_plain(self) -> dict[str, Any]:
        """The whole state as numbers, texts, lists and arrays."""
        return {
            "belief": self.belief.to_plain(),
            "trace": self.trace.to_plain(),
            **self.progress_to_plain(),
        }

    def progress_to_plain(self) -> dict[str, Any]:
        """Everything but the belief and the trace."""
        return {
            "history": self.history.to_plain(),
            "tickets": self.tickets.to_plain(),
            "waiting": [result.to_plain() for result in self.waiting],
            "design": None if self.design is None else list(self.design),
            **{name: getattr(self, name) for name in _COUNTERS},
        }

    def with_progress(self, plain: Mapping[str, Any]) -> RunState:
        """With what `progress_to_plain` wrote."""
        design = plain["design"]
        return replace(
            self,
            history=History.from_plain(plain["history"], self.history.n_arms),
            tickets=Tickets.from_plain(plain["tickets"]),
            waiting=tuple(ToldResult.from_plain(result) for result in plain["waiting"]),
            design=None if design is None else tuple(design),
            **{name: plain[name] for name in _COUNTERS},
        )

    def from_plain(self, plain: Mapping[str, Any]) -> RunState:
        """What `to_plain` wrote; `self` is the state before any result under the same policy and model."""
        restored = replace(
            self, belief=self.belief.from_plain(plain["belief"]), trace=Trace.from_plain(plain["trace"])
        )
        return restored.with_progress(plain)


_COUNTERS = ("n_unasked", "n_batches", "n_feedbacks", "encoded_arms", "modelled_arms")
