"""One of several people whose commands are killed: `python -m tests.campaigns.killed_crowd …`.

Each asks for batches and is killed in half of the asks between the rename of the batch file and the commit,
and at random moments while results are recorded. The batch file of a killed ask is filled in and told, too,
by tickets alone, and must be refused.
"""

from __future__ import annotations

import csv
import json
import os
import random
import sys
from pathlib import Path

from tests.campaigns.killed import ended, started


def value_of_id(name: str) -> float:
    """The value of a candidate, which shows where a result belongs."""
    return int(name.split()[1]) / 8


def fill_tickets(path: Path) -> None:
    """Replace a batch file by the tickets and values of the candidates it names."""
    with open(path, newline="") as stream:
        rows = [(row["ticket"], value_of_id(row["name"])) for row in csv.DictReader(stream)]
    path.write_text("ticket,value\n" + "".join(f"{ticket},{value}\n" for ticket, value in rows))


def status_of(arguments: list[str], seconds: float | None = None, window: bool = False) -> int:
    process = started(arguments, window)
    try:
        return ended(process, seconds)
    finally:
        os.waitpid(process, 0)


def main(place: str, number: int, rounds: int) -> None:
    """Ask, be killed, ask again, tell; print what happened."""
    rng = random.Random(number)
    counts = {"orphans": 0, "told": 0, "killed": 0}
    for turn in range(rounds):
        path, orphan = Path(f"b{number}-{turn}.csv"), Path(f"o{number}-{turn}.csv")
        if turn == 0 or rng.random() < 0.5:
            assert status_of(["ask", place, "-n", "2", "--out", str(orphan)], window=True) == -9
            counts["orphans"] += 1
        code = status_of(["ask", place, "-n", "2", "--out", str(path)])
        assert code == 0, code
        if orphan.exists():
            fill_tickets(orphan)
            code = status_of(["tell", place, str(orphan)])
            assert code == 3, f"an orphan was not refused: {code}"
        fill_tickets(path)
        counts["killed"] += status_of(["tell", place, str(path)], seconds=rng.uniform(0.0, 0.3)) == -9
        code = status_of(["tell", place, str(path)])
        assert code == 0, code
        counts["told"] += 2
    print(json.dumps(counts))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
