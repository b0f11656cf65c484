"""Every identity and inequality of the model (theory §2.8), on problems that hypothesis makes up.

Arms may coincide or nearly coincide, so K_S may be singular. Values are compared on the leverage scale,
to 1e-6 of the largest prior leverage k/λ.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

import manyarms as ma
from manyarms.posterior.hallucination import Hallucination
from tests.oracle import Ledger, covariance_of_pulls, exact, hallucinated, sparse

few_tens = settings(max_examples=40, derandomize=True, deadline=None)
SLACK = 1e-6


@dataclass(frozen=True)
class Problem:
    """A pool, a kernel, a ridge, a sequence of pulls and some inducing arms."""

    features: np.ndarray
    kernel: Any
    ridge: float
    arms: np.ndarray
    rewards: np.ndarray
    inducing: np.ndarray

    @property
    def slack(self) -> float:
        return SLACK * float(self.kernel.diag(self.features).max()) / self.ridge

    @property
    def mean_slack(self) -> float:
        return self.slack * (1.0 + float(np.abs(self.rewards).max())) * len(self.arms)

    def empty(self) -> ma.Posterior:
        return ma.Posterior(ma.Pool(self.features), self.kernel, self.ridge)

    def posterior(self, inducing: Any, pulls: int | None = None) -> ma.Posterior:
        made = self.empty()
        made.update(inducing, self.arms[:pulls], self.rewards[:pulls])
        return made

    def ledger(self) -> Ledger:
        ledger = Ledger(len(self.features))
        ledger.pull(self.arms, self.rewards)
        return ledger


KERNELS = st.one_of(
    st.builds(ma.RBF, st.floats(0.3, 3.0)),
    st.builds(ma.Matern, st.floats(0.3, 3.0), st.sampled_from([0.5, 1.5, 2.5])),
    st.builds(lambda v, length: ma.Scale(ma.Matern(length), v), st.floats(0.2, 5.0), st.floats(0.3, 3.0)),
    st.builds(ma.Linear, st.floats(0.5, 2.0)),
)


@st.composite
def problems(draw: Any) -> Problem:
    n_arms, n_features = draw(st.integers(2, 12)), draw(st.integers(1, 3))
    features = draw(arrays(np.float64, (n_arms, n_features), elements=st.floats(-3, 3, width=32)))
    arm = st.integers(0, n_arms - 1)
    arms = np.array(draw(st.lists(arm, min_size=1, max_size=15)))
    rewards = draw(arrays(np.float64, len(arms), elements=st.floats(-5, 5, width=32)))
    inducing = np.array(draw(st.lists(arm, max_size=8, unique=True)), dtype=int)
    return Problem(features, draw(KERNELS), draw(st.floats(0.05, 5.0)), arms, rewards, inducing)


def close(found: Any, expected: Any, slack: float) -> bool:
    return bool((np.abs(np.asarray(found) - np.asarray(expected)) <= slack).all())


def below(smaller: Any, larger: Any, slack: float) -> bool:
    return bool((np.asarray(smaller) <= np.asarray(larger) + slack).all())


# ---------------------------------------------------------------------- against the oracle


@few_tens
@given(problems())
def test_sparse_posterior_is_the_formula(problem: Problem) -> None:
    """μ̃ = zᵀV⁻¹b and σ̃² = (k − ‖z‖²)/λ + zᵀV⁻¹z on the inducing arms taken in."""
    posterior = problem.posterior(problem.inducing)
    expected = sparse(problem.kernel, problem.features, problem.ridge, posterior.inducing, problem.ledger())
    assert close(posterior.leverage, expected.leverage, problem.slack)
    assert close(posterior.mean, expected.mean, problem.mean_slack)


@few_tens
@given(problems())
def test_all_pulled_arms_inducing_is_the_exact_posterior(problem: Problem) -> None:
    posterior = problem.posterior(problem.arms)
    expected = exact(problem.kernel, problem.features, problem.ridge, problem.ledger())
    assert close(posterior.leverage, expected.leverage, problem.slack)
    assert close(posterior.mean, expected.mean, problem.mean_slack)


@few_tens
@given(problems())
def test_an_empty_sketch_is_the_prior(problem: Problem) -> None:
    posterior = problem.posterior([])
    assert not posterior.mean.any()
    assert close(posterior.leverage, problem.kernel.diag(problem.features) / problem.ridge, problem.slack)


@few_tens
@given(problems(), st.randoms(use_true_random=False))
def test_only_the_span_matters(problem: Problem, random: Any) -> None:
    """Order of the inducing arms, all at once or one by one, before the pulls or after: all the same."""
    order = random.sample(problem.inducing.tolist(), len(problem.inducing))
    at_once, one_by_one = problem.posterior(problem.inducing), problem.posterior([])
    for arm in order:
        one_by_one.append([arm])
    assert close(at_once.leverage, one_by_one.leverage, problem.slack)
    assert close(at_once.mean, one_by_one.mean, problem.mean_slack)


@few_tens
@given(problems())
def test_a_batch_of_pulls_is_its_pulls_one_by_one(problem: Problem) -> None:
    batch, single = problem.posterior(problem.inducing), problem.posterior(problem.inducing, pulls=0)
    for arm, reward in zip(problem.arms, problem.rewards, strict=True):
        single.condition([arm], [reward])
    assert close(batch.leverage, single.leverage, problem.slack)
    assert close(batch.mean, single.mean, problem.mean_slack)
    assert np.isclose(batch.state.log_det, single.state.log_det, atol=1e-8)


# ---------------------------------------------------------------------- incremental facts


@few_tens
@given(problems(), st.data())
def test_an_appended_arm_adds_one_column(problem: Problem, data: Any) -> None:
    """z_new(x) = (k(x,s) − z(x)ᵀz(s))/√(k(s,s) − ‖z(s)‖²), and the residual falls by z_new²."""
    arm, everyone = data.draw(st.integers(0, len(problem.features) - 1)), np.arange(len(problem.features))
    posterior = problem.posterior(problem.inducing)
    Z, residual = posterior.rows(everyone), posterior.state.residual
    posterior.append([arm])
    if posterior.state.sketch_size == Z.shape[1]:
        assert residual[arm] <= SLACK * posterior.state.prior[arm]
        return
    covariances = problem.kernel.matrix(problem.features, problem.features[[arm]])[:, 0]
    column = (covariances - Z @ Z[arm]) / np.sqrt(residual[arm])
    slack = SLACK * np.sqrt(posterior.state.prior.max())
    assert close(posterior.rows(everyone)[:, -1], column, slack)
    expected = np.maximum(residual - column**2, 0.0)
    assert close(posterior.state.residual, expected, SLACK * posterior.state.prior.max())


@few_tens
@given(problems(), st.data())
def test_one_more_pull_is_a_rank_one_downdate(problem: Problem, data: Any) -> None:
    """With g = V⁻¹z_s: zᵀV⁻¹z falls by (zᵀg)²/(1 + z_sᵀg), and so does V⁻¹ by ggᵀ/(1 + z_sᵀg)."""
    arm, everyone = data.draw(st.integers(0, len(problem.features) - 1)), np.arange(len(problem.features))
    posterior = problem.posterior(problem.inducing)
    Z, before = posterior.rows(everyone), posterior.state
    g = before.weights.precision.apply(Z[[arm]].T)[:, 0]
    posterior.condition([arm], [1.0])
    fall = (Z @ g) ** 2 / (1.0 + Z[arm] @ g)
    assert close(posterior.state.quadratic, before.quadratic - fall, problem.slack)
    identity = np.eye(before.sketch_size)
    expected = before.weights.precision.apply(identity) - np.outer(g, g) / (1.0 + Z[arm] @ g)
    assert close(posterior.state.weights.precision.apply(identity), expected, SLACK / problem.ridge)


@few_tens
@given(problems(), st.data())
def test_an_appended_column_borders_V(problem: Problem, data: Any) -> None:
    """zᵀV⁻¹z grows by (zᵀV⁻¹c − z_new)²/(d − cᵀV⁻¹c) with c = Σ n_i z_i z_new,i, d = Σ n_i z_new,i² + λ."""
    arm, everyone = data.draw(st.integers(0, len(problem.features) - 1)), np.arange(len(problem.features))
    posterior, counts = problem.posterior(problem.inducing), problem.ledger().counts
    Z, before = posterior.rows(everyone), posterior.state
    posterior.append([arm])
    if posterior.state.sketch_size == before.sketch_size:
        return
    new = posterior.rows(everyone)[:, -1]
    c, d = Z.T @ (counts * new), counts @ new**2 + problem.ridge
    solved = before.weights.precision.apply(c[:, None])[:, 0]
    growth = (Z @ solved - new) ** 2 / (d - c @ solved)
    assert close(posterior.state.quadratic, before.quadratic + growth, problem.slack)


# ---------------------------------------------------------------------- exact posterior


@few_tens
@given(problems())
def test_leverages_of_pulls_sum_to_the_effective_dimension(problem: Problem) -> None:
    """Σ_i n_i σ²(x_i) = Tr K(K+λI)⁻¹."""
    posterior = problem.posterior(problem.arms)
    K = covariance_of_pulls(problem.kernel, problem.features, problem.ledger())
    trace = np.trace(np.linalg.solve(K + problem.ridge * np.eye(len(K)), K))
    assert np.isclose(posterior.state.effective_dimension, trace, atol=problem.slack * len(K))


@few_tens
@given(problems())
def test_the_pulled_arm_falls_to_its_share_and_nobody_rises(problem: Problem) -> None:
    """σ²_t(x_t) = σ²_{t−1}(x_t)/(1 + σ²_{t−1}(x_t)), and σ²_t ≤ σ²_{t−1} everywhere."""
    posterior = problem.empty()
    for arm, reward in zip(problem.arms, problem.rewards, strict=True):
        before = posterior.leverage
        posterior.update([arm], [arm], [reward])
        assert close(posterior.leverage[arm], before[arm] / (1.0 + before[arm]), problem.slack)
        assert below(posterior.leverage, before, problem.slack)


@few_tens
@given(problems())
def test_effective_dimension_information_gain_and_their_bounds(problem: Problem) -> None:
    """d_eff ≤ Σ_t σ_t²(x_t) ≤ log det(K/λ + I) ≤ d_eff·(1 + log(‖K‖/λ + 1))."""
    posterior, total = problem.empty(), 0.0
    for arm, reward in zip(problem.arms, problem.rewards, strict=True):
        posterior.update([arm], [arm], [reward])
        total += posterior.leverage[arm]
    K = covariance_of_pulls(problem.kernel, problem.features, problem.ledger())
    d_eff, log_det = posterior.state.effective_dimension, posterior.state.log_det
    slack = problem.slack * len(K)
    assert np.isclose(log_det, np.linalg.slogdet(K / problem.ridge + np.eye(len(K)))[1], atol=slack)
    assert below(d_eff, total, slack)
    assert below(total, log_det, slack)
    assert below(log_det, d_eff * (1.0 + np.log(np.linalg.norm(K, 2) / problem.ridge + 1.0)), 2 * slack)


@few_tens
@given(problems(), st.data())
def test_three_measures_of_a_batch(problem: Problem, data: Any) -> None:
    """1 + Σσ²_fb ≤ Π(1 + σ²_{s−1}) ≤ Π(1 + σ²_fb): BBKB's batch is never shorter than GP-BUCB's."""
    arm = st.integers(0, len(problem.features) - 1)
    batch = data.draw(st.lists(arm, min_size=1, max_size=8))
    posterior = problem.posterior([*problem.arms, *batch])
    imagined, gain, frozen = Hallucination(posterior), 1.0, posterior.leverage
    for pulled in batch:
        gain *= 1.0 + imagined.leverage([pulled])[0]
        imagined.pull(pulled)
    together = float(np.prod(1.0 + frozen[batch]))
    slack = SLACK * together
    assert below(1.0 + frozen[batch].sum(), gain, slack)
    assert below(gain, together, slack)


# ---------------------------------------------------------------------- sparse, fixed S


@few_tens
@given(problems(), st.data())
def test_a_batch_shrinks_variances_by_at_most_its_ratio(problem: Problem, data: Any) -> None:
    """σ̃²_fb(x)/(1 + Σ_s σ̃²_fb(x_s)) ≤ σ̃²_t(x) ≤ σ̃²_fb(x) (BBKB Lemma 4, for variances)."""
    arm = st.integers(0, len(problem.features) - 1)
    posterior = problem.posterior(problem.inducing)
    imagined, frozen, ratio = Hallucination(posterior), posterior.leverage, 1.0
    for pulled in data.draw(st.lists(arm, min_size=1, max_size=10)):
        imagined.pull(pulled)
        ratio += frozen[pulled]
        assert below(frozen / ratio, imagined.leverage(), problem.slack)
        assert below(imagined.leverage(), frozen, problem.slack)


@few_tens
@given(problems(), st.data())
def test_hallucinated_pulls_are_pulls_for_the_variance_and_can_be_undone(problem: Problem, data: Any) -> None:
    arm = st.integers(0, len(problem.features) - 1)
    batch = data.draw(st.lists(arm, min_size=1, max_size=8))
    posterior = problem.posterior(problem.inducing)
    state, mean, leverage = posterior.state, posterior.mean.copy(), posterior.leverage.copy()
    imagined = Hallucination(posterior)
    for pulled in batch:
        imagined.pull(pulled)
    expected = hallucinated(
        problem.kernel, problem.features, problem.ridge, posterior.inducing, problem.ledger(), batch
    )
    assert close(imagined.leverage(), expected, problem.slack)
    spanning = problem.posterior([*problem.arms, *batch])
    whole = Hallucination(spanning)
    for pulled in batch:
        whole.pull(pulled)
    after = spanning.updated(arms=batch, rewards=np.zeros(len(batch)))
    assert close(whole.leverage(), after.leverage, problem.slack), (
        "with all pulled arms inducing, it is exact"
    )
    imagined.undo(len(batch))
    assert np.array_equal(imagined.leverage(), leverage)
    assert posterior.state is state
    assert np.array_equal(posterior.mean, mean)


# ---------------------------------------------------------------------- accuracy of a dictionary


def accuracy(problem: Problem, weights: np.ndarray) -> float:
    """ε = ‖A^{-½} Φ(W − I)Φᵀ A^{-½}‖ with A = ΦΦᵀ + λI, one column of Φ per pull, W the pulls' weights."""
    points = problem.features[problem.arms]
    values, vectors = np.linalg.eigh(problem.kernel.matrix(points, points))
    values = np.maximum(values, 0.0)
    whitened = vectors * np.sqrt(values / (values + problem.ridge))
    return float(np.linalg.norm((whitened.T * (weights - 1.0)) @ whitened, 2))


@few_tens
@given(problems(), st.data())
def test_a_larger_span_than_an_accurate_dictionary_is_still_accurate(problem: Problem, data: Any) -> None:
    """Lemma 6 of BKB asks only that the sampled points lie in span(S): σ²/α ≤ σ̃² ≤ ασ² for every superset."""
    n = len(problem.arms)
    weights = np.array(data.draw(st.lists(st.sampled_from([1.0, 0.0, 1.3]), min_size=n, max_size=n)))
    epsilon = accuracy(problem, weights)
    assume(epsilon < 0.95)
    alpha = (1.0 + epsilon) / (1.0 - epsilon)
    truth = exact(problem.kernel, problem.features, problem.ridge, problem.ledger()).leverage
    sampled = problem.arms[weights > 0]
    for inducing in (sampled, np.concatenate([sampled, problem.inducing])):
        found = problem.posterior(inducing).leverage
        assert below(truth / alpha, found, problem.slack)
        assert below(found, alpha * truth, problem.slack)
