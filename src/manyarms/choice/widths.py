"""Confidence widths β: the upper bound of an arm is its mean plus β σ̃ (theory §4).

Every width is a function of the run so far (`RunStatistics`) and of what is assumed (`Assumptions`), and its
docstring names the theorem. All widths multiply σ̃ on the ridge-leverage scale. A width given as a number
counts posterior standard deviations in reward units, √λ σ̃.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from manyarms.errors import InvalidParameterError
from manyarms.support.validation import Floats, at_least_one, non_negative, positive, probability

_MAX_DOUBLINGS = 60


@dataclass(frozen=True)
class Assumptions:
    """The assumptions of a width.

    `ridge` is λ, `noise_std` is ξ (the sub-Gaussian scale of the noise), `norm_bound` is F ≥ ‖f‖ (RKHS norm),
    `delta` is δ (the failure probability), `epsilon` is ε (the accuracy of the dictionary) and `batch_ratio`
    is C̃ (1 if feedback is immediate).
    """

    ridge: float
    noise_std: float
    norm_bound: float
    delta: float
    epsilon: float = 0.5
    batch_ratio: float = 1.0

    def __post_init__(self) -> None:
        positive("ridge", self.ridge)
        non_negative("noise_std", self.noise_std)
        positive("norm_bound", self.norm_bound)
        probability("delta", self.delta)
        probability("epsilon", self.epsilon)
        at_least_one("batch_ratio", self.batch_ratio)

    @property
    def log_risk(self) -> float:
        """log(1/δ)."""
        return math.log(1.0 / self.delta)

    @property
    def bias(self) -> float:
        """√λ F, the error due to regularisation."""
        return math.sqrt(self.ridge) * self.norm_bound


@dataclass(frozen=True)
class RunStatistics:
    """The statistics of a run up to the last feedback that widths depend on."""

    pulls: int  # t
    effective_dimension: float  # Σ n_i σ̃²(x_i)
    log_det: float  # log det(V/λ), which is log det(K/λ + I) if the posterior is exact
    prior_variance: float  # κ²
    triple_log_sum: float = 0.0  # Σ_s log(1 + 3σ̃²_{fb[s−1]}(x_s)), the first term with the prior k/λ
    log_sum: float = 0.0  # Σ_s log(1 + σ̃²_{fb[s−1]}(x_s)) without the initial arm (authors' code)
    escaped: float = 0.0  # ρ, the spectral mass of V lost by frequent directions
    residual_trace: float = 0.0  # tr(K − Q) = Σ n_i (k(x_i, x_i) − ‖z(x_i)‖²), what the sketch misses


Width = Callable[[RunStatistics, Assumptions], float]


def exact(seen: RunStatistics, given: Assumptions) -> float:
    """√λF + ξ√(log det(K/λ+I) + 2 log(1/δ)): Abbasi-Yadkori et al. 2011 Theorem 2, with √C̃ in a batch.

    BKB (7) and Proposition 11 print it without the factor ½ of the log-determinant; the form here is sharp
    (theory §4.2). The determinant is computed as det(V/λ), which is that of K/λ + I only if the posterior is
    exact. On a sketch it is smaller and the theorem does not apply; `certified` is the width that does.
    """
    noise = given.noise_std * math.sqrt(seen.log_det + 2 * given.log_risk)
    return math.sqrt(given.batch_ratio) * (given.bias + noise)


def exact_printed(seen: RunStatistics, given: Assumptions) -> float:
    """The form printed in BKB (7): ξ√(2 (log det(K/λ+I) + log(1/δ))) + √λF, with √C̃ in a batch.

    The determinant is computed as in `exact`.
    """
    noise = given.noise_std * math.sqrt(2 * (seen.log_det + given.log_risk))
    return math.sqrt(given.batch_ratio) * (given.bias + noise)


def certified(seen: RunStatistics, given: Assumptions) -> float:
    """ξ√(log det(V/λ) + tr(K−Q)/λ + 2 log(1/δ)) + (√λ + √tr(K−Q)) F, with √C̃ in a batch (theory §4.10).

    It is valid for every set of inducing arms, whatever q̄ and λ are: instead of assuming that the sketch is
    accurate, as BKB Theorem 2 does, it measures the error tr(K − Q). It equals `exact` if that is zero.
    """
    explored = seen.log_det + seen.residual_trace / given.ridge
    noise = given.noise_std * math.sqrt(explored + 2 * given.log_risk)
    missed = math.sqrt(seen.residual_trace) * given.norm_bound
    return math.sqrt(given.batch_ratio) * (given.bias + missed + noise)


def _bkb(seen: RunStatistics, given: Assumptions, log_factor: float) -> float:
    alpha = (1 + given.epsilon) / (1 - given.epsilon)
    explored = alpha * log_factor * seen.effective_dimension
    bias = (1 + 1 / math.sqrt(1 - given.epsilon)) * given.bias
    return 2 * given.noise_std * math.sqrt(explored + given.log_risk) + bias


def bkb(seen: RunStatistics, given: Assumptions) -> float:
    """BKB Theorem 2: 2ξ√(α L Σ n_i σ̃²(x_i) + log(1/δ)) + (1 + 1/√(1−ε)) √λF.

    L = (1 + log(κ²t/λ + 1))/2 as in the proof; the printed L = log(κ²t) is zero at t = 1 for
    κ = 1 (theory §4.3). No determinant enters: d_eff bounds that of K, if q̄ is as large as BKB Theorem 1
    asks for.
    """
    return _bkb(seen, given, (1 + math.log(seen.prior_variance * seen.pulls / given.ridge + 1)) / 2)


def bkb_printed(seen: RunStatistics, given: Assumptions) -> float:
    """BKB Theorem 2 with L = log(κ²t), as printed."""
    return _bkb(seen, given, max(0.0, math.log(seen.prior_variance * max(seen.pulls, 1))))


def bkb_slides(seen: RunStatistics, given: Assumptions) -> float:
    """The width of the BKB slides: 2ξ√(log t · Σ n_i σ̃² + log(1/δ)) + 3√λF."""
    explored = math.log(max(seen.pulls, 1)) * seen.effective_dimension
    return 2 * given.noise_std * math.sqrt(explored + given.log_risk) + 3 * given.bias


def _bbkb(seen: RunStatistics, given: Assumptions) -> float:
    noise = 2 * given.noise_std * math.sqrt(seen.triple_log_sum + given.log_risk)
    return noise + (1 + math.sqrt(2)) * given.bias


def bbkb(seen: RunStatistics, given: Assumptions) -> float:
    """BBKB Theorem 2 with the factor √C̃, which is what Lemma 4 gives for variances (theory §4.4).

    2ξ√(Σ_{s≤fb} log(1 + 3σ̃²_{fb[s−1]}(x_s)) + log(1/δ)) + (1+√2)√λF.
    """
    return math.sqrt(given.batch_ratio) * _bbkb(seen, given)


def bbkb_printed(seen: RunStatistics, given: Assumptions) -> float:
    """BBKB Theorem 2 with the factor C̃ as printed."""
    return given.batch_ratio * _bbkb(seen, given)


def authors_bkb(seen: RunStatistics, given: Assumptions) -> float:
    """The width in the BKB authors' script: √λF + ξ√(log t · Σ n_i σ̃² + log(1/δ)) (theory §4.5)."""
    explored = math.log(max(seen.pulls, 1)) * seen.effective_dimension
    return given.bias + given.noise_std * math.sqrt(explored + given.log_risk)


