"""Several workers at once: merged asks, two servers on one campaign, and events."""

from __future__ import annotations

import json
import threading
import time
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest

from manyarms import errors
from manyarms.campaigns.campaign import Campaign
from manyarms.campaigns.orders import Share
from manyarms.campaigns.queries import batches, history, ticket_counts
from manyarms.service.model_thread import AskRequest, ModelThread
from tests.campaigns.support import wait_until
from tests.service.support import campaign_in, in_process


def requests(sizes: list[int | None], **more: object) -> list[AskRequest]:
    return [AskRequest(Share(size, f"w{i}", 60.0, f"key {i}", "d"), **more) for i, size in enumerate(sizes)]  # type: ignore[arg-type]


def merged(path: Path, wanted: list[AskRequest]) -> list[Future[object]]:
    """The asks that wait while the thread is busy."""
    thread = ModelThread(lambda: Campaign(path), lambda: None)
    busy, free = threading.Event(), threading.Event()

    def wait(_campaign: Campaign) -> None:
        busy.set()
        free.wait()

    thread.call(wait)
    busy.wait()
    futures = [thread.ask(each) for each in wanted]
    free.set()
    for future in futures:
        future.exception(timeout=60)
    thread.close()
    return futures  # type: ignore[return-value]


def test_waiting_asks_share_one_batch(tmp_path: Path) -> None:
    path = campaign_in(tmp_path)
    parts = [each.result() for each in merged(path, requests([1, 3, 2]))]
    assert [[ticket.ticket for ticket in part] for part in parts] == [[0], [1, 2, 3], [4, 5]]
    with Campaign(path) as campaign, campaign.store.reading() as connection:
        tickets = campaign.store.tickets(connection)
    assert [each.worker for each in tickets] == ["w0", "w1", "w1", "w1", "w2", "w2"]
    assert {each.batch for each in tickets} == {1}


def test_asks_of_other_kinds_are_answered_alone(tmp_path: Path) -> None:
    path = campaign_in(tmp_path)
    wanted = [*requests([2, None, 2]), AskRequest(Share(1, key="k", digest="d"), condition="x1 < 0.5")]
    results = [each.result() for each in merged(path, wanted)]
    with Campaign(path) as campaign:
        assert [each["size"] for each in batches(campaign)] == [4, len(results[1]), 1]


def test_a_merged_ask_that_does_not_fit_is_split(tmp_path: Path) -> None:
    path = campaign_in(tmp_path, budget=4)
    futures = merged(path, requests([2, 3, 1, 1, 1]))
    outcomes = [
        len(each.result()) if each.exception() is None else type(each.exception()) for each in futures
    ]
    assert outcomes == [2, errors.BudgetSpentError, 1, 1, errors.BudgetSpentError]
    with Campaign(path) as campaign:
        assert ticket_counts(campaign)["open"] == 4


def test_a_key_that_waits_twice_is_answered_once(tmp_path: Path) -> None:
    path = campaign_in(tmp_path)
    one = requests([2])[0]
    first, second = merged(path, [one, one])
    assert first.result() == second.result()
    with Campaign(path) as campaign:
        assert ticket_counts(campaign)["open"] == 2


def test_a_closed_thread_refuses_and_forgets_nothing(tmp_path: Path) -> None:
    thread = ModelThread(lambda: Campaign(campaign_in(tmp_path)), lambda: None)
    assert len(thread.ask(requests([2])[0]).result(60)) == 2
    thread.close()
    with pytest.raises(errors.ServiceBusyError):
        thread.ask(requests([1])[0])


def test_a_requester_that_goes_away_does_not_stop_the_thread(tmp_path: Path) -> None:
    path = campaign_in(tmp_path)
    thread = ModelThread(lambda: Campaign(path), lambda: None)
    free = threading.Event()
    thread.call(lambda _campaign: free.wait())
    gone, later = thread.call(lambda _campaign: 1), thread.call(lambda _campaign: 2)
    assert gone.cancel()
    free.set()
    assert later.result(60) == 2
    thread.close()


def test_the_end_of_a_thread_does_not_mind_requesters_that_have_gone(tmp_path: Path) -> None:
    path = campaign_in(tmp_path)
    thread = ModelThread(lambda: Campaign(path), lambda: None)
    begun, free = threading.Event(), threading.Event()
    running = thread.call(lambda _campaign: (begun.set(), free.wait()))
    begun.wait()
    gone, waiting = thread.call(lambda _campaign: 1), thread.call(lambda _campaign: 2)
    assert gone.cancel()
    threading.Timer(0.1, free.set).start()
    thread.close()
    with pytest.raises(errors.ServiceBusyError):
        waiting.result(60)
    assert running.result(60)


