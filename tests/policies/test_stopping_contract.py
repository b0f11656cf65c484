"""Every stopping rule of the package keeps the contract of stopping rules."""

from __future__ import annotations

from manyarms.choice import stopping
from manyarms.choice.stopping import StoppingRule
from manyarms.testing import StoppingRuleContract


class TestEveryStep(StoppingRuleContract):
    def rule(self) -> StoppingRule:
        return stopping.EveryStep()


class TestFixedSize(StoppingRuleContract):
    def rule(self) -> StoppingRule:
        return stopping.FixedSize(5)


class TestGlobalRatio(StoppingRuleContract):
    def rule(self) -> StoppingRule:
        return stopping.GlobalRatio(2.0)


class TestLocalRatio(StoppingRuleContract):
    def rule(self) -> StoppingRule:
        return stopping.LocalRatio(2.0)


class TestProductRatio(StoppingRuleContract):
    def rule(self) -> StoppingRule:
        return stopping.ProductRatio(2.0)


class TestInformationGain(StoppingRuleContract):
    def rule(self) -> StoppingRule:
        return stopping.InformationGain(2.0)


def test_every_rule_of_the_package_is_tested_here() -> None:
    suites = [each for each in globals().values() if isinstance(each, type)]
    tested = {
        type(suite().rule())
        for suite in suites
        if issubclass(suite, StoppingRuleContract) and suite is not StoppingRuleContract
    }
    shipped = {each for each in vars(stopping).values() if isinstance(each, type) and hasattr(each, "meter")}
    assert tested == shipped - {StoppingRule}
