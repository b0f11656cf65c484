"""Reports to test with: small ones by hand, a real run, and names that nobody should trust."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np

import manyarms as ma
from manyarms.campaigns.report import CampaignReport, TopRow
from manyarms.plots.sources import view_of
from manyarms.plots.view import BatchLine, Measurement

NASTY = [
    "<script>alert(1)</script>",
    "\"quoted\", 'too', with, commas & <b>",
    "two\nlines\r\nand a\ttab",
    "'; DROP TABLE arms; --",
    "\u202egnp.exe\u202c \u200fright to left",
    "</svg></style></title><img src=x onerror=alert(1)>",
    "nul \x00 bell \x07 lone surrogate \ud800 end",
    "x" * 10_000,
    "",
]


def measurement(number: int, value: float | None, **changes: Any) -> Measurement:
    plain = Measurement(number, f"arm-{number}", value, value is None, None, None, None, None)
    return replace(plain, **changes)


def batch(number: int, size: int = 3, **changes: Any) -> BatchLine:
    plain = BatchLine(number, size, "fixed size", 1.5, 4, 0.25, "2030-01-02 09:30", None, None, None)
    return replace(plain, **changes)


def report(*values: float | None, **changes: Any) -> CampaignReport:
    measurements = [measurement(number, value) for number, value in enumerate(values, 1)]
    return replace(CampaignReport("A campaign", "maximise", [], measurements, [], []), **changes)


@cache
def real_report(pulls: int = 300, seed: int = 0) -> CampaignReport:
    """BBKB on a smooth function of two variables, as a campaign would report it."""
    rng = np.random.default_rng(seed)
    features = rng.random((800, 2))
    truth = np.sin(5 * features[:, 0]) * np.cos(4 * features[:, 1]) + features.sum(axis=1)
    pool = ma.Pool(features, ids=[f"well {row:03d}" for row in range(800)])
    optimizer = ma.Optimizer(pool, ma.BBKB(kernel=ma.RBF(0.3), noise_std=0.1, width=2.0), seed=seed)
    measurements: list[Measurement] = []
    batches: list[BatchLine] = []
    while len(measurements) < pulls:
        best = optimizer.best() if batches else None
        asked = optimizer.ask(at_most=24)
        held = (best.mean, best.lower, best.upper) if best else (None, None, None)
        made = optimizer.trace[-1]
        number = len(batches) + 1
        batches.append(
            BatchLine(
                number, len(asked), asked.ended_because, asked.ratio, made.dictionary_size, made.seconds,
                f"2030-01-{1 + number % 28:02d} 09:30", *held,
            )
        )  # fmt: skip
        predicted = zip(optimizer.predict(asked.arms)[0], *optimizer.interval(asked.arms), strict=True)
        rewards = truth[asked.arms] + 0.1 * rng.normal(size=len(asked))
        failed = rng.random(len(asked)) < 0.03
        for arm, value, lost, said in zip(
            asked.ids, rewards.tolist(), failed.tolist(), predicted, strict=True
        ):
            place = len(measurements) + 1
            measurements.append(Measurement(place, arm, None if lost else value, lost, *said, number))
        optimizer.tell(asked, rewards, failed=failed.tolist())
    return CampaignReport(
        "Yield of a made-up reaction", "maximise", [("policy", "BBKB"), ("candidates", "800")], measurements,
        batches, top_rows(optimizer), float(truth.max()), view_of(optimizer).model(),
        (optimizer.best().mean, optimizer.best().lower, optimizer.best().upper),
    )  # fmt: skip


def top_rows(optimizer: ma.Optimizer, most: int = 10) -> list[TopRow]:
    history, pool = optimizer.history, optimizer.pool
    means, stds = optimizer.predict(history.arms)
    return [
        TopRow(
            rank, pool.id_of(int(history.arms[place])), float(means[place]), float(stds[place]),
            int(history.counts[place]), float(history.sums[place] / history.counts[place]),
            {"temperature": f"{20 + rank}", "solvent": "water"},
        )
        for rank, place in enumerate(np.argsort(-means)[:most], 1)
    ]  # fmt: skip


def nasty_report() -> CampaignReport:
    """Every text a nasty one, all at once."""
    ordinary = real_report(60)
    names = [NASTY[place % len(NASTY)] for place in range(len(ordinary.measurements))]
    return replace(
        ordinary,
        title=" ".join(NASTY),
        facts=[(text, text) for text in NASTY],
        measurements=[replace(m, id=name) for m, name in zip(ordinary.measurements, names, strict=True)],
        batches=[
            replace(line, ended_because=name, asked_at=name)
            for line, name in zip(ordinary.batches, names, strict=False)
        ],
        top=[
            replace(row, id=name, columns={text: text[::-1] for text in NASTY})
            for row, name in zip(ordinary.top, names, strict=False)
        ],
    )
