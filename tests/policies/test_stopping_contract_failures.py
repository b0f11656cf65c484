"""Every check of the contract of stopping rules can fail: for each there is a rule that breaks it."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any, ClassVar

import pytest

from manyarms.choice.stopping import Pick
from manyarms.testing import StoppingRuleContract


class Meter:
    """Ends after three picks; the meters below each break one promise of it."""

    size = 3

    def __init__(self) -> None:
        self.picks = 0
        self.ratio = 1.0

    def count(self, pick: Pick) -> None:
        self.ratio += pick.feedback_leverage

    def add(self, pick: Pick) -> Any:
        self.count(pick)
        self.picks += 1
        return "three picks" if self.picks >= self.size else None


@dataclass(frozen=True)
class Sound:
    kind: ClassVar[type[Meter]] = Meter

    def meter(self, posterior: Any, overlay: Any) -> Any:
        return self.kind()


class Unequal:
    def meter(self, posterior: Any, overlay: Any) -> Any:
        return Meter()


@dataclass
class Counting:
    batches: int = 0

    def meter(self, posterior: Any, overlay: Any) -> Any:
        self.batches += 1
        return Meter()


class SharedMeter(Meter):
    together: ClassVar[Counter[str]] = Counter()

    def add(self, pick: Pick) -> Any:
        self.count(pick)
        self.together["picks"] += 1
        return "three picks by any meter" if self.together["picks"] % 3 == 0 else None


class SayingTrue(Meter):
    def add(self, pick: Pick) -> Any:
        return super().add(pick) is not None


class Falling(Meter):
    def count(self, pick: Pick) -> None:
        self.ratio = 1 + pick.current_leverage


class NotCounting(Meter):
    def count(self, pick: Pick) -> None:
        pass

    def add(self, pick: Pick) -> Any:
        self.ratio += pick.feedback_leverage
        return super().add(pick)


@dataclass(frozen=True)
class Pulling(Sound):
    def meter(self, posterior: Any, overlay: Any) -> Any:
        overlay.pull(0)
        return Meter()


class EndingOnCertainty(Meter):
    def add(self, pick: Pick) -> Any:
        self.count(pick)
        return "small variance" if pick.feedback_leverage < 0.5 else None


class Endless(Meter):
    def add(self, pick: Pick) -> Any:
        self.count(pick)


@dataclass(frozen=True)
class Lengthening(Sound):
    batches: ClassVar[Counter[str]] = Counter()

    def meter(self, posterior: Any, overlay: Any) -> Any:
        meter = Meter()
        self.batches["all"] += 1
        meter.size = self.batches["all"]
        return meter


@dataclass(frozen=True)
class LengthenedByPending(Sound):
    def meter(self, posterior: Any, overlay: Any) -> Any:
        meter = Meter()
        meter.size = 3 + len(overlay.pulls)
        return meter


def metered(meter: type[Meter]) -> type[Sound]:
    @dataclass(frozen=True)
    class Broken(Sound):
        kind: ClassVar[type[Meter]] = meter

    return Broken


BROKEN: list[tuple[type[Any], str]] = [
    (Unequal, "test_rule_describes_itself"),
    (Counting, "test_a_batch_changes_no_setting"),
    (metered(SharedMeter), "test_same_picks_same_verdicts"),
    (metered(SayingTrue), "test_reasons_are_named"),
    (metered(Falling), "test_the_ratio_never_falls"),
    (metered(NotCounting), "test_counted_picks_enter_the_ratio"),
    (Pulling, "test_the_posterior_is_only_read"),
    (metered(EndingOnCertainty), "test_more_information_never_lengthens_a_batch"),
    (metered(Endless), "test_batches_end_with_a_reason"),
    (Lengthening, "test_at_most_caps_a_batch"),
    (LengthenedByPending, "test_pulls_still_out_never_lengthen_a_batch"),
]


@pytest.mark.parametrize(("broken", "check"), BROKEN, ids=[check for _, check in BROKEN])
def test_the_contract_catches_broken_rules(broken: type[Any], check: str) -> None:
    class Suite(StoppingRuleContract):
        def rule(self) -> Any:
            return broken()

    with pytest.raises(AssertionError):
        getattr(Suite(), check)()


def test_every_check_has_a_rule_that_breaks_it() -> None:
    checks = {name for name in dir(StoppingRuleContract) if name.startswith("test")}
    assert {check for _, check in BROKEN} == checks


class TestSound(StoppingRuleContract):
    """The rule that the broken ones are made from keeps the contract."""

    def rule(self) -> Any:
        return Sound()
