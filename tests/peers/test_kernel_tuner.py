"""The strategy runs in Kernel Tuner's simulation mode, keeps to its restrictions and limits, and learns."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import kernel_tuner
import numpy as np
import pytest

import manyarms as ma
import manyarms.kernel_tuner

PARAMETERS: dict[str, list[Any]] = {
    "block_size_x": [16, 32, 64, 128, 256],
    "tile": [1, 2, 3, 4, 5, 6, 7, 8],
    "unroll": [0, 1],
    "layout": ["row", "column"],
}


def milliseconds(x: int, tile: int, unroll: int, layout: str) -> float | str:
    """The time of a configuration, or the error that Kernel Tuner writes for one that cannot be compiled."""
    if x == 256 and tile == 8:
        return "CompilationFailedConfig"
    return 10 + abs(x - 64) / 16 + (tile - 5) ** 2 + (unroll == 0) + 3 * (layout == "row")


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    """A complete cache file of this space."""
    names, entries = list(PARAMETERS), {}
    for values in itertools.product(*PARAMETERS.values()):
        entry = dict(zip(names, values, strict=True))
        time = milliseconds(*values)
        times = {} if isinstance(time, str) else {"times": [time] * 3}
        costs = dict.fromkeys(("compile_time", "verification_time", "benchmark_time", "framework_time"), 1.0)
        entries[",".join(map(str, values))] = {**entry, "time": time, **times, **costs, "strategy_time": 0}
    path = tmp_path / "cache.json"
    head = {"device_name": "a device", "kernel_name": "k", "problem_size": 1024}
    head |= {"tune_params_keys": names, "tune_params": PARAMETERS, "objective": "time", "cache": entries}
    path.write_text(json.dumps(head))
    return path


def tune(cache: Path, restrictions: list[str] | None = None, **options: Any) -> list[dict[str, Any]]:
    results, _ = kernel_tuner.tune_kernel(
        "k",
        "__global__ void k(float *x) {}",
        1024,
        [np.zeros(4, dtype=np.float32)],
        PARAMETERS,
        restrictions=restrictions,
        strategy=manyarms.kernel_tuner,
        strategy_options=options,
        simulation_mode=True,
        cache=str(cache),
        quiet=True,
    )
    return results


def test_the_best_of_160_configurations_is_found_with_30(cache: Path) -> None:
    results = tune(cache, max_fevals=30)
    best = min((r for r in results if "__error__" not in r), key=lambda r: r["time"])
    assert {name: best[name] for name in PARAMETERS} == {
        "block_size_x": 64, "tile": 5, "unroll": 1, "layout": "column",
    }  # fmt: skip


def test_the_number_of_evaluations_is_kept_and_none_is_repeated(cache: Path) -> None:
    results = tune(cache, max_fevals=25)
    tried = [tuple(result[name] for name in PARAMETERS) for result in results]
    assert len(tried) == len(set(tried)) == 25


def test_restrictions_are_respected(cache: Path) -> None:
    results = tune(cache, ["block_size_x * tile <= 256", "unroll == 1"], max_fevals=20)
    assert len(results) == 20
    assert all(r["block_size_x"] * r["tile"] <= 256 and r["unroll"] == 1 for r in results)


def test_without_a_limit_every_configuration_is_tried_once(cache: Path) -> None:
    results = tune(cache, ["tile <= 2", "unroll == 0"])
    assert len({tuple(r[name] for name in PARAMETERS) for r in results}) == len(results) == 20


def test_configurations_that_fail_do_not_stop_the_search(cache: Path) -> None:
    results = tune(cache, ["tile == 8"], max_fevals=20)
    failed = [r for r in results if r["block_size_x"] == 256]
    assert len(results) == 20
    assert len(failed) == 4


def test_the_given_configuration_comes_first(cache: Path) -> None:
    first = tune(cache, max_fevals=5, x0=(128, 3, 0, "row"))[0]
    assert [first[name] for name in PARAMETERS] == [128, 3, 0, "row"]


def test_seeds_and_batches(cache: Path) -> None:
    def tried(**options: Any) -> list[tuple[Any, ...]]:
        results = tune(cache, max_fevals=24, **options)
        return [tuple(result[name] for name in PARAMETERS) for result in results]

    assert tried(seed=1) == tried(seed=1) != tried(seed=2)
    assert len(set(tried(batch_size=7))) == 24


def test_a_policy_of_one_s_own(cache: Path) -> None:
    assert len(tune(cache, max_fevals=12, policy=ma.GPTS())) == 12


@pytest.mark.parametrize(
    ("options", "message"),
    [({"x0": (1, 2)}, "x0"), ({"batch_size": 0}, "batch_size"), ({"speed": 3}, "speed")],
)
def test_what_is_refused(cache: Path, options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        tune(cache, max_fevals=5, **options)