def authors_bbkb(seen: RunStatistics, given: Assumptions) -> float:
    """The width in the BKB authors' script for batches: √λF + ξ√(C̃ Σ log(1 + σ̃²_fb(x_s)) + log(1/δ))."""
    return given.bias + given.noise_std * math.sqrt(given.batch_ratio * seen.log_sum + given.log_risk)


def soful(seen: RunStatistics, given: Assumptions) -> float:
    """SOFUL: ξ√(1+ρ/λ)·√(log det((BᵀB+ρI)/λ + I) + 2 log(1/δ)) + (1+ρ/λ)√λF.

    Kuzborskij et al. 2019, Theorem 3 with the determinant itself instead of its bound. It equals `exact`
    while the sketch is exact (ρ = 0) and is too large to be useful when ρ is large (theory §4.6).
    """
    growth = 1 + seen.escaped / given.ridge
    noise = given.noise_std * math.sqrt(seen.log_det + 2 * given.log_risk)
    return math.sqrt(growth) * noise + growth * given.bias


def thompson_scale(
    t: int, log_det: float, given: Assumptions, kappa: float | None = None, printed: bool = False
) -> float:
    """α_t of S-GP-TS Theorem 1: 1 + a(F + (ξ/√λ)√(log det(I+K/λ) + 2 log t²) + c), on √(λσ̃²).

    a = 1/√(1−√(3κ_t)) and c = √κ_t measure the error κ_t (`kappa`) of the sparse approximation. If κ_t is
    unknown or at least 1/3, and for the exact posterior, a = 1 and c = 0. `printed` replaces the determinant
    by the published ξ√(2 log(t²)/λ), which is valid only if the points are chosen independently of the noise
    (theory §4.7).
    """
    a, c = 1.0, 0.0
    if kappa is not None and 0 <= kappa < 1 / 3:
        a, c = 1 / math.sqrt(1 - math.sqrt(3 * kappa)), math.sqrt(kappa)
    log_t = 2 * math.log(max(t, 1) ** 2)
    explored = log_t if printed else log_det + log_t
    noise = given.noise_std / math.sqrt(given.ridge) * math.sqrt(explored)
    return 1 + a * (given.norm_bound + noise + c)


