"""The packets between an agent and the server of a run: messages in order, signed with the agent's key.

    header, 64 bytes   magic "MAPK", version u8, direction u8, flags u8, 0, agent i32, run 16 bytes,
                       serial u64, round u32, acknowledged u64, first u64, messages u32, 4 zeros
    messages           each with its length (u32) before it
    signature          32 bytes: HMAC-SHA-256 of all the rest with the key of the agent

Messages are numbered from 1 in each direction. `first` is the number of the first message in the packet, and
`acknowledged` the number of the last one that arrived from the other side, so a packet that is lost is simply
followed by another one with the same messages. The serial number grows with every packet of a sender; a
packet that is sent again by someone else has an old one and is refused. The signature covers the direction,
so that a packet cannot be sent back to its sender.
"""

from __future__ import annotations

import hashlib
import hmac
import struct
from dataclasses import dataclass

from manyarms.errors import CorruptPacketError, UnknownKeyError

UP, DOWN = 0, 1  # from an agent to the server, and back
_DONE, _OVER = 1, 2  # flags: the sender has completed its steps; the run is over
_MAGIC, _VERSION = b"MAPK", 1
_HEADER = struct.Struct("<4sBBBxi16sQIQQI4x")
_LENGTH = struct.Struct("<I")
SIGNATURE_BYTES = hashlib.sha256().digest_size
MOST_MESSAGES = 10_000


@dataclass(frozen=True)
class Packet:
    """The messages from one side to the other, and what the sender has received so far."""

    direction: int
    run: bytes  # 16 bytes that identify the run
    agent: int
    serial: int  # grows with every packet of the sender
    acknowledged: int  # the last message that has arrived from the other side
    first: int  # the number of the first message
    messages: tuple[bytes, ...] = ()
    round: int = 0  # up: the last round the agent has completed; down: the open round; 0 without rounds
    done: bool = False
    over: bool = False

    def sealed(self, key: bytes) -> bytes:
        """The packet as bytes, signed with the key."""
        flags = _DONE * self.done + _OVER * self.over
        head = _HEADER.pack(
            _MAGIC, _VERSION, self.direction, flags, self.agent, self.run, self.serial, self.round,
            self.acknowledged, self.first, len(self.messages),
        )  # fmt: skip
        body = b"".join(_LENGTH.pack(len(data)) + data for data in self.messages)
        return head + body + _signature(key, head + body)

    @property
    def payload_bytes(self) -> int:
        """The bytes of the messages; the rest of a packet is the carrier's."""
        return sum(len(data) for data in self.messages)


def claimed(data: bytes) -> Packet:
    """The packet in these bytes. Nothing is verified yet: the sender is only what the packet claims."""
    if len(data) < _HEADER.size + SIGNATURE_BYTES:
        raise CorruptPacketError(f"{len(data)} bytes are too few for a packet")
    magic, version, direction, flags, agent, run, serial, number, acknowledged, first, count = (
        _HEADER.unpack_from(data)
    )
    if magic != _MAGIC or version != _VERSION:
        raise CorruptPacketError(f"a packet starts with {_MAGIC!r} and version {_VERSION}, not {data[:5]!r}")
    if direction not in (UP, DOWN) or flags > _DONE + _OVER or count > MOST_MESSAGES:
        raise CorruptPacketError(f"direction {direction}, flags {flags} or {count} messages are impossible")
    messages, position, end = [], _HEADER.size, len(data) - SIGNATURE_BYTES
    for _ in range(count):
        if position + _LENGTH.size > end:
            raise CorruptPacketError("the packet ends before its last message")
        (length,) = _LENGTH.unpack_from(data, position)
        position += _LENGTH.size
        if position + length > end:
            raise CorruptPacketError("a message extends beyond the end of the packet")
        messages.append(data[position : position + length])
        position += length
    if position != end:
        raise CorruptPacketError(f"{end - position} bytes follow the last message of the packet")
    return Packet(
        direction, run, agent, serial, acknowledged, first, tuple(messages), number,
        bool(flags & _DONE), bool(flags & _OVER),
    )  # fmt: skip


def check_signature(data: bytes, key: bytes, whose: str) -> None:
    """Raise an error unless the packet was signed with this key and has not been altered since."""
    if not hmac.compare_digest(_signature(key, data[:-SIGNATURE_BYTES]), data[-SIGNATURE_BYTES:]):
        raise UnknownKeyError(f"the packet was altered, or was not signed with the key of {whose}")


def _signature(key: bytes, data: bytes) -> bytes:
    return hmac.digest(key, data, "sha256")
