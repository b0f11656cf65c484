"""The state of a run as one frozen value. Every step of a run is a function from one state to the next.

    told(context, state, tickets, rewards)  record results                               (telling.py)
    with_feedback(context, state)           update the belief with all recorded results  (feedback.py)
    asked(context, state, request)          choose a batch                               (asking.py)
    with_more_arms(context, state, pool)    add arms to the pool                         (growing.py)

A step that fails leaves the state as it was, because nothing modifies a state.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from manyarms.choice.elimination import Elimination
from manyarms.learning import learn
from manyarms.posterior.history import History
from manyarms.run.belief import Belief
from manyarms.run.context import RunContext
from manyarms.run.results import ToldResult
from manyarms.run.tickets import Tickets
from manyarms.run.trace import Trace


@dataclass(frozen=True)
class RunState:
    """Everything that changes during a run.

    `history` holds all recorded rewards as utilities (larger is better), and `waiting` those of them that the
    belief has not been conditioned on yet. `design` is the initial design, or None before it is drawn.
    `elimination` holds the active arms and the present batch of BPE, None for every other policy.
    `n_unasked` counts results that were recorded without a ticket. `n_batches` and `n_feedbacks` address the
    random streams of the next ask and the next feedback. `encoded_arms` and `modelled_arms` are the numbers
    of arms that the pool had when its features were prepared and when the model was learned, so that a saved
    run is restored from the same arms. `cost_spent` is what the pulls handed out and not forgotten cost.
    """

    belief: Belief
    history: History
    encoded_arms: int
    modelled_arms: int
    tickets: Tickets = Tickets()  # noqa: RUF009  (frozen)
    trace: Trace = Trace()  # noqa: RUF009  (frozen)
    waiting: tuple[ToldResult, ...] = ()
    design: tuple[int, ...] | None = None
    elimination: Elimination | None = None
    n_unasked: int = 0
    n_batches: int = 0
    n_feedbacks: int = 0
    cost_spent: float = 0.0

    @classmethod
    def initial(cls, context: RunContext) -> RunState:
        """The state before any batch and any result."""
        history, model = History(context.pool.n_arms), None
        if context.prepared is not None:
            model = learn(context.prepared, history, context.streams.at("learning"))
        n_arms = context.pool.n_arms
        return cls(Belief.initial(context, model), history, encoded_arms=n_arms, modelled_arms=n_arms)

    def to_plain(self) -> dict[str, Any]:
        """The whole state as numbers, strings, lists and arrays."""
        return {
            "belief": self.belief.to_plain(),
            "trace": self.trace.to_plain(),
            **self.progress_to_plain(),
        }

    def progress_to_plain(self) -> dict[str, Any]:
        """Everything except the belief and the trace, as plain data."""
        return {
            "history": self.history.to_plain(),
            "tickets": self.tickets.to_plain(),
            "waiting": [result.to_plain() for result in self.waiting],
            "design": None if self.design is None else list(self.design),
            "elimination": None if self.elimination is None else self.elimination.to_plain(),
            **{name: getattr(self, name) for name in _COUNTERS},
            **({"cost_spent": self.cost_spent} if self.cost_spent else {}),
        }

    def with_progress(self, plain: Mapping[str, Any]) -> RunState:
        """The state with everything that `progress_to_plain` wrote."""
        design, elimination = plain["design"], plain.get("elimination")
        return replace(
            self,
            history=History.from_plain(plain["history"], self.history.n_arms),
            tickets=Tickets.from_plain(plain["tickets"]),
            waiting=tuple(ToldResult.from_plain(result) for result in plain["waiting"]),
            design=None if design is None else tuple(design),
            elimination=None if elimination is None else Elimination.from_plain(elimination),
            **{name: plain[name] for name in _COUNTERS},
            cost_spent=float(plain.get("cost_spent", 0.0)),
        )

    def from_plain(self, plain: Mapping[str, Any]) -> RunState:
        """The state that `to_plain` wrote; `self` is the initial state under the same policy and model."""
        restored = replace(
            self, belief=self.belief.from_plain(plain["belief"]), trace=Trace.from_plain(plain["trace"])
        )
        return restored.with_progress(plain)


_COUNTERS = ("n_unasked", "n_batches", "n_feedbacks", "encoded_arms", "modelled_arms")
