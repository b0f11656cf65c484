"""Every policy of the package keeps the policy contract."""

from __future__ import annotations

import numpy as np

import manyarms as ma
from manyarms import policies
from manyarms.policies import Policy, default_policy
from manyarms.pool.pool import Pool
from manyarms.testing import PolicyContract

KERNEL = ma.RBF(0.3)


class TestGPUCB(PolicyContract):
    def policy(self) -> Policy:
        return ma.GPUCB(kernel=KERNEL, norm_bound="double")


class TestGPTS(PolicyContract):
    def policy(self) -> Policy:
        return ma.GPTS(kernel=KERNEL)


class TestGPTSInBatches(PolicyContract):
    def policy(self) -> Policy:
        return ma.GPTS(kernel=ma.Matern(0.5), batch_size=3, distinct=True)


class TestBKB(PolicyContract):
    def policy(self) -> Policy:
        return ma.BKB(kernel=KERNEL, noise_std=0.3)


class TestBPE(PolicyContract):
    n_batches = 2  # of 84 and 767 pulls

    def policy(self) -> Policy:
        return ma.BPE(kernel=KERNEL, horizon=7000)

    def test_repeats_are_respected(self) -> None:
        """One batch uses up every arm."""
        run = self._begun(repeats=2)
        batch = run.ask()
        assert len(batch) == 2 * run.pool.n_arms - self.n_first
        self._answer(run, batch)
        assert run.history.counts.tolist() == [2] * run.pool.n_arms


class TestAsyncTS(PolicyContract):
    def policy(self) -> Policy:
        return ma.AsyncTS(kernel=KERNEL, workers=3)


class TestBKBIncremental(PolicyContract):
    def policy(self) -> Policy:
        return ma.BKB(kernel=KERNEL, inducing="incremental", compaction=1.0)


class TestSoRUCB(PolicyContract):
    def policy(self) -> Policy:
        return ma.SoRUCB(kernel=KERNEL, inducing="union")


class TestBBKB(PolicyContract):
    def policy(self) -> Policy:
        return ma.BBKB(kernel=KERNEL)


class TestBBKBLocal(PolicyContract):
    def policy(self) -> Policy:
        return ma.BBKB(kernel=KERNEL, local=True, batch_ratio=3.0)


class TestBBKBOnFingerprints(PolicyContract):
    def policy(self) -> Policy:
        return ma.BBKB(kernel=ma.Scale(ma.Tanimoto(), 2.0))

    def pool(self) -> Pool:
        bits = np.random.default_rng(0).random((self.n_arms, 64)) < 0.3
        return ma.Pool(bits, ids=[f"molecule {arm}" for arm in range(self.n_arms)])


class TestGPBUCBProduct(PolicyContract):
    def policy(self) -> Policy:
        return ma.GPBUCB(kernel=KERNEL)


class TestGPBUCBInformation(PolicyContract):
    def policy(self) -> Policy:
        return ma.GPBUCB(kernel=KERNEL, stop="information")


class TestGPBUCBFixed(PolicyContract):
    def policy(self) -> Policy:
        return ma.GPBUCB(kernel=KERNEL, stop="fixed", batch_size=4)


class TestMiniGPUCB(PolicyContract):
    def policy(self) -> Policy:
        return ma.MiniGPUCB(kernel=KERNEL)


class TestEpsGreedy(PolicyContract):
    def policy(self) -> Policy:
        return ma.EpsGreedy(kernel=KERNEL, explore=0.5)


class TestOFUL(PolicyContract):
    def policy(self) -> Policy:
        return ma.OFUL(kernel=ma.Linear(bias=0.5))


class TestCBRAP(PolicyContract):
    def policy(self) -> Policy:
        return ma.CBRAP(size=2)


class TestSOFUL(PolicyContract):
    def policy(self) -> Policy:
        return ma.SOFUL(size=2)


class TestSOFULThompson(PolicyContract):
    def policy(self) -> Policy:
        return ma.SOFUL(size=3, choose="thompson")


class TestRFFTS(PolicyContract):
    def policy(self) -> Policy:
        return ma.RFFTS(kernel=KERNEL, pairs=20)


class TestQFFTS(PolicyContract):
    def policy(self) -> Policy:
        return ma.QFFTS(kernel=KERNEL, nodes=6)


class TestSGPTSPoints(PolicyContract):
    def policy(self) -> Policy:
        return ma.SGPTS(kernel=KERNEL, prior_size=50, batch_size=2)


class TestSGPTSKDPP(PolicyContract):
    def policy(self) -> Policy:
        return ma.SGPTS(kernel=KERNEL, inducing="kdpp", size=8, prior_size=50)


class TestSGPTSFeatures(PolicyContract):
    def policy(self) -> Policy:
        return ma.SGPTS(kernel=KERNEL, rule="features", size=20, prior_size=50)


class TestLearnedModel(PolicyContract):
    """The default policy: BBKB with a kernel that is learned from the results."""

    n_batches = 2

    def policy(self) -> Policy:
        return default_policy()


def test_every_policy_of_the_package_is_tested_here() -> None:
    suites = [each for each in globals().values() if isinstance(each, type) and each is not PolicyContract]
    tested = {type(suite().policy()) for suite in suites if issubclass(suite, PolicyContract)}
    shipped = {getattr(policies, name) for name in policies.__all__} - {Policy, policies.Sparse}
    assert tested == shipped
