"""Every Python example of the pages runs."""

from __future__ import annotations

import pytest

from tests.docs.pages import run_page


def test_scikit_learn(tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    names = run_page("docs/scikit-learn.md")
    assert len(names["search"].cv_results_["params"]) == 30
    assert names["model"].score(names["X"], names["y"]) > 0.95
