"""DUETS, the server's side (DUETS Algorithm 2, with the misprints of theory §11 corrected).

collecting Ready ──all, or timeout──▶ S_j sent, collecting ProjectedRewards ──▶ Solution sent, next epoch
      └────last epoch──▶ Confirm sent, done
"""

from __future__ import annotations

import math
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from manyarms.agents.active_set import DOUBLE, ActivePool, ActiveSet, DrawnPoints
from manyarms.agents.duets.epoch import ClosedEpoch, Exploration
from manyarms.agents.duets.records import EpochRecord
from manyarms.agents.duets.settings import DuetsSettings
from manyarms.agents.epoch_posterior import means
from manyarms.agents.protocol.coins import Coins
from manyarms.agents.protocol.messages import (
    SERVER,
    WANT_PROJECTED_REWARDS,
    WANT_READY,
    Confirm,
    EpochDraws,
    Inducing,
    Message,
    Ping,
    ProjectedRewards,
    Ready,
    Solution,
    digest_of,
    plausible,
)
from manyarms.agents.protocol.saved import pack, unpack
from manyarms.agents.protocol.server import Outgoing, Server, unexpected
from manyarms.agents.protocol.wire import decode, encode
from manyarms.errors import ImpossibleMessageError
from manyarms.support.validation import Floats

Phase = Literal["collecting ready", "collecting projections", "done"]
_MAX_CORRECTIONS = 3  # per agent and epoch: its set, its draws, and one more; then the agent is left out


