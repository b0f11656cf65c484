"""What is assumed beside a kernel that the user chose, each with a sentence that `status` repeats.

Length-scales left open are settled once, from the pool alone: the median distance between candidates once
every feature has unit spread. Mean, signal and noise follow the results at each ask: rewards are
standardised, and the noise is what replicates show, or a stated share. (Without a choice of kernel nothing
here but storage and the size of the sketch is used: `manyarms.learning` finds the rest.)
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np

from manyarms.errors import SettingsError, shown
from manyarms.kernels import RBF, Hamming, Linear, Matern, Scale, Tanimoto
from manyarms.kernels.base import KernelLike
from manyarms.pool.pool import Pool
from manyarms.support.validation import Floats, positive

SAMPLE = 1000  # candidates among which distances are looked at
LEAST_NOISE_SHARE = 1e-5  # of the signal: with less, matrices cannot be solved in double precision
NOISE_SHARE = 0.3  # of the signal's standard deviation, while nothing better is known
ENOUGH_REPLICATES = 5  # second and later measurements of an arm, for an estimate of the noise
LARGE_POOL = 200_000
PASS_COST = 1e11  # A·m² of the pass over the pool that an ask makes, four operations each
Key = TypeVar("Key", bound=Hashable)  # an arm, or its id
KERNELS = ("matern", "rbf", "linear", "tanimoto", "hamming")


def assumed_kernel(
    pool: Pool, name: str, lengthscale: Any, smoothness: float, molecular: bool
) -> tuple[KernelLike, list[str]]:
    """The kernel of this name on this pool, of unit variance, and what had to be assumed."""
    if name not in KERNELS:
        raise SettingsError(f"no kernel is called {name!r}; there are auto, {', '.join(KERNELS)}")
    if molecular != (name == "tanimoto"):
        raise SettingsError(
            f"kernel {name!r} does not fit {'fingerprints' if molecular else 'plain numbers'}"
        )
    if name == "tanimoto":
        return Tanimoto(), []
    if name == "linear":
        return _linear(pool), ["kernel: scaled to unit variance on average over the pool"]
    if name == "hamming":
        return Hamming(1.0 if lengthscale == "auto" else _lengths(lengthscale)), []
    said = []
    if lengthscale == "auto":
        lengths, factor = median_lengthscales(pool)
        said.append(
            f"length-scales: {factor:.3g} standard deviations of each feature, the median distance of "
            f"{min(SAMPLE, pool.n_arms)} sampled candidates"
        )
    else:
        lengths = _lengths(lengthscale)
    return RBF(lengths) if name == "rbf" else Matern(lengths, positive("smoothness", smoothness)), said


def median_lengthscales(pool: Pool) -> tuple[tuple[float, ...], float]:
    """The median distance over a fixed sample, times each feature's spread; and the factor itself."""
    from scipy.spatial.distance import pdist

    rows = np.random.default_rng(0).permutation(pool.n_arms)[:SAMPLE]
    sample = np.asarray(pool.features[np.sort(rows)], dtype=np.float64)
    spread = sample.std(axis=0)
    spread[~(spread > 0)] = 1.0  # a constant feature tells nothing apart at any length-scale
    distances = pdist(sample / spread)
    apart = distances[distances > 0]
    factor = float(np.median(apart)) if len(apart) else 1.0
    return tuple((factor * spread).tolist()), factor


def assumed_storage(pool: Pool) -> tuple[str, list[str]]:
    """Single precision halves the memory of a large pool; on one or two smooth features it is too coarse."""
    if pool.n_arms < LARGE_POOL or pool.n_features <= 2:
        return "float64", []
    return "float32", ["storage: the model's columns are kept in single precision"]


def most_inducing(n_arms: int) -> int:
    """How large a sketch may be, so that building it on a pool of this size takes half a minute at most."""
    return max(64, int(math.sqrt(PASS_COST / n_arms)))


def _linear(pool: Pool) -> KernelLike:
    rows = np.random.default_rng(0).permutation(pool.n_arms)[:SAMPLE]
    average = float(Linear(1.0).diag(pool.features[np.sort(rows)]).mean())
    return Scale(Linear(1.0), 1.0 / average)


