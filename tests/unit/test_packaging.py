"""The files for releases agree with the project: versions, dependencies, targets and commands."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def text_of(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def test_the_conda_recipe_has_the_version_and_the_dependencies() -> None:
    recipe = text_of("packaging/conda/recipe.yaml")
    assert f'version: "{PROJECT["version"]}"' in recipe
    run = recipe.split("  run:\n")[1].split("  run_constraints:")[0]
    listed = dict(re.findall(r"- ([\w-]+) (>=\S+)", run))
    assert listed.pop("python") == PROJECT["requires-python"]
    assert listed == dict(re.findall(r"([\w-]+)(>=\S+)", " ".join(PROJECT["dependencies"])))


def test_the_image_installs_extras_that_exist() -> None:
    (extras,) = set(re.findall(r"\[([\w,-]+)\]\"", text_of("packaging/Dockerfile")))
    assert set(extras.split(",")) <= set(PROJECT["optional-dependencies"])


@pytest.mark.parametrize("name", [".github/workflows/ci.yml", "packaging/RELEASING.md", ".ci/run"])
def test_commands_and_files_exist(name: str) -> None:
    text = text_of(name)
    targets = set(re.findall(r"^([\w-]+):", text_of("Makefile"), re.MULTILINE))
    assert set(re.findall(r"\bmake ([a-z-]+)", text)) <= targets
    for path in re.findall(r"`([\w.-]+/[\w./-]+\.\w+)`", text):
        assert (ROOT / path).exists() or path.startswith("build/"), path


def test_ci_runs_three_versions_from_the_oldest_supported() -> None:
    versions = re.findall(r"python: \[(.*)\]", text_of(".github/workflows/ci.yml"))[0]
    listed = re.findall(r'"([\d.]+)"', versions)
    assert len(listed) == 3
    assert f">={listed[0]}" == PROJECT["requires-python"]
    assert ".ci/run" in text_of(".github/workflows/ci.yml")
