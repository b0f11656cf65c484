"""S-GP-TS in batches: functions of the prior, and the recall of a screening."""

from __future__ import annotations

import numpy as np
import pytest

import manyarms as ma
from manyarms.reproduce import sgpts_screening, sgpts_synthetic
from manyarms.reproduce.registry import EXPERIMENTS


def test_recall_counts_each_of_the_best_once() -> None:
    truth = np.zeros(200)
    truth[[5, 9]] = 1.0, 2.0  # the best 1 %
    arms, at = np.array([0, 5, 5, 7, 9]), np.array([1.0, 2.0, 3.0, 5.0])
    assert sgpts_screening.recall(truth, arms, at).tolist() == [0.0, 0.5, 0.5, 1.0]


def test_a_screening_evaluates_in_batches_of_the_size_of_its_case() -> None:
    for job in EXPERIMENTS["sgpts-screening"].plan("smoke").jobs():
        numbers = sgpts_screening.run_one(job, None).numbers
        assert numbers["largest_batch"][-1] == job.settings["batch"]
        assert (np.diff(numbers["recall"]) >= 0).all()


def test_batch_sizes_of_the_screening_reach_from_10_to_500() -> None:
    jobs = EXPERIMENTS["sgpts-screening"].plan("default").jobs()
    assert {job.settings["batch"] for job in jobs} == {10, 50, 100, 500}
    assert {job.settings["pool"] for job in jobs} == {"enamine"}


@pytest.mark.parametrize("kernel", ["SE", "Matérn 5/2"])
def test_functions_have_the_covariance_of_the_kernel(kernel: str) -> None:
    """Whitened values of 20 functions are standard normal; each bound fails with probability below 10⁻⁴."""
    settings = {"kernel": kernel, "lengthscale": 0.2}
    white = []
    for seed in range(20):
        features, truth = sgpts_synthetic.drawn_function(sgpts_synthetic.kernel_of(settings), 30, seed)
        K = sgpts_synthetic.kernel_of(settings).matrix(features, features) + 1e-10 * np.eye(30)
        white.append(np.linalg.solve(np.linalg.cholesky(K), truth))
    values = np.array(white)
    assert abs(values.mean()) < 4 / np.sqrt(values.size)
    assert abs(values.var() - 1.0) < 4 * np.sqrt(2 / values.size)


def test_every_method_knows_the_kernel_of_its_case() -> None:
    for job in EXPERIMENTS["sgpts-synthetic"].plan("default").jobs():
        policy = sgpts_synthetic.policy_of(job.method, job.settings)
        assert policy.kernel == sgpts_synthetic.kernel_of(job.settings)
        assert isinstance(policy, ma.GPTS if job.method == sgpts_synthetic.EXACT else ma.SGPTS)
