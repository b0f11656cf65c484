"""Conversion of policies to plain data and back, so that reading a saved run never executes code from it."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from typing import Any

from manyarms import policies
from manyarms.errors import CheckpointError, InvalidKernelError
from manyarms.kernels.describe import describe, from_description
from manyarms.policies.base import Policy, Sparse


def policy_to_plain(policy: Policy) -> dict[str, Any]:
    """The name, settings and kernel of a policy as plain data."""
    settings = {field.name: getattr(policy, field.name) for field in dataclasses.fields(policy)}
    kernel = policy.kernel if isinstance(policy.kernel, str) else describe(policy.kernel)
    return {"name": type(policy).__name__, **settings, "kernel": kernel}


def policy_from_plain(plain: Mapping[str, Any], place: str) -> Policy:
    """The policy that `policy_to_plain` described; error messages begin with `place` (the file name)."""
    settings = {key: value for key, value in plain.items() if key not in ("name", "kernel")}
    kind = getattr(policies, plain["name"], None) if plain["name"] in policies.__all__ else None
    if kind is None:
        raise CheckpointError(
            f"{place}: {plain['name']} is not one of this package's policies; pass it to load()"
        )
    try:
        learned = isinstance(plain["kernel"], str)
        kernel = plain["kernel"] if learned else from_description(plain["kernel"])
        policy: Policy = kind(kernel=kernel, **settings)
    except InvalidKernelError as problem:
        raise CheckpointError(f"{place}: {problem}; pass the policy to load()") from None
    return policy


def matching_policy(policy: Policy, plain: Mapping[str, Any], place: str) -> Policy:
    """The given policy, which must have the saved settings; the oversampling q̄ is taken from the file."""
    if isinstance(policy, Sparse) and "oversampling" in plain:
        policy = dataclasses.replace(policy, oversampling=plain["oversampling"])
    given = json.loads(json.dumps(policy_to_plain(policy)))
    different = [name for name in {*given, *plain} if given.get(name) != plain.get(name)]
    if different and not (different == ["kernel"] and "custom" in str(plain["kernel"])):
        name = min(different)
        raise CheckpointError(
            f"{place}: the saved policy has {name} = {plain.get(name)!r}, the given one {given.get(name)!r}"
        )
    return policy