def test_news_that_cannot_be_spread_do_not_end_the_thread(tmp_path: Path) -> None:
    """The batch is handed out by then, so its requester gets it, and the next ask is answered."""
    path = campaign_in(tmp_path)

    def fails() -> None:
        raise RuntimeError("the event loop is closed")

    thread = ModelThread(lambda: Campaign(path), fails)
    for number in range(2):
        (issued,) = thread.ask(AskRequest(Share(1, key=f"k{number}", digest="d"))).result(60)
        assert issued.ticket == number
    thread.close()


def worker(address: str, name: str, trials: int, seen: list[tuple[str, float]]) -> None:
    """Ask for one candidate, measure it and tell it, again and again."""
    with httpx.Client(base_url=address, timeout=60) as client:
        for i in range(trials):
            key = {"Idempotency-Key": f"{name} {i}"}
            (ticket,) = client.post("/campaigns/screen/asks", json={"n": 1}, headers=key).json()["tickets"]
            value = float(ticket["columns"]["x1"]) + 0.001 * ticket["number"]
            told = client.put(f"/campaigns/screen/tickets/{ticket['ticket']}/result", json={"value": value})
            assert told.json()["new"] == 1
            seen.append((ticket["ticket"], value))


# Pydantic changes the filters of warnings while it builds a model, which is not safe in two threads.
@pytest.mark.filterwarnings("default:::pydantic.*")
def test_two_servers_on_one_campaign_hand_out_every_ticket_once(tmp_path: Path) -> None:
    path = campaign_in(tmp_path, repeats="forbid")
    seen: list[tuple[str, float]] = []
    with in_process(tmp_path) as one, in_process(tmp_path) as two, ThreadPoolExecutor(4) as pool:
        addresses = [str(one.base_url), str(two.base_url)] * 2
        jobs = [pool.submit(worker, where, f"w{i}", 5, seen) for i, where in enumerate(addresses)]
        for job in jobs:
            job.result()
        same = {"json": {"n": 1}, "headers": {"Idempotency-Key": "shared"}}
        pair = [pool.submit(each.post, "/campaigns/screen/asks", **same) for each in (one, two)]
        assert pair[0].result().json() == pair[1].result().json()
    with Campaign(path) as campaign:
        rows = history(campaign)
        assert sorted((row.code, row.value) for row in rows) == sorted(seen)
        assert len({row.id for row in rows}) == 20, "repeats are forbidden"
        assert ticket_counts(campaign)["open"] == 1


# ------------------------------------------------------------------ events


def next_change(lines: object) -> dict[str, int]:
    for line in lines:  # type: ignore[attr-defined]
        if line.startswith("data: "):
            return dict(json.loads(line.removeprefix("data: ")))
    raise AssertionError("the stream has ended")


def test_watchers_are_told_of_changes_by_anyone(tmp_path: Path) -> None:
    path = campaign_in(tmp_path)
    with in_process(tmp_path) as client, client.stream("GET", "/campaigns/screen/events") as stream:
        assert stream.headers["content-type"].startswith("text/event-stream")
        lines = stream.iter_lines()
        assert next_change(lines)["batches"] == 0
        with Campaign(path) as campaign:  # another process
            campaign.ask(2)
            assert (next_change(lines)["batches"], campaign.ask(1)[0].batch) == (1, 2)
        assert next_change(lines)["open"] == 3
        client.post("/campaigns/screen/tickets/forget", json={"all_open": True})
        assert next_change(lines) == {
            "sequence": 1, "batches": 2, "corrections": 0, "candidates": 120, "excluded": 0, "open": 0
        }  # fmt: skip


def test_a_watcher_that_returns_is_told_only_what_is_new(tmp_path: Path) -> None:
    campaign_in(tmp_path)
    with in_process(tmp_path) as client:
        with client.stream("GET", "/campaigns/screen/events") as stream:
            known = next(line for line in stream.iter_lines() if line.startswith("id: ")).removeprefix("id: ")
        with client.stream("GET", "/campaigns/screen/events", headers={"Last-Event-ID": known}) as stream:
            lines = stream.iter_lines()
            client.post("/campaigns/screen/asks", json={"n": 1})
            assert next_change(lines)["batches"] == 1


def test_there_is_a_limit_on_watchers_and_closed_streams_free_their_place(tmp_path: Path) -> None:
    from manyarms.service.limits import Limits

    campaign_in(tmp_path)
    with in_process(tmp_path, limits=Limits(streams=1)) as client:
        with client.stream("GET", "/campaigns/screen/events") as stream:
            lines = stream.iter_lines()  # kept, because its end would end the stream
            next_change(lines)
            assert client.get("/campaigns/screen/events").status_code == 503
        deadline = time.monotonic() + 20

        def free() -> bool:
            with client.stream("GET", "/campaigns/screen/events") as again:
                return again.status_code == 200

        wait_until(free, deadline - time.monotonic())
