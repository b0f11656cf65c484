"""The certificate of a campaign: in the user's units, as text, and as a reason to stop."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import Any

from manyarms.campaigns.assumptions import Units
from manyarms.campaigns.settings import Settings
from manyarms.campaigns.text import counted
from manyarms.errors import GapReachedError
from manyarms.run.certificate import CERTIFICATE, certificate_of
from manyarms.run.conditions import REQUESTED_SIZE, batches_condition
from manyarms.run.optimizer import Optimizer
from manyarms.support.threads import threads_for


def certificate_in_units(run: Optimizer, units: Units, settings: Settings) -> dict[str, Any] | None:
    """The certificate of a run that has used every result; None if there is none.

    It is a proof only if the kernel, the noise, the norm bound and the units are all given: if values are
    standardised by the results, the rewards of the run are not those that the theorem is about.
    """
    if not len(run.history):
        return None
    with threads_for(run.pool.n_arms):
        found = certificate_of(run.context, run.state, run.best().arm, vouched=settings.vouched)
    found = replace(
        found,
        id=str(found.id),
        gap=units.spread(found.gap),
        regret=units.spread(found.regret),
        best_value_bound=units.value(found.best_value_bound),
        recommended_value_bound=units.value(found.recommended_value_bound),
    )
    return asdict(found) | {"conditions": [asdict(each) for each in found.conditions]}


def check_gap(certificate: dict[str, Any] | None, until_gap: float) -> None:
    """Raise `GapReachedError` if the gap is at most `until_gap`."""
    if certificate is not None and certificate["gap"] <= until_gap:
        raise GapReachedError(
            f"the gap is reached: {_gap(certificate)}; at most {until_gap:.6g} was asked for, "
            "and nothing was handed out"
        )


def with_batches(certificate: dict[str, Any] | None, ended_because: Sequence[str]) -> dict[str, Any] | None:
    """The certificate with the condition about how batches ended, which the database knows."""
    if certificate is None or certificate["kind"] != CERTIFICATE or not ended_because:
        return certificate
    requested = sum(each == REQUESTED_SIZE for each in ended_because)
    conditions = [*certificate["conditions"], asdict(batches_condition(requested))]
    return certificate | {"conditions": conditions}


def certificate_lines(found: dict[str, Any] | None, goal: str) -> list[tuple[str, str]]:
    """The certificate as labelled lines of text."""
    if found is None:
        return []
    most, least = ("at most", "at least") if goal == "maximise" else ("at least", "at most")
    return [
        ("gap", f"{_gap(found)}, from {counted(found['pulls'], 'result')}"),
        ("regret", f"at most {found['regret']:.6g} in total over these results"),
        ("bounds", f"mean of the best candidate {most} {found['best_value_bound']:.6g}, of {found['id']} "
                   f"{least} {found['recommended_value_bound']:.6g}"),
        ("width", f"{found['width']:.4g} standard deviations; effective dimension "
                  f"{found['effective_dimension']:.4g}, tr(K − Q)/λ {found['residual_trace']:.3g}, "
                  f"variance ratio of pending pulls {found['realised_ratio']:.3g}"),
        *(("condition", f"{each['status']}: {each['text']} (for {each['needed_for']})")
          for each in found["conditions"]),
    ]  # fmt: skip


def _gap(found: dict[str, Any]) -> str:
    how = "proved" if found["kind"] == CERTIFICATE else "an estimate from draws of the posterior"
    return (
        f"{found['id']} is at most {found['gap']:.6g} worse than the best candidate with probability "
        f"{found['confidence']:.4g} ({how})"
    )
