"""What a visitor finds in the repository: short, true, and the same everywhere."""

from __future__ import annotations

import inspect
import re
import subprocess
import tomllib
from pathlib import Path

import pytest

import manyarms

ROOT = Path(__file__).resolve().parents[2]
PAPERS = [
    "Near-linear time Gaussian process optimization with adaptive batching and resparsification",
    "Gaussian Process Optimization with Adaptive Sketching: Scalable and No Regret",
    "Scalable Thompson Sampling using Sparse Gaussian Process Models",
    "Order-Optimal Regret in Distributed Kernel Bandits using Uniform Sampling with Shared Randomness",
]
MACHINE_PATH = re.compile(
    r"""(?<![\w./~-])(?:/(?:home|Users|root|work|tmp|mnt|opt|private)/[\w.]|[A-Za-z]:\\(?:Users|home)\\)"""
)


def text_of(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def files_of_the_repository() -> list[Path]:
    """Tracked files and those about to be; without git (a source archive) the Python files."""
    try:
        listed = subprocess.run(
            ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
            cwd=ROOT, capture_output=True, check=True, text=True,
        ).stdout.split("\0")  # fmt: skip
    except (OSError, subprocess.CalledProcessError):
        return [path for folder in ("src", "tests") for path in (ROOT / folder).rglob("*.py")]
    return [ROOT / name for name in listed if name and (ROOT / name).is_file()]


def test_readme_is_short_and_has_the_two_set_up_lines() -> None:
    lines = text_of("README.md").splitlines()
    assert len(lines) < 120
    for command in ("make demo", "make test"):
        assert any(line.strip().startswith(command) for line in lines), command


@pytest.mark.parametrize("name", ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md"])
def test_links_between_documents_lead_somewhere(name: str) -> None:
    targets = re.findall(r"\]\((?!https?:|#)([^)#]+)", text_of(name))
    missing = [target for target in targets if not (ROOT / target).exists()]
    assert not missing, f"{name} links to {missing}"


def test_architecture_names_only_modules_that_exist() -> None:
    named = set(re.findall(r"`((?:\w+/)*\w+\.py|\w+/)`", text_of("ARCHITECTURE.md")))
    missing = [
        name for name in sorted(named) if not (ROOT / name).exists() and not [*(ROOT / "src").rglob(name)]
    ]
    assert named
    assert not missing, f"ARCHITECTURE.md names {missing}"


def test_citation_names_the_five_works() -> None:
    citation = text_of("CITATION.cff")
    assert citation.startswith("cff-version: 1.2.0")
    assert re.search(r"^authors:\n\s+- name: \"?The manyarms authors", citation, re.MULTILINE)
    references = citation.split("references:")[1]
    assert len(re.findall(r"^\s+(?:- )?title:", references, re.MULTILINE)) == 5
    for title in PAPERS:
        assert title in references


def test_no_file_names_a_path_of_somebody_s_machine() -> None:
    found = []
    for path in files_of_the_repository():
        if path == Path(__file__).resolve():
            continue
        try:
            lines = path.read_text(encoding="utf-8").splitlines()
        except UnicodeDecodeError:  # a binary file
            continue
        found += [
            f"{path.relative_to(ROOT)}:{n}" for n, line in enumerate(lines, 1) if MACHINE_PATH.search(line)
        ]
    assert not found, f"absolute paths in {found}"


@pytest.mark.parametrize(
    ("line", "is_one"),
    [
        ("see /home/ann/x.py", True),
        ('"/Users/ann"', True),
        (r"C:\Users\ann", True),
        ("src/home/page", False),
        ("https://example.org/home/page", False),
        ("../work/x", False),
    ],
)
def test_machine_paths_are_recognised(line: str, is_one: bool) -> None:
    assert bool(MACHINE_PATH.search(line)) == is_one


def test_one_version_everywhere() -> None:
    project = tomllib.loads(text_of("pyproject.toml"))["project"]["version"]
    newest = re.search(r"^## \[?(\d[^\]\s]*)", text_of("CHANGELOG.md"), re.MULTILINE)
    cited = re.search(r"^version: \"?([^\"\s]+)", text_of("CITATION.cff"), re.MULTILINE)
    assert newest is not None
    assert cited is not None
    assert {project, newest[1], cited[1]} == {manyarms.__version__}


def test_types_are_shipped() -> None:
    assert (Path(manyarms.__file__).parent / "py.typed").is_file()


def test_every_public_name_exists_and_explains_itself() -> None:
    assert len(set(manyarms.__all__)) == len(manyarms.__all__)
    silent = [name for name in manyarms.__all__ if not has_own_docstring(getattr(manyarms, name))]
    assert not silent, f"no docstring: {silent}"


def has_own_docstring(item: object) -> bool:
    if not inspect.isclass(item):
        return bool(item.__doc__)
    generated = f"{item.__name__}("  # what @dataclass writes where nobody wrote anything
    return bool(item.__dict__.get("__doc__")) and not str(item.__doc__).startswith(generated)
