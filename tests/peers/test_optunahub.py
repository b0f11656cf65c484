"""The folder for OptunaHub holds what its registry asks for, and its example runs."""

from __future__ import annotations

import re
import runpy
import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import optuna
import pytest

from manyarms.optuna import ManyArmsSampler
from tests.docs.pages import run_page

ROOT = Path(__file__).resolve().parents[2]
REGISTRY = Path("integrations/optunahub/package")
FOLDER = ROOT / REGISTRY / "samplers" / "manyarms"


def load_module(package: str) -> ModuleType:
    """What `optunahub.load_module` does with a folder of the registry, here with the one of this project."""
    spec = spec_from_file_location(package.replace("/", "_"), ROOT / REGISTRY / package / "__init__.py")
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(autouse=True)
def hub(monkeypatch: pytest.MonkeyPatch) -> None:
    """`import optunahub` without its download from the internet."""
    monkeypatch.setitem(sys.modules, "optunahub", SimpleNamespace(load_module=load_module))
    optuna.logging.set_verbosity(optuna.logging.WARNING)


def test_the_folder_is_complete() -> None:
    assert {path.name for path in FOLDER.iterdir()} >= {
        "README.md", "__init__.py", "example.py", "LICENSE", "requirements.txt",
    }  # fmt: skip
    head = (FOLDER / "README.md").read_text(encoding="utf-8").split("---")[1]
    keys = re.findall(r"^(\w+):", head, re.MULTILINE)
    assert keys == ["author", "title", "description", "tags", "optuna_versions", "license"]
    assert re.search(r"^tags: \[sampler,", head, re.MULTILINE)


def test_the_module_is_the_sampler() -> None:
    assert load_module("samplers/manyarms").ManyArmsSampler is ManyArmsSampler


def test_the_example_runs() -> None:
    names: dict[str, Any] = runpy.run_path(str(FOLDER / "example.py"))
    assert names["study"].best_params["layout"] == "row"
    assert names["study"].best_value < 0.1


def test_the_example_of_the_readme_runs() -> None:
    names = run_page(str((REGISTRY / "samplers" / "manyarms" / "README.md").as_posix()))
    assert len(names["study"].trials) == 20
