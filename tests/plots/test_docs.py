"""The code of docs/plots.md runs from top to bottom, and the scripts in the package are those listed."""

from __future__ import annotations

import hashlib
import re
from importlib.resources import files
from pathlib import Path

import pytest

import manyarms as ma

PAGE = Path(__file__).resolve().parents[2] / "docs" / "plots.md"


def test_the_page_runs_from_top_to_bottom(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
    assert len(blocks) >= 5
    exec("\n".join(blocks), {})
    assert {path.name for path in tmp_path.iterdir()} == {
        "progress.png",
        "progress.svg",
        "acidity.png",
        "map.png",
    }
    assert "temperature" in capsys.readouterr().out


def test_the_page_names_every_chart() -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert [name for name in ma.plots.__all__ if f"`{name}" not in text] == []


def test_the_scripts_are_those_that_their_list_names() -> None:
    folder = files("manyarms.plots.web").joinpath("vendor")
    listed = re.findall(
        r"^\| `([\w.-]+)` \| ([\w-]+) \| ([\d.]+) \| ([0-9a-f]{64}) \|$",
        folder.joinpath("README.md").read_text(encoding="utf-8"), re.MULTILINE,
    )  # fmt: skip
    assert len(listed) == 3
    for name, package, version, digest in listed:
        content = folder.joinpath(name).read_bytes()
        assert hashlib.sha256(content).hexdigest() == digest
        assert version.encode() in content
        assert "Redistribution" in folder.joinpath(f"{package}.LICENSE").read_text(encoding="utf-8")
    assert {name for name, *_ in listed} == {
        each.name for each in folder.iterdir() if each.name.endswith(".js")
    }
