"""The three readings of the set-up on Abalone and Cadata, and the sketch with and without earlier arms."""

from __future__ import annotations

import math

import numpy as np
import pytest

import manyarms as ma
from manyarms.reproduce import real_pools
from manyarms.reproduce.experiment import ExperimentResult, Job
from manyarms.reproduce.pools import load
from manyarms.reproduce.registry import EXPERIMENTS
from manyarms.reproduce.summaries import final_rows, relative_regret, relative_regret_panel


@pytest.mark.parametrize(
    ("case", "features", "rewards", "norm_bound", "noise"),
    [
        (real_pools.A20, "standardised", "unit", 20.0, 0.1),
        (real_pools.A1, "standardised", "unit", 1.0, 0.1),
        (real_pools.B, "unit", "unit", 1.0, 0.1),
        (real_pools.C, "unit", "own", 20.0, math.sqrt(0.2)),
    ],
)
@pytest.mark.parametrize("name", ["bbkb-abalone", "bbkb-cadata"])
def test_the_settings_of_each_reading(
    name: str, case: str, features: str, rewards: str, norm_bound: float, noise: float
) -> None:
    for job in EXPERIMENTS[name].plan("default").jobs():
        if job.case == case:
            given = job.settings
            assert (given["features"], given["rewards"], given["norm_bound"]) == (
                features,
                rewards,
                norm_bound,
            )
            assert given["noise_std"] == pytest.approx(noise)
            assert given["planned"] == 10_000, "δ is that of the planned horizon"


def test_a_run_uses_the_scales_of_its_case() -> None:
    """A uniform choice has the mean gap of the scaled rewards."""
    raw = load("generated:200", None).truth
    gaps = {"unit": (raw.max() - raw.mean()) / np.ptp(raw), "own": raw.max() - raw.mean()}
    for case, rewards in ((real_pools.B, "unit"), (real_pools.C, "own")):
        job = next(
            job
            for job in EXPERIMENTS["bbkb-abalone"].plan("smoke").jobs()
            if (job.case, job.method) == (case, "BBKB")
        )
        numbers = real_pools.run_one(job, None).numbers
        assert numbers["uniform_regret"][-1] == pytest.approx(40 * gaps[rewards])


def test_fresh_draws_drop_the_arms_of_earlier_draws() -> None:
    """Keeping earlier inducing arms makes the sketch of BKB larger, as the page of the figures says."""
    settings = EXPERIMENTS["bbkb-abalone"].plan("smoke").jobs()[0].settings
    kept, fresh = (real_pools.policy_of(method, settings) for method in ("BKB", real_pools.FRESH))
    assert isinstance(kept, ma.BKB)
    assert isinstance(fresh, ma.BKB)
    assert fresh.compaction == 1.0 < kept.compaction
    sizes = {}
    for method in ("BKB", real_pools.FRESH):
        job = next(
            job
            for job in EXPERIMENTS["bbkb-abalone"].plan("smoke").jobs()
            if (job.case, job.method) == (real_pools.B, method)
        )
        sizes[method] = real_pools.run_one(job, None).numbers["dictionary"][-1]
    assert sizes[real_pools.FRESH] < sizes["BKB"]


def test_relative_regret_is_that_of_the_authors_figure() -> None:
    numbers = {
        name: np.array([1.0, 2.0]) for name in ("t", "largest_batch", "batches", "dictionary", "unique_arms")
    }
    numbers |= {"regret": np.array([4.0, 6.0]), "uniform_regret": np.array([5.0, 10.0])}
    run = ExperimentResult(Job("c", "BKB", 0, {}), numbers, {"seconds": np.ones(2)})
    assert relative_regret(run).tolist() == [0.8, 0.6]
    (curve,) = relative_regret_panel("c", {"BKB": [run, run]}).curves
    assert curve.y.tolist() == [0.8, 0.6]
    assert final_rows([run])[0]["R/uniform"] == 0.6
