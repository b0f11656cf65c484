"""Real data: read from several file formats, scaled, and reported in one clear line when missing."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pytest

from manyarms.errors import MissingDataError, TableError
from manyarms.reproduce.pools import RealPool, abalone, generated, housing, load
from manyarms.reproduce.registry import named
from manyarms.reproduce.runner import planned_jobs

ROWS = [
    "M,0.455,0.365,0.095,0.514,0.2245,0.101,0.15,15",
    "F,0.53,0.42,0.135,0.677,0.2565,0.1415,0.21,9",
    "I,0.33,0.255,0.08,0.205,0.0895,0.0395,0.055,7",
]
HEADER = "Sex,Length,Diameter,Height,WholeWeight,ShuckedWeight,VisceraWeight,ShellWeight,Rings"


def write(folder: Path, name: str, lines: list[str]) -> Path:
    data = ("\n".join(lines) + "\n").encode()
    (folder / name).write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
    return folder


@pytest.mark.parametrize(
    ("name", "header"), [("abalone.csv", True), ("abalone.csv.gz", True), ("abalone.data", False)]
)
def test_abalone_in_each_of_its_files(tmp_path: Path, name: str, header: bool) -> None:
    pool = abalone(write(tmp_path, name, [HEADER, *ROWS] if header else ROWS))
    assert pool.features.shape == (3, 8)
    assert pool.truth.tolist() == [1.0, 0.25, 0.0]
    assert pool.features.mean(axis=0) == pytest.approx(0.0, abs=1e-12)
    assert pool.features.std(axis=0) == pytest.approx(1.0)
    assert pool.features[:, 0].argsort().tolist() == [0, 1, 2], "sex as 0, 1, 2"


def test_a_bad_line_is_named(tmp_path: Path) -> None:
    write(tmp_path, "abalone.csv", [HEADER, *ROWS, "M,0.4,oops"])
    with pytest.raises(TableError, match=r"abalone.csv, line 5"):
        abalone(tmp_path)


@pytest.mark.parametrize("folder", [True, False])
def test_missing_abalone_says_where_to_get_it(tmp_path: Path, folder: bool) -> None:
    with pytest.raises(MissingDataError, match=r"archive\.ics\.uci\.edu") as caught:
        abalone(tmp_path if folder else None)
    assert "\n" not in str(caught.value)


def test_missing_housing_says_where_to_get_it(tmp_path: Path) -> None:
    with pytest.raises(MissingDataError, match="fetch_california_housing") as caught:
        housing(tmp_path)
    assert "\n" not in str(caught.value)
    assert str(tmp_path) in str(caught.value)


def test_housing_from_scikit_learn_s_cache_file(tmp_path: Path) -> None:
    joblib = pytest.importorskip("joblib")
    table = np.random.default_rng(0).uniform(1.0, 9.0, size=(20, 9))
    joblib.dump(table, tmp_path / "cal_housing_py3.pkz", compress=6)
    pool = housing(tmp_path)
    assert pool.features.shape == (20, 8)
    assert pool.truth.argmax() == table[:, 0].argmax()


def test_the_stand_in_is_always_the_same() -> None:
    first, again = generated(50), load("generated:50", None)
    assert first.digest == again.digest
    assert first.truth.min() == 0.0
    assert first.truth.max() == 1.0
    assert first.digest != RealPool(first.features, first.truth[::-1].copy()).digest


def test_smoke_runs_take_the_real_pool_when_its_folder_is_named(tmp_path: Path) -> None:
    write(tmp_path, "abalone.data", ROWS)
    experiment = named("bbkb-abalone")
    without = planned_jobs(experiment, "smoke", None)[0].settings
    with_data = planned_jobs(experiment, "smoke", tmp_path)[0].settings
    assert without["pool"] == "generated:200"
    assert (with_data["pool"], with_data["pool_arms"]) == ("abalone", 3)
    assert with_data["pool_digest"] == abalone(tmp_path).digest


def test_a_default_run_never_takes_the_stand_in() -> None:
    with pytest.raises(MissingDataError):
        planned_jobs(named("bbkb-abalone"), "default", None)
