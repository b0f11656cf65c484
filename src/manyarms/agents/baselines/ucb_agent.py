"""The common part of the agents of the three UCB baselines: the choice of an arm, and the saved state.

The agent's coin breaks ties. With a stationary kernel all arms tie before the first reward, so the first pull
is uniform and differs between agents. A chosen arm stays the trial of its step until it is answered, even if
a sync brings new data in the meantime.

A model is saved as the list of the additions made to it; making them again in the same order gives the same
model to the last bit.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from manyarms.agents.baselines.models import Model
from manyarms.agents.baselines.ucb import Contexts, PointEncoding, UcbSettings
from manyarms.agents.protocol.agent import Agent, Pulls
from manyarms.agents.protocol.coins import PURPOSE_TIES, Coin
from manyarms.agents.protocol.messages import Message
from manyarms.agents.protocol.saved import pack, unpack
from manyarms.agents.protocol.wire import decode, encode
from manyarms.pool.pool import Pool
from manyarms.support.validation import Floats


class UcbAgent(Agent):
    """An agent that pulls the arm with the highest upper confidence bound, one at a time."""

    def __init__(self, settings: UcbSettings, number: int, domain: Pool | Contexts, coin: Coin) -> None:
        super().__init__(number)
        self.settings, self.domain, self._coin = settings, domain, coin
        self.encoding = PointEncoding(domain, settings.send)
        self.model = self._new_model()
        self.step = 0
        self.known_pulls = 0  # pulls recorded in the model, including those of other agents
        self.waiting = False  # during a sync the agent chooses no arm
        self._own_keys: NDArray[Any] = self.encoding.no_keys  # own pulls, in order
        self._own_rewards: Floats = np.empty(0)
        self._additions: list[tuple[NDArray[Any], Floats]] = []  # to the model, since it was new
        self._pending: NDArray[Any] | None = None  # the key of the open trial

    def _new_model(self) -> Model:
        """The model before any pull."""
        return self.settings.exact_model(self.domain)

    # ------------------------------------------------------------------ the interface of an agent

    def _start(self) -> list[Message]:
        return []

    @property
    def done(self) -> bool:
        """Whether T arms have been pulled."""
        return self.step >= self.settings.horizon

    @property
    def next_step(self) -> int:
        """The step of the open trial, or of the next one."""
        return self.step

    @property
    def _paused(self) -> bool:
        return self.waiting

    def _ask(self) -> Pulls | None:
        """The arm with the highest bound. During a sync none is chosen, but an open trial stays open."""
        if self._pending is None and not self.done and not self.waiting:
            self._pending = self._chosen()
        return self._asked()

    def _asked(self) -> Pulls | None:
        if self._pending is None:
            return None
        arms, features = None, self._pending
        if isinstance(self.domain, Pool):
            arms, features = self._pending, self.domain.take(self._pending)
        return Pulls(self.number, np.array([self.step]), arms, features)

    def _chosen(self) -> NDArray[Any]:
        """The key of the arm with the highest bound."""
        rows = None if isinstance(self.domain, Pool) else self.domain.at(self.number, self.step)
        mean, leverage = self.model.at(rows)
        bound = mean + self.settings.multiplier(self.model, max(self.known_pulls, 1)) * np.sqrt(leverage)
        best = np.flatnonzero(bound == bound.max())
        arm = best[self._coin.stream(self.step, PURPOSE_TIES).integers(len(best), 1)]
        return arm if rows is None else rows[arm]

    def _observe(self, rewards: Floats) -> list[Message]:
        """Record the reward, and request a sync if the trigger fires."""
        assert self._pending is not None
        keys, self._pending = self._pending, None
        self._before_adding(keys)
        self._own_keys = np.concatenate([self._own_keys, keys])
        self._own_rewards = np.concatenate([self._own_rewards, rewards])
        self._add(keys, rewards)
        self.step += 1
        return [] if self.done else self._after_step()

    def _add(self, keys: NDArray[Any], rewards: Floats) -> None:
        """Record pulls, one's own or those of others, in the model."""
        self.model.add(keys, rewards)
        self._additions.append((keys, rewards))
        self.known_pulls += len(keys)

    def _before_adding(self, keys: NDArray[Any]) -> None:
        """Called with each pull before the model is updated."""

    @abstractmethod
    def _after_step(self) -> list[Message]:
        """The messages sent after each pull except the last."""

    # ------------------------------------------------------------------ saved states

    def save(self) -> bytes:
        """The pulls, the additions to the model, the open trial, and the state of a sync."""
        meta, arrays, messages = self._sync_state()
        meta |= {
            **self._common_state(),
            "step": self.step,
            "known_pulls": self.known_pulls,
            "waiting": self.waiting,
            "sizes": [len(rewards) for _, rewards in self._additions],
        }
        arrays |= {
            "own_keys": self._own_keys,
            "own_rewards": self._own_rewards,
            "added_keys": np.concatenate([self.encoding.no_keys, *(keys for keys, _ in self._additions)]),
            "added_rewards": np.concatenate([np.empty(0), *(rewards for _, rewards in self._additions)]),
        }
        for name, message in messages.items():
            if message is not None:
                arrays[f"message {name}"] = np.frombuffer(encode(message), dtype=np.uint8)
        if self._pending is not None:
            arrays["pending"] = self._pending
        return pack(self._state_name, self._fingerprint(), meta, arrays)

    def load(self, state: bytes) -> None:
        """Replace the state by a saved one."""
        meta, arrays = unpack(state, self._state_name, self._fingerprint())
        self.step, self.waiting = meta["step"], meta["waiting"]
        self._own_keys, self._own_rewards = arrays["own_keys"], arrays["own_rewards"]
        self._pending = arrays.get("pending")
        self.model, self._additions = self._new_model(), []
        messages = {
            name.removeprefix("message "): decode(array.tobytes())
            for name, array in arrays.items()
            if name.startswith("message ")
        }
        self._load_sync_state(meta, arrays, messages)
        end = 0
        for size in meta["sizes"]:
            start, end = end, end + size
            self._add(arrays["added_keys"][start:end], arrays["added_rewards"][start:end])
        self.known_pulls = meta["known_pulls"]
        self._load_common_state(meta)

    def _sync_state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]], dict[str, Message | None]]:
        """What a subclass adds to the saved state: plain data, arrays, and messages by name."""
        return {}, {}, {}

    def _load_sync_state(
        self, meta: dict[str, Any], arrays: dict[str, NDArray[Any]], messages: dict[str, Message]
    ) -> None:
        """The inverse of `_sync_state`; the model is still new."""

    @property
    def _state_name(self) -> str:
        return f"agent of {type(self.settings).__name__}"

    def _fingerprint(self) -> dict[str, Any]:
        """The agent a state belongs to; of the coin only its fingerprint."""
        return {
            "settings": self.settings.described(),
            "domain": self.encoding.domain_digest,
            "agent": self.number,
            "coin": self._coin.fingerprint,
        }
