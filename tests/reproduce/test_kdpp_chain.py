"""The exact laws behind ε₀: they describe the chain that the package runs, and its limit is the k-DPP."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from scipy.stats import chisquare

from manyarms.reproduce import kdpp_chain
from manyarms.reproduce.registry import EXPERIMENTS
from manyarms.sketch.kdpp import greedy, sample_chain

SETTINGS = {"n": 6, "k": 3, "lengthscale": 0.3, "clustered": False}


def test_the_transition_matrix_keeps_the_k_dpp() -> None:
    K = kdpp_chain.kernel_matrix(SETTINGS, 0)
    law, P = kdpp_chain.exact_law(K, 3), kdpp_chain.transition_matrix(K, 3)
    assert P.sum(axis=1) == pytest.approx(1.0)
    assert (P >= 0).all()
    assert law @ P == pytest.approx(law, abs=1e-12)


def test_the_matrix_describes_the_chain_that_is_run() -> None:
    """3 000 runs of 4 steps, against the law of the matrix; a false alarm has probability 10⁻⁴."""
    K, k, steps, runs = kdpp_chain.kernel_matrix(SETTINGS, 1), 3, 4, 3_000
    listed = kdpp_chain.subsets(6, k)
    law = np.zeros(len(listed))
    law[listed.index(tuple(np.sort(greedy(K, k)).tolist()))] = 1.0
    law = law @ np.linalg.matrix_power(kdpp_chain.transition_matrix(K, k), steps)
    rng = np.random.default_rng(0)
    seen = Counter(tuple(sample_chain(K, k, rng, steps).tolist()) for _ in range(runs))
    counts = np.array([seen[S] for S in listed])
    common = law * runs >= 5
    observed = np.append(counts[common], counts[~common].sum())
    expected = np.append(law[common], law[~common].sum()) * runs
    kept = expected > 0
    assert observed[~kept].sum() == 0, "what the matrix excludes does not happen"
    assert chisquare(observed[kept], expected[kept]).pvalue > 1e-4


def test_the_distance_falls_to_zero() -> None:
    K = kdpp_chain.kernel_matrix(SETTINGS, 2)
    found = kdpp_chain.distances(K, 3, [0, 5, 20, 400])
    start = kdpp_chain.subsets(6, 3).index(tuple(np.sort(greedy(K, 3)).tolist()))
    assert found[0] == pytest.approx(1.0 - kdpp_chain.exact_law(K, 3)[start]), (
        "the chain starts in one subset"
    )
    assert (np.diff(found) <= 1e-12).all()
    assert found[-1] < 1e-6


def test_the_summary_reads_the_default_number_of_steps() -> None:
    job = EXPERIMENTS["kdpp-chain"].plan("smoke").jobs()[0]
    outcome = kdpp_chain.run_one(job, None)
    result = kdpp_chain.ExperimentResult(job, outcome.numbers, outcome.timings)
    (row,) = kdpp_chain.summary([result])
    at = outcome.numbers["steps"].tolist().index(outcome.numbers["default"][0])
    assert row["ε₀ at the default"] == outcome.numbers["distance"][at]
    assert row["default steps"] == outcome.numbers["default"][0]
