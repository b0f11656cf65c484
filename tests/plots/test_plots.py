"""Every chart from every source: a valid description, a picture, and one sentence where there is none."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import manyarms as ma
from manyarms.campaigns.report.figures import SECTIONS
from manyarms.errors import InvalidParameterError, MissingExtraError
from manyarms.plots.plot import Plot
from tests.campaigns.reports import nasty_report, real_report
from tests.campaigns.test_report_page import SHAPES, campaign

CHARTS: dict[str, Callable[[Any], Plot]] = {
    "progress": lambda source: ma.plots.progress(source, optimum=2.0),
    "regret": lambda source: ma.plots.regret(source, optimum=2.0),
    "predicted": ma.plots.predicted,
    "calibration": ma.plots.calibration,
    "importance": ma.plots.importance,
    "effect": ma.plots.effect,
    "batches": ma.plots.batches,
    "seconds": lambda source: ma.plots.batches(source, "seconds"),
    "dictionary": lambda source: ma.plots.batches(source, "dictionary"),
    "pool_map": ma.plots.pool_map,
}


def searched(minimize: bool = False) -> ma.Result:
    rng = np.random.default_rng(3)
    features = rng.random((150, 2))
    values = np.sin(5 * features[:, 0]) + features[:, 1]

    def measure(arm: ma.Arm) -> float:
        return float("nan") if arm.index % 17 == 0 else float(values[arm.index] + 0.05 * rng.normal())

    search = ma.minimize if minimize else ma.maximize
    return search(measure, ma.Pool(features, names=["heat", "time"]), budget=40, seed=0)


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    result = searched()
    folder = tmp_path_factory.mktemp("campaign")
    rng = np.random.default_rng(4)
    rows = "\n".join(f"c{i},{a:.4f},{b:.4f}" for i, (a, b) in enumerate(rng.random((80, 2)).tolist()))
    (folder / "pool.csv").write_text(f"name,heat,time\n{rows}\n", encoding="utf-8")
    made = ma.Campaign.new(folder / "c.db", folder / "pool.csv", id="name")
    for _ in range(3):
        batch = made.ask(8)
        made.tell(
            {**batch, "value": [a + 0.1 * b for a, b in zip(batch["heat"], batch["time"], strict=True)]}
        )
    return {
        "optimizer": result.optimizer,
        "result": result,
        "campaign": made,
        "minimised": searched(minimize=True),
    }


@pytest.mark.parametrize("source", ["optimizer", "campaign", "minimised"])
@pytest.mark.parametrize("name", CHARTS)
def test_every_chart_is_a_valid_description(sources: dict[str, Any], source: str, name: str) -> None:
    plot = CHARTS[name](sources[source])
    made = plot.chart.to_dict()  # Altair checks it against the schema of Vega-Lite
    assert made["datasets"] == plot.tables
    assert made["title"]["text"] == plot.title
    assert plot.caption
    assert all(sentence for sentence in plot.caption)
    page = plot.spec()
    assert page["width"] == "container"
    assert "config" not in page
    json.dumps(page, allow_nan=False)
    assert any(plot.tables.values())


def test_a_result_shows_its_optimizer(sources: dict[str, Any]) -> None:
    assert ma.plots.progress_data(sources["result"]) == ma.plots.progress_data(sources["optimizer"])


def test_results_of_a_run_are_those_of_its_trace_and_its_history() -> None:
    result = searched()
    run = result.optimizer
    run.tell(arms=[3, 3], rewards=[10.0, 20.0])
    data = ma.plots.progress_data(run)
    finite = result.rewards[~np.isnan(result.rewards)]
    assert data.n_values == len(finite) + 2
    assert data.n_failed == np.isnan(result.rewards).sum()
    assert data.best[-1][1] == pytest.approx(
        15.0
    )  # results that were not asked for are known by their average
    best = run.best()
    last = data.model[-1]
    assert (last.batch, last.mean, last.lower, last.upper) == (None, best.mean, best.lower, best.upper)


def test_looking_changes_nothing(sources: dict[str, Any]) -> None:
    run = searched().optimizer
    before = run.compact().to_bytes()
    for draw in CHARTS.values():
        draw(run)
    assert run.compact().to_bytes() == before


@pytest.mark.parametrize("ending", [".png", ".svg", ".html", ".json"])
def test_a_chart_can_be_saved(sources: dict[str, Any], tmp_path: Path, ending: str) -> None:
    place = tmp_path / f"chart{ending}"
    ma.plots.progress(sources["optimizer"]).save(place)
    start = place.read_bytes()[:200]
    expected = {".png": b"\x89PNG", ".svg": b"<svg", ".html": b"<!DOCTYPE html>", ".json": b"{"}
    assert start.lstrip().startswith(expected[ending])


def test_other_files_and_sources_are_refused(sources: dict[str, Any], tmp_path: Path) -> None:
    plot = ma.plots.progress(sources["optimizer"])
    with pytest.raises(InvalidParameterError, match=r"\.png"):
        plot.save(tmp_path / "chart.docx")
    assert not [*tmp_path.iterdir()]
    with pytest.raises(InvalidParameterError, match="source"):
        ma.plots.progress([1.0, 2.0])
    with pytest.raises(InvalidParameterError, match="optimum"):
        ma.plots.regret(sources["optimizer"], optimum=float("nan"))
    with pytest.raises(InvalidParameterError, match="show"):
        ma.plots.batches(sources["optimizer"], "colour")


def test_a_notebook_shows_the_chart(sources: dict[str, Any]) -> None:
    shown = ma.plots.batches(sources["optimizer"])._repr_mimebundle_()
    bundle = shown[0] if isinstance(shown, tuple) else shown
    assert any("vega" in kind or "html" in kind for kind in bundle)


def test_without_altair_the_data_are_there_and_charts_say_what_is_missing(
    sources: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "altair", None)
    assert ma.plots.progress_data(sources["optimizer"]).n_values
    with pytest.raises(MissingExtraError, match=r"manyarms\[plots\]"):
        ma.plots.progress(sources["optimizer"])


def test_the_import_of_plots_does_not_load_altair() -> None:
    code = "import sys, manyarms as ma; ma.plots.progress_data; print('altair' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


@pytest.mark.parametrize("shape", SHAPES)
def test_vega_draws_every_shape_of_campaign(shape: str) -> None:
    """The drawing itself, by the same Vega as in a browser: no number of it is NaN."""
    import vl_convert

    view = replace(campaign(SHAPES[shape]), optimum=4.0).view()
    for draw in SECTIONS.values():
        for plot in draw(view):
            if isinstance(plot, Plot):
                svg = vl_convert.vegalite_to_svg(json.dumps(plot.chart.to_dict(validate=False)))
                assert "NaN" not in svg, plot.title
                assert "Infinity" not in svg, plot.title


def test_texts_of_users_are_data_and_never_expressions() -> None:
    """Names stand in data and titles; a field or an expression made from one could run."""
    for made in (nasty_report(), real_report(60)):
        plots = [plot for draw in SECTIONS.values() for plot in draw(made.view()) if isinstance(plot, Plot)]
        specs = [{**plot.spec(), "datasets": None} for plot in plots]
        fields = {value for spec in specs for key, value in walk(spec) if key in ("field", "expr")}
        known = "x y id role start end lower upper mean name share found left right floor top reason size"
        assert fields <= {*known.split(), "column", "place", "value", "kind", "height", "height - 9"}


def walk(value: Any, key: str = "") -> list[tuple[str, Any]]:
    if isinstance(value, dict):
        return [pair for name, each in value.items() for pair in walk(each, name)]
    if isinstance(value, list):
        return [pair for each in value for pair in walk(each, key)]
    return [(key, value)]
