"""What each route does."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from manyarms.campaigns.campaign import Campaign
from manyarms.campaigns.queries import history
from tests.service.support import campaign_in, in_process


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    campaign_in(tmp_path, budget=40)
    return tmp_path


@pytest.fixture
def client(folder: Path) -> Iterator[httpx.Client]:
    with in_process(folder) as found:
        yield found


def ask(client: httpx.Client, n: int = 2, **more: object) -> list[dict[str, object]]:
    answer = client.post("/campaigns/screen/asks", json={"n": n, **more})
    assert answer.status_code == 201, answer.text
    return answer.json()["tickets"]


def test_ask_tell_and_look(client: httpx.Client, folder: Path) -> None:
    assert client.get("/campaigns").json() == {"campaigns": ["screen"]}
    tickets = ask(client, 3)
    assert [each["number"] for each in tickets] == [0, 1, 2]
    assert set(tickets[0]["columns"]) == {"x1", "x2", "remark"}
    for value, each in enumerate(tickets):
        told = client.put(f"/campaigns/screen/tickets/{each['ticket']}/result", json={"value": value})
        assert told.json()["new"] == 1
    status = client.get("/campaigns/screen/status").json()
    assert status["campaign"] == "screen"
    assert status["results"]["values"] == 3
    assert status["budget_left"] == 37
    best = client.get("/campaigns/screen/best", params={"k": 2}).json()["best"]
    assert len(best) == 2
    past = client.get("/campaigns/screen/history").json()
    assert [row["ticket"] for row in past["results"]] == [each["ticket"] for each in tickets]
    assert client.get("/campaigns/screen/batches").json()["batches"][0]["size"] == 3
    with Campaign(folder / "screen.db") as campaign:
        assert [row.value for row in history(campaign)] == [0.0, 1.0, 2.0]


def test_a_result_is_recorded_once(client: httpx.Client) -> None:
    (ticket,) = ask(client, 1)
    where = f"/campaigns/screen/tickets/{ticket['ticket']}/result"
    assert client.put(where, json={"value": 1.5}).json()["new"] == 1
    again = client.put(where, json={"value": 1.5}).json()
    assert (again["new"], again["known"]) == (0, 1)
    other = client.put(where, json={"value": 2.5})
    assert (other.status_code, other.json()["kind"]) == (409, "AlreadyToldError")
    assert "1.5" in other.json()["detail"]
    number = client.put(f"/campaigns/screen/tickets/{ticket['number']}/result", json={"value": 1.5})
    assert (number.status_code, number.json()["kind"]) == (404, "UnknownTicketError")
    assert client.get("/campaigns/screen/history").json()["total"] == 1


def test_a_failed_trial_has_a_note(client: httpx.Client) -> None:
    (ticket,) = ask(client, 1)
    where = f"/campaigns/screen/tickets/{ticket['ticket']}/result"
    assert client.put(where, json={"failed": True, "value": 1}).status_code == 422
    assert client.put(where, json={}).status_code == 422
    assert client.put(where, json={"failed": True, "note": "spilt"}).json()["failed"] == 1
    assert client.get("/campaigns/screen/history").json()["results"][0]["note"] == "spilt"


def test_a_key_gives_the_same_tickets_again(client: httpx.Client, folder: Path) -> None:
    def keyed(key: str, n: int) -> object:
        return client.post("/campaigns/screen/asks", json={"n": n}, headers={"Idempotency-Key": key})

    first, again = keyed("k", 2), keyed("k", 2)
    assert first.json() == again.json()
    other = keyed("k", 3)
    assert (other.status_code, other.json()["kind"]) == (422, "RepeatedKeyError")
    assert keyed("l", 2).json() != first.json()
    with in_process(folder) as restarted:  # the keys are stored with the batches
        third = restarted.post("/campaigns/screen/asks", json={"n": 2}, headers={"Idempotency-Key": "k"})
        assert third.json() == first.json()
    assert len(client.get("/campaigns/screen/tickets").json()["tickets"]) == 4


def test_a_long_ask_becomes_an_operation(client: httpx.Client) -> None:
    begun = client.post("/campaigns/screen/asks", json={"n": 2}, params={"wait": 0})
    assert begun.status_code == 202
    assert begun.headers["Location"].endswith(begun.json()["operation"])
    found = client.get(begun.headers["Location"], params={"wait": 20})
    assert found.status_code == 200
    assert len(found.json()["tickets"]) == 2
    unknown = client.get(f"/campaigns/screen/operations/{'0' * 64}")
    assert (unknown.status_code, unknown.json()["kind"]) == (404, "UnknownOperationError")


def test_errors_are_problems_with_the_kinds_of_the_command(client: httpx.Client) -> None:
    spent = client.post("/campaigns/screen/asks", json={"n": 41})
    assert spent.headers["content-type"] == "application/problem+json"
    assert (spent.status_code, spent.json()["kind"]) == (409, "BudgetSpentError")
    assert client.get("/campaigns/nothing/status").json()["kind"] == "NoCampaignError"
    assert client.get("/campaigns/screen/best").json()["kind"] == "NoResultsError"
    both = client.post("/campaigns/screen/asks", json={"n": 1, "at_most": 2})
    assert (both.status_code, both.json()["kind"]) == (422, "InvalidRequestError")
    unknown = client.post("/campaigns/screen/asks", json={"number": 1})
    assert (unknown.status_code, unknown.json()["kind"]) == (422, "InvalidRequestError")
    assert "number" in unknown.json()["detail"]
    assert client.get("/nowhere").headers["content-type"] == "application/problem+json"
    assert client.get("/campaigns/screen/tickets").json()["tickets"] == []


def test_conditions_limit_an_ask(client: httpx.Client) -> None:
    tickets = ask(client, 3, eligible="x1 < 0.3")
    assert all(float(each["columns"]["x1"]) < 0.3 for each in tickets)
    assert {each["id"] for each in ask(client, 2, ids=["arm 5", "arm 9"])} <= {"arm 5", "arm 9"}
    wrong = client.post("/campaigns/screen/asks", json={"n": 1, "ids": ["arm 5", "no such arm"]})
    assert (wrong.status_code, wrong.json()["kind"]) == (404, "UnknownArmError")


def test_a_batch_file_is_downloaded_and_uploaded(client: httpx.Client) -> None:
    ask(client, 2)
    answer = client.get("/campaigns/screen/batches/1/file")
    assert answer.headers["content-disposition"] == 'attachment; filename="screen-batch-1.csv"'
    rows = list(csv.DictReader(io.StringIO(answer.text)))
    for value, row in enumerate(rows):
        row["value"] = str(value)
    filled = io.StringIO(newline="")
    writer = csv.DictWriter(filled, list(rows[0]))
    writer.writeheader()
    writer.writerows(rows)
    where = "/campaigns/screen/results/file"
    for new, known in ((2, 0), (0, 2)):
        told = client.post(where, params={"name": "plate.csv"}, content=filled.getvalue().encode()).json()
        assert (told["new"], told["known"]) == (new, known)
    assert client.get("/campaigns/screen/tickets").json()["tickets"] == []
    assert client.get("/campaigns/screen/batches/7/file").status_code == 409
    for form in ("tsv", "xlsx"):
        assert client.get("/campaigns/screen/tickets/file", params={"format": form}).status_code == 200


def test_results_are_corrected_and_removed(client: httpx.Client) -> None:
    tickets = ask(client, 2)
    rows = [{"ticket": each["ticket"], "value": 1.0} for each in tickets]
    assert client.post("/campaigns/screen/results", json={"rows": rows}).json()["new"] == 2
    where = "/campaigns/screen/corrections"
    changed = client.post(where, json={"rows": [{**rows[0], "value": 2.0}], "why": "typing error"}).json()
    assert [(each["old_value"], each["new_value"]) for each in changed["changes"]] == [(1.0, 2.0)]
    gone = client.post(where, json={"rows": [{"ticket": tickets[1]["ticket"]}], "remove": True}).json()
    assert gone["changes"][0]["removed"]
    record = client.get("/campaigns/screen/history").json()["corrections"]
    assert [each["who"] for each in record] == ["local user"] * 2
    assert len(client.get("/campaigns/screen/tickets").json()["tickets"]) == 1


def test_leases_are_renewed_and_released_by_their_worker(client: httpx.Client, folder: Path) -> None:
    (ticket,) = ask(client, 1, worker="robot", lease=60)
    where = f"/campaigns/screen/tickets/{ticket['ticket']}"
    renewed = client.post(f"{where}/renew", json={"worker": "robot", "lease": 600}).json()
    with Campaign(folder / "screen.db") as campaign, campaign.store.reading() as connection:
        (stored,) = campaign.store.tickets(connection)
    assert stored.lease_until == renewed["lease_until"]
    foreign = client.post(f"{where}/renew", json={"worker": "other", "lease": 600})
    assert (foreign.status_code, foreign.json()["kind"]) == (409, "LeaseError")
    assert client.post(f"{where}/release", json={"worker": "other"}).status_code == 409
    assert client.post(f"{where}/release", json={"worker": "robot"}).json() == {"forgotten": [0]}
    assert client.post(f"{where}/renew", json={"worker": "robot", "lease": 9}).status_code == 409
    late = client.put(f"{where}/result", json={"value": 1.0}).json()
    assert late["late"] == 1


def test_candidates_are_excluded_and_allowed_again(client: httpx.Client) -> None:
    ids = [f"arm {i}" for i in range(118)]
    assert client.post("/campaigns/screen/exclusions", json={"ids": ids}).json()["changed"] == 118
    assert {each["id"] for each in ask(client, 2)} <= {"arm 118", "arm 119"}
    back = client.post("/campaigns/screen/readmissions", json={"ids": ids[:1]}).json()
    assert (back["changed"], len(back["excluded"])) == (1, 117)
