"""The experiments measure what they claim: noise, regret, communication, and the data of the figures."""

from __future__ import annotations

from dataclasses import astuple
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import manyarms as ma
from manyarms import agents
from manyarms.problems import branin
from manyarms.reproduce import duets, linear_sketch, real_pools, sgpts, starvation
from manyarms.reproduce.curves import Curve, fitted_slope, labels, mean_and_sd
from manyarms.reproduce.experiment import ExperimentResult, Job, SummaryRow
from manyarms.reproduce.noise import PullNoise, standard_noise
from manyarms.reproduce.registry import EXPERIMENTS
from manyarms.reproduce.simulation import recorded_steps, simulate, trace_columns
from manyarms.reproduce.summaries import final_rows, regret_panel, to_markdown


def job_of(experiment: str, case: str, method: str, seed: int = 0, **changed: object) -> Job:
    jobs = EXPERIMENTS[experiment].plan("smoke").jobs()
    found = next(job for job in jobs if (job.case, job.method) == (case, method))
    return Job(case, method, seed, found.settings | changed)


# ---------------------------------------------------------------- common random numbers


def test_noise_depends_on_arm_and_count_not_on_order() -> None:
    one, other = PullNoise(0.5, seed=7), PullNoise(0.5, seed=7)
    first = dict(zip([3, 8, 3], one([3, 8, 3]), strict=True)), one([8])[0]
    assert other([8, 8]).tolist() == [first[0][8], first[1]]
    assert other([3, 3])[1] == first[0][3]
    assert PullNoise(0.5, seed=8)([3])[0] != PullNoise(0.5, seed=7)([3])[0]
    assert PullNoise(0.5, seed=7, stream=1)([3])[0] != PullNoise(0.5, seed=7)([3])[0]


def test_noise_is_standard_normal_and_uncorrelated() -> None:
    """4 000 numbers over arms and pulls; each bound holds with probability above 1 − 10⁻⁴."""
    values = np.array([[standard_noise(0, 0, arm, pull) for pull in range(1, 41)] for arm in range(100)])
    assert abs(values.mean()) < 4 / np.sqrt(values.size)
    assert abs(values.var() - 1) < 4 * np.sqrt(2 / values.size)
    assert abs(np.mean(values[:, 1:] * values[:, :-1])) < 4 / np.sqrt(values.size)
    assert abs(np.mean(values[1:] * values[:-1])) < 4 / np.sqrt(values.size)


def test_methods_see_the_same_rewards_of_the_same_pulls() -> None:
    features, truth = np.random.default_rng(0).normal(size=(30, 2)), np.zeros(30)
    seen: dict[str, dict[tuple[int, int], float]] = {}
    for name, policy in {"greedy": ma.EpsGreedy, "ucb": ma.GPUCB}.items():
        opt = ma.Optimizer(ma.Pool(features), policy(kernel=ma.RBF(1.0)), seed=0, budget=25)
        simulate(opt, truth, PullNoise(0.1, seed=3))
        pulls: dict[int, int] = {}
        seen[name] = {}
        for record in opt.trace:
            for arm, reward in zip(record.arms.tolist(), record.rewards.tolist(), strict=True):
                pulls[arm] = pulls.get(arm, 0) + 1
                seen[name][arm, pulls[arm]] = reward
    common = seen["greedy"].keys() & seen["ucb"].keys()
    assert common
    assert all(seen["greedy"][pull] == seen["ucb"][pull] for pull in common)


# ---------------------------------------------------------------- a run and its columns


def record(arms: list[int], dictionary: int) -> SimpleNamespace:
    return SimpleNamespace(arms=np.array(arms), dictionary_size=dictionary)


