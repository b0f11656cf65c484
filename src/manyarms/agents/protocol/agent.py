"""The interface of an agent: a state machine that takes messages and returns messages and pulls.

It contains no transport, clock or threads. The caller gives the messages that have arrived to `turn`, sends
the messages it returns, measures the pulls it returns, and gives the results to `tell`, in any order and at
any later time. A pull is one trial, identified by the agent's number and its step: until it is answered,
every turn returns the same trial for the same step, also after `save` and `load`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from manyarms.agents.protocol.messages import SERVER, Message
from manyarms.errors import ForgedSenderError, InvalidRewardError, MessageError
from manyarms.support.validation import Floats, Ints, finite_rewards


@dataclass(frozen=True)
class Pulls:
    """Trials of one agent: `arms` are pool indices (None without a pool), `features` their rows.

    `steps` are the agent's time steps, counted from 0. A trial is identified by (`agent`, step).
    """

    agent: int
    steps: Ints
    arms: Ints | None
    features: NDArray[Any]

    def __post_init__(self) -> None:
        steps = np.atleast_1d(np.asarray(self.steps, dtype=np.int64))
        if len(steps) != len(self.features):
            raise ValueError(f"{len(steps)} steps for {len(self.features)} pulls")
        object.__setattr__(self, "steps", steps)

    def __len__(self) -> int:
        return len(self.features)

    @property
    def step(self) -> int:
        """The step of the first pull."""
        return int(self.steps[0])

    def without(self, answered: Mapping[int, float]) -> Pulls:
        """The pulls whose steps are not in `answered`."""
        left = np.flatnonzero([step not in answered for step in self.steps.tolist()])
        arms = None if self.arms is None else self.arms[left]
        return Pulls(self.agent, self.steps[left], arms, self.features[left])


class Turn(NamedTuple):
    """The messages to send to the server, and the open trials (None if there are none)."""

    messages: list[Message]
    pulls: Pulls | None


class Agent(ABC):
    """One agent.

    A subclass has the reactions to messages and rewards. This class keeps the results that were told until
    they are complete, and remembers whether the first messages were sent.
    """

    def __init__(self, number: int) -> None:
        self.number = number
        self.refusals: tuple[MessageError, ...] = ()  # of the last turn
        self._started = False
        self._answers: dict[int, float] = {}  # results of open trials, by step

    # ------------------------------------------------------------------ for the caller

    def turn(self, messages: Iterable[Message] = ()) -> Turn:
        """Take the messages that have arrived; return the messages to send and the open trials.

        A message that is refused changes nothing and is listed in `refusals`; the others are still used.
        """
        answers = self._start() if not self._started else []
        self._started = True
        refusals = []
        for message in messages:
            try:
                answers += self.receive(message)
            except MessageError as refusal:
                refusals.append(refusal)
        self.refusals = tuple(refusals)
        answers += self._use_answers()
        asked = self._ask()
        left = None if asked is None else asked.without(self._answers)
        return Turn(answers, left if left is not None and len(left) else None)

    def receive(self, message: Message) -> list[Message]:
        """React to one message of the server; repeated and stale messages are ignored."""
        if message.sender != SERVER:
            raise ForgedSenderError(
                f"{message.name} for agent {self.number} says it is from {message.sender}"
            )
        return self._react(message)

    def tell(self, results: Mapping[int, float]) -> list[Message]:
        """Record results by step and return the messages that they cause.

        Steps of the past are ignored: the run went on without them, or the same result is told again. A
        second, different result for an open trial, and a result that nobody asked for, are errors.
        """
        values = dict(
            zip(results, finite_rewards(list(results.values()), len(results)).tolist(), strict=True)
        )
        asked = self._asked()
        open_steps = set() if asked is None else set(asked.steps.tolist())
        for step, value in values.items():
            if step not in open_steps and step >= self.next_step:
                raise InvalidRewardError(
                    f"agent {self.number} has no pending pull at step {step}; pending: {sorted(open_steps)}"
                )
            if self._answers.get(step, value) != value:
                raise InvalidRewardError(
                    f"step {step} of agent {self.number} already has the result {self._answers[step]!r}, "
                    f"not {value!r}"
                )
        self._answers |= {step: value for step, value in values.items() if step in open_steps}
        return self._use_answers()

    @property
    def asked(self) -> Pulls | None:
        """The trials of the present batch that a turn has returned, answered or not."""
        return self._asked()

    @property
    def told(self) -> dict[int, float]:
        """The results of open trials that wait for the others of their batch, by step."""
        return dict(self._answers)

    @abstractmethod
    def timeout(self) -> list[Message]:
        """Send the last message again, because an answer is overdue."""

    @property
    @abstractmethod
    def done(self) -> bool:
        """Whether the agent has completed all T steps."""

    @property
    @abstractmethod
    def next_step(self) -> int:
        """The number of steps behind the agent: the first step that is open or not asked for yet."""

    @abstractmethod
    def save(self) -> bytes:
        """The whole state (npz with JSON inside, no pickle, and not the coin)."""

    @abstractmethod
    def load(self, state: bytes) -> None:
        """Replace the state by one that `save` wrote for the same agent of the same run."""

    # ------------------------------------------------------------------ for subclasses

    def _use_answers(self) -> list[Message]:
        asked = self._asked()
        if asked is None or self._paused or any(step not in self._answers for step in asked.steps.tolist()):
            return []
        rewards = np.array([self._answers[step] for step in asked.steps.tolist()])
        self._answers = {}
        return self._observe(rewards)

    @property
    def _paused(self) -> bool:
        """Whether complete results must wait, because the server is computing with the earlier ones."""
        return False

    def _drop_answers(self) -> None:
        """Forget the results of trials that the run no longer waits for."""
        self._answers = {}

    def _common_state(self) -> dict[str, Any]:
        """The state of this class, as plain data."""
        return {"started": self._started, "answers": sorted(self._answers.items())}

    def _load_common_state(self, plain: dict[str, Any]) -> None:
        self._started, self.refusals = bool(plain["started"]), ()
        self._answers = {int(step): float(value) for step, value in plain["answers"]}

    @abstractmethod
    def _start(self) -> list[Message]:
        """The first messages."""

    @abstractmethod
    def _react(self, message: Message) -> list[Message]:
        """React to a message of the server."""

    @abstractmethod
    def _ask(self) -> Pulls | None:
        """All trials of the present batch, answered or not; chosen now if there is none."""

    @abstractmethod
    def _asked(self) -> Pulls | None:
        """The trials that `_ask` has returned and that are not finished; None if there are none."""

    @abstractmethod
    def _observe(self, rewards: Floats) -> list[Message]:
        """Record the rewards of all trials of the present batch, in their order."""
