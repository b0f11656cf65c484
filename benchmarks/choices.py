"""Runs of this library on real pools: the pools, the settings compared, and the arms each chooses."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import lru_cache

import numpy as np

import manyarms as ma
from benchmarks import effects, encodings, further, plateaus, spacing
from benchmarks import measured as sources
from manyarms.learning import (
    LearnedModel,
    Prepared,
    design_size,
    initial_design,
    learn,
    prepare,
    should_refit,
)
from manyarms.learning.kernel_families import StationaryFamily
from manyarms.learning.model import MIDRANGE_GROWTH
from manyarms.posterior.history import History

UNBOUNDED = 1e12  # batch_ratio under which a batch of any size keeps its width


@dataclass(frozen=True)
class Setting:
    """A candidate for the default: the library's own loop, or the loop below, in which more can be varied."""

    name: str
    policy: str = "BBKB"  # a policy of the library, or "random"
    by_library: bool = False  # `Optimizer` decides first arms, fits and width, as for a user
    width: float = ma.BBKB.practical
    rewards: str = "auto"
    refresh: bool = False  # learn the reward transform again after every batch
    kernel: str = "auto"  # auto, rbf, matern
    scales: str = "auto"  # auto, shared
    repeats: str = "forbid"
    design: int | None = None
    first: str = "matern"  # the first arms: a k-DPP with this kernel (rbf, matern, short), or uniform
    growth: float = MIDRANGE_GROWTH  # of the number of different arms between fits, in the middle range
    widen: bool = False  # widen β as the batch shrinks variances
    options: tuple[tuple[str, float], ...] = ()
    storage: str | None = None  # of the columns; None leaves it to the library
    needs: tuple[str, ...] = ()  # other libraries, which choose the arms instead of this one (`peer_choices`)


