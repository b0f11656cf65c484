"""The examples of the page about BoTorch, Ax and BayBE run, and all of them search well."""

from __future__ import annotations

import numpy as np
import pytest

from tests.docs.pages import run_page


@pytest.mark.slow
@pytest.mark.filterwarnings("default")  # these libraries and those below them warn about each other
def test_coming_from_botorch(tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    names = run_page("docs/coming-from-botorch.md")
    value = names["value"]
    assert len(names["result"].arms) == len(names["tried"]) == len(names["measured"]) == 30
    assert len(names["campaign"].measurements) == 30
    assert value[names["result"].best.arm] == value.max()
    for found in (value[names["tried"]].max(), value[names["measured"]].max()):
        assert found > np.quantile(value, 0.98)
    assert names["campaign"].measurements["value"].max() > np.quantile(value, 0.98)
