"""The assumptions made when the user chooses a kernel. `status` lists each of them as a sentence.

Length-scales that are not given are set once, from the pool alone: the median distance between candidates
after every feature has been scaled to unit standard deviation. Mean, signal and noise are updated from the
results at each ask: rewards are standardised, and the noise is estimated from replicates or set to a fixed
share of the signal. If no kernel is chosen, only the storage and the size of the sketch come from here, and
`manyarms.learning` finds the rest.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np

from manyarms.campaigns.text import counted
from manyarms.errors import SettingsError, shown
from manyarms.kernels import RBF, Hamming, Linear, Matern, Scale, Tanimoto
from manyarms.kernels.base import KernelLike
from manyarms.pool.pool import Pool
from manyarms.posterior.storage import automatic_storage
from manyarms.support.validation import Floats, positive

SAMPLE = 1000  # candidates in the sample for the median distance
LEAST_NOISE_SHARE = 1e-5  # of the signal; with less, the systems cannot be solved in double precision
NOISE_SHARE = 0.3  # of the signal's standard deviation, until there are enough replicates
ENOUGH_REPLICATES = 5  # second and later measurements of an arm that a noise estimate requires
FULL_SKETCH = 400  # inducing arms up to which a pass over the pool may take long
PASS_COST = 1.6e11  # limit on A·m², the cost of a pass over the pool in an ask (two operations each)
SHORT_PASS_COST = 3.2e9  # below it, a sketch may be larger: its pass takes a fraction of a second
Key = TypeVar("Key", bound=Hashable)  # an arm, or its id
KERNELS = ("matern", "rbf", "linear", "tanimoto", "hamming")


def assumed_kernel(
    pool: Pool, name: str, lengthscale: Any, smoothness: float, molecular: bool
) -> tuple[KernelLike, list[str]]:
    """The kernel of this name on this pool, with unit variance, and the assumptions made for it."""
    if name not in KERNELS:
        raise SettingsError(f"unknown kernel {name!r}; the kernels are auto, {', '.join(KERNELS)}")
    if molecular != (name == "tanimoto"):
        raise SettingsError(
            f"kernel {name!r} cannot be used with {'fingerprints' if molecular else 'numeric features'}"
        )
    if name == "tanimoto":
        return Tanimoto(), []
    if name == "linear":
        return _linear(pool), ["kernel: scaled to an average variance of 1 over the pool"]
    if name == "hamming":
        return Hamming(1.0 if lengthscale == "auto" else _lengths(lengthscale)), []
    assumptions = []
    if lengthscale == "auto":
        lengths, factor = median_lengthscales(pool)
        assumptions.append(
            f"length-scales: {factor:.3g} standard deviations of each feature, the median distance between "
            f"{min(SAMPLE, pool.n_arms)} sampled candidates"
        )
    else:
        lengths = _lengths(lengthscale)
    kernel = RBF(lengths) if name == "rbf" else Matern(lengths, positive("smoothness", smoothness))
    return kernel, assumptions


def median_lengthscales(pool: Pool) -> tuple[tuple[float, ...], float]:
    """The median distance in a fixed sample times each feature's standard deviation, and that distance."""
    from scipy.spatial.distance import pdist

    rows = np.random.default_rng(0).permutation(pool.n_arms)[:SAMPLE]
    sample = np.asarray(pool.features[np.sort(rows)], dtype=np.float64)
    spread = sample.std(axis=0)
    spread[~(spread > 0)] = 1.0  # the length-scale of a constant feature does not matter
    distances = pdist(sample / spread)
    apart = distances[distances > 0]
    factor = float(np.median(apart)) if len(apart) else 1.0
    return tuple((factor * spread).tolist()), factor


def assumed_storage(pool: Pool) -> tuple[str, list[str]]:
    """Single precision for a large pool, to halve its memory; it is too coarse for one or two features."""
    storage = automatic_storage(pool, sketched=True)
    single = ["storage: the model columns are kept in single precision"]
    return storage, single if storage == "float32" else []


def most_inducing(n_arms: int) -> int:
    """The largest sketch on a pool of this size.

    An ask costs A·m² operations, so the limit is what keeps a campaign with thousands of results as fast as
    one with hundreds. More inducing arms found no more of the best ones (docs/measurements.md).
    """
    return max(64, min(FULL_SKETCH, _size(PASS_COST, n_arms)), _size(SHORT_PASS_COST, n_arms))


def _size(cost: float, n_arms: int) -> int:
    return int(math.sqrt(cost / n_arms))


def _linear(pool: Pool) -> KernelLike:
    rows = np.random.default_rng(0).permutation(pool.n_arms)[:SAMPLE]
    average = float(Linear(1.0).diag(pool.features[np.sort(rows)]).mean())
    return Scale(Linear(1.0), 1.0 / average)


