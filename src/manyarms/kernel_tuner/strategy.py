"""The strategy: the configurations that the restrictions allow are the arms, their cost is minimised."""

from __future__ import annotations

import sys
from typing import Any

from kernel_tuner.searchspace import Searchspace
from kernel_tuner.strategies.common import CostFunc, get_options
from kernel_tuner.util import StopCriterionReached

from manyarms.errors import InvalidParameterError, NothingToAskError
from manyarms.pool.parameter_rows import parameter_features
from manyarms.pool.pool import Pool
from manyarms.run.optimizer import Optimizer
from manyarms.support.validation import count

_OPTIONS: dict[str, tuple[str, Any]] = {
    "seed": ("The random seed", 0),
    "batch_size": ("The number of configurations that are chosen before their results are used", 1),
    "policy": ("The algorithm, a policy of manyarms; None is the default policy", None),
}

Configuration = tuple[Any, ...]


def tune(searchspace: Searchspace, runner: Any, tuning_options: Any) -> list[dict[str, Any]]:
    """Tune a kernel; called by Kernel Tuner, which passes its search space, runner and options.

    searchspace: the configurations that the restrictions allow. No other is ever tried.
    runner: what measures a configuration, or looks it up in a cache in simulation mode.
    tuning_options: the options of `tune_kernel`. Of `strategy_options`, `max_fevals`, `time_limit`, `x0` (the
        configuration to begin with), `seed`, `batch_size` and `policy` are used.

    Returns the results in the order of their measurement. A configuration that cannot be compiled or run is
    not tried again.
    """
    given = tuning_options.strategy_options
    seed, batch_size, policy = get_options(given, _OPTIONS)
    size = count("batch_size", batch_size)
    if len(tuning_options.objective) != 1:
        raise InvalidParameterError("objective", tuning_options.objective, "one objective")
    configurations: list[Configuration] = [tuple(values) for values in searchspace.list]
    rows = [dict(zip(searchspace.param_names, values, strict=True)) for values in configurations]
    features, names = parameter_features(rows)
    budget = _budget(given, len(configurations))
    run = Optimizer(
        Pool(features, names=names), policy, seed, budget=budget, repeats="forbid", minimize=True,
        max_failures=1,  # what does not compile will not compile the next time
    )  # fmt: skip
    cost = CostFunc(searchspace, tuning_options, runner, snap=False)
    try:
        if "x0" in given:
            _measure(run, cost, configurations, eligible=[_place(configurations, given["x0"])])
        while run.spent < budget:
            _measure(run, cost, configurations, at_once=min(size, budget - run.spent))
    except StopCriterionReached as reason:  # the limit of evaluations or of time
        if tuning_options.verbose:
            print(reason)
    except NothingToAskError:  # every configuration has been tried
        pass
    return list(cost.get_results())


def _measure(
    run: Optimizer,
    cost: CostFunc,
    configurations: list[Configuration],
    at_once: int = 1,
    eligible: Any = None,
) -> None:
    """Choose configurations, measure them, and tell the run."""
    batch = run.ask(at_once, eligible=eligible)
    costs = cost.eval_all([configurations[arm] for arm in batch], check_restrictions=False)
    run.tell(batch, costs, failed=[not value < sys.float_info.max for value in costs])


def _budget(given: Any, n_configurations: int) -> int:
    """The number of configurations to measure, as far as it is known before."""
    wanted = given.get("max_fevals")
    return n_configurations if wanted is None else min(count("max_fevals", wanted), n_configurations)


def _place(configurations: list[Configuration], x0: Any) -> int:
    try:
        return configurations.index(tuple(x0))
    except (TypeError, ValueError):
        rule = "a configuration that the restrictions allow, with one value for each parameter"
        raise InvalidParameterError("x0", x0, rule) from None
