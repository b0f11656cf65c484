"""Real data: read from several file formats, scaled, and reported in one clear line when missing."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pytest

from manyarms.errors import InvalidParameterError, MissingDataError, TableError
from manyarms.reproduce.pools import RealPool, abalone, enamine, generated, housing, load
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
    assert pool.truth.tolist() == [15.0, 9.0, 7.0], "rings, in their own units"
    assert pool.features[:, 0].tolist() == [0.0, 1.0, 2.0], "sex as 0, 1, 2"
    assert pool.features[1, 1] == 0.53


def test_each_scale_follows_its_definition(tmp_path: Path) -> None:
    pool = abalone(write(tmp_path, "abalone.data", ROWS))
    standardised = pool.scaled("standardised", "unit")
    assert standardised.features.mean(axis=0) == pytest.approx(0.0, abs=1e-12)
    assert standardised.features.std(axis=0) == pytest.approx(1.0)
    assert standardised.truth.tolist() == [1.0, 0.25, 0.0]
    unit = pool.scaled("unit", "own")
    assert unit.features.min(axis=0).tolist() == [0.0] * 8
    assert unit.features.max(axis=0).tolist() == [1.0] * 8
    assert np.array_equal(unit.truth, pool.truth)
    with pytest.raises(InvalidParameterError, match="'percent'"):
        pool.scaled("percent", "own")


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
    assert pool.truth == pytest.approx(table[:, 0] / 100_000), "in units of 100 000 dollars"


@pytest.mark.parametrize("folder", [True, False])
def test_missing_molecules_say_where_to_get_them(tmp_path: Path, folder: bool) -> None:
    with pytest.raises(MissingDataError, match=r"github\.com/coleygroup/molpal") as caught:
        enamine(tmp_path if folder else None)
    assert "\n" not in str(caught.value)


def test_molecules_from_the_table_and_from_stored_fingerprints_are_the_same(tmp_path: Path) -> None:
    pytest.importorskip("rdkit")
    lines = ["smiles,score", "CCO,-7.5", "c1ccccc1,", "CCN,-8.25"]
    from_table = enamine(write(tmp_path, "4UNN_Enamine50k_scores.csv.gz", lines))
    assert from_table.truth.tolist() == [7.5, 8.25], "the molecule without a score is left out"
    assert from_table.features.shape == (2, 128)
    packed, scores = from_table.features, -from_table.truth
    np.savez(tmp_path / "enamine50k_morgan1024.npz", packed=packed, score=scores)
    stored = enamine(tmp_path)
    assert np.array_equal(stored.features, packed)
    assert stored.truth.tolist() == [7.5, 8.25]


def test_a_table_of_molecules_without_scores_is_named(tmp_path: Path) -> None:
    with pytest.raises(TableError, match=r"4UNN_Enamine50k_scores\.csv\.gz"):
        enamine(write(tmp_path, "4UNN_Enamine50k_scores.csv.gz", ["smiles,score", "CCO,high"]))


def test_the_stand_in_is_always_the_same() -> None:
    first, again = generated(50), load("generated:50", None)
    assert first.digest == again.digest
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
