"""Every cited address "theory §N.M" is a heading of docs/theory.md, and its sections name their modules."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
THEORY = ROOT / "docs" / "theory.md"
CITATION = re.compile(r"\btheory(?:\.md)?\s+§\s*(\d+(?:\.\d+)*)?")
HEADING = re.compile(r"^#{2,3} (\d+(?:\.\d+)?)\.? \S", re.MULTILINE)
FEWEST_CITATIONS = 80  # a pattern that no longer matches would find none


def texts() -> dict[Path, str]:
    """Source, tests, benchmarks and documents, without this file."""
    paths = [path for folder in ("src", "tests", "benchmarks") for path in (ROOT / folder).rglob("*.py")]
    paths += [*(ROOT / "docs").glob("*.md"), *ROOT.glob("*.md")]
    return {path: path.read_text(encoding="utf-8") for path in paths if path != Path(__file__).resolve()}


def citations() -> list[tuple[str, str]]:
    """Where each citation stands, and the number it cites, empty when there is none."""
    found = []
    for path, text in texts().items():
        for match in CITATION.finditer(text):
            line = text.count("\n", 0, match.start()) + 1
            found.append((f"{path.relative_to(ROOT)}:{line}", match[1] or ""))
    return found


def headings() -> list[str]:
    return HEADING.findall(THEORY.read_text(encoding="utf-8"))


def test_every_citation_of_the_theory_has_a_heading() -> None:
    found, known = citations(), set(headings())
    assert len(found) >= FEWEST_CITATIONS
    missing = [f"{place} cites theory §{number}" for place, number in found if number not in known]
    assert not missing, "docs/theory.md has no such heading:\n" + "\n".join(missing)


def test_every_subsection_names_modules_that_exist() -> None:
    """The line "Code:" under each numbered heading of the sections with formulas and experiments."""
    parts = re.split(r"^### (\d+\.\d+) .*\n", THEORY.read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]
    sections = dict(zip(parts[::2], parts[1::2], strict=True))
    assert {number for number in headings() if "." in number} == set(sections)
    for number, text in sections.items():
        line = text.lstrip("\n").splitlines()[0]
        assert line.startswith("Code: "), f"theory §{number} does not begin with its modules"
        modules = re.findall(r"`([^`]+)`", line)
        assert modules
        missing = [name for name in modules if not (ROOT / "src" / "manyarms" / name).is_file()]
        assert not missing, f"theory §{number} names {missing}"


def test_headings_are_numbered_once_and_in_order() -> None:
    numbers = headings()
    assert [number for number, times in Counter(numbers).items() if times > 1] == []
    keys = [tuple(map(int, number.split("."))) for number in numbers]
    assert keys == sorted(keys)
    assert {key[0] for key in keys} == set(range(1, keys[-1][0] + 1))


def test_sections_that_the_page_itself_names_exist() -> None:
    """Such as "section 4.4" or "sections 5.9 to 5.14"."""
    text, known = THEORY.read_text(encoding="utf-8"), set(headings())
    named = re.findall(r"\bsections? (\d+(?:\.\d+)?)(?: (?:and|to) (\d+(?:\.\d+)?))?", text)
    numbers = {number for pair in named for number in pair if number}
    assert numbers
    assert numbers <= known


def test_nothing_cites_a_document_outside_the_repository() -> None:
    found = [str(path.relative_to(ROOT)) for path, text in texts().items() if re.search(r"\bspec\s+§", text)]
    assert not found, f"these cite a specification: {found}"
