"""The status of a campaign: settings, counts, the learned model and the assumptions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from manyarms.campaigns.campaign import Campaign
from manyarms.campaigns.certify import certificate_lines, with_batches
from manyarms.campaigns.costs import spending, spending_lines
from manyarms.campaigns.engine_settings import LOCAL
from manyarms.campaigns.failures import failure_lines
from manyarms.campaigns.model_summary import model_facts, model_lines
from manyarms.campaigns.next_batch import units_of, values_of
from manyarms.campaigns.outlook import outlook_lines
from manyarms.campaigns.queries import (
    batches,
    best_measured,
    budget_left,
    history,
    snapshot,
    ticket_costs,
    ticket_counts,
)
from manyarms.campaigns.settings import AUTO, Settings
from manyarms.campaigns.store.store import Snapshot
from manyarms.campaigns.text import counted
from manyarms.kernels.describe import from_description
from manyarms.learning import LearnedModel
from manyarms.run.compact_state import CompactState


def status(
    campaign: Campaign,
    model: LearnedModel | None = None,
    certificate: dict[str, Any] | None = None,
    expected: dict[str, Any] | None = None,
) -> dict[str, Any]:
    """Settings, counts, and the model, certificate and expected gain of the last ask (or those passed in).

    Nothing is fitted or predicted, and the pool is not read.
    """
    settings, results, asked = campaign.settings, history(campaign), batches(campaign)
    counts, seen = ticket_counts(campaign), snapshot(campaign)
    n_arms = seen.n_arms
    warnings: tuple[str, ...] = ()
    failures: dict[str, Any] | None = None
    if seen.state is not None:
        saved = CompactState.from_bytes(seen.state)
        if model is None:
            model, n_arms = saved.model, saved.n_arms
        expected, warnings = (expected if certificate else saved.outlook), saved.warnings
        certificate, failures = certificate or saved.certificate, saved.failures
    rewards = [(arm, settings.sign * value) for arm, value in values_of(seen)]
    return {
        "campaign": str(campaign.store.where),
        "created_at": campaign.created_at,
        "goal": settings.goal,
        "pool": {
            "path": str(settings.source.path), "candidates": seen.n_arms, "excluded": len(seen.excluded),
            "id": settings.source.id, "digest": settings.source.digest,
        },
        "policy": {"name": settings.policy, **settings.options},
        "kernel": settings.kernel or AUTO,
        "model": None if model is None else _model_facts(model, campaign.columns_at(n_arms), rewards, seen),
        "seed": settings.seed,
        "budget": settings.budget,
        "budget_left": budget_left(settings.budget, counts),
        "costs": spending(settings, ticket_costs(campaign)),
        "repeats": settings.repeats,
        "max_failures": settings.max_failures,
        "engine": settings.on_engine.where,
        "batches": len(asked),
        "tickets": counts,
        "results": {
            "values": sum(not each.failed for each in results),
            "failed": sum(each.failed for each in results),
            "unasked": sum(each.ticket is None for each in results),
            "candidates": len({each.id for each in results if not each.failed}),
            "corrections": seen.revision,
        },
        "best_measured": best_measured(results, settings.sign),
        "last_batch": asked[-1] if asked else None,
        "certificate": with_batches(certificate, [each["ended_because"] for each in asked]),
        "expected_gain": expected,
        "failures": failures,
        "warnings": list(warnings),
        "assumptions": _assumptions(settings, model, seen),
    }  # fmt: skip


def _model_facts(
    model: LearnedModel,
    columns: Sequence[tuple[str, float]],
    rewards: list[tuple[int, float]],
    seen: Snapshot,
) -> dict[str, Any]:
    facts = model_facts(model, columns, rewards)
    corrected = seen.issued is not None  # the model has used a result that was corrected since
    return facts | {"learned_again_at_the_next_ask": facts["learned_again_at_the_next_ask"] or corrected}


def _assumptions(settings: Settings, model: LearnedModel | None, seen: Snapshot) -> list[str]:
    """What was assumed by `new`, followed by what the model has assumed since, without repetition."""
    since: tuple[str, ...] = ()
    if not settings.learned:
        since = units_of(settings, seen).assumptions
    elif model is not None:
        since = tuple(model.assumptions)
    return list(dict.fromkeys((*settings.assumptions, *since)))


def status_lines(found: dict[str, Any]) -> list[tuple[str, str]]:
    """What `status` returns, as labelled lines of text."""
    pool, tickets, results = found["pool"], found["tickets"], found["results"]
    candidates = counted(pool["candidates"], "candidate")
    candidates += f", {pool['excluded']} of them excluded" if pool["excluded"] else ""
    ids = "the row number" if pool["id"] is None else f"column {pool['id']!r}"
    policy = dict(found["policy"])
    held = f"; {tickets['leased']} of the open ones are held by a run" if tickets["leased"] else ""
    lines = [
        ("campaign", found["campaign"]),
        ("created", found["created_at"]),
        ("goal", found["goal"]),
        ("pool", f"{pool['path']}: {candidates}, identified by {ids}"),
        ("policy", _options(policy.pop("name"), policy)),
        *(
            model_lines(found["model"])
            if found["kernel"] == AUTO
            else [("kernel", repr(from_description(found["kernel"])))]
        ),
        ("seed", str(found["seed"])),
        ("repeats", str(found["repeats"])),
        *([("engine", found["engine"])] if found.get("engine", LOCAL) != LOCAL else []),
        ("budget", "none" if found["budget"] is None else f"{found['budget']}, {found['budget_left']} left"),
        *spending_lines(found.get("costs")),
        ("batches", str(found["batches"])),
        ("tickets", f"{tickets['open']} open, {tickets['told']} answered, {tickets['failed']} failed, "
                    f"{tickets['forgotten']} forgotten{held}"),
        ("results", f"{counted(results['values'], 'value')} of "
                    f"{counted(results['candidates'], 'candidate')}, "
                    f"{counted(results['failed'], 'failed trial')}, {results['unasked']} without a ticket"
                    + (f"; {counted(results['corrections'], 'correction')} (see `manyarms history`)"
                       if results["corrections"] else "")),
    ]  # fmt: skip
    lines += failure_lines(found.get("failures"))
    if found["best_measured"]:
        top = found["best_measured"]
        count = counted(top["pulls"], "measurement")
        lines.append(("best measured", f"{top['id']}: average {top['average']:.6g} of {count}"))
    if found["last_batch"]:
        last = found["last_batch"]
        lines.append(("last batch", f"{counted(last['size'], 'ticket')} at {last['asked_at']}, "
                      f"ended because: {last['ended_because']}; {last['dictionary_size']} inducing arms, "
                      f"{last['seconds']:.2f} s"))  # fmt: skip
    lines += certificate_lines(found["certificate"], found["goal"])
    lines += outlook_lines(found.get("expected_gain"))
    lines += [("warning", each.removeprefix("warning: ")) for each in found.get("warnings", ())]
    return lines + [("assumed", sentence) for sentence in found["assumptions"]]


def _options(name: str, options: dict[str, Any]) -> str:
    return ", ".join([name, *(f"{key} = {value}" for key, value in options.items())])
