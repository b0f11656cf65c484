"""Rounds of a run: who measures what, what stops it, and what a lost worker leaves behind."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
import time

import pytest

from manyarms import errors
from manyarms.campaigns.campaign import Campaign
from manyarms.campaigns.queries import batches, history
from manyarms.campaigns.status import status
from manyarms.campaigns.store.schema import TICKETS
from manyarms.campaigns.workers import running
from manyarms.campaigns.workers.command_trials import LONGEST_NOTE, StoppedError, TrialFailedError
from manyarms.campaigns.workers.running import RunPlan, run
from manyarms.support.interrupts import deferred_interrupts
from tests.campaigns.support import coded, made, value_of, wait_until, write_pool


class Bench:
    """A way to measure without processes; `broken` are tickets that fail, `slow` a gate to wait at."""

    def __init__(self, broken=(), gate: threading.Event | None = None, seconds: float = 0.0):
        self.broken, self.gate, self.seconds, self.closed = broken, gate, seconds, False
        self.attempts: list[int] = []

    def measure(self, job, timeout):
        self.attempts.append(job.ticket)
        if self.gate is not None and not self.gate.wait(120):
            raise StoppedError
        time.sleep(self.seconds)
        if self.broken == "all" or job.ticket in self.broken:
            raise TrialFailedError("broken")
        return value_of(float(job.columns["x1"]), float(job.columns["x2"]), job.ticket)

    def close(self):
        self.closed = True


def told(campaign: Campaign):
    return sorted((each.ticket, each.id, each.value) for each in history(campaign))


@pytest.mark.parametrize("plan", [RunPlan(workers=3, batch=4), RunPlan()], ids=["rounds", "one worker"])
def test_the_speed_of_workers_changes_nothing_in_rounds_and_for_one_worker(tmp_path, plan):
    write_pool(tmp_path)
    for name, seconds in (("a.db", 0.0), ("b.db", 0.01)):
        with made(tmp_path, name, budget=30) as campaign:
            tally = run(campaign, lambda s=seconds: Bench(seconds=s * len(threading.enumerate())), plan)
            assert (tally.measured, tally.stopped_because) == (30, "budget spent")
    with Campaign(tmp_path / "a.db") as one, Campaign(tmp_path / "b.db") as other:
        assert told(one) == told(other)


def test_no_worker_waits_for_a_slow_trial_and_the_same_events_give_the_same_candidates(tmp_path):
    """Ticket 1 goes on until 36 other trials have ended. A worker that waited for it would never end them."""
    done, enough, lock = [], threading.Event(), threading.Lock()

    class Uneven(Bench):
        def measure(self, job, timeout):
            if job.ticket == 1:
                assert enough.wait(60), f"the others waited for ticket 1 after {len(done)} trials"
            value = super().measure(job, timeout)
            with lock:
                done.append(job.ticket)
                if len(done) == 36:
                    enough.set()
            return value

    write_pool(tmp_path)
    events = []
    with made(tmp_path, budget=40) as campaign:
        ask, tell = campaign.ask, campaign.tell

        def logged_ask(n=None, **options):
            issued = ask(n, **options)
            events.append(("ask", n, options.get("at_most"), [each.arm for each in issued]))
            return issued

        def logged_tell(outcomes):
            counts = status(campaign)["tickets"]
            assert counts["open"] >= 4 or counts["open"] + counts["told"] == 40, "a worker has nothing to do"
            events.append(("tell", [(each.ticket, each.value) for each in outcomes]))
            return tell(outcomes)

        campaign.ask, campaign.tell = logged_ask, logged_tell
        tally = run(campaign, Uneven, RunPlan(workers=4))
        assert (tally.measured, tally.stopped_because) == (40, "budget spent")
        assert done.index(1) >= 36
        assert [batches(campaign)[i]["size"] for i in (0, 1)] == [1, 3]  # the first arm, and three beside it
    with made(tmp_path, "replay.db", budget=40) as campaign:
        for kind, *event in events:
            if kind == "ask":
                n, at_most, arms = event
                assert [each.arm for each in campaign.ask(n, at_most=at_most)] == arms
            else:
                rows = "".join(f"{ticket},{value!r}\n" for ticket, value in event[0])
                campaign.tell_bytes(coded(campaign, f"ticket,value\n{rows}").encode(), "r.csv")


def test_stops_after_so_many_trials_at_a_target_or_when_nothing_is_left(tmp_path):
    with made(tmp_path, repeats="forbid") as campaign:
        assert run(campaign, Bench, RunPlan(trials=7, batch=4)).measured == 7
        tally = run(campaign, Bench, RunPlan(batch=5, until=0.8))
        assert tally.stopped_because == "target reached"
        assert tally.best >= 0.8
        assert status(campaign)["tickets"]["open"] == 0  # those not measured were given up
        assert run(campaign, Bench, RunPlan(batch=50)).stopped_because == "nothing left to ask"
        assert status(campaign)["results"]["candidates"] == 120


def test_failures_are_retried_told_with_their_reason_and_end_a_hopeless_run(tmp_path):
    with made(tmp_path) as campaign:
        bench = Bench(broken=(1,))
        tally = run(campaign, lambda: bench, RunPlan(batch=3, trials=6, retries=2))
        assert (tally.measured, tally.failed) == (5, 1)
        assert bench.attempts.count(1) == 3
        (failed,) = [each for each in history(campaign) if each.failed]
        assert (failed.ticket, failed.note) == (1, "broken")
        with pytest.raises(errors.TrialsFailingError, match="broken"):
            run(campaign, lambda: Bench(broken="all"), RunPlan(batch=8, retries=0))
        assert status(campaign)["tickets"]["failed"] >= running.MAX_CONSECUTIVE_FAILURES


def test_tickets_of_a_dead_process_are_taken_up_and_those_of_a_living_one_left_alone(tmp_path):
    with made(tmp_path) as campaign:
        campaign.ask(
            2, worker=f"{socket.gethostname()}/4194305", lease_seconds=1000
        )  # above any process number
        campaign.ask(2, worker=f"{socket.gethostname()}/1", lease_seconds=1000)
        campaign.ask(2, worker="another machine/1", lease_seconds=1000)
        campaign.ask(2, worker="another machine/2", lease_seconds=-1)
        campaign.ask(2)  # somebody's own, without a lease
        bench = Bench()
        run(campaign, lambda: bench, RunPlan(trials=4))
    assert sorted(bench.attempts)[:2] == [0, 1]
    assert not {2, 3, 4, 5, 8, 9} & set(bench.attempts)


def test_a_dead_child_nobody_reaped_and_a_number_given_out_again_are_gone(tmp_path):
    with subprocess.Popen([sys.executable, "-c", ""]) as child, made(tmp_path) as campaign:
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)  # ended, and reaped when the block ends
        for worker in (f"{child.pid}", f"{os.getppid()}@1", f"{os.getppid()}"):
            campaign.ask(2, worker=f"{socket.gethostname()}/{worker}", lease_seconds=1000)
        bench = Bench()
        run(campaign, lambda: bench, RunPlan(trials=5))
    assert bench.attempts[:4] == [0, 1, 2, 3]
    assert not {4, 5} & set(bench.attempts)


def test_leases_are_renewed_while_a_trial_goes_on(tmp_path):
    with made(tmp_path) as campaign, Campaign(tmp_path / "c.db") as other:

        def lease_until():
            with other.store.reading() as connection:
                return other.store.tickets(connection, TICKETS.c.ticket == 0)[0].lease_until

        class Long(Bench):
            def measure(self, job, timeout):
                first = lease_until()
                wait_until(lambda: time.time() > first and lease_until() > first)
                other.ask(1)  # forgets every ticket whose lease has expired
                return 1.0

        run(campaign, Long, RunPlan(trials=1, lease_seconds=0.9))
        assert status(campaign)["tickets"] == {"open": 1, "told": 1, "failed": 0, "forgotten": 0, "leased": 0}


def test_two_workers_who_measured_the_same_ticket_have_both_measured_something(tmp_path):
    with made(tmp_path) as campaign, Campaign(tmp_path / "c.db") as other:

        class Overtaken(Bench):
            def measure(self, job, timeout):
                other.tell_bytes(f"ticket,value\n{job.code},0.25\n".encode(), "r.csv")
                return super().measure(job, timeout)

        run(campaign, Overtaken, RunPlan(trials=1))
        assert [each.ticket for each in history(campaign)] == [0, None]
        assert len({each.id for each in history(campaign)}) == 1


def test_results_the_database_does_not_take_are_put_in_a_file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with made(tmp_path) as campaign:

        def refuse(outcomes):
            raise errors.DatabaseError("disk full")

        monkeypatch.setattr(campaign, "tell", refuse)
        with pytest.raises(errors.DatabaseError, match=r"saved 1 result to a file.*unrecorded"):
            run(campaign, Bench, RunPlan(trials=1))
        monkeypatch.undo()
        (rescued,) = tmp_path.glob("unrecorded-*.csv")
        assert campaign.tell_file(rescued).new == 1


def test_every_file_of_results_that_could_not_be_recorded_is_named(tmp_path, monkeypatch):
    """The first result is refused, and so is the second, which the run records at its end."""
    monkeypatch.chdir(tmp_path)
    second = threading.Event()

    class Late(Bench):
        def measure(self, job, timeout):
            if job.ticket:
                assert second.wait(120)
            return super().measure(job, timeout)

        def close(self):
            second.set()

    def refuse(outcomes):
        raise errors.DatabaseError("disk full")

    with made(tmp_path) as campaign:
        monkeypatch.setattr(campaign, "tell", refuse)
        with pytest.raises(errors.DatabaseError) as problem:
            run(campaign, Late, RunPlan(workers=2, batch=2))
        monkeypatch.undo()
        rescued = sorted(path.name for path in tmp_path.glob("unrecorded-*.csv"))
        assert len(rescued) == 2
        assert all(name in str(problem.value) for name in rescued)
        assert sum(campaign.tell_file(tmp_path / name).new for name in rescued) == 2


def test_what_was_measured_when_a_run_is_interrupted_is_told(tmp_path):
    """The interrupt comes while the first result is being recorded, after two more trials have ended.

    A worker begins its second trial once the result of its first is waiting to be recorded: when all three
    have begun it, tickets 1 and 2 wait.
    """
    recording, closing = threading.Event(), threading.Event()
    all_waiting = threading.Barrier(4)

    class Later(Bench):
        def measure(self, job, timeout):
            if job.ticket > 2:
                all_waiting.wait(120)
                assert closing.wait(120)
                raise StoppedError
            assert job.ticket == 0 or recording.wait(120)
            return 1.0

        def close(self):
            closing.set()

    with made(tmp_path) as campaign:
        record = campaign.tell

        def interrupted(outcomes):
            campaign.tell = record
            recording.set()
            all_waiting.wait(120)
            record(outcomes)
            raise KeyboardInterrupt

        campaign.tell = interrupted
        with pytest.raises(KeyboardInterrupt):
            run(campaign, Later, RunPlan(workers=3, batch=6))
        assert history(campaign)[0].ticket == 0
        assert {each.ticket for each in history(campaign)} == {0, 1, 2}
        assert status(campaign)["tickets"]["leased"] == 3


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_interrupts_wait_for_the_end_of_a_block(number):
    def answer(number, frame):
        raise KeyboardInterrupt

    def block():
        with deferred_interrupts():
            signal.raise_signal(number)
            reached.append(True)

    before, reached = signal.signal(number, answer), []
    try:
        with pytest.raises(KeyboardInterrupt):
            block()
        assert reached
        assert signal.getsignal(number) is answer
    finally:
        signal.signal(number, before)


def test_reasons_of_failures_can_hold_anything(tmp_path):
    class Odd(Bench):
        def measure(self, job, timeout):
            raise ValueError("\udc80 and \0" + "x" * 10_000)

    with made(tmp_path) as campaign:
        assert run(campaign, Odd, RunPlan(trials=1)).failed == 1
        (failed,) = history(campaign)
        assert failed.note.startswith("ValueError: \\xdc80 and \\x00xxx")
        assert len(failed.note) == LONGEST_NOTE


def test_a_target_is_reached_although_a_ticket_was_given_up_meanwhile(tmp_path):
    with made(tmp_path) as campaign, Campaign(tmp_path / "c.db") as other:

        class Good(Bench):
            def measure(self, job, timeout):
                if not job.ticket:
                    other.forget([2])
                    return 5.0
                assert self.gate.wait(120)
                raise StoppedError

            def close(self):
                self.gate.set()

        gate = threading.Event()
        tally = run(campaign, lambda: Good(gate=gate), RunPlan(workers=3, batch=3, until=5.0))
        assert tally.stopped_because == "target reached"
        assert status(campaign)["tickets"]["forgotten"] == 2
