"""The algorithms. Each policy combines shared rules with its own settings."""

from manyarms.policies.async_ts import AsyncTS
from manyarms.policies.base import Policy, Sparse
from manyarms.policies.bbkb import BBKB
from manyarms.policies.bkb import BKB
from manyarms.policies.bpe import BPE
from manyarms.policies.cbrap import CBRAP
from manyarms.policies.eps_greedy import EpsGreedy
from manyarms.policies.gp_bucb import GPBUCB
from manyarms.policies.gp_ts import GPTS
from manyarms.policies.gp_ucb import GPUCB
from manyarms.policies.mini_gp_ucb import MiniGPUCB
from manyarms.policies.oful import OFUL
from manyarms.policies.qff_ts import QFFTS
from manyarms.policies.rff_ts import RFFTS
from manyarms.policies.s_gp_ts import SGPTS
from manyarms.policies.soful import SOFUL
from manyarms.policies.sor_ucb import SoRUCB


def default_policy() -> Policy:
    """The default policy: BBKB with its local stopping rule, and a model learned from the results."""
    return BBKB(local=True)


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
    "RFFTS",
    "SGPTS",
    "SOFUL",
    "AsyncTS",
    "EpsGreedy",
    "MiniGPUCB",
    "Policy",
    "SoRUCB",
    "Sparse",
]
