"""Test suites that third-party parts can inherit."""

from manyarms.testing.kernel_contract import KernelContract
from manyarms.testing.policy_contract import PolicyContract
from manyarms.testing.stopping_contract import StoppingRuleContract
from manyarms.testing.store_contract import CampaignStoreContract

__all__ = ["CampaignStoreContract", "KernelContract", "PolicyContract", "StoppingRuleContract"]
