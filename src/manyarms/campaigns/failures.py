"""What a campaign has concluded from its failed trials, as an ask stores it and `status` shows it."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from manyarms.campaigns.settings import Settings
from manyarms.run.failing import failure_report, predicted_success, success_model
from manyarms.run.optimizer import Optimizer
from manyarms.run.state import RunState
from manyarms.run.trace import Batch


def failure_facts(
    run: Optimizer, before: RunState, batch: Batch, settings: Settings
) -> dict[str, Any] | None:
    """The conclusions behind a batch, and its predicted share of successes; None without failures.

    `before` is the state from which the batch was chosen.
    """
    if not before.tickets.failures:
        return None
    names, model = run.pool.names, success_model(run.context, before)
    owners = None if names is None else settings.source.blocks(names)
    report = failure_report(run.context, before, model, owners)
    success = None if model is None else float(predicted_success(run.context, model, batch.arms).mean())
    return {**asdict(report), "columns": list(report.columns), "text": report.text, "success": success}


def failure_lines(found: dict[str, Any] | None) -> list[tuple[str, str]]:
    """The conclusions as one labelled line of text."""
    if found is None:
        return []
    text = f"{found['text']} (as of the last ask)"
    if found["success"] is not None:
        text += f"; predicted success of the last batch {found['success']:.2f}"
    return [("failures", text)]
