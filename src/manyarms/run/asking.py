"""Choosing a batch: which arms are eligible, which rule fills the batch, and what is recorded about it."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from manyarms.choice.exploration import WithExploration
from manyarms.choice.final_batch import FinalBatch
from manyarms.choice.highest import BoundRule
from manyarms.choice.scouts import WithScouts
from manyarms.choice.selection import (
    AGAIN,
    INITIAL_DESIGN,
    NO_ARM_LEFT,
    REQUESTED,
    BatchContext,
    FilledBatch,
    FromDesign,
    SelectionRule,
    StartWith,
    UniformStart,
    UpperBounds,
)
from manyarms.errors import BudgetSpentError, InvalidParameterError, NothingToAskError
from manyarms.learning import design_size, initial_design
from manyarms.pool.allowance import Allowance
from manyarms.pool.costs import CostLimit
from manyarms.posterior.hallucination import Hallucination
from manyarms.run.batch_structure import FREE, BatchStructure, CheckedStructure
from manyarms.run.common_group import TYPICAL_SIZE, best_group, group_of_most, groups_with
from manyarms.run.context import RunContext, check_per_cost
from manyarms.run.eligibility import Eligibility, eligibility
from manyarms.run.eliminating import with_elimination
from manyarms.run.feedback import with_feedback
from manyarms.run.state import RunState
from manyarms.run.trace import Batch, read_only, unanswered
from manyarms.support.frozen import changed
from manyarms.support.validation import count, positive

if TYPE_CHECKING:
    from manyarms.choice.success import PlacedSuccess

COST_LIMIT = "cost limit"  # why a batch ended that the money did not suffice to continue


@dataclass(frozen=True)
class BatchRequest:
    """The size of the batch asked for (exactly or at most `limit`), and the eligible arms."""

    limit: int | None
    exactly: bool
    eligibility: Eligibility
    final: bool  # whether the batch has an exact size that uses up the budget
    structure: CheckedStructure = FREE
    eligible: Any = None  # as the caller gave it
    groups: tuple[int, ...] = ()  # those of `structure.same` that have enough arms
    cost_limit: CostLimit | None = None
    per_cost: bool = False

    @property
    def size(self) -> int:
        """The number of arms that the batch must have."""
        return self.limit if self.exactly and self.limit is not None else 1

    def within(self, context: RunContext, state: RunState, group: int | None) -> Eligibility:
        """The eligibility for this request among the arms of one group; None: of all groups."""
        return eligibility(
            context.pool,
            state.history,
            state.tickets,
            repeats=context.repeats,
            max_failures=_failures_allowed(context, state),
            eligible=self.eligible,
            size=self.size,
            structure=self.structure,
            group=group,
            cost_limit=self.cost_limit,
        )


def request(
    context: RunContext,
    state: RunState,
    n: int | None,
    at_most: int | None,
    eligible: Any,
    structure: BatchStructure | None = None,
    max_cost: float | None = None,
    per_cost: bool | None = None,
) -> BatchRequest:
    """The request described by the arguments of `Optimizer.ask`, checked against budgets and pool."""
    limit, exactly, final = requested_size(context, state, n, at_most)
    if structure is not None and not isinstance(structure, BatchStructure):
        raise InvalidParameterError("structure", structure, "a manyarms.BatchStructure")
    rules = FREE if structure is None else structure.on(context.pool)
    anywhere = Eligibility.of_everything(context.pool.n_arms)
    wanted = BatchRequest(
        limit, exactly, anywhere, final, rules, eligible,
        cost_limit=_cost_limit(context, state, max_cost), per_cost=_per_cost(context, per_cost),
    )  # fmt: skip
    _check_together(wanted)
    allowed = wanted.within(context, state, None)
    allowed.check(limit, exactly)
    wanted = changed(wanted, eligibility=allowed)
    if rules.same is None:
        return wanted
    groups = groups_with(
        rules.same, allowed.allowance, lambda group: wanted.within(context, state, group), wanted.size
    )
    return replace(wanted, groups=groups)


def _cost_limit(context: RunContext, state: RunState, max_cost: float | None) -> CostLimit | None:
    """The limit on the cost of this batch, from the budget and from `max_cost`."""
    if max_cost is not None:
        max_cost = positive("max_cost", max_cost)
        if context.costs is None:
            raise InvalidParameterError("max_cost", max_cost, "left out in a run without costs")
    return None if context.costs is None else context.costs.limit(state.cost_spent, max_cost)


def _per_cost(context: RunContext, given: bool | None) -> bool:
    """Whether this batch is chosen by value per cost."""
    if given is None:
        return context.costs is not None and context.costs.per_cost
    if not isinstance(given, bool):
        raise InvalidParameterError("per_cost", given, "True, False or None")
    if given and context.costs is None:
        raise InvalidParameterError("per_cost", given, "left out in a run without costs")
    if given:
        check_per_cost(context.policy)
    return given


def _check_together(wanted: BatchRequest) -> None:
    """Refuse exactly n arms under limits on labels and a limit on the cost, unless the cost cannot exceed it.

    Whether such a batch can be completed is not decided here: it is a knapsack problem with groups.
    """
    limit = wanted.cost_limit
    if limit is None or not wanted.structure.limits or wanted.size <= 1:
        return
    if wanted.size * float(limit.costs.max()) > limit.room:
        rule = "left out (at_most can be given) where labels and the cost of a batch are both limited"
        raise InvalidParameterError("n", wanted.size, rule)


def requested_size(
    context: RunContext, state: RunState, n: int | None, at_most: int | None
) -> tuple[int | None, bool, bool]:
    """The limit on a batch's size, whether it is exact, and whether such a batch uses up the budget."""
    if n is not None and at_most is not None:
        raise InvalidParameterError("at_most", at_most, "left out when exactly n arms are asked for")
    exactly = n is not None
    limit = count("n", n) if exactly else None if at_most is None else count("at_most", at_most)
    left = math.inf if context.budget is None else context.budget - state.tickets.spent
    if left <= 0:
        raise BudgetSpentError(f"all {context.budget} pulls of the budget have been handed out")
    if limit is not None and exactly and limit > left:
        raise BudgetSpentError(
            f"{limit} arms were asked for, but the budget of {context.budget} pulls has only {left} left"
        )
    if context.budget is not None:
        limit = int(left) if limit is None else min(limit, int(left))
    return limit, exactly, exactly and limit == left


