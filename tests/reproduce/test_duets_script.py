"""The set-up of the public script of DUETS, and the scaling in T."""

from __future__ import annotations

import math

import numpy as np
import pytest

import manyarms as ma
from manyarms import agents
from manyarms.embeddings.nystrom import Nystrom
from manyarms.problems import branin, wave_ridge
from manyarms.reproduce import duets, duets_scaling, duets_script
from manyarms.reproduce.experiment import ExperimentResult, Job
from manyarms.reproduce.registry import EXPERIMENTS


def test_epochs_round_up_and_sum_to_the_horizon() -> None:
    assert duets_script.epoch_lengths(100, 5) == [5, 23, 48, 24]
    assert duets_script.epoch_lengths(3, 5) == [3]


def test_inclusion_depends_on_the_pulls_alone() -> None:
    assert duets_script.inclusion(50) == pytest.approx(4 * math.log(50) / 50)
    assert duets_script.inclusion(2) == 1.0


def test_the_trim_is_pointwise() -> None:
    """The second arm stays because of its own deviation, and the third goes although another is large."""
    mean, std = np.array([1.0, 0.5, 0.5]), np.array([0.1, 0.5, 0.1])
    assert duets_script.kept(mean, std, 1.0).tolist() == [True, True, False]


def test_points_of_a_ball_are_moved_to_the_sphere() -> None:
    points = duets_script.on_sphere(wave_ridge(), 20, 0)
    assert np.linalg.norm(points, axis=1) == pytest.approx(1.0)
    assert np.array_equal(duets_script.on_sphere(branin(), 20, 0), branin().points(20, 0)), "a box stays"


def test_the_scalar_is_added_to_every_entry() -> None:
    pool, kernel = branin().pool(30, 0), ma.RBF(0.2)
    settings = duets_script.ScalarGramUCB(kernel, 0.2, 1, 5, noise_std=0.2, width=1.0)
    agent = settings.agent(0, pool, agents.Coin.of_agent(0, 0))
    agent._own_keys, agent._own_rewards = np.array([3, 4, 7]), np.array([1.0, 2.0, 3.0])
    at = pool.take(np.array([3, 9]))
    embedding = Nystrom(kernel, at, np.linalg.cholesky(kernel.matrix(at, at)))
    Z = embedding.matrix(pool.take(agent._own_keys))
    gram, vector = agent._own_sums(embedding)
    assert gram == pytest.approx(np.full((2, 2), (Z**2).sum()))
    assert vector == pytest.approx(Z.T @ agent._own_rewards)


def test_arms_are_drawn_from_what_the_trims_left() -> None:
    problem = branin()
    pool, settings = problem.pool(200, 0), duets.SCRIPT | {"agents": 10, "ridge": 0.2}
    truth = problem(pool.features)
    arms, sent = duets_script.run(pool, ma.RBF(0.2), settings, 0.5, lambda step: truth[step], 0)
    again, _ = duets_script.run(pool, ma.RBF(0.2), settings, 0.5, lambda step: truth[step], 0)
    assert arms.shape == (100, 10)
    assert np.array_equal(arms, again)
    first, last = truth[arms[:5]].mean(), truth[arms[76:]].mean()
    assert last > first + 0.5, "the trims leave better arms"
    assert np.flatnonzero(sent).tolist() == [5, 28, 76], "after each epoch but the last"


def test_the_settings_of_the_script_are_a_case_of_its_own() -> None:
    jobs = EXPERIMENTS["duets-figure1"].plan("default").jobs()
    script = [job for job in jobs if job.settings["script"]]
    assert {job.settings["horizon"] for job in script} == {100}
    assert {job.method for job in script} == set(duets.METHODS)
    assert all(job.method != duets.SCALAR for job in jobs if not job.settings["script"])
    problem = branin()
    chosen = {job.method: duets.algorithm(job.method, problem, job.settings, 1.0) for job in script}
    assert chosen["DisKernelUCB"].sync_threshold == 1.45
    assert chosen["ApproxDisKernelUCB"].sync_threshold == chosen[duets.SCALAR].sync_threshold == 0.1


def test_scaling_takes_the_best_width_at_each_horizon() -> None:
    def run(seed: int, regret: list[float]) -> ExperimentResult:
        numbers = {"T": np.array([8.0, 8.0, 16.0, 16.0]), "width": np.array([0.2, 1.0, 0.2, 1.0])}
        numbers |= {"regret": np.array(regret), "communication": np.array([1.0, 2.0, 3.0, 4.0])}
        return ExperimentResult(Job("Branin", "DUETS", seed, {}), numbers, {})

    best = duets_scaling.at_best_width([run(0, [4.0, 1.0, 2.0, 8.0]), run(1, [4.0, 3.0, 2.0, 1.0])])
    assert best["T"].tolist() == [8.0, 16.0]
    assert best["width"].tolist() == [1.0, 0.2]
    assert best["regret"].tolist() == [[1.0, 2.0], [3.0, 2.0]]
    assert best["communication"].tolist() == [[2.0, 3.0]] * 2
