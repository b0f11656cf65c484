"""Raw files: values are read back exactly, and digests cover the numbers only."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pytest

from manyarms.reproduce.experiment import ExperimentPlan, Job, JobOutcome, file_name
from manyarms.reproduce.raw import RawFolder, digest_of, from_text, to_text

JOB = Job("h₁, λ = 0.2", "BBKB-local", 3, {"horizon": 10, "name": "Matérn"})


def outcome(seconds: float = 1.0) -> JobOutcome:
    numbers = {"t": np.array([1.0, 2.0]), "regret": np.array([0.1 + 0.2, np.nan])}
    return JobOutcome(numbers, {"seconds": np.array([seconds])})


def test_columns_come_back_exactly() -> None:
    values = np.concatenate([np.random.default_rng(0).normal(size=50) * 1e-7, [np.inf, -0.0, 12.0, 1e300]])
    described, columns = from_text(to_text("who", {"a": values, "b": -values}))
    assert described == "who"
    assert list(columns) == ["a", "b"]
    assert columns["a"].tobytes() == values.tobytes()
    assert from_text(to_text("nothing", {})) == ("nothing", {})


def test_whole_numbers_are_written_whole() -> None:
    assert to_text("x", {"n": np.array([3.0])}) == "# x\nn\n3\n"


def test_columns_of_different_lengths_are_refused() -> None:
    with pytest.raises(ValueError, match="shorter"):
        to_text("x", {"a": np.zeros(3), "b": np.zeros(2)})


def test_a_result_is_found_for_exactly_its_settings(tmp_path: Path) -> None:
    raw = RawFolder(tmp_path, "toy")
    assert raw.read(JOB) is None
    raw.write(JOB, outcome())
    found = raw.read(JOB)
    assert found is not None
    assert found.numbers["regret"][0] == 0.1 + 0.2
    assert raw.read(Job(JOB.case, JOB.method, JOB.seed, {"horizon": 11, "name": "Matérn"})) is None
    assert RawFolder(tmp_path, "other").read(JOB) is None
    assert not list(tmp_path.rglob(".*")), "no temporary file may be left"


@pytest.mark.parametrize("folder", ["raw", "timings"])
@pytest.mark.parametrize(
    "damage",
    [b"", b"nonsense", gzip.compress(b"# {}\nt\n1,2\n")],
    ids=[
        "empty",
        "nonsense",
        "another table",
    ],  # gzip writes the time, so the bytes cannot be ids
)
def test_a_damaged_file_is_treated_as_missing(tmp_path: Path, folder: str, damage: bytes) -> None:
    raw = RawFolder(tmp_path, "toy")
    raw.write(JOB, outcome())
    (tmp_path / folder / f"{JOB.key}.csv.gz").write_bytes(damage)
    assert raw.read(JOB) is None


def test_digests_ignore_timings_and_notice_numbers(tmp_path: Path) -> None:
    raw = RawFolder(tmp_path, "toy")
    digests = []
    changed = JobOutcome({"t": np.array([1.0, 2.5])}, {})
    for made in (outcome(1.0), outcome(2.0), changed):
        raw.write(JOB, made)
        digests.append(digest_of(raw.digests([JOB])))
    assert digests[0] == digests[1]
    assert digests[1] != digests[2]


def test_names_of_jobs_are_plain_file_names() -> None:
    assert JOB.key == "h1_lambda=0.2--BBKB-local--seed3"
    assert Job("", "GP-UCB", 0, {}).key == "GP-UCB--seed0"
    assert file_name("S-GP-TS, rule (6)") == "S-GP-TS_rule_6_"


def test_settings_of_the_method_win_over_those_of_the_case() -> None:
    overrides = {("x", "b"): {"n": 3}, ("y", "b"): {"n": 4}}
    cases = {"x": {"n": 2}, "y": {}}
    plan = ExperimentPlan(("a", "b"), 2, {"n": 1, "m": 1}, cases, overrides, left_out=(("y", "a"),))
    jobs = plan.jobs()
    assert [(job.seed, job.case, job.method, job.settings["n"]) for job in jobs[:3]] == [
        (0, "x", "a", 2),
        (0, "x", "b", 3),
        (0, "y", "b", 4),
    ]
    assert len(jobs) == 6
