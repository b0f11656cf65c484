"""The algorithms, each a short assembly of shared parts."""

from manyarms.policies.base import Policy, Sparse
from manyarms.policies.bbkb import BBKB
from manyarms.policies.bkb import BKB
from manyarms.policies.eps_greedy import EpsGreedy
from manyarms.policies.gp_bucb import GPBUCB
from manyarms.policies.gp_ucb import GPUCB
from manyarms.policies.mini_gp_ucb import MiniGPUCB
from manyarms.policies.sor_ucb import SoRUCB

__all__ = ["BBKB", "BKB", "GPBUCB", "GPUCB", "EpsGreedy", "MiniGPUCB", "Policy", "SoRUCB", "Sparse"]
