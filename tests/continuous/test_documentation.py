"""The code of docs/continuous.md runs."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

PAGE = Path(__file__).resolve().parents[2] / "docs" / "continuous.md"


def test_the_examples_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
    assert len(blocks) == 5
    names: dict[str, object] = {}
    for block in blocks[:1]:
        exec(compile(block, PAGE.name, "exec"), names)
    assert names["result"].best.mean == pytest.approx(0.398, abs=0.05)  # type: ignore[attr-defined]
    for block in blocks[1:]:
        exec(compile(block, PAGE.name, "exec"), names)
    assert (tmp_path / "run.npz").exists()