class DuetsServer(Server):
    """Replays every coin, chooses S_j, sums the projected rewards, solves for the mean, and trims."""

    def __init__(self, settings: DuetsSettings, active: ActiveSet, coins: Coins) -> None:
        super().__init__(settings.n_agents)
        self.settings, self._coins = settings, coins
        self.width, self.oversampling = settings.constants(active)
        self.active = active
        self.epoch = 1
        self.phase: Phase = "collecting ready"
        self.records: list[EpochRecord] = []
        self.closed: ClosedEpoch | None = None  # the last epoch that was solved
        self.mean: tuple[NDArray[Any], Floats] | None = None  # S (wire form) and weights of that epoch
        self.absent: set[int] = set()  # agents left out of the last epoch
        self.inducing: NDArray[Any] = np.empty(0)  # S_j in its wire form
        self.inclusion = 0.0  # p_j
        self.projections: dict[int, Floats] = {}
        self.participants: tuple[int, ...] = ()
        self._begin_collecting()

    def _begin_collecting(self) -> None:
        self.ready: set[int] = set()
        self.excluded: set[int] = set()
        self.corrections: dict[int, int] = {}
        self._draws: dict[int, DrawnPoints] = {}
        self._exploration: tuple[tuple[int, ...], Exploration] | None = None
        self._begin_waiting()

    def _begin_waiting(self) -> None:
        self.retries_used = 0
        self.pinged: set[int] = set()

    # ------------------------------------------------------------------ the interface of a server

    def _react(self, message: Message) -> list[Outgoing] | None:
        if isinstance(message, Ready):
            return self._on_ready(message)
        if isinstance(message, ProjectedRewards):
            return self._on_projected_rewards(message)
        raise unexpected(message)

    def timeout(self) -> list[Outgoing]:
        """Ask silent agents again `retries` times, then leave them out of this epoch and record it."""
        missing = self._missing()
        if self.done:
            return []
        if missing and self.retries_used < self.settings.retries:
            self.retries_used += 1
            self.pinged |= set(missing)
            return self._ping(missing)
        return self._open_epoch() if self.phase == "collecting ready" else self._close_epoch()

    def resume(self) -> list[Outgoing]:
        """Ask again for every outstanding report."""
        missing = self._missing()
        self.pinged |= set(missing)
        return self._ping(missing) if missing else self._advance_if_complete()

    def save(self) -> bytes:
        """The state between two messages, for `DUETS.resume_server`. Draws are replayed, not saved."""
        senders = sorted(self.projections)
        meta = {
            "epoch": self.epoch,
            "phase": self.phase,
            "ready": sorted(self.ready),
            "excluded": sorted(self.excluded),
            "absent": sorted(self.absent),
            "pinged": sorted(self.pinged),
            "asked": self.retries_used,
            "corrections": sorted(self.corrections.items()),
            "participants": self.participants,
            "senders": senders,
            "inclusion": self.inclusion,
            "ignored": self.ignored,
            "records": [record.to_plain() for record in self.records],
        }
        projections = [self.projections[n] for n in senders]
        arrays = {
            "active": np.frombuffer(encode(self.active.message(self.epoch)), dtype=np.uint8),
            "inducing": self.inducing,
            "projections": np.array(projections) if projections else np.empty((0, len(self.inducing))),
        }
        if self.mean is not None:
            arrays["mean_inducing"], arrays["mean_weights"] = self.mean
        return pack("DUETS", self._fingerprint(), meta, arrays)

    def restore(self, state: bytes) -> None:
        """Replace the state of this server by a saved one."""
        meta, arrays = unpack(state, "DUETS", self._fingerprint())
        self.active = self.active.adopted(decode(arrays["active"].tobytes()))
        self.epoch, self.phase = meta["epoch"], meta["phase"]
        self._begin_collecting()
        self.ready, self.excluded = set(meta["ready"]), set(meta["excluded"])
        self.absent, self.pinged = set(meta["absent"]), set(meta["pinged"])
        self.retries_used, self.corrections = meta["asked"], dict(meta["corrections"])
        self.participants = tuple(meta["participants"])
        self.inclusion, self.ignored = meta["inclusion"], meta["ignored"]
        self.inducing = arrays["inducing"]
        known = "mean_weights" in arrays
        self.mean = (arrays["mean_inducing"], arrays["mean_weights"]) if known else None
        self.projections = dict(zip(meta["senders"], arrays["projections"], strict=True))
        self.records = [EpochRecord.from_plain(record) for record in meta["records"]]

    def _fingerprint(self) -> dict[str, Any]:
        """The run a state belongs to: settings, domain, and fingerprints of the coins (never the coins)."""
        return {
            "settings": self.settings.described(),
            "domain": self.active.domain_digest,
            "coins": self._coins.fingerprints,
        }

    @property
    def done(self) -> bool:
        """Whether the last epoch has been confirmed."""
        return self.phase == "done"

    @property
    def waiting_for(self) -> tuple[int, ...]:
        """The agents whose report of this epoch is outstanding."""
        return () if self.done else self._missing()

    def summary(self) -> dict[str, Any]:
        """The epochs so far, the active set, and the bound of theory §9.1 on what is left."""
        solved = [record for record in self.records if record.sigma_max > 0]
        return {
            "phase": self.phase,
            "epoch": self.epoch,
            "n_epochs": self.settings.n_epochs,
            "lengths": list(self.settings.lengths),
            "active": self.active.size,
            "width": self.width,
            "bound": 4.0 * self.width * solved[-1].sigma_max if solved else None,
            "best": self._best(),
            "epochs": [record.to_plain() for record in self.records],
        }

    def _best(self) -> dict[str, Any] | None:
        """The active arm of a pool with the highest mean of the last epoch that was solved."""
        if self.mean is None or not isinstance(self.active, ActivePool):
            return None
        inducing, weights = self.active.from_wire(self.mean[0]), self.mean[1]
        blocks = self.active.maximisation_blocks(self.active.arms)
        kernel = self.settings.checked_kernel
        values = np.concatenate([means(kernel, inducing, weights, block, DOUBLE) for block in blocks])
        place = int(np.argmax(values))
        return {"arm": int(self.active.arms[place]), "mean": float(values[place])}

    @property
    def is_last_epoch(self) -> bool:
        """Whether this is the last epoch, in which agents send no rewards."""
        return self.epoch == self.settings.n_epochs

    # ------------------------------------------------------------------ collecting Ready

    def _on_ready(self, message: Ready) -> list[Outgoing] | None:
        agent = message.sender
        if message.epoch > self.settings.n_epochs:
            raise ImpossibleMessageError(f"Ready for epoch {message.epoch} of {self.settings.n_epochs}")
        if message.epoch < self.epoch:
            return self._catch_up(agent)
        if message.epoch > self.epoch or agent in self.excluded:
            return None
        if self.phase == "collecting projections":  # the agent never received S_j
            waiting = agent in self.pinged and agent in self._missing()
            return [self._resend(agent, self._inducing_message())] if waiting else None
        if agent in self.ready:
            return [Outgoing((agent,), Confirm(SERVER, self.epoch))] if self.done else None
        correction = self._correction(message)
        if correction is not None:
            return correction
        self.ready.add(agent)
        if self.done:
            return [Outgoing((agent,), Confirm(SERVER, self.epoch))]
        return self._advance_if_complete()

    def _correction(self, message: Ready) -> list[Outgoing] | None:
        """The correction for an agent whose active set or draws differ; None when the digests agree."""
        agent = message.sender
        correction: Message
        if message.active != self.active.digest:
            correction = self.active.message(self.epoch)
        elif message.draws != self._drawn(agent).digest:
            correction = EpochDraws(SERVER, self.epoch, self._drawn(agent).keys)
        else:
            return None
        self.corrections[agent] = self.corrections.get(agent, 0) + 1
        if self.corrections[agent] > _MAX_CORRECTIONS:
            self.excluded.add(agent)
            return self._advance_if_complete()
        return [self._resend(agent, correction)]

    def _catch_up(self, agent: int) -> list[Outgoing] | None:
        """Send the current active set to an agent that missed an epoch, once it can join an epoch again."""
        open_to_join = self.phase != "collecting projections" and agent not in self.ready
        if not open_to_join or not (agent in self.pinged or agent in self.absent or self.done):
            return None
        return [self._resend(agent, self.active.message(self.epoch))]

    def _missing(self) -> tuple[int, ...]:
        if self.phase == "collecting ready":
            return tuple(n for n in range(self.n_agents) if n not in self.ready | self.excluded)
        return tuple(n for n in self.participants if n not in self.projections)

    def _advance_if_complete(self) -> list[Outgoing]:
        if self.done or self._missing():
            return []
        return self._open_epoch() if self.phase == "collecting ready" else self._close_epoch()

    def _ping(self, missing: tuple[int, ...]) -> list[Outgoing]:
        wanted = WANT_READY if self.phase == "collecting ready" else WANT_PROJECTED_REWARDS
        return [Outgoing(missing, Ping(SERVER, self.epoch, wanted), again=True)]

    # ------------------------------------------------------------------ choosing S_j

    def _open_epoch(self) -> list[Outgoing]:
        """Algorithm 2 l. 4–8: replay the coins, then choose and broadcast S_j."""
        self.participants = tuple(sorted(self.ready))
        self.projections = {}
        self._begin_waiting()
        if self.is_last_epoch:
            self._record(self.participants)
            self.phase = "done"
            return self._to_participants(Confirm(SERVER, self.epoch))
        self.phase = "collecting projections"
        if not self.participants:
            self.inducing = self.active.to_wire(np.empty(0, dtype=np.int64))
            return self._close_epoch()
        self._choose_inducing()
        return self._to_participants(self._inducing_message())

    def _choose_inducing(self) -> None:
        exploration = self._explored(self.participants)
        self.inclusion = exploration.inclusion(self.oversampling)
        chosen = exploration.inducing(self.inclusion, self._coins.server, self.epoch)
        self.inducing = self.active.to_wire(chosen)

    def _explored(self, agents: tuple[int, ...]) -> Exploration:
        """The exploration of these agents, cached because the end of the epoch needs it again."""
        if self._exploration is None or self._exploration[0] != agents:
            draws = [self._drawn(n) for n in agents]
            self._exploration = agents, Exploration.of(self.settings, self.active, draws)
        return self._exploration[1]

    def _inducing_message(self) -> Inducing:
        return Inducing(SERVER, self.epoch, self.inducing)

    # ------------------------------------------------------------------ solving

    def _on_projected_rewards(self, message: ProjectedRewards) -> list[Outgoing] | None:
        agent = message.sender
        if message.epoch >= self.settings.n_epochs:
            raise ImpossibleMessageError(
                f"{message.name} for epoch {message.epoch} of {self.settings.n_epochs}"
            )
        if message.epoch < self.epoch:
            return self._catch_up(agent) if agent in self.pinged | self.absent else None
        if message.epoch > self.epoch or self.phase != "collecting projections" or agent in self.projections:
            return None
        if agent not in self.participants:
            raise ImpossibleMessageError(
                f"{message.name} from agent {agent}, which does not take part in this epoch"
            )
        if message.basis != digest_of(self.inducing):  # S was replaced by a restart
            return [self._resend(agent, self._inducing_message())] if agent in self.pinged else None
        values = message.values
        if values.shape != (len(self.inducing),) or not plausible(values):
            raise ImpossibleMessageError(
                f"expected {len(self.inducing)} finite projected rewards, got {values.size} values of shape "
                f"{values.shape}, {int(np.isfinite(values).sum())} of them finite"
            )
        self.projections[agent] = values
        return self._advance_if_complete()

    def _close_epoch(self) -> list[Outgoing]:
        """Algorithm 2 l. 10–12, with the draws of exactly the agents whose projected rewards are summed."""
        present = tuple(sorted(self.projections))
        basis, nothing = digest_of(self.inducing), np.zeros(len(self.inducing))
        solution = Solution(SERVER, self.epoch, basis, nothing, 0.0, -math.inf)
        active, withheld = self.active, False
        if present:
            exploration = self._explored(present)  # σ_max also ignores the draws of lost agents
            total = np.sum([self.projections[n] for n in present], axis=0)
            self.closed = exploration.solve(self.active.from_wire(self.inducing), total, self.width)
            trim = self.closed.trim
            self.mean = self.inducing, trim.weights
            active = self.active.trimmed(trim)
            withheld = not self._can_be_sampled(active)
            active, cutoff = (self.active, -math.inf) if withheld else (active, trim.cutoff)
            solution = Solution(SERVER, self.epoch, basis, trim.weights, exploration.sigma_max, cutoff)
        self._record(present, solution, withheld)
        self.absent = set(range(self.n_agents)) - set(present)
        self.active, self.epoch, self.phase = active, self.epoch + 1, "collecting ready"
        self._begin_collecting()
        return self._to_participants(solution)

    def _can_be_sampled(self, active: ActiveSet) -> bool:
        """Whether every agent can draw its next epoch from this set."""
        return active.can_draw_all(
            list(self._coins.agents), self.epoch + 1, self.settings.lengths[self.epoch]
        )

    # ------------------------------------------------------------------ draws, messages and records

    def _drawn(self, agent: int) -> DrawnPoints:
        """The draws of an agent in this epoch, replayed from its coin."""
        if agent not in self._draws:
            length = self.settings.lengths[self.epoch - 1]
            self._draws[agent] = self.active.draw(self._coins.agents[agent], self.epoch, length)
        return self._draws[agent]

    def _resend(self, agent: int, message: Message) -> Outgoing:
        return Outgoing((agent,), message, again=True)

    def _to_participants(self, message: Message) -> list[Outgoing]:
        return [Outgoing(self.participants, message)] if self.participants else []

    def _record(
        self, present: tuple[int, ...], solution: Solution | None = None, withheld: bool = False
    ) -> None:
        self.records.append(
            EpochRecord(
                epoch=self.epoch,
                length=self.settings.lengths[self.epoch - 1],
                active_size=self.active.size,
                present=present,
                left_out=tuple(n for n in range(self.n_agents) if n not in present),
                n_inducing=len(self.inducing) if solution else 0,
                inclusion=self.inclusion if solution else 0.0,
                sigma_max=solution.sigma_max if solution else 0.0,
                cutoff=solution.cutoff if solution else -math.inf,
                trim_withheld=withheld,
                corrections=sum(self.corrections.values()),
            )
        )
