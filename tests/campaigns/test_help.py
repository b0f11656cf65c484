"""`--help` shows every default, and each default shown is the value that is used."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import typer.main
import typer.rich_utils
from typer.testing import CliRunner

from manyarms.campaigns.campaign import Campaign
from manyarms.campaigns.next_batch import current
from manyarms.campaigns.queries import batches, snapshot
from manyarms.cli.main import app
from tests.campaigns.support import cli, command, made, step, write_pool

COMMANDS: dict[str, Any] = dict(typer.main.get_command(app).commands)
COMMANDS |= {f"token {name}": each for name, each in COMMANDS["token"].commands.items()}

# The text in `[default: …]` of every option that has one. Typer puts brackets around a described default.
ENGINE = {"--engine": "(that of the campaign)"}
DEFAULTS = {
    "new": {
        "--id": "(row number)",
        "--features": "(all usable columns)",
        "--categories": "(columns with few different texts)",
        "--cost": "(trials cost alike)",
        "--delimiter": "(found)",
        "--encoding": "(found)",
        "--decimal": "(found)",
        "--sheet": "(the only one)",
        "--maximize": "(maximize)",
        "--kernel": "(learned from the results)",
        "--lengthscale": "(auto)",
        "--smoothness": "(2.5)",
        "--noise": "(auto)",
        "--signal": "(auto)",
        "--mean": "(auto)",
        "--policy": "(BBKB, with its local stopping rule when the model is learned)",
        "--width": "(1.5; 1 for Thompson sampling)",
        "--seed": "(0)",
        "--budget": "(no limit)",
        "--cost-budget": "(no limit)",
        "--repeats": "(forbid)",
        "--failures": "(learn)",
        "--max-failures": "(by the outcomes, at most 3; with drop 1)",
        "--storage": "(float64; float32 for large pools)",
        "--engine": "(local)",
        "--engine-ca": "(Dask's configuration)",
        "--engine-cert": "(Dask's configuration)",
        "--engine-key": "(Dask's configuration)",
    },
    "ask": {
        "-n": "(the policy's stopping rule decides)",
        "--lease": "(never)",
        "--until-gap": "(never)",
        "--until-gain": "(never)",
        "--max-cost": "(no limit)",
        "--per-cost": "(as the campaign was created)",
        **ENGINE,
    },
    "status": ENGINE,
    "correct": {"--who": "(the user and the machine)"},
    "untell": {"--who": "(the user and the machine)"},
    "add": {
        "--delimiter": "(found)",
        "--encoding": "(found)",
        "--decimal": "(found)",
        "--sheet": "(the only one)",
    },
    "best": {"-k": "20", **ENGINE},
    "explain": ENGINE,
    "serve": {"--host": "127.0.0.1", "--port": "8765"},
    "token new": {
        "--campaign": "(every campaign)",
        "--scope": "read,ask,tell",
        "--days": "(never)",
    },
    "history": {"--last": "20"},
    "report": {"--html": "(NAME.html, after the campaign's name)", "-k": "20", **ENGINE},
    "run": {
        **ENGINE,
        "--value-pattern": "(the last number)",
        "--workers": "1",
        "--batch": "(no rounds: a free worker never waits)",
        "--trials": "(no limit)",
        "--until": "(no target)",
        "--until-gap": "(never)",
        "--until-gain": "(never)",
        "--timeout": "(no limit)",
        "--retries": "1",
        "--lease": "300.0",
    },
    "work": {
        "--value-pattern": "(the last number)",
        "--workers": "1",
        "--trials": "(no limit)",
        "--until": "(no target)",
        "--until-gap": "(never)",
        "--until-gain": "(never)",
        "--timeout": "(no limit)",
        "--retries": "1",
        "--lease": "300.0",
        "--name": "(the machine and the process)",
        "--patience": "3600.0",
    },
    "demo": {"--folder": "build/demo", "--port": "8765", "--browser": "browser"},
    "reproduce": {"--out": "(reproduction/NAME)", "--workers": "(one per core)"},
}


PLAIN = {"NO_COLOR": "1", "TERM": "dumb", "GITHUB_ACTIONS": None, "FORCE_COLOR": None, "PY_COLORS": None}


def on_one_line(page: str) -> str:
    """A page without frames."""
    assert "\x1b" not in page
    return re.sub(r"[\s│╭╮╰╯─]+", " ", page)


@pytest.fixture
def shown_help(monkeypatch: pytest.MonkeyPatch) -> Callable[..., str]:
    """What `--help` prints on a wide terminal without colours, on one line and without frames."""
    monkeypatch.setattr(typer.rich_utils, "MAX_WIDTH", 250)
    monkeypatch.setattr(typer.rich_utils, "FORCE_TERMINAL", None)

    def shown(*arguments: str) -> str:
        done = CliRunner().invoke(
            app, [*arguments, "--help"], prog_name="manyarms", env=PLAIN, catch_exceptions=False
        )
        assert done.exit_code == 0, done.stderr
        return on_one_line(done.stdout)

    return shown


@pytest.mark.parametrize("name", COMMANDS)
def test_help_shows_every_text_and_every_default(name: str, shown_help: Callable[..., str]) -> None:
    page = shown_help(*name.split())
    expected = DEFAULTS.get(name, {})
    for parameter in COMMANDS[name].params:
        if parameter.name == "help":
            continue
        assert parameter.help, f"{name} {parameter.name} has no help text"
        assert re.fullmatch(r"[A-Z].*\.", parameter.help), f"not a sentence: {parameter.help}"
        default = next((expected[flag] for flag in parameter.opts if flag in expected), None)
        shown = " ".join(parameter.help.split()) + ("" if default is None else f" [default: {default}]")
        assert shown in page, shown
    assert page.count("[default: ") == len(expected)
    assert COMMANDS[name].help.split("\n\n")[0] in page


def test_the_list_of_commands_says_what_each_one_does(shown_help: Callable[..., str]) -> None:
    page = shown_help()
    for name, each in COMMANDS.items():
        if " " in name:  # in the list of its own group
            continue
        first = each.help.split("\n\n")[0]
        assert f"{name} {first}" in page
        assert re.fullmatch(r"[A-Z].*\.", first)


# ------------------------------------------------------------------ the values really used


def created(folder: Path, *options: object) -> Any:
    """The status of a new campaign with these options."""
    name = f"c{len(list(folder.glob('*.db')))}.db"
    done = cli("new", folder / name, "--pool", folder / "pool.csv", *options, "--json")
    assert done.code == 0, done.err
    return done.json


def test_defaults_of_new(tmp_path: Path) -> None:
    points = np.random.default_rng(0).random((30, 2))
    (tmp_path / "pool.csv").write_text("x1,x2\n" + "".join(f"{a},{b}\n" for a, b in points))
    found = created(tmp_path)
    assert found["pool"]["id"] is None
    assert (found["goal"], found["kernel"], found["seed"]) == ("maximise", "auto", 0)
    assert (found["budget"], found["repeats"], found["max_failures"]) == (None, "forbid", "auto")
    assert found["policy"] == {"name": "BBKB", "width": "auto", "local": True}
    with Campaign(tmp_path / "c0.db") as campaign:
        assert campaign.pool.names == ["x1", "x2"]
        assert campaign.settings.storage == "float64"
        issued = campaign.ask()
        rows = "".join(f"{each.code},{each.columns['x1']}\n" for each in issued)
        campaign.tell_bytes(f"ticket,value\n{rows}".encode(), "r.csv")
        run, _ = current(campaign.model_input, snapshot(campaign))
        assert run.policy.width == 1.5
    given = created(tmp_path, "--kernel", "matern")
    assert given["kernel"]["nu"] == 2.5
    assert given["policy"] == {"name": "BBKB", "width": 1.5}
    assert len(given["assumptions"]) == 4  # length-scales, mean, signal and noise
    assert created(tmp_path, "--kernel", "matern", "--policy", "sgpts")["policy"]["width"] == 1.0


def test_defaults_of_best_history_report_and_ask(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_pool(tmp_path)
    monkeypatch.chdir(tmp_path)
    with made(tmp_path, repeats="forbid") as campaign:
        step(campaign, 25)
    assert len(cli("best", "c.db", "--json").json["best"]) == 20
    found = cli("history", "c.db", "--json").json
    assert (len(found["results"]), found["total"]) == (20, 25)
    done = cli("report", "c.db", "--json")
    assert (done.json["out"], len(done.json["report"]["top"])) == ("c.html", 20)
    assert (tmp_path / "c.html").is_file()
    assert cli("ask", "c.db", "--json").code == 0
    assert cli("status", "c.db", "--json").json["tickets"]["leased"] == 0  # no lease: tickets never expire
    with Campaign("c.db") as campaign:
        assert batches(campaign)[0]["ended_because"] != batches(campaign)[1]["ended_because"]


def test_defaults_of_run(tmp_path: Path) -> None:
    """One worker, one retry, and no limit but the budget."""
    write_pool(tmp_path)
    made(tmp_path, budget=4).close()
    (tmp_path / "flaky.py").write_text(
        "import os\n"
        "def measure(arm):\n"
        "    with open('attempts', 'a') as log:\n"
        "        log.write(f'{arm.ticket} {os.getpid()}\\n')\n"
        "    if arm.ticket == 2:\n"
        "        raise ValueError('broken')\n"
        "    return 1.0\n"
    )
    done = command("run", "c.db", "--python", "flaky:measure", "--json", cwd=tmp_path)
    assert (done.json["measured"], done.json["failed"]) == (3, 1)
    assert done.json["stopped_because"] == "budget spent"
    attempts = [line.split() for line in (tmp_path / "attempts").read_text().splitlines()]
    assert [ticket for ticket, _ in attempts].count("2") == 2
    assert len({process for _, process in attempts}) == 1


# ------------------------------------------------------------------ ways to start it


def module(*arguments: str, **variables: str) -> str:
    """What the command prints as a process of its own."""
    kept = {name: value for name, value in os.environ.items() if PLAIN.get(name, "kept")}
    done = subprocess.run(
        [sys.executable, "-m", "manyarms", *arguments], capture_output=True, text=True, check=False,
        timeout=120, env=kept | variables,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_module_runs_like_the_command(shown_help: Callable[..., str]) -> None:
    assert module("--version") == cli("--version").out
    page = on_one_line(module("ask", "--help", NO_COLOR="1", TERM="dumb", TERMINAL_WIDTH="250"))
    assert "Usage: manyarms ask [OPTIONS]" in page
    assert page == shown_help("ask")


def completed(shell: str, line: str, in_a_process: bool) -> str:
    """What the shell is told when a user presses the tabulator after this line."""
    variables = {
        "COMP_WORDS": line, "COMP_CWORD": str(line.count(" ")), "_TYPER_COMPLETE_ARGS": line,
        "_MANYARMS_COMPLETE": f"complete_{shell}", "_TYPER_COMPLETE_FISH_ACTION": "get-args",
    }  # fmt: skip
    if in_a_process:
        return module(**variables)
    done = CliRunner().invoke(app, [], prog_name="manyarms", env=variables)
    assert done.exit_code == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize(
    ("shell", "in_a_process"),
    [
        ("bash", False),
        ("zsh", False),
        ("fish", False),
        ("bash", True),
        pytest.param("zsh", True, marks=pytest.mark.slow),
        pytest.param("fish", True, marks=pytest.mark.slow),
    ],
)
def test_shell_completion_knows_commands_and_options(shell: str, in_a_process: bool) -> None:
    commands = completed(shell, "manyarms rep", in_a_process)
    assert "report" in commands
    assert "reproduce" in commands
    assert "status" not in commands
    assert "--at-most" in completed(shell, "manyarms ask --at", in_a_process)


def test_completion_can_be_installed_and_shown(shown_help: Callable[..., str]) -> None:
    page = shown_help()
    assert "--install-completion" in page
    assert "--show-completion" in page
    script = module("--show-completion", "bash", _TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION="1")
    assert "_MANYARMS_COMPLETE=complete_bash" in script