def asked(context: RunContext, state: RunState, wanted: BatchRequest) -> tuple[RunState, Batch]:
    """The state after a batch has been handed out, and the batch."""
    started = time.perf_counter()
    state = _with_design(context, with_feedback(context, state), wanted.limit if wanted.exactly else None)
    state = with_elimination(context, state, wanted.exactly)
    width, success = state.belief.width(), _placed_success(context, state)
    wanted = _in_one_group(context, state, wanted, _bound_rule(state, width, success))
    filled = _again_named(state, _filled(context, state, wanted, width, success))
    if filled.ended_because == NO_ARM_LEFT and wanted.eligibility.ended_by_costs(filled.arms):
        filled = replace(filled, ended_because=COST_LIMIT)
    if wanted.structure.limits and len(filled.arms) < wanted.size:
        raise NothingToAskError(
            f"{wanted.size} arms were asked for, but after {len(filled.arms)} of them the limits on arms "
            "with the same label leave no other arm: ask for fewer, or raise a limit"
        )
    return handed_out(context, state, filled, width, started)


def _failures_allowed(context: RunContext, state: RunState) -> int | None:
    """After how many failures an arm is not offered again; None: it always may be."""
    if not state.tickets.failures:
        return None
    from manyarms.run.failing import failures_allowed  # imported when it is needed

    return failures_allowed(context, state.history, state.tickets)


def _placed_success(context: RunContext, state: RunState) -> PlacedSuccess | None:
    """The probability of success of all arms, if failures depend on the features."""
    if not state.tickets.failures or not state.belief.state.pulls:
        return None
    from manyarms.choice.success import PlacedSuccess  # imported when it is needed
    from manyarms.run.failing import success_model

    model = success_model(context, state)
    if model is None or not model.depends:
        return None
    return PlacedSuccess(model, context.encoded_pool, state.belief.state.over_pool.shards)


def _bound_rule(state: RunState, width: float, success: PlacedSuccess | None) -> BoundRule:
    """The bounds by which groups of arms are compared."""
    if success is None:
        return BoundRule(width)
    from manyarms.choice.success import ValueWithSuccess

    return BoundRule(width, gain=ValueWithSuccess.under(state.belief.posterior, success).gain)


def _again_named(state: RunState, filled: FilledBatch) -> FilledBatch:
    """The batch, saying of arms that failed before and are offered again that they are."""
    failed = state.tickets.failures
    if not failed:
        return filled
    why = [
        reason + AGAIN if arm in failed else reason
        for arm, reason in zip(filled.arms, filled.why, strict=True)
    ]
    return replace(filled, why=why)


def _in_one_group(
    context: RunContext, state: RunState, wanted: BatchRequest, rule: BoundRule
) -> BatchRequest:
    """The request among the arms of one group, if all arms of the batch must belong to the same one."""
    same = wanted.structure.same
    if same is None:
        return wanted

    def within(group: int) -> Eligibility:
        return wanted.within(context, state, group)

    if state.belief.state.pulls:
        size = wanted.limit if wanted.exactly else min(wanted.limit or TYPICAL_SIZE, TYPICAL_SIZE)
        assert size is not None
        group = best_group(wanted.groups, within, state.belief.state.over_pool, rule, size)
    else:
        design = np.array(_left_of_design(state, wanted.eligibility.others), dtype=np.int64)
        group = group_of_most(wanted.groups, same, design)
    return replace(wanted, eligibility=within(group))


