"""Turn a request into permanent settings: inspect the pool and check every setting."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from manyarms import policies
from manyarms.campaigns.assumptions import (
    FULL_SKETCH,
    NOISE_SHARE,
    assumed_kernel,
    assumed_storage,
    most_inducing,
)
from manyarms.campaigns.costs import check_cost_settings, costs_of
from manyarms.campaigns.leakage import named_like_results
from manyarms.campaigns.old_results import Plain, check_old_results, left_out, prior_of
from manyarms.campaigns.pool_file.source import Source
from manyarms.campaigns.settings import AUTO, Request, Settings, option_names, policy_class
from manyarms.errors import InvalidParameterError, SettingsError, shown
from manyarms.kernels.describe import describe
from manyarms.learning import Prepared, prepare
from manyarms.learning.kernel_families import HammingFamily, StationaryFamily, TanimotoFamily
from manyarms.learning.numeric_columns import columns_of
from manyarms.learning.numeric_pool import from_numbers
from manyarms.learning.old_family import WithOldResults
from manyarms.pool.pool import Pool
from manyarms.run.context import checked_failures, checked_max_failures
from manyarms.run.eligibility import repeats_setting
from manyarms.run.optimizer import Optimizer
from manyarms.support.validation import count, positive

GOALS = ("maximise", "minimise")
DEFAULT_SMOOTHNESS = 2.5  # ν of a Matérn kernel


def resolve(request: Request, source: Source, pool: Pool, prior: tuple[Plain, ...] = ()) -> Settings:
    """The settings for this request on this table; any invalid setting raises an error here."""
    goal = request.goal.replace("ize", "ise")
    if goal not in GOALS:
        raise InvalidParameterError("goal", request.goal, "'maximise' or 'minimise'")
    source = source.described(pool)
    check_cost_settings(request.cost, request.cost_budget, request.per_cost)
    prepared = _prepared(request, source, pool)
    kernel, assumptions = (
        (None, list(prepared.assumptions)) if prepared else _given_kernel(request, source, pool)
    )
    storage, more = (request.storage, []) if request.storage != AUTO else assumed_storage(pool)
    if most_inducing(pool.n_arms) <= FULL_SKETCH:
        more = [*more, f"sketch: at most {most_inducing(pool.n_arms)} inducing arms on a pool of this size"]
    kind, options = _policy(request, learned=kernel is None)
    settings = Settings(
        source=source, goal=goal, kernel=kernel,
        noise=_number("noise", request.noise), signal=_number("signal", request.signal),
        mean=_mean(request.mean), policy=kind.__name__, options=options,
        seed=count("seed", request.seed, minimum=0),
        budget=None if request.budget is None else count("budget", request.budget),
        repeats=repeats_setting(request.repeats),
        failures=checked_failures(request.failures),
        max_failures=checked_max_failures(request.max_failures or None),
        storage=storage, assumptions=(*_warnings(request, source), *assumptions, *more, *left_out(prior)),
        columns=column_spreads(prepared, source.blocks(pool.names or [])),
        engine=request.on_engine().to_plain(),
        features_chosen=request.features is not None,
        cost_budget=None if request.cost_budget is None else positive("cost_budget", request.cost_budget),
        per_cost=request.per_cost,
        prior=prior,
    )  # fmt: skip
    policy = settings.build_policy(None if settings.learned else NOISE_SHARE)
    check_old_results(prior, pool)
    costs, old = costs_of(settings, [source]), prior_of(prior)
    Optimizer(pool, policy, **settings.run_settings(), prepared=prepared, costs=costs, prior=old)
    return settings


def _warnings(request: Request, source: Source) -> tuple[str, ...]:
    """What to warn of before there are results; nothing if the user chose the features."""
    if request.features is not None or source.molecular:
        return ()
    return named_like_results(source.features or ())


def _prepared(request: Request, source: Source, pool: Pool) -> Prepared | None:
    """The pool prepared for a learned model; None if a kernel is given. A model cannot be given in part."""
    if request.kernel != AUTO:
        return None
    for name in ("lengthscale", "smoothness", "noise", "signal", "mean"):
        if getattr(request, name) not in (AUTO, None):
            raise SettingsError(
                f"{name} is learned together with the kernel: omit it, or give a kernel as well"
            )
    return prepared_for(source, pool)


def prepared_for(source: Source, pool: Pool) -> Prepared:
    """The pool as a learned model uses it. Fingerprint columns are declared by the user, not detected."""
    if source.molecular:
        return Prepared(pool, (TanimotoFamily(),), (), np.asarray, ("fingerprints: Tanimoto",))
    behind = source.blocks(pool.names or [])
    beside_numbers = set(behind) > set(source.categories)
    if source.categories and beside_numbers:  # categories alone are one-hot blocks, which `prepare` detects
        labels = [
            name.removeprefix(f"{column} = ") for name, column in zip(pool.names or [], behind, strict=True)
        ]
        return from_numbers(pool, columns_of(pool), behind, labels=labels)
    return prepare(pool)


def _given_kernel(request: Request, source: Source, pool: Pool) -> tuple[dict[str, Any], list[str]]:
    smoothness = DEFAULT_SMOOTHNESS if request.smoothness is None else request.smoothness
    kernel, assumptions = assumed_kernel(
        pool, request.kernel, request.lengthscale, smoothness, source.molecular
    )
    return describe(kernel), assumptions


def column_spreads(prepared: Prepared | None, names: Sequence[str]) -> tuple[tuple[str, float], ...]:
    """The name and spread of each column, for reading length-scales; a constant column has spread 0."""
    family = None if prepared is None else prepared.families[0]
    if isinstance(family, WithOldResults):
        family = family.family
    if prepared is not None and isinstance(family, HammingFamily):
        categories = list(dict.fromkeys(names))
        return tuple(
            (name, 1.0) for name in categories if len(categories) == prepared.pool.n_features - prepared.n_old
        )
    if not isinstance(family, StationaryFamily):
        return ()
    spreads = [
        spread if group >= 0 else 0.0 for spread, group in zip(family.spreads, family.groups, strict=True)
    ]
    return tuple(zip(names or [f"column {j}" for j in range(len(spreads))], spreads, strict=True))


def _policy(request: Request, learned: bool) -> tuple[type[policies.Policy], dict[str, Any]]:
    """The policy class and its options. A learned model chooses the practical width itself.

    With a given kernel the width is that of a theorem if everything that the theorem assumes is given, and
    the practical one otherwise.
    """
    kind = policies.BBKB if request.policy == AUTO else policy_class(request.policy)
    defaults = {"local": True} if learned and request.policy == AUTO else {}  # as `policies.default_policy`
    given = request.noise, request.signal, request.mean, request.options.get("norm_bound", AUTO)
    assumed = any(isinstance(each, str) for each in given)
    width = kind.practical if request.width == AUTO and not learned and assumed else request.width
    return kind, {"width": width, **defaults, **_options(kind, request.options)}


def _options(kind: type[policies.Policy], options: Mapping[str, Any]) -> dict[str, Any]:
    known = option_names(kind)
    for name in options:
        if name not in known:
            raise SettingsError(f"{kind.__name__} has no option {name!r}; its options are {', '.join(known)}")
    return dict(options)


def _number(name: str, given: str | float) -> float | None:
    return None if given == AUTO else positive(name, _parsed(name, given))


def _mean(given: str | float) -> float | None:
    mean = None if given == AUTO else _parsed("mean", given)
    if mean is not None and not math.isfinite(mean):
        raise InvalidParameterError("mean", given, "finite")
    return mean


def _parsed(name: str, given: Any) -> float:
    try:
        if isinstance(given, bool):
            raise TypeError
        return float(given)
    except (TypeError, ValueError):
        raise SettingsError(f"{name} must be 'auto' or a number, got {shown(given)}") from None