def _lengths(given: Any) -> Any:
    numbers = given if isinstance(given, tuple) else (given,)
    if not numbers:
        raise SettingsError("lengthscale is 'auto' or numbers, and none are given")
    try:
        lengths = tuple(positive("lengthscale", float(number)) for number in numbers)
    except (TypeError, ValueError) as problem:
        if "must be" in str(problem):
            raise
        raise SettingsError(f"lengthscale is 'auto' or numbers, not {shown(given)}") from None
    return lengths if len(lengths) > 1 else lengths[0]


@dataclass(frozen=True)
class Units:
    """From the user's values to the run's rewards and back: reward = (sign · value − mean) / scale.

    With a learned model, which has a transform of its own, it is the sign alone.
    """

    sign: float
    mean: float = 0.0
    scale: float = 1.0
    noise_std: float | None = None  # in the run's units; None: learned
    said: tuple[str, ...] = ()

    def rewards(self, values: Sequence[float]) -> Floats:
        """The user's values as the model sees them."""
        return (self.sign * np.asarray(values, dtype=np.float64) - self.mean) / self.scale

    def value(self, reward: float) -> float:
        """A reward in the user's units."""
        return self.sign * (reward * self.scale + self.mean)

    def spread(self, std: float) -> float:
        """A standard deviation of rewards in the user's units."""
        return std * self.scale

    def interval(self, lower: float, upper: float) -> tuple[float, float]:
        """An interval of rewards in the user's units, the smaller end first."""
        ends = sorted((self.value(lower), self.value(upper)))
        return ends[0], ends[1]


def assumed_units(
    sign: float,
    noise: float | None,
    signal: float | None,
    mean: float | None,
    told: Sequence[tuple[int, float]],
) -> Units:
    """Mean, signal and noise: the user's where given, else from all (arm, value) told so far.

    `told` is sorted here, so that the order of telling changes no digit.
    """
    told = sorted(told)
    values = [value for _, value in told]
    said = []
    centre = mean
    if centre is None:
        centre = math.fsum(values) / len(values) if values else 0.0
        said.append(f"mean: {centre:.4g}, the average of {len(values)} results")
    scale = signal
    if scale is None:
        around = math.fsum(values) / len(values) if values else 0.0
        spread = math.sqrt(math.fsum((v - around) ** 2 for v in values) / len(values)) if values else 0.0
        scale = spread if spread > 0 else 1.0
        said.append(f"signal: {scale:.4g}, the standard deviation of {len(values)} results")
    share = noise / scale if noise is not None else None
    if share is not None and share < LEAST_NOISE_SHARE:
        share = LEAST_NOISE_SHARE
        said.append(f"noise: {share * scale:.4g} instead of {noise:.4g}, too small beside the signal")
    if share is None:
        seen = replicate_noise(told)
        share = NOISE_SHARE if seen is None else min(max(seen / scale, 0.01), 1.0)
        why = "an assumed share of the signal" if seen is None else "from replicates"
        said.append(f"noise: {share * scale:.4g}, {why}")
    return Units(sign, sign * centre, scale, share, tuple(said))


def grouped(told: Iterable[tuple[Key, float | None]]) -> defaultdict[Key, list[float]]:
    """The values of each arm, in order; failures have none."""
    values: defaultdict[Key, list[float]] = defaultdict(list)
    for key, value in told:
        if value is not None:
            values[key].append(value)
    return values


def replicate_noise(told: Sequence[tuple[int, float]]) -> float | None:
    """The pooled standard deviation of repeated measurements; None while there are too few of them."""
    by_arm = grouped(told)
    freedom = sum(len(values) - 1 for values in by_arm.values())
    if freedom < ENOUGH_REPLICATES:
        return None
    within = 0.0
    for values in by_arm.values():
        average = math.fsum(values) / len(values)
        within += math.fsum((value - average) ** 2 for value in values)
    return math.sqrt(within / freedom)
