"""The next ask is a pure function of the database: whoever asks, in whatever order results came in."""

from __future__ import annotations

import csv
import io
import random

import numpy as np
import pytest

from manyarms import errors
from manyarms.campaigns.batch_file import write_batch
from manyarms.campaigns.campaign import Campaign
from manyarms.campaigns.queries import batches, history
from manyarms.campaigns.status import status
from tests.campaigns.support import LEARNED, made, request, results, step, value_of, write_pool


def arms_of(campaign: Campaign) -> list[tuple[int | None, str, float | None]]:
    return sorted((each.ticket, each.id, each.value) for each in history(campaign))


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"noise": "auto", "signal": "auto", "mean": "auto"},
        pytest.param({"policy": "sgpts"}, marks=pytest.mark.slow),
        LEARNED,
        pytest.param({**LEARNED, "policy": "sgpts", "options": {"prior_size": 60}}, marks=pytest.mark.slow),
    ],
)
def test_reopening_and_the_order_of_telling_change_nothing(tmp_path, changes):
    write_pool(tmp_path)
    with made(tmp_path, "kept.db", **changes) as kept:
        for size in (6, None, 5, None, None):
            step(kept, size)
        expected, last = arms_of(kept), kept.ask(4)
    made(tmp_path, "reopened.db", **changes).close()
    for size in (6, None, 5, None, None):
        with Campaign(tmp_path / "reopened.db") as campaign:
            header, *lines = results(campaign.ask(size)).splitlines()
        random.Random(size or 0).shuffle(lines)
        for line in lines:
            with Campaign(tmp_path / "reopened.db") as campaign:
                campaign.tell_bytes(f"{header}\n{line}\n".encode(), "r.csv")
    with Campaign(tmp_path / "reopened.db") as campaign:
        assert arms_of(campaign) == expected
        assert campaign.ask(4) == last  # predictions too, bit for bit


def test_it_finds_the_hill_and_says_what_it_predicted(tmp_path):
    with made(tmp_path) as campaign:
        for _ in range(12):
            step(campaign, 5)
        best = status(campaign)["best_measured"]
        assert best["average"] > 0.9
        told = [each for each in history(campaign) if each.batch is not None and each.batch > 8]
        errors_ = [abs(each.value - each.predicted) for each in told]
        assert np.median(errors_) < 0.15
        assert [batch["size"] for batch in batches(campaign)] == [5] * 12
        assert batches(campaign)[-1]["best_lower"] < batches(campaign)[-1]["best_mean"]


@pytest.mark.parametrize("changes", [{}, LEARNED])
def test_minimising_is_maximising_the_negative_shown_in_the_user_s_sign(tmp_path, changes):
    write_pool(tmp_path)
    with (
        made(tmp_path, "max.db", **changes) as up,
        made(tmp_path, "min.db", goal="minimise", **changes) as down,
    ):
        for round in range(6):
            upward, downward = up.ask(5), down.ask(5)
            assert [each.id for each in upward] == [each.id for each in downward]
            assert [each.predicted for each in upward] == [-each.predicted for each in downward]
            assert [each.predicted_std for each in upward] == [each.predicted_std for each in downward]
            if round:  # before any result a learned model knows no units
                assert [each.lower for each in upward] == [-each.upper for each in downward]
            up.tell_bytes(results(upward).encode(), "up")
            down.tell_bytes(results(downward, sign=-1.0).encode(), "down")
        a, b = batches(up)[-1], batches(down)[-1]
        assert (a["best_lower"], a["best_mean"], a["best_upper"]) == (
            -b["best_upper"], -b["best_mean"], -b["best_lower"]
        )  # fmt: skip


def test_predictions_follow_the_units_of_the_values(tmp_path):
    """With everything automatic, values shifted and stretched lead to the same choices."""
    write_pool(tmp_path)
    auto = {"noise": "auto", "signal": "auto", "mean": "auto"}
    with made(tmp_path, "plain.db", **auto) as plain, made(tmp_path, "far.db", **auto) as far:
        for _ in range(5):
            issued, same = plain.ask(6), far.ask(6)
            assert [each.id for each in issued] == [each.id for each in same]
            for campaign, scale, shift in ((plain, 1.0, 0.0), (far, 256.0, 1024.0)):
                rows = [
                    (i.code, value_of(float(i.columns["x1"]), float(i.columns["x2"]), i.ticket))
                    for i in (issued if campaign is plain else same)
                ]
                text = "".join(f"{t},{scale * v + shift!r}\n" for t, v in rows)
                campaign.tell_bytes(f"ticket,value\n{text}".encode(), "r")
        for one, other in zip(plain.ask(6), far.ask(6), strict=True):
            assert other.predicted == pytest.approx(256 * one.predicted + 1024, rel=1e-6)
            assert other.predicted_std == pytest.approx(256 * one.predicted_std, rel=1e-4)


@pytest.mark.parametrize("kernel", ["rbf", "linear"])
def test_a_tiny_noise_is_raised_to_what_can_be_computed_and_said(tmp_path, kernel):
    lengths = {"lengthscale": "auto"} if kernel == "linear" else {}
    with made(tmp_path, noise=1e-300, signal="auto", kernel=kernel, **lengths) as campaign:
        for _ in range(3):
            step(campaign, 8)
        assert any("instead of 1e-300" in sentence for sentence in status(campaign)["assumptions"])


def test_outstanding_tickets_are_hallucinated_and_counted(tmp_path):
    with made(tmp_path, budget=40, repeats="forbid") as campaign:
        step(campaign, 10)
        out = [each.id for batch in (campaign.ask(10), campaign.ask(10), campaign.ask(10)) for each in batch]
        assert len(set(out)) == 30
        with pytest.raises(errors.BudgetSpentError):
            campaign.ask()
        assert status(campaign)["budget_left"] == 0


