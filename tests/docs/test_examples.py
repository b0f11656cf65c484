"""Every example of the pages runs."""

from __future__ import annotations

import re

import pytest

from tests.docs.pages import ROOT, blocks, run_page

# Pages whose examples need libraries that only `make test-peers` installs (tests/peers/test_pages.py).
IN_PEERS = {"docs/optuna.md", "docs/kernel-tuner.md"}
QUICK = ["README.md", "docs/tour.md"]
PAGES = sorted(
    path.relative_to(ROOT).as_posix()
    for path in [*(ROOT / "docs").glob("*.md"), ROOT / "README.md"]
    if "```python" in path.read_text(encoding="utf-8")
)


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("page", [page for page in PAGES if page not in {*IN_PEERS, *QUICK}])
def test_examples_run(page: str) -> None:
    run_page(page)


@pytest.mark.parametrize("page", QUICK)
def test_quick_examples_run(page: str) -> None:
    run_page(page)


def test_no_page_is_left_out() -> None:
    assert set(PAGES) >= IN_PEERS
    assert len(PAGES) >= 15


def test_a_failing_example_is_found(tmp_path) -> None:
    page = tmp_path / "page.md"
    for broken in ("```python\nassert 1 == 2\n```", "```bash\nfalse\n```"):
        page.write_text(f"# Page\n\n{broken}\n", encoding="utf-8")
        with pytest.raises(AssertionError):
            run_page(str(page))


def test_every_block_has_a_language() -> None:
    """A block without a language would neither be run nor be coloured."""
    known = r"^```(python|bash|text|toml|json|\{[\w-]+\}.*|\s*)$"
    for page in PAGES:
        fences = re.findall(r"^```.*$", (ROOT / page).read_text(encoding="utf-8"), re.MULTILINE)
        unknown = [fence for fence in fences[::2] if not re.match(known, fence) or fence.strip() == "```"]
        assert not unknown, f"{page}: {unknown}"
        assert blocks(page)
