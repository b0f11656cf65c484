"""Results of a campaign with their own noise: recorded, exported, corrected, and used by the model."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pytest

from manyarms import errors
from manyarms.campaigns.campaign import Campaign
from manyarms.campaigns.export import export
from manyarms.campaigns.file_versions import Mode
from manyarms.campaigns.queries import best, corrections, history
from manyarms.campaigns.results_file import ReportedResult
from manyarms.campaigns.settings import Request
from manyarms.campaigns.store.result_noise import USUAL, ResultNoise
from tests.campaigns.test_older_versions import restore

HEADER = "id,value,noise_std,replicates\n"
ROWS = "arm 1,0.5,0.2,\narm 2,0.7,,4\narm 3,0.1,,\narm 1,0.9,0.4,\narm 4,,0.1,\n"


def pool(folder: Path, n: int = 60) -> np.ndarray:
    X = np.random.default_rng(0).uniform(size=(n, 2))
    lines = [f"arm {i},{a},{b}" for i, (a, b) in enumerate(X.tolist())]
    (folder / "pool.csv").write_text("\n".join(["id,a,b", *lines]) + "\n")
    return X


def made(folder: Path, **settings) -> Campaign:
    pool(folder)
    return Campaign.new(folder / "c.db", Request(str(folder / "pool.csv"), id="id", **settings))


def noises(campaign: Campaign) -> list[tuple[str, float | None, float | None, int | None]]:
    return [(each.id, each.value, each.noise_std, each.replicates) for each in history(campaign)]


EXPECTED = [
    ("arm 1", 0.5, 0.2, None),
    ("arm 2", 0.7, None, 4),
    ("arm 3", 0.1, None, None),
    ("arm 1", 0.9, 0.4, None),
]


def test_a_results_file_with_noise(tmp_path: Path) -> None:
    with made(tmp_path) as campaign:
        data = (HEADER + ROWS).encode()
        told = campaign.tell_bytes(data, "r.csv")
        assert (told.new, told.unmeasured) == (4, 1)
        assert noises(campaign) == EXPECTED
        assert campaign.tell_bytes(data, "r.csv").known == 4
        export(campaign, tmp_path / "out.csv")
    (tmp_path / "other").mkdir()
    with made(tmp_path / "other") as other:
        other.tell_file(tmp_path / "out.csv")
        assert noises(other) == EXPECTED
    rows = list(csv.DictReader((tmp_path / "out.csv").read_text().splitlines()))
    assert (rows[0]["noise_std"], rows[1]["replicates"], rows[2]["noise_std"]) == ("0.2", "4", "")


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("id,value,Noise_STD,Replicates\narm 1,0.5,0.2,\narm 2,0.7,,4\n", EXPECTED[:2]),
        ("id;value;noise_std\narm 1;4;0,5\narm 2;3;\n", [("arm 1", 4, 0.5, None), ("arm 2", 3, None, None)]),
    ],
    ids=["in other letters", "with commas beside whole numbers"],
)
def test_noise_as_people_write_it_is_not_lost(tmp_path: Path, content: str, expected: list) -> None:
    with made(tmp_path) as campaign:
        campaign.tell_bytes(content.encode(), "r.csv")
        assert noises(campaign) == expected


def test_one_of_two_columns_for_the_noise_has_to_go(tmp_path: Path) -> None:
    with made(tmp_path) as campaign:
        with pytest.raises(errors.ResultsFileError, match="may be 'Noise_Std' or 'NOISE_STD': keep one"):
            campaign.tell_bytes(b"id,value,Noise_Std,NOISE_STD\narm 1,1,2,3\n", "r.csv")
        assert noises(campaign) == []


def test_a_column_of_the_table_in_other_letters_is_no_noise(tmp_path: Path) -> None:
    (tmp_path / "pool.csv").write_text("id,a,Noise_Std\n" + "".join(f"p{i},{i},1{i}\n" for i in range(9)))
    with Campaign.new(tmp_path / "c.db", Request(str(tmp_path / "pool.csv"), id="id")) as campaign:
        campaign.tell_bytes(b"id,value,Noise_Std\np1,4,11\n", "r.csv")
        assert noises(campaign) == [("p1", 4.0, None, None)]


def test_another_noise_is_a_difference_that_has_to_be_explained(tmp_path: Path) -> None:
    with made(tmp_path) as campaign:
        campaign.tell_bytes((HEADER + ROWS).encode(), "r.csv")
        changed = (HEADER + ROWS.replace("0.5,0.2", "0.5,0.3")).encode()
        with pytest.raises(errors.AmbiguousResultsError):
            campaign.tell_bytes(changed, "r.csv")
        assert noises(campaign) == EXPECTED
        assert campaign.tell_bytes(changed, "r.csv", Mode.CORRECT).corrected == 1
        assert noises(campaign) == [("arm 1", 0.5, 0.3, None), *EXPECTED[1:]]
        (record,) = corrections(campaign)
        assert (record.old_noise_std, record.new_noise_std) == (0.2, 0.3)


def test_a_correction_keeps_the_noise_unless_it_states_one(tmp_path: Path) -> None:
    with made(tmp_path) as campaign:
        campaign.tell_bytes((HEADER + ROWS).encode(), "r.csv")
        campaign.correct([ReportedResult("", None, "arm 2", 0.8)])
        assert noises(campaign)[1] == ("arm 2", 0.8, None, 4)
        campaign.correct([ReportedResult("", None, "arm 2", 0.8, noise=ResultNoise(std=0.1))])
        assert noises(campaign)[1] == ("arm 2", 0.8, 0.1, None)
        campaign.correct([ReportedResult("", None, "arm 2", None)])
        assert noises(campaign)[1] == ("arm 2", None, None, None)
        assert len(corrections(campaign)) == 3


@pytest.mark.parametrize(
    ("row", "words"),
    [
        ("arm 1,0.5,x,", "column 'noise_std': 'x' is not a positive number"),
        ("arm 1,0.5,0,", "column 'noise_std': '0' is not a positive number"),
        ("arm 1,0.5,-1,", "column 'noise_std': '-1' is not a positive number"),
        ("arm 1,0.5,nan,", "column 'noise_std': 'nan' is not a positive number"),
        ("arm 1,0.5,inf,", "column 'noise_std': 'inf' is not a positive number"),
        ("arm 1,0.5,,0", "column 'replicates': '0' is not a whole number from 1"),
        ("arm 1,0.5,,1.5", "column 'replicates': '1.5' is not a whole number from 1"),
        ("arm 1,0.5,,1e9", "column 'replicates': '1e9' is not a whole number from 1"),
        ("arm 1,0.5,0.1,3", "give one of them"),
    ],
)
def test_wrong_noise_is_refused_and_nothing_is_recorded(tmp_path: Path, row: str, words: str) -> None:
    with made(tmp_path) as campaign:
        with pytest.raises(errors.ResultsFileError, match=words) as problem:
            campaign.tell_bytes(f"{HEADER}arm 7,0.3,,\n{row}\n".encode(), "r.csv")
        assert "line 3" in str(problem.value)
        assert history(campaign) == []


def test_a_column_of_the_candidates_is_not_taken_for_the_noise(tmp_path: Path) -> None:
    pool(tmp_path)
    text = (tmp_path / "pool.csv").read_text().replace("id,a,b", "id,a,noise_std")
    (tmp_path / "pool.csv").write_text(text)
    with Campaign.new(tmp_path / "c.db", Request(str(tmp_path / "pool.csv"), id="id")) as campaign:
        campaign.tell_bytes(b"id,value,noise_std\narm 1,0.5,0.31\n", "r.csv")
        assert noises(campaign) == [("arm 1", 0.5, None, None)]


@pytest.mark.parametrize("settings", [{}, {"kernel": "matern", "noise": 0.1}, {"kernel": "matern"}])
def test_the_next_ask_uses_the_noise_and_a_warm_process_says_the_same(tmp_path: Path, settings) -> None:
    """The rows after the first ask are folded into a saved state; a new campaign uses all of them at once."""
    X = pool(tmp_path)
    rng = np.random.default_rng(1)
    f = np.sin(4 * X[:, 0]) + X[:, 1]
    lines = [f"arm {i},{f[i] + 0.1 * rng.normal()},," for i in range(25)]
    wild = [f"arm {i},{f[i] + 3.0},3," for i in range(25, 35)]  # far too high, and known to be noisy
    means = [f"arm {i},{f[i]},,9" for i in range(20, 28)]
    told = {}
    for name, noisy in (("stated", wild), ("blind", [row.replace(",3,", ",,") for row in wild])):
        folder = tmp_path / name
        folder.mkdir()
        with made(folder, seed=3, **settings) as campaign:
            campaign.tell_bytes((HEADER + "\n".join(lines) + "\n").encode(), "r.csv")
            campaign.ask(2)
            campaign.tell_bytes((HEADER + "\n".join([*noisy, *means]) + "\n").encode(), "s.csv")
            campaign.ask(2)
            campaign.tell_bytes((HEADER + "arm 40,0.1,0.2,\n").encode(), "t.csv")
            told[name] = {each.id: each.mean for each in best(campaign, 60, everywhere=True)}
        with Campaign(folder / "c.db") as again:
            cold = {each.id: each.mean for each in best(again, 60, everywhere=True)}
        assert cold == pytest.approx(told[name], abs=1e-9)
    error = {
        name: np.mean([abs(means[f"arm {i}"] - f[i]) for i in range(28, 35)]) for name, means in told.items()
    }
    assert error["stated"] < 0.6 * error["blind"]


def test_an_older_campaign_has_usual_noise_and_takes_results_with_their_own(tmp_path: Path) -> None:
    with Campaign(restore(tmp_path, "learned", 3)) as campaign:
        assert all(each.noise_std is None and each.replicates is None for each in history(campaign))
        campaign.tell_bytes(b"name,value,noise_std\narm 1,0.5,0.31\n", "r.csv")
        assert history(campaign)[-1].noise_std == 0.31
        assert campaign.ask(1)


def test_the_noise_that_counts_as_usual() -> None:
    assert ResultNoise() == USUAL
    assert (USUAL.weight, ResultNoise(replicates=3).weight, ResultNoise(std=0.1).weight) == (1.0, 3.0, 0.0)
