"""Messages survive encoding, count their real numbers exactly, and a damaged byte is always detected."""

from __future__ import annotations

import struct
import zlib
from dataclasses import FrozenInstanceError, fields
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from manyarms import agents, errors
from manyarms.agents.protocol import messages as m
from manyarms.agents.protocol.wire import HEADER_BYTES, VERSION, decode, encode, overhead
from tests.agents.support import KERNEL, Witness, rewards, small_pool

_FLOATS = np.array([1.5, -2.0, 1e-300, 3.25])
_DIGEST = bytes(range(8))
SAMPLES: list[tuple[m.Message, int]] = [
    (m.Ready(3, 1, _DIGEST, _DIGEST[::-1]), 0),
    (m.Inducing(m.SERVER, 2, np.arange(5)), 5),
    (m.Inducing(m.SERVER, 2, np.ones((4, 3))), 12),
    (m.Inducing(m.SERVER, 2, np.empty((0, 3))), 0),
    (m.ProjectedRewards(0, 2, _DIGEST, _FLOATS), 4),
    (m.Solution(m.SERVER, 2, _DIGEST, _FLOATS, 0.5, -np.inf), 6),
    (m.Confirm(m.SERVER, 4), 0),
    (m.ActiveArms(m.SERVER, 4, 0, np.array([1, 7, 2**40])), 3),
    (m.ActiveChain(m.SERVER, 4, np.array([2, 1]), np.ones((3, 2)), np.arange(3.0), np.arange(2.0)), 11),
    (m.EpochDraws(m.SERVER, 4, np.ones((2, 2))), 4),
    (m.Ping(m.SERVER, 4, m.WANT_READY), 0),
    (m.SyncRequest(5, 1), 0),
    (m.SyncCall(m.SERVER, 1), 0),
    (m.Upload(5, 1, 0, 7, np.arange(3), np.arange(3.0)), 6),
    (m.Data(m.SERVER, 1, 0, np.array([1, 2]), np.arange(3), np.arange(3.0)), 6),
    (m.Statistics(5, 1, _DIGEST, np.array([5]), np.arange(3.0), np.arange(2.0), 9), 5),
]


@pytest.mark.parametrize(("message", "n_reals"), SAMPLES, ids=lambda x: getattr(x, "name", ""))
def test_round_trip_and_exact_count(message: m.Message, n_reals: int) -> None:
    data = encode(message)
    assert decode(data) == message
    assert message.real_numbers == n_reals
    assert len(data) == 8 * n_reals + overhead(message)
    assert HEADER_BYTES <= overhead(message) <= HEADER_BYTES + 64


def test_every_kind_of_message_has_a_sample() -> None:
    kinds = {kind for kind in vars(m).values() if isinstance(kind, type) and issubclass(kind, m.Message)}
    assert {type(message) for message, _ in SAMPLES} == kinds - {m.Message}


@pytest.mark.parametrize("message", [message for message, _ in SAMPLES], ids=lambda x: x.name)
def test_every_corrupted_byte_and_every_missing_one_is_recognised(message: m.Message) -> None:
    data = encode(message)
    for position in range(len(data)):
        for change in (0x01, 0x80, 0xFF):
            damaged = data[:position] + bytes([data[position] ^ change]) + data[position + 1 :]
            with pytest.raises(errors.MessageError):
                decode(damaged)
        with pytest.raises(errors.MessageError):
            decode(data[:position])
    with pytest.raises(errors.MessageError):
        decode(data + b"\0")


@given(st.binary(max_size=200))
@settings(max_examples=200, deadline=None)
def test_random_bytes_are_refused(data: bytes) -> None:
    with pytest.raises(errors.MessageError):
        decode(data)


BODY_SIZES = {m.Ready: 16, m.Confirm: 0, m.Ping: 4, m.SyncRequest: 0, m.SyncCall: 0}  # without arrays