def handed_out(
    context: RunContext, state: RunState, filled: FilledBatch, width: float, started: float
) -> tuple[RunState, Batch]:
    """The state with tickets for a batch that was chosen with this width, and the batch.

    `started` is the value of `time.perf_counter` when it was asked for.
    """
    later, issued = state.tickets.issued(filled.arms)
    arms, tickets = np.array(filled.arms, dtype=np.int64), np.array(issued, dtype=np.int64)
    read_only(arms)  # the trace and the caller share these
    read_only(tickets)
    why, posterior = tuple(filled.why), state.belief.state
    record = unanswered(
        arms,
        tickets,
        dictionary_size=posterior.sketch_size,
        width=width,
        effective_dimension=posterior.effective_dimension,
        ended_because=filled.ended_because,
        ratio=filled.ratio,
        seconds=time.perf_counter() - started,
        why=why,
    )
    costs = context.costs
    after = changed(
        state,
        tickets=later,
        cost_spent=state.cost_spent + (0.0 if costs is None else costs.total(arms)),
        trace=state.trace.with_batch(record),
        elimination=filled.elimination,
        n_batches=state.n_batches + 1,
    )
    ids = context.pool.ids_of(arms)
    return after, Batch(
        arms=arms, ids=ids, tickets=tickets, ended_because=filled.ended_because, ratio=filled.ratio, why=why,
        costs=None if costs is None else costs.values[arms],
    )  # fmt: skip


def _filled(
    context: RunContext, state: RunState, wanted: BatchRequest, width: float, success: PlacedSuccess | None
) -> FilledBatch:
    belief, allowed = state.belief, wanted.eligibility
    posterior = belief.posterior
    overlay = Hallucination(posterior)
    for arm, times in sorted(state.tickets.pending_counts().items()):
        overlay.pull(arm, times)
    batch = BatchContext(
        posterior=posterior,
        overlay=overlay,
        stopping_rule=belief.policy.stopping_rule(),
        width=width,
        batch_ratio=belief.policy.ratio_bound if isinstance(belief.policy.width, str) else math.inf,
        allowed=allowed.allowance,
        limit=wanted.limit,
        exactly=wanted.exactly,
        stream=lambda purpose: context.streams.at(purpose, state.n_batches),
        lazy=context.lazy,
        prior=belief.prior,
        elimination=state.elimination,
        costs=context.costs,
        success=success,
    )
    size = wanted.limit - len(allowed.first) if wanted.exactly and wanted.limit is not None else None
    rule = _selection_rule(context, state, allowed.others, size, wanted)
    first = tuple(allowed.first.tolist())
    return (StartWith(first, rule, REQUESTED) if first else rule).fill(batch)


def _selection_rule(
    context: RunContext, state: RunState, allowed: Allowance, size: int | None, wanted: BatchRequest
) -> SelectionRule:
    """The initial design until it has been handed out; then, once there are results, the policy's rule.

    A batch of a given size that is larger than the rest of the design is filled up by the policy. The final
    batch ignores the design. With a learned model's practical width, large batches have exploration arms.
    Neither holds if arms are chosen by value per cost.
    """
    final = wanted.final and not wanted.per_cost
    if state.elimination is not None:
        return state.belief.policy.selection_rule()
    left = () if final and state.belief.state.pulls else _left_of_design(state, allowed)
    if not state.belief.state.pulls:
        return FromDesign(left) if left else UniformStart()
    rule = state.belief.policy.selection_rule()
    if wanted.per_cost:
        from manyarms.choice.best_per_cost import BestPerCost  # imported when it is needed

        rule = BestPerCost()
    elif isinstance(rule, UpperBounds) and context.uses_practical_width:
        rule = FinalBatch(rule) if final else WithScouts(WithExploration(rule))
    if not left:
        return rule
    if size is None or size <= len(left):
        return FromDesign(left)
    return StartWith(left, rule, INITIAL_DESIGN)


def _left_of_design(state: RunState, allowed: Allowance) -> tuple[int, ...]:
    """The arms of the initial design still to be handed out; none once as many arms have results."""
    if state.design is None or len(state.history) >= len(state.design):
        return ()
    taken = {*state.history.arms.tolist(), *state.tickets.arms}
    return tuple(arm for arm in state.design if arm not in taken and allowed[arm] > 0)


def _with_design(context: RunContext, state: RunState, at_least: int | None) -> RunState:
    """The state with an initial design, if the model is learned and there are too few results yet."""
    prepared = context.prepared
    if prepared is None or state.design is not None:
        return state
    size = max(design_size(prepared, context.planned_pulls), min(at_least or 0, context.pool.n_arms))
    if len(state.history) >= size:
        return replace(state, design=())
    drawn = initial_design(prepared, size, context.streams.at("design"))
    return replace(state, design=tuple(drawn.tolist()))