def test_the_columns_of_a_run_follow_their_definitions() -> None:
    truth = np.array([0.0, 0.5, 1.0])
    trace = [record([0], 0), record([1, 1, 0], 1), record([2, 2], 3)]
    outcome = trace_columns(trace, truth, np.array([1.0, 5.0, 6.0]), np.arange(1, 7))  # type: ignore[arg-type]
    assert outcome.numbers["regret"].tolist() == [1.0, 1.5, 2.0, 3.0, 3.0, 3.0]
    assert outcome.numbers["uniform_regret"].tolist() == [0.5, 1.0, 1.5, 2.0, 2.5, 3.0]
    assert outcome.numbers["batch_size"].tolist() == [1, 3, 3, 3, 2, 2]
    assert outcome.numbers["largest_batch"].tolist() == [1, 3, 3, 3, 3, 3]
    assert outcome.numbers["batches"].tolist() == [1, 2, 2, 2, 3, 3]
    assert outcome.numbers["dictionary"].tolist() == [0, 1, 1, 1, 3, 3]
    assert outcome.numbers["unique_arms"].tolist() == [1, 2, 2, 2, 3, 3]
    assert outcome.timings["seconds"].tolist() == [1.0, 5.0, 5.0, 5.0, 6.0, 6.0]


@pytest.mark.parametrize("horizon", [1, 2, 40, 10_000])
def test_recorded_steps_reach_from_the_first_step_to_the_last(horizon: int) -> None:
    at = recorded_steps(horizon)
    assert at[0] == 1
    assert at[-1] == horizon
    assert (np.diff(at) > 0).all()
    assert len(at) <= 200


def test_mean_and_deviation_over_seeds() -> None:
    mean, sd = mean_and_sd([[1.0, 2.0], [3.0, 2.0]])
    assert mean.tolist() == [2.0, 2.0]
    assert sd.tolist() == pytest.approx([np.sqrt(2.0), 0.0])
    assert mean_and_sd([[1.0]])[1].tolist() == [0.0]


def test_fitted_slope_of_a_power() -> None:
    x = np.array([10.0, 20.0, 50.0])
    assert fitted_slope(x, 3 * x**1.7) == pytest.approx(1.7)


def test_summary_of_runs_is_at_their_last_step() -> None:
    def run(seed: int, regret: float, batch: float) -> ExperimentResult:
        numbers = {
            name: np.array([0.0, value])
            for name, value in {
                "t": 20.0, "regret": regret, "uniform_regret": 9.0, "largest_batch": batch, "batches": 7.0,
                "dictionary": 5.0, "unique_arms": 6.0,
            }.items()
        }  # fmt: skip
        return ExperimentResult(
            Job("F = 1", "BBKB", seed, {}), numbers, {"seconds": np.array([0.0, 2.0 + seed])}
        )

    runs = [run(0, 3.0, 4.0), run(1, 5.0, 8.0)]
    (row,) = final_rows(runs)
    assert (row["T"], row["seeds"], row["regret"], row["largest batch"]) == (20, 2, 4.0, 8)
    assert row["regret sd"] == pytest.approx(np.sqrt(2.0))
    assert row["CPU s"] == 2.5
    panel = regret_panel("F = 1", {"BBKB": runs})
    assert [curve.label for curve in panel.curves] == ["BBKB", "uniform choice"]
    assert labels(((panel, panel),)) == ["BBKB", "uniform choice"]


def test_a_summary_as_a_table_of_the_documents() -> None:
    rows: list[SummaryRow] = [
        {"method": "BKB", "T": 10_000, "regret": 758.043, "share": 0.11132},
        {"method": "GP-UCB", "T": 10_000, "regret": 20349.1, "share": float("nan")},
    ]
    assert to_markdown(rows).splitlines() == [
        "| method | T | regret | share |",
        "| --- | --- | --- | --- |",
        "| BKB | 10000 | 758 | 0.111 |",
        "| GP-UCB | 10000 | 20349 | – |",
    ]


# ---------------------------------------------------------------- the experiments


