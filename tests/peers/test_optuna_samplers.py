"""Optuna's own suites for samplers (`optuna.testing.pytest_samplers`), run on `ManyArmsSampler`.

`MultiObjectiveSamplerTestCase` is the one suite that does not apply: the sampler is for one objective, and
`SingleOnlySamplerTestCase` checks that it says so.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
from optuna.samplers import BaseSampler
from optuna.testing import pytest_samplers

from manyarms.optuna import ManyArmsSampler

APPLIED = {"BasicSamplerTestCase", "RelativeSamplerTestCase", "SingleOnlySamplerTestCase"}
NOT_APPLIED = {"MultiObjectiveSamplerTestCase"}


class TestManyArmsSampler(
    pytest_samplers.BasicSamplerTestCase,
    pytest_samplers.RelativeSamplerTestCase,
    pytest_samplers.SingleOnlySamplerTestCase,
):
    """All suites that apply, with a small pool for continuous parameters."""

    @pytest.fixture
    def sampler(self) -> Callable[[], BaseSampler]:
        return lambda: ManyArmsSampler(seed=0, pool_size=200)


def test_every_suite_of_optuna_is_named_here() -> None:
    suites = {
        name
        for name, item in vars(pytest_samplers).items()
        if isinstance(item, type) and name.endswith("TestCase") and not name.startswith("_")
    }
    assert suites == APPLIED | NOT_APPLIED
    assert {base.__name__ for base in TestManyArmsSampler.__bases__} == APPLIED
