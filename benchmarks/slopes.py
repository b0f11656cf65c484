"""Cost of a step as a function of t, A and m, with fitted exponents: constant in t, linear in A and in m.

`python -m benchmarks.slopes FOLDER` measures and draws `cost-slopes.png` and `.svg` there.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

import manyarms as ma
from benchmarks import Row, at_most
from benchmarks.timing import median_seconds, one_thread
from manyarms.reproduce.curves import Curve, Grid, Panel, fitted_slope

KERNEL, RIDGE = ma.RBF(5**0.5), 0.2


@dataclass(frozen=True)
class Sweep:
    """The quantity that varies, those held fixed, and the largest exponent allowed (the bar)."""

    varies: str
    held: str
    sizes: tuple[int, ...]
    step: Callable[[int], Callable[[], object]]
    bar: float

    def seconds(self, repeats: int) -> np.ndarray:
        return np.array([median_seconds(self.step(size), repeats) for size in self.sizes])


def posterior_step(n_arms: int, sketch_size: int) -> Callable[[], object]:
    """Append one inducing arm and its reward at this sketch size; not committed, so it can be repeated."""
    rng = np.random.default_rng(0)
    pool = ma.Pool(rng.normal(size=(n_arms, 8)))
    arms, rewards = rng.permutation(n_arms)[: sketch_size + 1], rng.normal(size=sketch_size + 1)
    posterior = ma.Posterior(pool, KERNEL, RIDGE)
    posterior.update(arms[:-1], arms[:-1], rewards[:-1])
    step = lambda: posterior.updated(arms[-1:], arms[-1:], rewards[-1:])  # noqa: E731
    step()
    return step


def run_step(pulls: int, n_arms: int, different: int) -> Callable[[], object]:
    """An ask and a tell of a BKB run after t = `pulls` pulls of few different arms."""
    rng = np.random.default_rng(0)
    policy = ma.BKB(kernel=KERNEL, ridge=RIDGE, noise_std=0.1, width=0.0)
    opt = ma.Optimizer(ma.Pool(rng.normal(size=(n_arms, 8))), policy, seed=0)
    arms = rng.integers(different, size=pulls)
    opt.tell(arms=arms, rewards=rng.normal(size=pulls) + (arms == 0))

    def step() -> None:
        batch = opt.ask()
        opt.tell(batch, np.ones(len(batch)))

    step()
    return step


def sweeps(smoke: bool) -> list[Sweep]:
    """One sweep each over t, A and m."""
    n_arms, m = (300, 20) if smoke else (20_000, 200)
    t_sizes = (50, 100, 200) if smoke else (1_000, 4_000, 16_000, 64_000, 256_000)
    a_sizes = (200, 400, 800) if smoke else (10_000, 20_000, 40_000, 80_000, 160_000)
    m_sizes = (5, 10, 20) if smoke else (100, 200, 400, 800, 1_600)
    return [
        Sweep("t", f"A = {n_arms}, {m} different arms", t_sizes, lambda t: run_step(t, n_arms, m), 0.2),
        Sweep("A", f"m = {m}", a_sizes, lambda a: posterior_step(a, m), 1.15),
        Sweep("m", f"A = {n_arms}", m_sizes, lambda size: posterior_step(n_arms, size), 1.25),
    ]


def exponents(smoke: bool) -> list[Row]:
    """Seconds at the ends of each sweep, and the exponent of the least-squares fit."""
    rows = []
    for sweep in sweeps(smoke):
        seconds = sweep.seconds(3 if smoke else 15)
        slope = fitted_slope(sweep.sizes, seconds)
        note = f"{sweep.sizes[0]} to {sweep.sizes[-1]}: {seconds[0]:.2g} to {seconds[-1]:.2g} s"
        rows.append(
            at_most(f"exponent of a step in {sweep.varies}, {sweep.held}", slope, sweep.bar, note=note)
        )
    return rows


def figure_data(measured: list[tuple[Sweep, np.ndarray]]) -> Grid:
    """One panel per sweep, with the measured points and the fitted power law."""
    panels = []
    low, high = min(s.min() for _, s in measured), max(s.max() for _, s in measured)
    for sweep, seconds in measured:
        sizes, slope = np.array(sweep.sizes, dtype=float), fitted_slope(sweep.sizes, seconds)
        fit = np.exp(np.mean(np.log(seconds) - slope * np.log(sizes))) * sizes**slope
        curves = (
            Curve("measured", sizes, seconds, kind="points"),
            Curve("fitted power", sizes, fit),
        )
        title = f"{sweep.varies}^{slope:.2f}   ({sweep.held})"
        panels.append(
            Panel(
                title,
                sweep.varies,
                "CPU seconds of a step",
                curves,
                log_x=True,
                log_y=True,
                y_limits=(low / 2, 2 * high),
            )
        )
    return (tuple(panels),)


def draw(folder: Path) -> None:
    """Measure all sweeps and draw the figure into the folder."""
    from manyarms.reproduce.figures import save_figure

    with one_thread():
        measured = [(sweep, sweep.seconds(15)) for sweep in sweeps(smoke=False)]
    for path in save_figure(figure_data(measured), "Cost of one step", "", folder / "cost-slopes"):
        print(path)


BENCHMARKS = [exponents]

if __name__ == "__main__":
    draw(Path(sys.argv[1]))