def _kappa(seen: RunStatistics, given: Assumptions) -> float:
    """κ_t = 2 tr(K − Q)/λ of S-GP-TS (36) to (38), with the trace itself instead of its bound."""
    return 2 * seen.residual_trace / given.ridge


def thompson(seen: RunStatistics, given: Assumptions) -> float:
    """α_t of S-GP-TS on the scale of σ̃; a and c are used while κ_t = 2 tr(K − Q)/λ is below 1/3.

    The determinant is computed as det(V/λ), as in `exact`.
    """
    return math.sqrt(given.ridge) * thompson_scale(seen.pulls, seen.log_det, given, _kappa(seen, given))


def thompson_printed(seen: RunStatistics, given: Assumptions) -> float:
    """α_t as printed, on the scale of σ̃; a and c as in `thompson`."""
    scale = thompson_scale(seen.pulls, seen.log_det, given, _kappa(seen, given), printed=True)
    return math.sqrt(given.ridge) * scale


WIDTHS: dict[str, Width] = {
    "exact": exact,
    "exact-printed": exact_printed,
    "certified": certified,
    "bkb": bkb,
    "bkb-printed": bkb_printed,
    "bkb-slides": bkb_slides,
    "bbkb": bbkb,
    "bbkb-printed": bbkb_printed,
    "authors-bkb": authors_bkb,
    "authors-bbkb": authors_bbkb,
    "soful": soful,
    "thompson": thompson,
    "thompson-printed": thompson_printed,
}


@dataclass(frozen=True)
class FixedWidth:
    """A constant number of posterior standard deviations √λ σ̃, as used in practice (in DUETS, 0.2 to 5)."""

    value: float

    def __call__(self, seen: RunStatistics, given: Assumptions) -> float:
        """The same width at every step, converted to the scale of σ̃ by the factor √λ."""
        return self.value * math.sqrt(given.ridge)


def width_named(width: str | float, aliases: dict[str, str] | None = None) -> Width:
    """The width with this name or number; `aliases` maps short names of a policy to names in `WIDTHS`."""
    if isinstance(width, str):
        name = (aliases or {}).get(width, width)
        if name not in WIDTHS:
            known = ", ".join(sorted({*WIDTHS, *(aliases or {})}))
            raise InvalidParameterError("width", width, f"a number or one of {known}")
        return WIDTHS[name]
    return FixedWidth(non_negative("width", width))


def surprise(t: int, width: float, std: float, given: Assumptions) -> float:
    """The deviation of a reward from the mean above which F must be too small: βσ̃ + ξ√(2 log(2t²/δ)).

    This is the test of guess-and-double for an unknown norm bound F. Without the noise term, F would grow
    without bound (theory §4.9).
    """
    return width * std + given.noise_std * math.sqrt(2 * math.log(2 * max(t, 1) ** 2 / given.delta))


def guess_and_double(
    bound: float,
    errors: Floats,
    stds: Floats,
    t: int,
    width_of: Callable[[float], float],
    given: Callable[[float], Assumptions],
) -> float:
    """F, doubled as long as a reward is outside its confidence interval (theory §4.9).

    `errors` are the distances of the rewards from the mean and `stds` the σ̃ of their arms. If a larger F
    would not widen the interval (because the width is a number), it cannot explain the reward, and F does not
    change.
    """
    larger = bound
    for _ in range(_MAX_DOUBLINGS):
        width = width_of(larger)
        limits = [surprise(t, width, float(std), given(larger)) for std in stds]
        if (errors <= limits).all():
            return larger
        if width_of(2 * larger) <= width:
            break
        larger *= 2
    return bound


# ------------------------------------------------------------------ agents


def duets_printed(given: Assumptions) -> float:
    """DUETS Lemma 2.5 as printed: B + R√((2/λ) log(2/δ')), on √(λσ̃²); `given.delta` is δ'."""
    return given.norm_bound + given.noise_std * math.sqrt(2 / given.ridge * math.log(2 / given.delta))


def duets_proved(given: Assumptions) -> float:
    """The width that the proof gives for the sparse mean: (1+√2)B + R√((2/λ) log(2/δ')) (theory §4.8)."""
    return duets_printed(given) + math.sqrt(2) * given.norm_bound