def _lengths(given: Any) -> Any:
    numbers = given if isinstance(given, tuple) else (given,)
    if not numbers:
        raise SettingsError("lengthscale must be 'auto' or numbers, got an empty list")
    try:
        lengths = tuple(positive("lengthscale", float(number)) for number in numbers)
    except (TypeError, ValueError) as problem:
        if "must be" in str(problem):
            raise
        raise SettingsError(f"lengthscale must be 'auto' or numbers, got {shown(given)}") from None
    return lengths if len(lengths) > 1 else lengths[0]


@dataclass(frozen=True)
class Units:
    """The conversion between the user's values and rewards: reward = (sign · value − mean) / scale.

    A learned model has a transform of its own, so only the sign is used with it.
    """

    sign: float
    mean: float = 0.0
    scale: float = 1.0
    noise_std: float | None = None  # in the units of the rewards; None: learned
    assumptions: tuple[str, ...] = ()

    def rewards(self, values: Sequence[float]) -> Floats:
        """The rewards for the user's values."""
        return (self.sign * np.asarray(values, dtype=np.float64) - self.mean) / self.scale

    def weight(self, std: float | None, weight: float) -> float:
        """The weight in V of a value with this stated noise or, without one, of so many measurements."""
        if std is None or self.noise_std is None:
            return weight
        return (self.noise_std * self.scale / std) ** 2

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
    recorded: Sequence[tuple[int, float]],
    weights: Sequence[float] | None = None,
) -> Units:
    """Mean, signal and noise as given by the user, or estimated from all pairs (arm, value) recorded so far.

    `recorded` is sorted first, so that the order of recording does not change a single digit. `weights` are
    the numbers of measurements behind the values, 0 where the noise was stated: these say nothing about it.
    """
    weighed = sorted(zip(recorded, [1.0] * len(recorded) if weights is None else weights, strict=True))
    recorded = [pair for pair, _ in weighed]
    values = [value for _, value in recorded]
    assumptions = []
    centre = mean
    if centre is None:
        centre = math.fsum(values) / len(values) if values else 0.0
        assumptions.append(f"mean: {centre:.4g}, {_basis('average', values)}")
    scale = signal
    if scale is None:
        around = math.fsum(values) / len(values) if values else 0.0
        spread = math.sqrt(math.fsum((v - around) ** 2 for v in values) / len(values)) if values else 0.0
        scale = spread if spread > 0 else 1.0
        assumptions.append(f"signal: {scale:.4g}, {_basis('standard deviation', values)}")
    share = noise / scale if noise is not None else None
    if share is not None and share < LEAST_NOISE_SHARE:
        share = LEAST_NOISE_SHARE
        assumptions.append(
            f"noise: {share * scale:.4g} instead of {noise:.4g}, which is too small relative to the signal"
        )
    if share is None:
        seen = replicate_noise(recorded, [weight for _, weight in weighed])
        share = NOISE_SHARE if seen is None else min(max(seen / scale, 0.01), 1.0)
        why = "an assumed share of the signal" if seen is None else "estimated from replicates"
        assumptions.append(f"noise: {share * scale:.4g}, {why}")
    return Units(sign, sign * centre, scale, share, tuple(assumptions))


def _basis(statistic: str, values: Sequence[float]) -> str:
    return f"the {statistic} of {counted(len(values), 'result')}" if values else "until there are results"


def grouped(recorded: Iterable[tuple[Key, float | None]]) -> defaultdict[Key, list[float]]:
    """The values of each arm, in order, without failed trials."""
    values: defaultdict[Key, list[float]] = defaultdict(list)
    for key, value in recorded:
        if value is not None:
            values[key].append(value)
    return values


def replicate_noise(
    recorded: Sequence[tuple[int, float]], weights: Sequence[float] | None = None
) -> float | None:
    """The pooled standard deviation of repeated measurements; None if there are too few of them.

    `weights` are the numbers of measurements that the values are means of, 0 for values to leave out.
    """
    by_arm: defaultdict[int, list[tuple[float, float]]] = defaultdict(list)
    for (arm, value), weight in zip(recorded, weights or [1.0] * len(recorded), strict=True):
        if weight:
            by_arm[arm].append((value, weight))
    freedom = sum(len(values) - 1 for values in by_arm.values())
    if freedom < ENOUGH_REPLICATES:
        return None
    within = 0.0
    for values in by_arm.values():
        average = math.fsum(w * value for value, w in values) / math.fsum(w for _, w in values)
        within += math.fsum(w * (value - average) ** 2 for value, w in values)
    return math.sqrt(within / freedom)
