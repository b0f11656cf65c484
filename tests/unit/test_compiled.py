"""When loops are compiled, and what happens where that is not possible."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

from manyarms.support import compiled as module
from manyarms.support.compiled import COMPILED_FROM, available, compiled, worthwhile


def test_small_work_is_not_compiled() -> None:
    assert not worthwhile(1000, 100)
    assert not worthwhile(COMPILED_FROM - 1, 1)
    assert worthwhile(COMPILED_FROM, 1) == available()


def test_asking_about_small_work_does_not_load_numba() -> None:
    code = "import sys; from manyarms.support.compiled import worthwhile; worthwhile(1000, 100); "
    code += "import manyarms.posterior.fused_pass; print('numba' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert done.stdout.strip() == "False"


def test_without_numba_nothing_is_compiled(monkeypatch) -> None:
    monkeypatch.setattr(module, "find_spec", lambda name: None)
    available.cache_clear()
    try:
        assert not worthwhile(COMPILED_FROM, 100)
    finally:
        available.cache_clear()


def test_a_numba_that_does_not_load_is_reported_once(monkeypatch, tmp_path) -> None:
    (tmp_path / "numba").mkdir()
    (tmp_path / "numba" / "__init__.py").write_text("raise ImportError('Numba needs another NumPy')")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "numba", raising=False)
    available.cache_clear()
    try:
        with pytest.warns(RuntimeWarning, match="not used: Numba needs another NumPy"):
            assert not worthwhile(COMPILED_FROM, 100)
        assert not worthwhile(COMPILED_FROM, 100)
    finally:
        available.cache_clear()


def test_a_loop_without_a_place_for_its_cache_is_compiled_anyway() -> None:
    """numba refuses to cache a function without a source file, like one in a folder that it cannot write."""
    scope: dict = {}
    exec("def total(values):\n    s = 0.0\n    for v in values:\n        s += v\n    return s", scope)
    assert compiled(scope["total"])(np.arange(5.0)) == 10.0
