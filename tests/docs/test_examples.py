"""Every example and command of the pages runs."""

from __future__ import annotations

import re

import pytest

import manyarms as ma
from tests.docs.pages import ROOT, blocks, run_page
from tests.docs.stages import stage_of

# Pages whose examples need libraries that only `make test-peers` installs (tests/peers/test_pages.py).
IN_PEERS = {"docs/coming-from.md", "docs/optuna.md", "docs/kernel-tuner.md"}
IN_TORCH = {"docs/coming-from-botorch.md"}  # `make test-torch` (tests/torch/test_pages.py)
CLUSTERS = {"docs/scale.md"}
QUICK = ["README.md", "docs/tour.md"]
ALL = [
    path.relative_to(ROOT).as_posix() for path in [*sorted((ROOT / "docs").glob("*.md")), ROOT / "README.md"]
]
PAGES = [page for page in ALL if blocks(page)]
WITHOUT_EXAMPLES = {"docs/api.md", "docs/faq.md", "docs/index.md", "docs/measurements.md", "docs/theory.md"}


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("page", [page for page in PAGES if page not in IN_PEERS | IN_TORCH | CLUSTERS])
def test_examples_run(page: str) -> None:
    run_page(page, stage_of(page))


@pytest.mark.slow
@pytest.mark.parametrize("page", sorted(CLUSTERS))
def test_examples_run_on_a_cluster(page: str) -> None:
    run_page(page, stage_of(page))


@pytest.mark.parametrize("page", QUICK)
def test_quick_examples_run(page: str) -> None:
    run_page(page, only="python")


def test_no_page_is_left_out() -> None:
    assert set(PAGES) == set(ALL) - WITHOUT_EXAMPLES
    assert set(PAGES) >= IN_PEERS | IN_TORCH | CLUSTERS | set(QUICK)


def test_every_public_name_is_in_the_reference() -> None:
    text = (ROOT / "docs" / "api.md").read_text(encoding="utf-8")
    assert [name for name in ma.__all__ if not re.search(rf"[ .]{name}\b", text)] == []


def test_a_failing_example_is_found(tmp_path) -> None:
    page = tmp_path / "page.md"
    for broken in ("```python\nassert 1 == 2\n```", "```bash\nfalse\n```", "    manyarms nonsense"):
        page.write_text(f"# Page\n\n{broken}\n", encoding="utf-8")
        with pytest.raises(AssertionError):
            run_page(str(page))


@pytest.mark.parametrize("page", ALL)
def test_every_block_has_a_language(page: str) -> None:
    """A block without a language would neither be run nor be coloured."""
    known = r"^```(python|bash|text|toml|ini|json|\{[\w-]+\}.*)$"
    fences = re.findall(r"^```.*$", (ROOT / page).read_text(encoding="utf-8"), re.MULTILINE)
    assert not [fence for fence in fences[::2] if not re.match(known, fence)]
    assert set(fences[1::2]) <= {"```"}
