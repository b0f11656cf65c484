"""A campaign whose repeated results show that the noise differs: kept, restored and corrected alike."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np

from manyarms.campaigns.campaign import Campaign, Issued
from manyarms.campaigns.queries import history
from manyarms.campaigns.results_file import ReportedResult
from manyarms.campaigns.status import status
from tests.campaigns.support import LEARNED, cli, made

NOISE = 0.03, 12.0  # where the first column is 0, and how many times larger it is where it is 1


def value(x1: float, x2: float, number: int) -> float:
    """A hill, and noise that belongs to the number."""
    std = NOISE[0] * NOISE[1] ** x1
    noise = np.random.default_rng((3, number)).normal()
    return math.exp(-4 * ((x1 - 0.4) ** 2 + (x2 - 0.6) ** 2)) + std * float(noise)


def measured(issued: list[Issued], sign: float = 1.0) -> list[bytes]:
    """Two files: the results of the tickets, and two further results of each candidate."""
    places = [(float(each.columns["x1"]), float(each.columns["x2"])) for each in issued]
    told = [f"{each.code},{sign * value(*x, each.ticket)}" for each, x in zip(issued, places, strict=True)]
    more = [
        f"{each.id},{sign * value(*x, 1000 * turn + each.ticket)}"
        for each, x in zip(issued, places, strict=True)
        for turn in (1, 2)
    ]
    return [
        "\n".join([head, *lines, ""]).encode()
        for head, lines in (("ticket,value", told), ("name,value", more))
    ]


def run(folder: Path, name: str, again: bool, sign: float = 1.0) -> tuple[list[Any], Campaign]:
    """Five batches and a correction; with `again`, every act is that of a new process."""
    goal = "maximise" if sign > 0 else "minimise"
    campaign, log = made(folder, name, **LEARNED, goal=goal), []
    for turn in range(5):
        if again:
            campaign.close()
            campaign = Campaign(folder / name)
        batch = campaign.ask(10)
        log += [(each.id, each.reason, each.predicted, each.predicted_std, each.lower) for each in batch]
        for place, text in enumerate(measured(batch, sign)):
            campaign.tell_bytes(text, f"{turn} {place}.csv")
        if turn == 3:
            first = history(campaign)[0]
            campaign.correct([ReportedResult("here", first.ticket, first.id, sign * 0.5)])
    campaign.ask(1)
    return log, campaign


def test_a_kept_model_with_a_law_changes_nothing(tmp_path: Path) -> None:
    warm, kept = run(tmp_path, "warm.db", again=False)
    cold, other = run(tmp_path, "cold.db", again=True)
    assert warm == cold
    models = [each._belief.model for each in (kept, other)]
    assert models[0].noise_law is not None
    assert models[0] == models[1]
    kept.close()
    other.close()


def test_minimising_finds_the_mirrored_law(tmp_path: Path) -> None:
    high, first = run(tmp_path, "high.db", again=False)
    low, second = run(tmp_path, "low.db", again=False, sign=-1.0)
    assert [each[0] for each in high] == [each[0] for each in low]
    laws = [each._belief.model.noise_law for each in (first, second)]
    rows = np.random.default_rng(0).random((20, 2))
    np.testing.assert_allclose(laws[0].factors(rows), laws[1].factors(rows), rtol=1e-6)
    first.close()
    second.close()


def test_status_and_intervals_say_that_the_noise_differs(tmp_path: Path) -> None:
    _, campaign = run(tmp_path, "c.db", again=False)
    found = status(campaign)
    assert any("the noise depends on the features of candidates" in each for each in found["assumptions"])
    assert found["model"]["noise_depends_on"] == "features"
    campaign.close()
    text = cli("status", tmp_path / "c.db").out
    assert "it depends on the features" in " ".join(text.split())
