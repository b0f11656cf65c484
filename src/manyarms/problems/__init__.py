"""Test functions with known maxima."""

from manyarms.problems.synthetic import (
    PROBLEMS,
    Noisy,
    Problem,
    branin,
    hartmann4,
    polynomial_ridge,
    wave_ridge,
)

__all__ = ["PROBLEMS", "Noisy", "Problem", "branin", "hartmann4", "polynomial_ridge", "wave_ridge"]
