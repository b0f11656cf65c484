"""The demonstration: the commands of a newcomer, what they find, and the live page of the campaign."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from pathlib import Path

import httpx
import numpy as np
import pytest

from manyarms import demo
from manyarms.campaigns.campaign import Campaign
from manyarms.campaigns.queries import batches

COMMAND = [sys.executable, "-m", "manyarms", "demo"]


def test_the_problem_has_numbers_and_texts_and_one_in_a_hundred_is_good() -> None:
    rows, truth = demo.generated_problem(0, 1_000)
    assert {type(cell) for cell in rows[0].values()} == {str, float}
    assert len({row["name"] for row in rows}) == 1_000
    assert 0 <= truth.min() < truth.max() <= 100
    assert np.quantile(truth, 0.5) < 0.5 * truth.max()


def test_no_command_says_anything_about_the_model() -> None:
    for option in ("kernel", "lengthscale", "noise", "signal", "width", "policy"):
        assert not any(option in step for step in (*demo.BEFORE, *demo.AFTER))


def test_the_last_line_can_be_typed_without_an_environment_that_is_activated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    programs = tmp_path / ".venv" / "bin"
    programs.mkdir(parents=True)
    for name in ("python", "manyarms"):
        (programs / name).write_text("#!/bin/sh\n")
        (programs / name).chmod(0o755)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "executable", str(programs / "python"))
    monkeypatch.setenv("PATH", "/nowhere")
    assert demo.page_command(demo.FOLDER) == ".venv/bin/manyarms demo --serve"
    monkeypatch.setenv("PATH", str(programs))
    assert demo.page_command(demo.FOLDER) == "manyarms demo --serve"
    assert demo.page_command(Path("my demo")) == "manyarms demo --serve --folder 'my demo'"


@pytest.mark.slow
def test_the_demonstration_finds_most_of_the_best_and_its_page_opens(tmp_path: Path) -> None:
    done = subprocess.run(COMMAND, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found = int(re.search(r"(\d+) of the 50 best recipes were found", done.stdout)[1])
    assert found >= 30, done.stdout  # random choice finds 3
    assert "finds 3 of them on average (6%)" in done.stdout
    assert done.stdout.rstrip().splitlines()[-1].endswith("manyarms demo --serve")
    folder = tmp_path / "build" / "demo"
    assert "</html>" in (folder / "report.html").read_text(encoding="utf-8")
    with Campaign(folder / "demo.db") as campaign:
        assert [batch["size"] for batch in batches(campaign)] == [50] * 6
    options = ["--serve", "--no-browser", "--port", "0"]
    process = subprocess.Popen([*COMMAND, *options], cwd=tmp_path, stdout=subprocess.PIPE, text=True)
    try:
        address = re.search(r"http://\S+/page/demo", process.stdout.readline())[0]
        assert "Next batch" in httpx.get(address, timeout=60).text
        assert len(httpx.get(f"{address}/model?n=50", timeout=120).json()["figures"]) == 4
    finally:
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=60)
