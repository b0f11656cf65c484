"""Gaussian-process bandits: find good candidates among very many when each trial is noisy and costly."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from manyarms import engines, errors
from manyarms.kernels import (
    RBF,
    Hamming,
    Linear,
    Matern,
    OnColumns,
    OneHot,
    Product,
    Scale,
    SklearnKernel,
    Sum,
    Tanimoto,
)
from manyarms.policies import (
    BBKB,
    BKB,
    BPE,
    CBRAP,
    GPBUCB,
    GPTS,
    GPUCB,
    OFUL,
    QFFTS,
    RFFTS,
    SGPTS,
    SOFUL,
    AsyncTS,
    EpsGreedy,
    MiniGPUCB,
    Policy,
    SoRUCB,
)
from manyarms.pool.costs import Costs
from manyarms.pool.pool import Pool
from manyarms.posterior.history import History
from manyarms.posterior.posterior import Posterior
from manyarms.run.batch_structure import BatchStructure
from manyarms.run.best import Best
from manyarms.run.domains import register as register_domain
from manyarms.run.maximize import Arm, Result, maximize, minimize
from manyarms.run.optimizer import Optimizer
from manyarms.run.prior_results import PriorResults
from manyarms.run.trace import Batch, BatchRecord

if TYPE_CHECKING:
    from manyarms.continuous.box import Box
    from manyarms.continuous.optimizer import BoxOptimizer
    from manyarms.run.certificate import Certificate
    from manyarms.run.explanation import Explanation
    from manyarms.run.failing import FailureReport
    from manyarms.run.further_gain import ExpectedGain

__version__ = "0.1.0"


register_domain("box", lambda: import_module("manyarms.continuous.optimizer").BoxOptimizer)


def __getattr__(name: str) -> Any:
    """Import agents, plots, problems and the classes of larger packages when they are first used."""
    if name == "Box":
        return import_module("manyarms.continuous.box").Box
    if name == "BoxOptimizer":
        return import_module("manyarms.continuous.optimizer").BoxOptimizer
    if name in ("agents", "plots", "problems"):
        return import_module(f"manyarms.{name}")
    if name == "connect":
        return import_module("manyarms.service.client.connect").connect
    if name == "ContextualBandit":
        return import_module("manyarms.contextual.bandit").ContextualBandit
    if name == "Campaign":
        return import_module("manyarms.campaigns.python_api").Campaign
    if name in ("ExpectedGain", "Explanation"):
        module = "further_gain" if name == "ExpectedGain" else "explanation"
        return getattr(import_module(f"manyarms.run.{module}"), name)
    if name == "FailureReport":
        return import_module("manyarms.run.failing").FailureReport
    if name == "Certificate":
        return import_module("manyarms.run.certificate").Certificate
    raise AttributeError(f"module 'manyarms' has no attribute {name!r}")


__all__ = [
    "BBKB",
    "BKB",
    "BPE",
    "CBRAP",
    "GPBUCB",
    "GPTS",
    "GPUCB",
    "OFUL",
    "QFFTS",
    "RBF",
    "RFFTS",
    "SGPTS",
    "SOFUL",
    "Arm",
    "AsyncTS",
    "Batch",
    "BatchRecord",
    "BatchStructure",
    "Best",
    "Box",
    "BoxOptimizer",
    "Campaign",
    "Certificate",
    "ContextualBandit",
    "Costs",
    "EpsGreedy",
    "ExpectedGain",
    "Explanation",
    "FailureReport",
    "Hamming",
    "History",
    "Linear",
    "Matern",
    "MiniGPUCB",
    "OnColumns",
    "OneHot",
    "Optimizer",
    "Policy",
    "Pool",
    "Posterior",
    "PriorResults",
    "Product",
    "Result",
    "Scale",
    "SklearnKernel",
    "SoRUCB",
    "Sum",
    "Tanimoto",
    "agents",
    "connect",
    "engines",
    "errors",
    "maximize",
    "minimize",
    "plots",
    "problems",
]