@dataclass(frozen=True)
class Problem:
    """A pool with the true value of every arm and, if there are several measurements per arm, these."""

    name: str
    pool: ma.Pool
    prepared: Prepared
    truth: np.ndarray
    repeats: np.ndarray | None = None
    top: np.ndarray = field(default_factory=lambda: np.empty(0, dtype=bool))

    def pull(self, arms: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        if self.repeats is None:
            return self.truth[arms]
        return self.repeats[arms, rng.integers(self.repeats.shape[1], size=len(arms))]


@lru_cache(maxsize=2)
def problem(name: str) -> Problem:
    """A pool by name; `name:n` is a fixed sample of n of its arms."""
    source, _, size = name.partition(":")
    if source == "generated":
        features, results = sources.generated(3000)
    elif source in encodings.TABLES:
        features, results = encodings.TABLES[source]()
    elif source in plateaus.TABLES:
        features, results = plateaus.TABLES[source]()
    elif source in effects.TABLES:
        features, results = effects.TABLES[source]()
    elif source in spacing.TABLES:
        features, results = spacing.TABLES[source]()
    else:
        known = hasattr(sources, source)
        features, results = getattr(sources, source)() if known else further.load(source)
    if size:
        rows = np.random.default_rng(1).choice(len(features), int(size), replace=False)
        features, results = getattr(features, "iloc", features)[rows], results[rows]
    truth = results if results.ndim == 1 else results.mean(axis=1)
    top = truth >= np.sort(truth)[-max(1, len(truth) // 100)]
    pool = ma.Pool(features)
    return Problem(name, pool, prepare(pool), truth, results if results.ndim > 1 else None, top)


POOLS = ("abalone", "esol", "housing", "enamine", "sgemm")


def _limited(prepared: Prepared, setting: Setting) -> Prepared:
    families = prepared.families
    if setting.kernel != "auto" and isinstance(families[0], StationaryFamily):
        nu = None if setting.kernel == "rbf" else 2.5
        families = tuple(replace(f, nu=nu) for f in families if isinstance(f, StationaryFamily))
    groups = () if setting.scales == "shared" else prepared.groups
    return replace(prepared, families=families, groups=groups)


def _policy(setting: Setting, model: LearnedModel) -> ma.Policy:
    common = {"kernel": model.kernel, "noise_std": model.noise_std, **dict(setting.options)}
    if setting.policy not in ("BBKB", "GPUCB"):
        return getattr(ma, setting.policy)(**common, width=setting.width)
    if setting.policy == "BBKB":
        ratio = 2.0 if setting.widen else UNBOUNDED
        return ma.BBKB(**common, width=setting.width, local=True, batch_ratio=ratio)
    return ma.GPBUCB(**common, width=setting.width, stop="fixed", batch_size=1, batch_ratio=UNBOUNDED)


def _optimizer(
    prepared: Prepared, setting: Setting, model: LearnedModel, history: History, seed: int
) -> ma.Optimizer:
    """A new run that has been given all results so far."""
    optimizer = ma.Optimizer(prepared.pool, _policy(setting, model), seed, repeats=setting.repeats)
    seen = model.targets(history, prepared.pool)
    times = seen.counts.astype(int)
    optimizer.tell(arms=np.repeat(seen.arms, times), rewards=np.repeat(seen.means, times))
    return optimizer


def _first_arms(prepared: Prepared, kind: str, size: int, rng: np.random.Generator) -> np.ndarray:
    if kind == "uniform":
        return rng.permutation(prepared.pool.n_arms)[:size]
    family = prepared.families[0]
    if isinstance(family, StationaryFamily):
        factor, nu = {"rbf": (1.0, None), "matern": (1.0, 2.5), "short": (0.4, 2.5)}[kind]
        family = replace(family, spreads=tuple(factor * s for s in family.spreads), nu=nu)
    return initial_design(replace(prepared, families=(family,)), size, rng)


def chosen_arms(task: Problem, setting: Setting, budget: int, batch: int, seed: int) -> np.ndarray:
    """Arms in the order of their evaluation."""
    rng = np.random.default_rng([seed, 7])
    n_arms = len(task.truth)
    if setting.policy == "random":
        return rng.choice(n_arms, budget, replace=False)
    if setting.by_library:
        return _by_the_library(task, setting, budget, batch, seed, rng)
    prepared = _limited(task.prepared, setting)
    size = setting.design or design_size(task.prepared, budget)
    arms = _first_arms(task.prepared, setting.first, size, rng)
    history = History(n_arms)
    history.add(arms, task.pull(arms, rng))
    model = optimizer = None
    while len(arms) < budget:
        if model is None or should_refit(model, history, setting.growth):
            model = learn(prepared, history, rng, rewards=setting.rewards)
            optimizer = None
        elif setting.refresh:
            fresh = learn_transform(model, history, setting.rewards)
            optimizer, model = None, fresh
        if optimizer is None:
            optimizer = _optimizer(prepared, setting, model, history, seed * 1000 + len(arms))
        asked = optimizer.ask(min(batch, budget - len(arms)))
        rewards = task.pull(asked.arms, rng)
        history.add(asked.arms, rewards)
        optimizer.tell(asked, model.transform.forward(rewards) - model.mean)
        arms = np.concatenate([arms, asked.arms])
    return arms


def learn_transform(model: LearnedModel, history: History, kind: str) -> LearnedModel:
    """The model with its reward transform fitted again and the rest kept."""
    from manyarms.learning.reward_transforms import fit_transforms

    return replace(model, transform=fit_transforms(history, kind)[0][0])


def _by_the_library(
    task: Problem, setting: Setting, budget: int, batch: int, seed: int, rng: np.random.Generator
) -> np.ndarray:
    """`Optimizer` as a user would call it, with its default policy or with another one."""
    policy = None if setting.policy == "BBKB" else getattr(ma, setting.policy)()
    chosen = {} if setting.storage is None else {"storage": setting.storage}
    optimizer = ma.Optimizer(task.pool, policy, seed, budget=budget, repeats=setting.repeats, **chosen)
    while optimizer.spent < budget:
        asked = optimizer.ask(min(batch, budget - optimizer.spent))
        optimizer.tell(asked, task.pull(asked.arms, rng))
    return np.concatenate([record.arms for record in optimizer.trace])


def settings() -> dict[str, Setting]:
    """All settings, by name."""
    default = Setting("default", by_library=True)
    loop = Setting("loop")
    chosen = [
        default,
        Setting("random", policy="random"),
        replace(default, name="eps-greedy", policy="EpsGreedy"),
        replace(default, name="exact", policy="GPUCB"),
        replace(default, name="repeats", repeats="allow"),
        *(
            replace(default, name=f"default, {storage}", storage=storage)
            for storage in ("float32", "float64")
        ),
        replace(default, name="Thompson, sparse", policy="SGPTS"),
        loop,
        *(replace(loop, name=f"width {w:g}", width=w) for w in (0.5, 1.0, 2.0, 3.0)),
        replace(loop, name="standardised", rewards="standardise"),
        replace(loop, name="ranked", rewards="rank"),
        replace(loop, name="transform renewed", refresh=True, rewards="rank"),
        replace(loop, name="one length-scale", scales="shared"),
        replace(loop, name="RBF", kernel="rbf"),
        replace(loop, name="Matérn", kernel="matern"),
        replace(loop, name="width grows in a batch", widen=True),
        replace(loop, name="10 first arms", design=10),
        replace(loop, name="40 first arms", design=40),
        *(replace(loop, name=f"{kind} first arms", first=kind) for kind in ("uniform", "rbf", "short")),
        *(replace(loop, name=f"refit at {g:g}", growth=g) for g in (1.1, 1.5, 2.0)),
        Setting("botorch", policy="botorch", needs=("botorch",)),
        Setting("botorch, prepared columns", policy="botorch-prepared", needs=("botorch",)),
        Setting("optuna-tpe", policy="optuna-tpe", needs=("optuna",)),
        Setting("optuna-gp", policy="optuna-gp", needs=("optuna", "torch")),
    ]
    return {setting.name: setting for setting in chosen}
