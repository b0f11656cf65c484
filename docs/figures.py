"""Draw the figures of the tutorials: `python docs/figures.py` writes them to docs/images."""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

import matplotlib as mpl
import numpy as np
from sklearn.datasets import load_digits, load_wine
from sklearn.model_selection import GridSearchCV
from sklearn.svm import SVC

import manyarms as ma
from manyarms.sklearn import ManyArmsSearchCV

mpl.use("Agg")
import matplotlib.pyplot as plt

ROOT = Path(__file__).resolve().parents[1]
IMAGES = ROOT / "docs" / "images"


def grid_search() -> None:
    """The scores of a whole grid as a map, and the settings that the search tried, in their order."""
    X, y = load_digits(return_X_y=True)
    X, y = X[:600], y[:600]
    C, gamma = np.logspace(-2, 4, 15), np.logspace(-6, 0, 15)
    grid = {"C": C.tolist(), "gamma": gamma.tolist()}
    whole = GridSearchCV(SVC(), grid, cv=3, refit=False).fit(X, y)
    scores = whole.cv_results_["mean_test_score"].reshape(len(C), len(gamma))
    search = ManyArmsSearchCV(SVC(), grid, n_iter=40, cv=3, refit=False).fit(X, y)
    tried = np.log10([[p["gamma"], p["C"]] for p in search.cv_results_["params"]])
    found = np.argmax(search.cv_results_["mean_test_score"])
    figure, axes = plt.subplots(figsize=(6.4, 4.4), layout="constrained")
    image = axes.pcolormesh(np.log10(gamma), np.log10(C), scores, cmap="viridis")
    points = axes.scatter(*tried.T, c=np.arange(len(tried)), cmap="Greys_r", s=28, edgecolors="white", lw=0.6)
    axes.scatter(*tried[found], marker="*", s=220, c="tab:red", edgecolors="white", label="best found")
    axes.set(xlabel="log₁₀ gamma", ylabel="log₁₀ C")
    best = search.cv_results_["mean_test_score"][found]
    axes.set_title(
        f"{len(tried)} of {scores.size} settings tried: {best:.3f}, whole grid: {scores.max():.3f}",
        fontsize=10,
    )
    figure.colorbar(image, label="cross-validated accuracy")
    figure.colorbar(points, label="order of the trials")
    axes.legend(loc="lower left")
    figure.savefig(IMAGES / "grid-search.png", dpi=120)


def laboratory() -> None:
    """Proline of the wines on three plates of 16, against all wines."""
    wines = load_wine(as_frame=True).frame.drop(columns="target")
    proline = wines.pop("proline").to_numpy()
    run = ma.Optimizer(ma.Pool(wines), seed=0, budget=48)
    figure, axes = plt.subplots(figsize=(6.4, 3.4), layout="constrained")
    axes.plot(np.zeros(len(proline)), proline, "_", ms=18, color="lightgrey", label="all 178 wines")
    for plate in (1, 2, 3):
        batch = run.ask(16)
        predicted = run.predict(batch.arms)[0] if plate > 1 else None
        run.tell(batch, proline[batch.arms])
        axes.plot(np.full(16, plate), proline[batch.arms], "o", color="tab:blue", alpha=0.7)
        if predicted is not None:
            axes.plot(np.full(16, plate + 0.15), predicted, "x", color="tab:orange", alpha=0.7)
    axes.plot([], [], "o", color="tab:blue", label="measured on the plate")
    axes.plot([], [], "x", color="tab:orange", label="predicted before")
    axes.set_xticks([0, 1, 2, 3], ["all wines", "plate 1", "plate 2", "plate 3"])
    axes.set_ylabel("proline, mg/l")
    axes.legend(fontsize=8, loc="lower right")
    figure.savefig(IMAGES / "laboratory.png", dpi=120)


def molecules() -> None:
    """The log P of the amides in the order of the trials, and of all amides; from the code of the page."""
    sys.path.insert(0, str(ROOT))
    from tests.docs.pages import run_page

    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        names = run_page("docs/molecules.md", only="python")
    arms, every = names["result"].arms, names["partition"]
    figure, (left, right) = plt.subplots(
        1, 2, figsize=(6.4, 3.2), layout="constrained", sharey=True, width_ratios=[4, 1]
    )
    left.axhline(4.5, color="tab:red", lw=1, label="wanted")
    left.plot(np.arange(1, len(arms) + 1), every[arms], "o", color="tab:blue", alpha=0.7, label="tried")
    left.set(xlabel="trial", ylabel="log P (computed)")
    left.legend(fontsize=8, loc="lower right")
    right.hist(every, bins=40, orientation="horizontal", color="lightgrey")
    right.axhline(4.5, color="tab:red", lw=1)
    right.set(xlabel="amides")
    figure.savefig(IMAGES / "molecules.png", dpi=120)


if __name__ == "__main__":
    grid_search()
    laboratory()
    molecules()