def test_names_are_those_of_the_documents() -> None:
    assert set(EXPERIMENTS) == {
        "bkb-variance-starvation", "bkb-cadata", "bbkb-abalone", "bbkb-cadata", "duets-figure1",
        "duets-scaling", "sgpts-scaling", "sgpts-synthetic", "sgpts-screening", "kdpp-chain",
        "bkb-vs-linear-sketch",
    }  # fmt: skip
    root = Path(__file__).resolve().parents[2]
    text = (root / "docs" / "reproduction.md").read_text(encoding="utf-8")
    assert all(f"`{name}`" in text for name in EXPERIMENTS)


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_jobs_have_different_files(name: str) -> None:
    for mode in ("smoke", "default", "full"):
        keys = [job.key for job in EXPERIMENTS[name].plan(mode).jobs()]
        assert len(set(keys)) == len(keys)


def test_published_settings_of_the_real_pools() -> None:
    jobs = EXPERIMENTS["bbkb-abalone"].plan("default").jobs()
    assert {job.seed for job in jobs} == set(range(10))
    assert {job.settings["horizon"] for job in jobs if job.method != real_pools.FRESH} == {10_000}
    policy = real_pools.policy_of("BBKB-local", jobs[0].settings)
    assert isinstance(policy, ma.BBKB)
    assert (policy.local, policy.ridge, policy.norm_bound, policy.delta) == (True, 0.2, 20.0, 1e-4)
    assert (policy.oversampling, policy.batch_ratio, policy.kernel) == (2.0, 2.0, ma.RBF(5**0.5))


def test_a_method_without_f_is_run_once_and_drawn_in_every_row() -> None:
    jobs = EXPERIMENTS["bbkb-abalone"].plan("smoke").jobs()
    greedy = {job.case for job in jobs if job.method == "EpsGreedy"}
    assert greedy == {real_pools.A20, real_pools.B, real_pools.C}
    wanted = [(real_pools.A20, "EpsGreedy"), (real_pools.A20, "BKB"), (real_pools.A1, "BKB")]
    chosen = [job_of("bbkb-abalone", case, method, horizon=10) for case, method in wanted]
    runs = [ExperimentResult(job, *astuple(real_pools.run_one(job, None))) for job in chosen]
    for row in real_pools.panels(runs):
        assert [curve.label for curve in row[1].curves] == ["EpsGreedy", "BKB"]


def test_variance_starvation_shows_in_the_numbers() -> None:
    runs = []
    for method in starvation.METHODS:
        job = job_of("bkb-variance-starvation", "λ = 0.01, t = 20", method)
        outcome = starvation.run_one(job, None)
        runs.append(ExperimentResult(job, outcome.numbers, outcome.timings))
    bkb, sor, rff = (run.numbers for run in runs)
    assert np.array_equal(bkb["f"], rff["f"])
    assert bkb["mean"] == pytest.approx(sor["mean"], abs=1e-8), "the two differ only in the variance"
    assert bkb["sd"][-1] > 0.99
    assert sor["sd"][-1] < 0.01
    rows = {row["method"]: row for row in starvation.summary(runs)}
    assert rows["BKB"]["covered on [0.6, 1]"] == 1.0
    assert float(rows["SoR"]["covered on [0.6, 1]"]) < 0.5
    panels = starvation.panels(runs)
    assert panels[0][0].title == f"BKB, t = 20, m = {int(bkb['inducing'][0])}"
    band = panels[0][0].curves[1]
    assert isinstance(band, Curve)
    assert np.array_equal(band.spread, 3 * bkb["sd"])


def test_longer_histories_begin_with_the_shorter_ones() -> None:
    short, long = (starvation.evaluations(ma.RBF(0.1), 101, t, 0.1, seed=4) for t in (6, 20))
    assert np.array_equal(short.truth, long.truth)
    assert np.array_equal(short.arms, long.arms[:6])
    assert np.array_equal(short.rewards, long.rewards[:6])
    assert (short.grid[long.arms] <= 0.5).all()