def test_failed_arms_are_left_out_and_forgotten_ones_come_back(tmp_path):
    with made(tmp_path, repeats="forbid", noise=0.3, failures="drop") as campaign:
        step(campaign, 20)
        lost, failed = campaign.ask(5), campaign.ask(5)
        campaign.forget([each.ticket for each in lost])
        rows = "".join(f"{each.code},,yes\n" for each in failed)
        assert campaign.tell_bytes(f"ticket,value,failed\n{rows}".encode(), "r").failed == 5
        every = campaign.ask(120 - 20 - 5)
        assert {each.id for each in lost} <= {each.id for each in every}
        assert not {each.id for each in failed} & {each.id for each in every}
        with pytest.raises(errors.NothingToAskError):
            campaign.ask()


def test_a_lease_that_ran_out_frees_the_arm_and_a_late_result_still_counts(tmp_path):
    with made(tmp_path, repeats="forbid") as campaign:
        lost = campaign.ask(3, worker="elsewhere/1", lease_seconds=-1.0)
        again = campaign.ask(120)
        assert {each.id for each in lost} <= {each.id for each in again}
        assert status(campaign)["tickets"]["forgotten"] == 3
        told = campaign.tell_bytes(results(lost).encode(), "late.csv")
        assert (told.new, told.late) == (3, 3)
        assert campaign.tell_bytes(results(reversed(lost)).encode(), "late again.csv").known == 3
        assert len(history(campaign)) == 3


def test_a_batch_that_could_not_be_delivered_was_not_handed_out(tmp_path):
    def broken(issued):
        raise OSError("no paper")

    with made(tmp_path) as campaign:
        with pytest.raises(OSError, match="no paper"):
            campaign.ask(5, deliver=broken)
        assert status(campaign)["tickets"]["open"] == 0
        assert campaign.ask(5)[0].ticket == 0


def test_an_overtaken_ask_computes_again(tmp_path, monkeypatch):
    """Another ask wins every race; the last try is made inside the lock and cannot be overtaken."""
    with made(tmp_path) as campaign, Campaign(tmp_path / "c.db") as rival:
        step(campaign, 5)
        proposed, inside = campaign._proposed, [0]

        def slow(seen, order):
            inside[0] += 1
            if inside[0] <= 3:
                rival.ask(2)
            return proposed(seen, order)

        monkeypatch.setattr(campaign, "_proposed", slow)
        tickets = [each.ticket for each in campaign.ask(2)]
        assert inside[0] == 4
        assert tickets == [11, 12]
        assert status(campaign)["tickets"]["open"] == 8


def test_the_batch_file_can_be_filled_in_and_told(tmp_path):
    """The user's columns may be called like ours."""
    pool = tmp_path / "odd.csv"
    pool.write_text("id,x,value,reason\n" + "".join(f"m{i},{i / 20},9,why\n" for i in range(20)))
    settings = request(pool, id="id", features=("x",))
    with Campaign.new(tmp_path / "c.db", settings) as campaign:
        with open(tmp_path / "batch.csv", "w", newline="") as stream:
            write_batch(stream, campaign.ask(4), campaign.id_column)
        rows = list(csv.DictReader(io.StringIO((tmp_path / "batch.csv").read_text())))
        assert rows[0]["pool.value"] == "9"
        assert rows[0]["value"] == ""
        assert campaign.tell_file(tmp_path / "batch.csv").unmeasured == 4
        rows[0]["value"] = "0.5"
        with open(tmp_path / "batch.csv", "w", newline="") as stream:
            writer = csv.DictWriter(stream, list(rows[0]))
            writer.writeheader()
            writer.writerows(rows)
        told = campaign.tell_file(tmp_path / "batch.csv")
        assert (told.new, told.unmeasured) == (1, 3)


def test_old_measurements_can_be_told_before_the_first_ask(tmp_path):
    with made(tmp_path) as campaign:
        rows = "".join(f"arm {i},{i / 10}\n" for i in range(10)) + "arm 3,0.4\n"
        told = campaign.tell_bytes(f"name,value\n{rows}".encode(), "old.csv")
        assert (told.new, told.unasked) == (11, 11)
        assert {each.reason for each in campaign.ask()} == {"upper bound"}


def test_the_pool_may_move_but_not_change(tmp_path):
    made(tmp_path).close()
    (tmp_path / "elsewhere").mkdir()
    moved = (tmp_path / "pool.csv").rename(tmp_path / "elsewhere" / "other name.csv")
    with (
        Campaign(tmp_path / "c.db") as campaign,
        pytest.raises(errors.ChangedPoolError, match="table of candidates is missing"),
    ):
        campaign.ask()
    with Campaign(tmp_path / "c.db", pool=moved) as campaign:
        step(campaign, 3)
    moved.write_text(moved.read_text() + "one more,0.5,0.5,\n")
    with Campaign(tmp_path / "c.db", pool=moved) as campaign, pytest.raises(errors.ChangedPoolError):
        campaign.ask()


def test_a_number_as_width_is_the_width_of_a_batch_too(tmp_path):
    """A batch goes on where the hill is; a width with a theorem behind it explores instead."""
    write_pool(tmp_path)
    values = {}
    for name, width in (("number", 2.0), ("theorem", "bbkb")):
        with made(tmp_path, f"{name}.db", width=width, repeats="forbid") as campaign:
            for _ in range(4):
                step(campaign, 12)
            values[name] = [each.value for each in history(campaign)][24:]
    assert np.mean(values["number"]) > np.mean(values["theorem"]) + 0.1
