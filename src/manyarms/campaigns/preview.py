"""What the next ask would hand out now, and why; nothing is handed out."""

from __future__ import annotations

from manyarms.campaigns.campaign import Campaign
from manyarms.campaigns.next_batch import propose
from manyarms.campaigns.orders import Issued, Order
from manyarms.campaigns.queries import snapshot


def preview(campaign: Campaign, n: int | None = None, at_most: int | None = None) -> list[Issued]:
    """The candidates of the next batch, with predictions and reasons, as `ask` would hand them out now.

    Every result that is recorded before the ask may change the batch.
    """
    seen = snapshot(campaign)
    campaign._keep_up(seen.n_arms)
    proposal = propose(campaign.settings, campaign.current(seen), seen, Order(n, at_most, None, ()))
    arms = proposal.batch.arms.tolist()
    rows = zip(
        proposal.batch.tickets.tolist(), arms, proposal.names, campaign.source.cells_of(arms),
        proposal.predictions, proposal.batch.why, proposal.costs, proposal.gains, strict=True,
    )  # fmt: skip
    number = proposal.facts["number"]
    return [
        Issued(
            ticket,
            number,
            arm,
            name,
            own,
            said.mean,
            said.std,
            why,
            said.lower,
            said.upper,
            cost=cost,
            gain=gain,
        )
        for ticket, arm, name, own, said, why, cost, gain in rows
    ]
