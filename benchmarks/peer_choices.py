"""The arms that BoTorch and Optuna choose on the same pools; the libraries must be installed.

Both start from the same 20 random arms and never try an arm twice.

BoTorch: `SingleTaskGP` with its defaults (RBF with a length-scale per column, dimension-scaled priors,
standardised outcomes), columns scaled to [0, 1] over the pool; on fingerprints a scaled Tanimoto kernel
instead. Hyperparameters are fitted again for every batch or, one arm at a time, when the number of
observations has grown by a tenth. A single arm is chosen by LogEI, a batch by qLogEI with 64 samples, one
arm after the other given those before it. That takes too long on a whole pool, so it is done on the 500 arms
with the highest LogEI: given others in the batch, an arm can add no more than its own improvement.

Optuna: a sampler with its defaults, except for the number of random trials before it, suggests a point in
the box of the columns (a column with few levels counts as an integer). The nearest untried arm of the pool
is tried instead, and the sampler gets its result. Arms of an unfinished batch are running trials.
"""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from benchmarks.choices import Problem, Setting

if TYPE_CHECKING:
    from botorch.models import SingleTaskGP
    from torch import Tensor

FIRST = 20
SHORTLIST, SAMPLES = 500, 64
GROWTH = 1.1  # of the observations between two fits, when arms are asked for one at a time
SCANNED = 2048  # arms in one evaluation of LogEI
FEW_LEVELS = 16


class Peer(Protocol):
    """Another library with an ask and tell interface."""

    def ask(self, n: int) -> np.ndarray:
        """n different arms without a result."""

    def tell(self, arms: np.ndarray, rewards: np.ndarray) -> None:
        """Results of arms, whether they were asked for or not."""


def chosen_arms(task: Problem, setting: Setting, budget: int, batch: int, seed: int) -> np.ndarray:
    """Arms in the order of their evaluation."""
    rng = np.random.default_rng([seed, 7])
    peer = _peer(task, setting.policy, seed)
    arms = rng.permutation(len(task.truth))[: min(FIRST, budget)]
    peer.tell(arms, task.pull(arms, rng))
    while len(arms) < budget:
        asked = peer.ask(min(batch, budget - len(arms)))
        peer.tell(asked, task.pull(asked, rng))
        arms = np.concatenate([arms, asked])
    return arms


def _peer(task: Problem, policy: str, seed: int) -> Peer:
    if policy.startswith("optuna"):
        return Optuna(task.pool.features, policy, seed)
    pool = task.prepared.pool if policy == "botorch-prepared" else task.pool
    return BoTorch(pool.features, seed)


# ------------------------------------------------------------------ BoTorch


class BoTorch:
    """Expected improvement with a Gaussian process of BoTorch."""

    def __init__(self, features: np.ndarray, seed: int) -> None:
        import torch

        torch.set_num_threads(1)
        torch.manual_seed(seed)
        self._seed = seed
        self._tanimoto = None
        if features.dtype == np.uint8:
            self._tanimoto = _tanimoto(features)
            scaled = np.arange(len(features))[:, None]  # the kernel looks up the bits
        else:
            low, high = features.min(axis=0), features.max(axis=0)
            scaled = (features - low) / np.where(high > low, high - low, 1)
        self._X = torch.tensor(scaled, dtype=torch.float64)
        self._arms = np.empty(0, dtype=np.int64)
        self._rewards = np.empty(0)
        self._model: SingleTaskGP | None = None
        self._fitted_on = 0

    def tell(self, arms: np.ndarray, rewards: np.ndarray) -> None:
        self._arms = np.concatenate([self._arms, arms])
        self._rewards = np.concatenate([self._rewards, rewards])

    def ask(self, n: int) -> np.ndarray:
        import torch
        from botorch.acquisition import LogExpectedImprovement, qLogExpectedImprovement
        from botorch.optim import optimize_acqf_discrete
        from botorch.sampling import SobolQMCNormalSampler

        model = self._model = self._updated(fit=n > 1 or len(self._arms) >= GROWTH * self._fitted_on)
        best = float(self._rewards.max())
        alone = LogExpectedImprovement(model, best)
        untried = np.setdiff1d(np.arange(len(self._X)), self._arms)
        with torch.no_grad():
            parts = torch.split(self._X[untried], SCANNED)
            values = torch.cat([alone(part[:, None, :]) for part in parts]).numpy()
            arms = untried[np.argsort(-values, kind="stable")[: max(SHORTLIST, n)]]
            if n == 1:
                return arms[:1]
            sampler = SobolQMCNormalSampler(torch.Size([SAMPLES]), seed=self._seed)
            together = qLogExpectedImprovement(model, best, sampler)
            points, _ = optimize_acqf_discrete(together, n, self._X[arms], return_acq_values=False)
        return self._named(points, arms)

    def _updated(self, fit: bool) -> SingleTaskGP:
        """A model of all results, with new hyperparameters or those of the previous model."""
        import torch
        from botorch.fit import fit_gpytorch_mll
        from botorch.models import SingleTaskGP
        from botorch.settings import validate_input_scaling
        from gpytorch.kernels import ScaleKernel
        from gpytorch.mlls import ExactMarginalLogLikelihood

        kernel = None if self._tanimoto is None else ScaleKernel(self._tanimoto)
        with validate_input_scaling(False):  # indices of fingerprints are not in [0, 1]
            Y = torch.tensor(self._rewards[:, None])
            model = SingleTaskGP(self._X[self._arms], Y, covar_module=kernel)
        if fit:
            self._fitted_on = len(self._arms)
            fit_gpytorch_mll(ExactMarginalLogLikelihood(model.likelihood, model))
        else:
            for new, old in zip(model.parameters(), self._model.parameters(), strict=True):
                new.data = old.data
        return model.eval()

    def _named(self, points: Tensor, among: np.ndarray) -> np.ndarray:
        """The arms with these features; among arms with equal features each is used once."""
        left = dict.fromkeys(among.tolist())
        found = []
        for point in points:
            same = (self._X[among] == point).all(dim=1).numpy()
            arm = next(arm for arm in among[same].tolist() if arm in left)
            del left[arm]
            found.append(arm)
        return np.array(found)


