"""The contextual bandit: each round brings its own candidates, and rewards come whenever they come."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from manyarms.contextual import saved
from manyarms.contextual.checks import checked_policy, checked_round
from manyarms.contextual.choose import chosen
from manyarms.contextual.ledger import Ledger
from manyarms.contextual.model import RowValues
from manyarms.contextual.renew import renewed, with_open_rows
from manyarms.contextual.renewal import is_due
from manyarms.contextual.state import BanditState, Settings
from manyarms.embeddings import Nystrom
from manyarms.errors import InvalidParameterError
from manyarms.policies import SOFUL, Policy
from manyarms.posterior.sparse_gp import SMALLEST_RIDGE
from manyarms.run.tickets import as_tickets
from manyarms.support.frozen import changed
from manyarms.support.threads import one_thread
from manyarms.support.validation import Floats, count, finite_rewards, non_negative, positive


@dataclass(frozen=True)
class Pick:
    """The row that was chosen in one round.

    `index` is its place among the rows of the round and `ticket` what its reward is told by. `why` is "random
    start" (before there are results), "upper bound", "Thompson draw", "highest mean" or "exploration".
    """

    index: int
    ticket: int
    why: str


class ContextualBandit:
    """A policy on candidates that are new in every round (theory §5.16).

    policy: the algorithm: BKB, BBKB, SGPTS, OFUL, SOFUL, CBRAP, or another that needs no fixed pool.
        Its kernel must be given. With BBKB the results are used, and inducing points drawn, only when its
        ratio is exceeded; with BKB before every round.
    seed: the random seed.
    max_inducing: the largest number of inducing points; None for no limit. Beyond it, the points that explain
        the least are dropped, which is outside the theory.
    max_open: the number of different rows without a used result that reduce the variance of similar rows.
    expire_after: the number of rounds after which a pick without a reward is forgotten; None for never.
    forgetting: a factor between 0 and 1 by which the weight of every result falls per round, for rewards that
        drift (outside the theory); 1 keeps all results.
    window: use the last `window` results only, for rewards that drift (outside the theory); None for all.

    What is kept are inducing points, V and the picks without a used result. Their number does not grow with
    the number of rounds.
    """

    def __init__(
        self,
        policy: Policy,
        seed: int = 0,
        *,
        max_inducing: int | None = 500,
        max_open: int = 100,
        expire_after: int | None = None,
        forgetting: float = 1.0,
        window: int | None = None,
    ) -> None:
        self._settings = Settings(
            checked_policy(policy),
            count("seed", seed, minimum=0),
            max_inducing if max_inducing is None else count("max_inducing", max_inducing),
            count("max_open", max_open),
            expire_after if expire_after is None else count("expire_after", expire_after),
            _forgetting(forgetting),
            window if window is None else count("window", window),
        )
        if window is not None and isinstance(policy, SOFUL):
            raise InvalidParameterError(
                "window", window, "left out with SOFUL, whose sketch cannot lose rows"
            )
        if window is not None and self._settings.forgetting < 1:
            raise InvalidParameterError("window", window, "left out if results are forgotten gradually")
        self._state: BanditState | None = None  # None before the first round
        self._ledger = Ledger()

    def __repr__(self) -> str:
        name = type(self._settings.policy).__name__
        return (
            f"ContextualBandit({name}, {self.rounds} rounds, {self.pulls} results used, "
            f"{len(self._ledger.pending)} pending, {self.inducing_points} inducing points)"
        )

    # ------------------------------------------------------------------ one round

    def ask(self, rows: Any, context: Any = None) -> Pick:
        """Choose one of the candidates of this round.

        rows: one row of features per candidate: those of the action, of the context, or both.
        context: features that all candidates of this round share; they are appended to every row.
        """
        with one_thread():
            return self._asked(rows, context)

    def _asked(self, rows: Any, context: Any) -> Pick:
        state, like = self._state, None if self._state is None else self._state.open_picks.values.rows
        X = checked_round(rows, context, like)
        if state is None:
            state = BanditState.initial(self._settings, X)
        old = self._ledger.expired(state.rounds, self._settings.expire_after)
        if old:
            left = self._ledger.open_rows(waiting=True, without=old)
            state = with_open_rows(self._settings, state, self._needed(left))
        use = bool(self._ledger.waiting) and self._is_due(state)
        if use:
            still_open = self._ledger.open_rows(waiting=False, without=old)
            state = renewed(self._settings, state, self._ledger.waiting, self._needed(still_open))
        values = self._values(state, X)
        state = changed(state, prior_max=max(state.prior_max, float(values.prior.max())))
        choice = chosen(self._settings, state, values)
        # Nothing above changes the bandit, and nothing below can fail.
        self._state = choice.state
        if use:
            self._ledger.waiting = []
        for ticket in old:
            del self._ledger.pending[ticket]
        ticket = self._ledger.issue(X[choice.index : choice.index + 1].copy(), state.rounds)
        return Pick(choice.index, ticket, choice.why)

    def tell(
        self,
        tickets: Pick | ArrayLike | None = None,
        rewards: ArrayLike | None = None,
        *,
        rows: Any = None,
        noise_std: ArrayLike | None = None,
    ) -> None:
        """Record the reward of a pick, or the rewards of several, in any order and at any later round.

        tickets: one ticket or pick, or a list of tickets.
        rewards: one reward for each.
        rows: feature rows instead of tickets, for results that were not asked for, such as a log.
        noise_std: the standard deviation of the noise of each reward; None for the policy's. A result has the
            weight λ/noise_std² in V.
        """
        if (tickets is None) == (rows is None):
            raise InvalidParameterError("tell", None, "given exactly one of tickets or rows")
        if rewards is None:
            raise InvalidParameterError("rewards", rewards, "given; a pick without a reward can be forgotten")
        if rows is not None:
            self._tell_rows(rows, rewards, noise_std)
            return
        named = _named(tickets)
        self._ledger.check(named)
        values = finite_rewards(rewards, len(named))
        noise = _noise(noise_std, len(named))
        self._ledger.answer(named, values.tolist(), noise.tolist())

    def forget(self, tickets: Pick | ArrayLike) -> None:
        """Give up picks without a reward, as if they had never been handed out."""
        named = _named(tickets)
        self._ledger.check(named)
        if self._state is not None:
            left = self._ledger.open_rows(waiting=True, without=named)
            with one_thread():
                self._state = with_open_rows(self._settings, self._state, self._needed(left))
        for ticket in named:
            del self._ledger.pending[ticket]

    def _tell_rows(self, rows: Any, rewards: ArrayLike, noise_std: ArrayLike | None) -> None:
        state = self._state
        X = checked_round(rows, None, None if state is None else state.open_picks.values.rows)
        values, noise = finite_rewards(rewards, len(X)), _noise(noise_std, len(X))
        state = BanditState.initial(self._settings, X) if state is None else state
        with one_thread():
            prior = self._values(state, X).prior
        self._state = changed(state, prior_max=max(state.prior_max, float(prior.max())))
        self._ledger.add(X.copy(), state.rounds - 1, values.tolist(), noise.tolist())

    def _is_due(self, state: BanditState) -> bool:
        """Whether results are used before the next pick; the first ones always are."""
        return not state.pulls or is_due(self._settings.stopping_rule, state.since)

    def _needed(self, rows: list[Any]) -> list[Any]:
        """The open rows, for policies whose choice depends on them."""
        return rows if self._settings.uses_open_picks else []

    def _values(self, state: BanditState, X: NDArray[Any]) -> RowValues:
        values = state.model.at(X, state.prior_max)
        largest, ridge = float(values.prior.max()), state.model.ridge
        if ridge < SMALLEST_RIDGE * largest:
            rule = f"at least {SMALLEST_RIDGE:g} of the largest prior variance {largest:g}"
            raise InvalidParameterError("ridge", ridge, f"{rule}; below it, rounding errors dominate")
        return values

    # ------------------------------------------------------------------ reading

    @property
    def policy(self) -> Policy:
        """The policy."""
        return self._settings.policy

    @property
    def seed(self) -> int:
        """The random seed."""
        return self._settings.seed

    @property
    def rounds(self) -> int:
        """The number of rounds so far."""
        return 0 if self._state is None else self._state.rounds

    @property
    def pulls(self) -> int:
        """The number of results used so far."""
        return 0 if self._state is None else self._state.pulls

    @property
    def pending(self) -> list[int]:
        """The tickets without a reward."""
        return list(self._ledger.pending)

    @property
    def inducing_points(self) -> int:
        """The number of inducing points; 0 for a fixed feature map."""
        if self._state is None or not isinstance(self._state.model.embedding, Nystrom):
            return 0
        return self._state.model.size

    def predict(self, rows: Any, context: Any = None) -> tuple[Floats, Floats]:
        """Posterior mean and standard deviation of the expected reward of these rows, given all results."""
        like = None if self._state is None else self._state.open_picks.values.rows
        X = checked_round(rows, context, like)
        state = BanditState.initial(self._settings, X) if self._state is None else self._state
        with one_thread():
            if self._ledger.waiting:
                state = renewed(self._settings, state, self._ledger.waiting, [])
            values = self._values(state, X)
        return values.mean, np.sqrt(state.model.ridge * values.leverage)

    # ------------------------------------------------------------------ saving

    def save(self, path: str | Path) -> None:
        """Write the bandit to one file; a loaded bandit continues bit for bit."""
        saved.save(self._settings, self._state, self._ledger, Path(path))

    @classmethod
    def load(cls, path: str | Path, policy: Policy | None = None) -> ContextualBandit:
        """The bandit that `save` wrote; `policy` is needed if its kernel is not one of this package."""
        settings, state, ledger = saved.load(Path(path), policy)
        bandit = cls.__new__(cls)
        bandit._settings, bandit._state, bandit._ledger = settings, state, ledger
        return bandit


def _named(tickets: Any) -> list[int]:
    return [tickets.ticket] if isinstance(tickets, Pick) else as_tickets(tickets)


def _noise(noise_std: ArrayLike | None, expected: int) -> Floats:
    """One standard deviation for each result, NaN for the policy's."""
    if noise_std is None:
        return np.full(expected, np.nan)
    given = np.asarray(noise_std, dtype=object).ravel().tolist()
    if len(given) not in (1, expected):
        raise InvalidParameterError("noise_std", noise_std, f"one number, or {expected} of them")
    return np.broadcast_to([positive("noise_std", std) for std in given], (expected,))


def _forgetting(forgetting: Any) -> float:
    factor = non_negative("forgetting", forgetting)
    if not 0 < factor <= 1:
        raise InvalidParameterError("forgetting", forgetting, "above 0 and at most 1")
    return factor
