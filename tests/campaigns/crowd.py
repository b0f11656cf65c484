"""One of several processes that ask and tell on one campaign at once: `python -m tests.campaigns.crowd …`."""

from __future__ import annotations

import random
import sys

from manyarms.campaigns.campaign import Campaign
from manyarms.errors import ManyarmsError
from tests.campaigns.support import results


def main(place: str, number: int, rounds: int) -> None:
    """Ask, tell some, forget one; what another process may run into is an error here."""
    rng = random.Random(number)
    with Campaign(place) as campaign:
        for turn in range(rounds):
            issued = campaign.ask(rng.randrange(1, 4), worker=f"crowd/{number}")
            print("asked", *(each.ticket for each in issued), flush=True)
            text = results(issued)
            campaign.tell_bytes(text.encode(), "r.csv")
            campaign.tell_bytes(text.encode(), "r.csv")
            if turn == 0:
                lost = campaign.ask(1)
                campaign.forget([lost[0].ticket])
                print("forgot", lost[0].ticket, flush=True)


if __name__ == "__main__":
    try:
        main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
    except ManyarmsError as problem:
        sys.exit(f"{type(problem).__name__}: {problem}")
