"""The four functions of DUETS §5 (theory §10.3), to be maximised, with their known maxima."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from manyarms.pool.pool import Pool
from manyarms.support.validation import Floats, count, non_negative


@dataclass(frozen=True)
class Problem:
    """A test function with its domain, maximum and maximisers.

    `shape` is the domain, "box" ([0, 1]ᵈ) or "ball" (the unit ball). `lengthscale` is the one the paper uses.
    """

    name: str
    n_features: int
    shape: Literal["box", "ball"]
    function: Callable[[Floats], Floats]
    maximum: float
    maximisers: Floats
    lengthscale: float

    def __call__(self, points: Any) -> Floats:
        """The values of the function at the rows of `points`."""
        return np.asarray(self.function(np.atleast_2d(np.asarray(points, dtype=np.float64))))

    def points(self, n: int, seed: int) -> Floats:
        """Draw n points uniformly from the domain."""
        rng = np.random.default_rng(seed)
        if self.shape == "box":
            return np.asarray(rng.random((count("n", n), self.n_features)))
        direction = rng.standard_normal((count("n", n), self.n_features))
        direction /= np.linalg.norm(direction, axis=1, keepdims=True)
        return np.asarray(direction * rng.random((n, 1)) ** (1.0 / self.n_features))

    def pool(self, n_arms: int, seed: int) -> Pool:
        """A pool of points drawn uniformly from the domain."""
        return Pool(self.points(n_arms, seed))


class Noisy:
    """Rewards of a problem: its value plus Gaussian noise from a separate random stream for every agent."""

    def __init__(self, problem: Callable[[Any], Floats], noise_std: float, seed: int) -> None:
        self.problem, self.noise_std, self.seed = problem, non_negative("noise_std", noise_std), seed
        self._streams: dict[int, np.random.Generator] = {}

    def __call__(self, pulls: Any) -> Floats:
        """The rewards of one agent's pulls, given by `pulls.agent` and `pulls.features`."""
        if pulls.agent not in self._streams:
            self._streams[pulls.agent] = np.random.default_rng([self.seed, pulls.agent])
        noise = self._streams[pulls.agent].standard_normal(len(pulls.features))
        return np.asarray(self.problem(pulls.features) + self.noise_std * noise)


def _direction(theta_seed: int, n_features: int) -> Floats:
    theta = np.random.default_rng(theta_seed).standard_normal(n_features)
    return np.asarray(theta / np.linalg.norm(theta))


@dataclass(frozen=True)
class _Ridge:
    """The function profile(xᵀθ), as a class rather than a closure so that it can be pickled."""

    profile: Callable[[Floats], Floats]
    theta: NDArray[np.float64]

    def __call__(self, X: Floats) -> Floats:
        return self.profile(X @ self.theta)


def _wave(s: Floats) -> Floats:
    return np.cos(3.0 * s)


def _cubic(s: Floats) -> Floats:
    return np.asarray(s**3 - 3.0 * s**2 + 3.0 * s + 3.0)


def wave_ridge(theta_seed: int = 0, n_features: int = 10) -> Problem:
    """h₁(x) = cos(3xᵀθ) on the unit ball, with maximum 1 wherever xᵀθ = 0."""
    ridge = _Ridge(_wave, _direction(theta_seed, n_features))
    return Problem(
        name="h1",
        n_features=n_features,
        shape="ball",
        function=ridge,
        maximum=1.0,
        maximisers=np.zeros((1, n_features)),
        lengthscale=1.0,
    )


def polynomial_ridge(theta_seed: int = 0, n_features: int = 10) -> Problem:
    """h₂(x) = s³ − 3s² + 3s + 3 = (s − 1)³ + 4 with s = xᵀθ on the unit ball, with maximum 4 at x = θ."""
    theta = _direction(theta_seed, n_features)
    return Problem(
        name="h2",
        n_features=n_features,
        shape="ball",
        function=_Ridge(_cubic, theta),
        maximum=4.0,
        maximisers=theta[None, :],
        lengthscale=1.0,
    )


def _branin(X: Floats) -> Floats:
    u, v = 15.0 * X[:, 0] - 5.0, 15.0 * X[:, 1]
    quadratic = v - 5.1 / (4 * math.pi**2) * u**2 + 5.0 / math.pi * u - 6.0
    b = quadratic**2 + 10.0 * (1.0 - 1.0 / (8.0 * math.pi)) * np.cos(u)
    return np.asarray(-(b - 44.81) / 51.95)


def branin() -> Problem:
    """Branin on [0, 1]², standardised to −(b − 44.81)/51.95 with b without its constant 10.

    Three maxima of 1.0474 (theory §10.3; with the constant they would be 0.8549).
    """
    at = np.array([[-math.pi, 12.275], [math.pi, 2.275], [3.0 * math.pi, 2.475]])
    lowest = 10.0 / (8.0 * math.pi) - 10.0  # where the quadratic term is 0 and cos u is −1
    maximum = -(lowest - 44.81) / 51.95
    return Problem(
        name="Branin",
        n_features=2,
        shape="box",
        function=_branin,
        maximum=maximum,
        maximisers=(at + np.array([5.0, 0.0])) / 15.0,
        lengthscale=0.2,
    )


_HEIGHTS = np.array([1.0, 1.2, 3.0, 3.2])
_STEEPNESS = np.array(
    [[10, 3, 17, 3.5], [0.05, 10, 17, 0.1], [3, 3.5, 1.7, 10], [17, 8, 0.05, 10]], dtype=float
)
_CENTRES = 1e-4 * np.array(
    [[1312, 1696, 5569, 124], [2329, 4135, 8307, 3736], [2348, 1451, 3522, 2883], [4047, 8828, 8732, 5743]],
    dtype=float,
)


def _hartmann4(X: Floats) -> Floats:
    squares = (X[:, None, :] - _CENTRES) ** 2
    return np.asarray(np.exp(-np.einsum("nij,ij->ni", squares, _STEEPNESS)) @ _HEIGHTS)


def hartmann4() -> Problem:
    """Hartmann-4 on [0, 1]⁴: Σ α_i exp(−Σ_j A_ij (x_j − P_ij)²), the first four columns of Hartmann-6.

    Its maximum is 3.7298 (by numerical search). The usual 3.731 is Picheny et al.'s −3.1355 for their
    scaled form converted back, and is not attained with these constants.
    """
    best = np.array([[0.18739527, 0.19415153, 0.55791778, 0.26477962]])
    return Problem(
        name="Hartmann-4",
        n_features=4,
        shape="box",
        function=_hartmann4,
        maximum=float(_hartmann4(best)[0]),
        maximisers=best,
        lengthscale=1.0,
    )


PROBLEMS: dict[str, Callable[[], Problem]] = {
    "h1": wave_ridge,
    "h2": polynomial_ridge,
    "Branin": branin,
    "Hartmann-4": hartmann4,
}
