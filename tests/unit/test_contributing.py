"""The examples of CONTRIBUTING.md run, and what it names exists."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from xml.etree import ElementTree

import pytest

ROOT = Path(__file__).resolve().parents[2]
TEXT = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
SECTIONS = {
    title: re.findall(r"^```python\n(.*?)^```$", body, re.DOTALL | re.MULTILINE)
    for title, body in re.findall(r"^### ([^\n]+)\n(.*?)(?=^##|\Z)", TEXT, re.DOTALL | re.MULTILINE)
}
PARTS = [
    "A kernel",
    "A feature map",
    "A policy",
    "A stopping rule",
    "A selection rule",
    "A width",
    "An inducing rule",
    "An algorithm for many agents",
    "A database of campaigns",
    "An experiment to reproduce",
    "A benchmark",
]
NOT_PASSED = ("failure", "error", "skipped")


def module_of(title: str) -> str:
    return "test_" + re.sub(r"\W+", "_", title.lower())


def test_every_part_has_one_example() -> None:
    assert {title: len(blocks) for title, blocks in SECTIONS.items()} == dict.fromkeys(PARTS, 1)
    assert TEXT.count("```python") == len(PARTS)


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory: pytest.TempPathFactory) -> tuple[ElementTree.Element, str]:
    """Every example as a test module of its own, run by pytest in another process."""
    folder = tmp_path_factory.mktemp("examples")
    for title, blocks in SECTIONS.items():
        (folder / f"{module_of(title)}.py").write_text("".join(blocks), encoding="utf-8")
    results = folder / "results.xml"
    ran = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-W", "error", "-c", os.devnull, "-p", "no:cacheprovider",
         f"--rootdir={folder}", f"--junitxml={results}", str(folder)],
        cwd=ROOT, capture_output=True, text=True, check=False,
        env=os.environ | {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
    )  # fmt: skip
    assert results.exists(), ran.stdout + ran.stderr
    return ElementTree.parse(results).getroot(), ran.stdout


@pytest.mark.parametrize("title", PARTS)
def test_example_runs(title: str, outcomes: tuple[ElementTree.Element, str]) -> None:
    cases, output = outcomes
    own = [
        case
        for case in cases.iter("testcase")
        if module_of(title) in f"{case.get('classname')}.{case.get('name')}".split(".")
    ]
    assert own, f"the example has no test that ran\n{output}"
    bad = [case.get("name") for case in own if any(child.tag in NOT_PASSED for child in case)]
    assert not bad, f"{bad}\n{output}"


def test_paths_and_commands_exist() -> None:
    named = re.findall(r"`([\w./]+/[\w./]*)`", TEXT)
    missing = [
        name
        for name in named
        if not any((root / name).exists() for root in (ROOT, ROOT / "src" / "manyarms"))
    ]
    assert named
    assert not missing, missing
    targets = set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    commands = set(re.findall(r"(?:^    |`)make ([\w-]+)", TEXT, re.MULTILINE))
    assert commands <= targets
    assert {"test", "test-slow", "lint"} <= commands


def test_every_dependency_is_justified() -> None:
    table = TEXT.split("## Dependencies")[1].split("##")[0]
    justified = {
        name
        for row in re.findall(r"^\| ([^|]+) \|", table, re.MULTILINE)
        for name in re.findall(r"[a-z][\w-]+", re.sub(r"\([^)]*\)", "", row))
    }
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]
    required = [*project["dependencies"], *(each for extra in extras.values() for each in extra)]
    names = {re.match(r"[\w-]+", each).group() for each in required} - {"manyarms"}  # type: ignore[union-attr]
    assert names == justified - {"library"}