@pytest.mark.parametrize("method", duets.METHODS)
def test_the_meter_counts_what_the_ledger_counts(method: str) -> None:
    case = "Branin, script" if method == duets.SCALAR else "Branin, λ = 0.2"
    settings = job_of("duets-figure1", case, method).settings
    problem = branin()
    t, regret, sent, _ = duets.one_width(method, problem, settings, 1.0, seed=1)
    pool = problem.pool(settings["arms"], 1)
    truth = problem(pool.features)
    environment = duets.MeteredEnvironment(
        truth, settings["noise_std"], settings["agents"], settings["horizon"], 1
    )
    configured = duets.algorithm(method, problem, settings, 1.0)
    result = agents.run(configured, pool, environment.evaluate, seed=1)
    assert sent[-1] == pytest.approx(result.cost.total)
    assert regret[-1] == pytest.approx(sum((truth.max() - truth[arms]).sum() for arms in result.arms))
    assert t.tolist() == list(range(settings["horizon"] + 1))
    assert (np.diff(sent) >= 0).all()


def test_the_best_width_has_the_lowest_regret_at_the_end() -> None:
    def run(seed: int, ends: dict[float, float]) -> ExperimentResult:
        widths = np.repeat(list(ends), 2)
        regret = np.ravel([[0.0, end] for end in ends.values()])
        numbers = {"t": np.tile([0.0, 1.0], len(ends)), "regret": regret, "width": widths}
        numbers["communication"] = 10 * regret
        return ExperimentResult(Job("h₁", "DUETS", seed, {"varied": False, "script": False}), numbers, {})

    runs = [run(0, {0.2: 9.0, 1.0: 4.0}), run(1, {0.2: 2.0, 1.0: 5.0})]
    assert duets.best_width(runs) == 1.0
    (row,) = duets.summary(runs)
    assert (row["best β"], row["regret"], row["reals sent"]) == (1.0, 4.5, 45.0)
    above, below = duets.panels(runs)
    assert above[0].curves[0].y.tolist() == [0.0, 4.5]
    assert below[0].curves[0].y.tolist() == [0.0, 45.0]


def test_the_textbook_has_the_same_posterior() -> None:
    settings = job_of("sgpts-scaling", "against t", sgpts.EXACT).settings
    features, _, arms, rewards = sgpts.history(40, 15, settings["noise_std"], 0)
    policy = sgpts.policy_of(sgpts.EXACT, settings)
    posterior = ma.Posterior(ma.Pool(features), policy.kernel, settings["ridge"])
    posterior.update(arms, arms, rewards)
    prior = policy.kernel.matrix(features, features)
    mean, covariance = sgpts.textbook_posterior(prior, arms.tolist(), rewards.tolist(), settings["ridge"])
    assert mean == pytest.approx(posterior.mean, abs=1e-8)
    assert np.diag(covariance) == pytest.approx(posterior.variance, abs=1e-8)


def test_linear_arms_have_the_spectrum_that_was_asked_for() -> None:
    features, truth = linear_sketch.linear_problem(4000, 5, 0.5, seed=0)
    deviations = features.std(axis=0)
    assert deviations[1:] / deviations[:-1] == pytest.approx(0.5, rel=0.08)
    assert np.linalg.norm(features, axis=1).max() == pytest.approx(1.0)
    assert np.abs(truth).max() == pytest.approx(1.0)
    assert np.linalg.matrix_rank(np.column_stack([features, truth])) == 5, (
        "rewards must be linear in the features"
    )


@pytest.mark.parametrize("method", linear_sketch.METHODS)
def test_sizes_of_linear_sketches_are_their_m(method: str) -> None:
    job = job_of("bkb-vs-linear-sketch", "flat, β = 1", method)
    sizes = linear_sketch.run_one(job, None).numbers["dictionary"]
    size = linear_sketch.METHODS[method][2]
    if size:
        assert sizes[-1] == job.settings[size]
    assert 0 < sizes[-1] <= job.settings["d"]
