"""Saving a contextual bandit to one file, with every number that the next round reads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from manyarms.contextual.ledger import Ledger, Told
from manyarms.contextual.linear_sketch import SketchedPosterior
from manyarms.contextual.model import RowValues, StreamedPosterior
from manyarms.contextual.open_picks import OpenPicks
from manyarms.contextual.regression import Regression
from manyarms.contextual.renewal import PicksSince
from manyarms.contextual.state import BanditState, Settings, WindowResult
from manyarms.embeddings import Nystrom
from manyarms.errors import CheckpointError, ManyarmsError, OutputError
from manyarms.policies import Policy
from manyarms.policies.plain import matching_policy, policy_from_plain, policy_to_plain
from manyarms.posterior.frequent_directions import FrequentDirections
from manyarms.support.archive import read_archive, write_archive
from manyarms.support.frozen import changed
from manyarms.support.output_files import replacing

FORMAT, VERSION = "manyarms contextual bandit", 1
_OTHER_SETTINGS = ("seed", "max_inducing", "max_open", "expire_after", "forgetting", "window")
_NUMBERS = (
    "norm_bound", "prior_max", "rounds", "renewals", "pulls", "triple_log_sum", "log_sum", "discounted_at",
)  # fmt: skip


def save(settings: Settings, state: BanditState | None, ledger: Ledger, path: Path) -> None:
    """Write the bandit; an earlier file at `path` is replaced when the new one is complete."""
    plain = {
        "format": FORMAT,
        "version": VERSION,
        "policy": policy_to_plain(settings.policy),
        "settings": {name: getattr(settings, name) for name in _OTHER_SETTINGS},
        "state": None if state is None else _state_to_plain(state),
        "ledger": _ledger_to_plain(ledger),
    }
    if state is not None and state.open_picks.values.rows.dtype == object:
        raise CheckpointError(f"{path}: rows that are Python objects cannot be saved")
    if path.is_file() and path.stat().st_size:
        _read(path)  # only a saved bandit is replaced
    try:
        with replacing(path, "wb") as stream:
            write_archive(stream, plain)
    except OutputError as problem:
        raise CheckpointError(str(problem)) from problem


def load(path: Path, policy: Policy | None) -> tuple[Settings, BanditState | None, Ledger]:
    """Read a bandit that `save` wrote."""
    if not path.is_file():
        raise CheckpointError(f"{path}: no such file")
    plain = _read(path)
    try:
        if policy is None:
            policy = policy_from_plain(plain["policy"], str(path))
        else:
            policy = matching_policy(policy, plain["policy"], str(path))
        settings = Settings(policy, **plain["settings"])
        state = None if plain["state"] is None else _state_from_plain(settings, plain["state"])
        return settings, state, _ledger_from_plain(plain["ledger"])
    except ManyarmsError:
        raise
    except (KeyError, ValueError, TypeError, IndexError, AttributeError) as problem:
        raise CheckpointError(f"{path}: damaged: {problem!r}") from None


def _read(path: Path) -> dict[str, Any]:
    with open(path, "rb") as stream:
        return read_archive(stream, str(path), FORMAT, VERSION)


# ---------------------------------------------------------------------- the state


def _state_to_plain(state: BanditState) -> dict[str, Any]:
    model = state.model
    plain: dict[str, Any] = {name: getattr(state, name) for name in _NUMBERS}
    plain |= {
        "open_picks": state.open_picks.to_plain(),
        "since": dict(vars(state.since)),
        "last": None if state.last is None else dict(vars(state.last)),
        "window": _window_to_plain(state.window),
        "regression": model.regression.to_plain(),
        "missed": model.missed,
        "weight": model.weight,
    }
    if isinstance(model.embedding, Nystrom):
        plain |= {"points": model.embedding.points, "factor": model.embedding.factor}
    if isinstance(model, SketchedPosterior):
        plain |= {"sketch_rows": model.sketch.rows, "sketch_escaped": model.sketch.escaped}
    return plain


def _state_from_plain(settings: Settings, plain: Mapping[str, Any]) -> BanditState:
    open_picks = OpenPicks.from_plain(plain["open_picks"])
    fresh = BanditState.initial(settings, open_picks.values.rows[:0])  # the same random feature map
    model: StreamedPosterior = changed(
        fresh.model,
        regression=Regression.from_plain(plain["regression"]),
        missed=plain["missed"],
        weight=plain["weight"],
    )
    if isinstance(model.embedding, Nystrom):
        model = changed(model, embedding=Nystrom(model.kernel, plain["points"], plain["factor"]))
    if isinstance(model, SketchedPosterior):
        old = model.sketch
        sketch = FrequentDirections(old.size, old.n_features, plain["sketch_rows"], plain["sketch_escaped"])
        model = changed(model, sketch=sketch)
    return changed(
        fresh,
        model=model,
        open_picks=open_picks,
        since=PicksSince(**plain["since"]),
        window=_window_from_plain(plain["window"]),
        last=None if plain["last"] is None else RowValues(**plain["last"]),
        **{name: plain[name] for name in _NUMBERS},
    )


def _window_to_plain(window: Sequence[WindowResult]) -> dict[str, Any]:
    return {
        "sizes": np.array([len(one.z) for one in window], dtype=np.int64),
        "z": np.concatenate([one.z for one in window]) if window else np.empty(0),
        "numbers": np.array([(one.residual, one.weight, one.total) for one in window]).reshape(-1, 3),
    }


def _window_from_plain(plain: Mapping[str, Any]) -> tuple[WindowResult, ...]:
    ends = np.cumsum(plain["sizes"])
    parts = [plain["z"][end - size : end] for size, end in zip(plain["sizes"], ends, strict=True)]
    return tuple(
        WindowResult(z, *numbers) for z, numbers in zip(parts, plain["numbers"].tolist(), strict=True)
    )


# ---------------------------------------------------------------------- the ledger


def _ledger_to_plain(ledger: Ledger) -> dict[str, Any]:
    told = ledger.waiting
    return {
        "next_ticket": ledger.next_ticket,
        "n_unasked": ledger.n_unasked,
        "pending": [(ticket, round) for ticket, (_, round) in ledger.pending.items()],
        "pending_rows": _stacked([row for row, _ in ledger.pending.values()]),
        "waiting": [(*one.order, one.round) for one in told],
        "waiting_numbers": np.array([(one.reward, one.noise_std) for one in told]).reshape(-1, 2),
        "waiting_rows": _stacked([one.row for one in told]),
    }


def _stacked(rows: Sequence[Any]) -> Any:
    return np.concatenate(rows) if rows else np.empty(0)


def _split(rows: Any) -> list[Any]:
    return [rows[i : i + 1] for i in range(len(rows))]


def _ledger_from_plain(plain: Mapping[str, Any]) -> Ledger:
    pending = {
        ticket: (row, round)
        for (ticket, round), row in zip(plain["pending"], _split(plain["pending_rows"]), strict=True)
    }
    waiting = [
        Told((kind, number), row, round, reward, noise)
        for (kind, number, round), (reward, noise), row in zip(
            plain["waiting"], plain["waiting_numbers"].tolist(), _split(plain["waiting_rows"]), strict=True
        )
    ]
    return Ledger(plain["next_ticket"], plain["n_unasked"], pending, waiting)