def _tanimoto(packed: np.ndarray) -> Any:
    """|x ∧ y| / |x ∨ y| for points that are indices of fingerprints, which keeps batches of points small."""
    import torch
    from gpytorch.kernels import Kernel

    bits = torch.tensor(np.unpackbits(packed, axis=1), dtype=torch.float32)
    sizes = bits.sum(dim=1)

    class Tanimoto(Kernel):
        def forward(self, x1: Tensor, x2: Tensor, diag: bool = False, **_: Any) -> Tensor:
            rows, i = x1[..., 0].long().unique(return_inverse=True)
            columns, j = x2[..., 0].long().unique(return_inverse=True)
            common = bits[rows] @ bits[columns].T
            ratio = (common / (sizes[rows][:, None] + sizes[columns] - common)).to(x1)
            return ratio[i, j] if diag else ratio[i[..., :, None], j[..., None, :]]

    return Tanimoto()


# ------------------------------------------------------------------ Optuna


class Optuna:
    """A sampler of Optuna; each suggestion is replaced by the nearest untried arm."""

    def __init__(self, features: np.ndarray, policy: str, seed: int) -> None:
        import optuna

        if features.dtype == np.uint8:
            raise ValueError(f"{policy} suggests columns one by one and cannot be used on fingerprints")
        optuna.logging.set_verbosity(optuna.logging.WARNING)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
            sampler = {"optuna-tpe": _tpe, "optuna-gp": _gp}[policy](seed)
        self._study = optuna.create_study(direction="maximize", sampler=sampler)
        self._columns, self._space = _box(features)
        self._spread = self._columns.std(axis=0)
        self._free = np.ones(len(features), dtype=bool)
        self._trials: dict[int, int] = {}  # numbers of the running trials, by arm

    def ask(self, n: int) -> np.ndarray:
        return np.array([self._next() for _ in range(n)])

    def _next(self) -> int:
        import optuna

        asked = self._study.ask(self._space)
        point = np.array([asked.params[name] for name in self._space])
        self._study.tell(asked, state=optuna.trial.TrialState.FAIL)  # replaced by the trial of the arm
        arms = np.flatnonzero(self._free)
        arm = int(arms[(((self._columns[arms] - point) / self._spread) ** 2).sum(axis=1).argmin()])
        self._start(arm)
        return arm

    def _start(self, arm: int) -> None:
        import optuna

        values = self._columns[arm].tolist()
        params = {
            name: int(value) if isinstance(kind, optuna.distributions.IntDistribution) else value
            for (name, kind), value in zip(self._space.items(), values, strict=True)
        }
        running = optuna.trial.TrialState.RUNNING
        self._trials[arm] = len(self._study.get_trials(deepcopy=False))
        self._free[arm] = False
        self._study.add_trial(
            optuna.trial.create_trial(params=params, distributions=self._space, state=running)
        )

    def tell(self, arms: np.ndarray, rewards: np.ndarray) -> None:
        for arm, reward in zip(arms.tolist(), rewards.tolist(), strict=True):
            if arm not in self._trials:
                self._start(arm)
            self._study.tell(self._trials[arm], reward)


def _tpe(seed: int) -> Any:
    from optuna.samplers import TPESampler

    return TPESampler(seed=seed, n_startup_trials=FIRST, constant_liar=True)


def _gp(seed: int) -> Any:
    import torch
    from optuna.samplers import GPSampler

    torch.set_num_threads(1)
    return GPSampler(seed=seed, n_startup_trials=FIRST)


def _box(features: np.ndarray) -> tuple[np.ndarray, dict[str, Any]]:
    """The columns for Optuna, and the range of each: integers for a column with few levels."""
    from optuna.distributions import FloatDistribution, IntDistribution

    columns = features.astype(float)
    space: dict[str, Any] = {}
    for j, column in enumerate(features.T):
        levels, steps = np.unique(column, return_inverse=True)
        if len(levels) == 1:
            raise ValueError(f"column {j} is constant")
        if len(levels) <= FEW_LEVELS:
            columns[:, j] = steps
            space[f"x{j}"] = IntDistribution(0, len(levels) - 1)
        else:
            space[f"x{j}"] = FloatDistribution(float(levels[0]), float(levels[-1]))
    return columns, space