@given(st.integers(0, 255), st.binary(max_size=120))
@settings(max_examples=300, deadline=None)
@example(kind=m.Ready.KIND, body=bytes(range(16)))
@example(kind=m.Ready.KIND, body=bytes(range(15)))
@example(kind=m.Ping.KIND, body=bytes(4))
@example(kind=m.Confirm.KIND, body=b"")
@example(kind=m.Confirm.KIND, body=b"x")
@example(kind=m.Inducing.KIND, body=struct.pack("<BBIq", 1, 1, 1, 7))
@example(kind=m.Inducing.KIND, body=struct.pack("<BBII", 0, 2, 2**32 - 1, 2**32 - 1))
@example(kind=255, body=b"")
def test_a_forged_body_with_a_right_checksum_is_a_message_or_a_typed_error(kind: int, body: bytes) -> None:
    blank = struct.pack("<2sBBiIII", b"MA", VERSION, kind, 3, 1, len(body), 0)
    data = blank[:16] + struct.pack("<I", zlib.crc32(body, zlib.crc32(blank))) + body
    expected = m.message_kind(kind)
    try:
        message = decode(data)
    except errors.CorruptMessageError:
        assert expected is None or BODY_SIZES.get(expected) != len(body), "a valid message was refused"
        return
    assert type(message) is expected
    assert BODY_SIZES.get(expected, len(body)) == len(body)
    assert (message.sender, message.epoch) == (3, 1)
    assert len(encode(message)) == len(data)
    assert decode(encode(message)) == message


def test_another_version_is_refused_by_name() -> None:
    data = bytearray(encode(SAMPLES[0][0]))
    data[2] = VERSION + 1
    data[16:20] = b"\0\0\0\0"
    data[16:20] = struct.pack("<I", zlib.crc32(bytes(data)))
    with pytest.raises(errors.WireVersionError, match=str(VERSION + 1)):
        decode(bytes(data))


def test_messages_are_frozen_and_contain_no_objects() -> None:
    for message, _ in SAMPLES:
        with pytest.raises(FrozenInstanceError):
            message.epoch = 3  # type: ignore[misc]
        for name in (f.name for f in fields(message)):
            value: Any = getattr(message, name)
            assert isinstance(value, int | float | bytes | np.ndarray)
            if isinstance(value, np.ndarray):
                assert value.dtype != object


@pytest.mark.parametrize("send", ["indices", "features"])
def test_cost_of_a_run_is_what_its_messages_carry(send: Any) -> None:
    """The counted reals are the encoded bytes / 8 without overhead, for each message and in total."""
    pool, n_agents = small_pool(), 4
    for algorithm in (
        agents.DUETS(KERNEL, 0.2, n_agents, 40, width=0.5, send=send),
        agents.DisKernelUCB(KERNEL, 0.2, n_agents, 12, send=send),
        agents.ApproxDisKernelUCB(KERNEL, 0.2, n_agents, 12, send=send),
    ):
        witness = Witness()
        result = agents.run(algorithm, pool, rewards(0), seed=0, link=witness)
        up = sum(message.real_numbers for d, _, message, _ in witness.seen if d == "up")
        down = sum(message.real_numbers for d, _, message, _ in witness.seen if d == "down")
        assert (result.cost.uplink, result.cost.downlink) == (up / n_agents, down / n_agents)
        assert up > 0
        assert down > 0
        assert result.cost.messages == len(witness.seen)
        assert result.cost.n_bytes == sum(size for *_, size in witness.seen)
        headers = sum(overhead(message) for _, _, message, _ in witness.seen)
        assert result.cost.n_bytes == 8 * (up + down) + headers
        assert headers <= 64 * len(witness.seen)


def test_separate_agents_send_nothing() -> None:
    result = agents.run(agents.NKernelUCB(KERNEL, 0.2, 3, 5), small_pool(), rewards(0), seed=0)
    assert (result.cost.total, result.cost.messages) == (0, 0)
