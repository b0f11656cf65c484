"""`manyarms agents` by hand: what it says when something is wrong, and at the end of a run."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest

from tests.campaigns.support import Done, cli
from tests.federation.support import write_table
from tests.federation.trial_function import value
from tests.service.support import in_process


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_table(tmp_path / "table.csv")
    return tmp_path


def new(folder: Path, *options: object, name: str = "search.agents") -> Done:
    given = ("--pool", folder / "table.csv", "--id", "name", "--agents", 2, "--horizon", 8, "--noise", 0.2)
    return cli("agents", "new", folder / name, *given, *options)


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (("--lengthscale", "1,2,3"), "the kernel has 3 length-scales, the arms have 2 features"),
        (("--mean", "nan"), "mean must be a finite number, got nan"),
        (("--signal", "0"), "signal must be a positive finite number"),
        (("--wait", "0"), "wait must be a positive finite number"),
        (("--sync-threshold", "3"), "sync_threshold must be left out with duets"),
        (("--algorithm", "dis-kernel-ucb", "--first-epoch", "3"), "first_epoch must be left out with dis-"),
        (("--algorithm", "n-kernel-ucb", "--sync-threshold", "3"), "left out with n-kernel-ucb"),
        (("--algorithm", "best"), "algorithm must be one of"),
        (("--features", "x9"), "no column 'x9'"),
    ],
)
def test_a_wrong_setting_is_refused_and_no_file_is_left(
    folder: Path, options: tuple[str, ...], told: str
) -> None:
    done = new(folder, *options)
    assert done.code != 0
    assert told in done.err
    assert not (folder / "search.agents").exists()


def test_a_new_run_says_what_it_is_about(folder: Path) -> None:
    done = new(folder, "--mean", "-3", "--signal", "2", "--minimize")
    assert done.code == 0, done.err
    rows = [line.split() for line in done.out.splitlines()]
    assert ["x1", "number"] in [row[:2] for row in rows]
    assert "DUETS with 2 agents of 8 trials each, on 120 candidates; goal: minimise" in done.out
    assert "-3 on average, with a standard deviation of 2" in done.out
    assert "Matern with length-scale 0." in done.out


def test_a_run_on_molecules(folder: Path) -> None:
    smiles = ["CCO", "CCN", "CCC", "c1ccccc1", "CC(=O)O", "CO", "CN", "C1CCCCC1"]
    (folder / "molecules.csv").write_text(
        "name,smiles\n" + "".join(f"m{i},{s}\n" for i, s in enumerate(smiles))
    )
    done = new(folder, "--pool", folder / "molecules.csv", "--smiles", "smiles", "--kernel", "tanimoto")
    assert done.code == 0, done.err
    assert "kernel of all agents: Tanimoto" in done.out
    status = json.loads(cli("agents", "status", folder / "search.agents", "--json").out)
    assert status["candidates"] == 8


def test_files_in_the_wrong_place_are_named_for_what_they_are(folder: Path) -> None:
    run, table = folder / "search.agents", folder / "table.csv"
    new(folder)
    for n in range(2):
        cli("agents", "invite", run, folder / f"lab{n}.invitation")
    invitation, agent = folder / "lab0.invitation", folder / "lab0.agent"
    joined = cli("agents", "join", invitation, "--pool", table, "--offline")
    assert "No trial is open now" in joined.out
    (folder / "other.csv").write_text("name,x1,x2\nc0,1,2\n")
    acts = [
        (("invite", run, folder / "lab2.invitation"), "all 2 agents are invited already; --agent N"),
        (("invite", run, folder / "lab2.invitation", "--agent", 7), "no agent 7; the agents are 0 to 1"),
        (("join", invitation, "--pool", table), "Ask for one that was made with --url, or use --offline"),
        (("join", invitation, "--pool", folder / "other.csv", "--offline"), "the same file, byte for byte"),
        (("join", invitation, "--pool", folder / "none.csv", "--offline"), "say with --pool where it is"),
        (("join", agent, "--pool", table, "--offline"), "this is the file of an agent, not an invitation"),
        (("join", run, "--pool", table, "--offline"), "this is the file of a run, not an invitation"),
        (("join", table, "--pool", table, "--offline"), "table.csv: not an invitation"),
        (
            ("tell", invitation, table, "--pool", table, "--offline"),
            "an invitation, not the file of an",
        ),
        (("tell", run, table, "--pool", table, "--offline"), "the file of a run, not the file of an"),
        (("status", invitation), "this is an invitation, not the file of a run"),
        (("revoke", agent, "--agent", 0), "this is the file of an agent, not the file of a run"),
        (("revoke", run, "--agent", 7), "agent 7 has no key to revoke"),
    ]
    for arguments, told in acts:
        done = cli("agents", *arguments)
        assert (done.code != 0, told in done.err) == (True, True), (arguments, done)
    assert not (folder / "lab2.invitation").exists()


def fill(batch: Path) -> None:
    with open(batch, newline="") as stream:
        rows = list(csv.DictReader(stream))
    for row in rows:
        step, arm = int(row["ticket"].partition("-")[0]), int(row["name"][1:])
        row["value"] = repr(value((float(row["x1"]), float(row["x2"])), arm, step))
    with open(batch, "w", newline="") as stream:
        writer = csv.DictWriter(stream, rows[0])
        writer.writeheader()
        writer.writerows(rows)


@pytest.mark.slow
def test_two_laboratories_by_hand_until_the_run_is_over(folder: Path) -> None:
    run, pool = folder / "search.agents", ("--pool", folder / "table.csv")
    new(folder, "--lengthscale", "0.2")
    with in_process(folder) as client:
        for n in range(2):
            cli("agents", "invite", run, folder / f"lab{n}.invitation", "--url", client.base_url)
        said = ["", ""]
        for _ in range(12):
            for n in range(2):
                batch = folder / f"batch{n}.csv"
                done = cli("agents", "join", folder / f"lab{n}.invitation", *pool, "--output", batch)
                assert done.code == 0, done.err
                said[n] = done.out
                if "open: fill in" in done.out:
                    empty = cli("agents", "tell", folder / f"lab{n}.agent", batch, *pool)
                    assert f"No new value in {batch}" in empty.out.replace("\n", "")
                    fill(batch)
                    told = cli("agents", "tell", folder / f"lab{n}.agent", batch, *pool)
                    assert "new value" in told.out
            if all("The run is over." in text for text in said):
                break
    assert all("may still be the best: c" in text for text in said), said
    shown = cli("agents", "status", run).out
    assert "the run is over" in shown
    assert "Refused: 0 acts." in shown
    own = json.loads(cli("agents", "join", folder / "lab0.invitation", *pool, "--offline", "--json").out)
    status = json.loads(cli("agents", "status", run, "--json").out)
    assert len(own["left"]) == status["active"]
    assert status["best"]["id"] in own["left"]
    unreachable = cli("agents", "join", folder / "lab0.invitation", *pool)
    assert "cannot be reached" in unreachable.err
    assert "Nothing is lost" in unreachable.err
