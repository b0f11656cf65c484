"""The binary encoding of messages: compact, versioned, with a checksum and without pickle.

    header, 20 bytes   magic "MA", version u8, kind u8, sender i32, epoch u32, body length u32, CRC-32 u32
    body               the fields in order: a real is 8 bytes; an array is a type, the number of dimensions,
                       the dimensions, then 8 bytes per entry; a digest is 8 bytes; an integer is 4 bytes;
                       a list of integers is its length and 4 bytes per entry

All numbers are little-endian. The checksum covers header and body; CRC-32 detects every error burst of at
most 32 bits, and therefore every corrupted byte. `overhead` is the size of a message beyond 8 bytes per
counted real.
"""

from __future__ import annotations

import struct
import zlib
from typing import Any

import numpy as np
from numpy.typing import NDArray

from manyarms.agents.protocol.messages import DIGEST_BYTES, Message, message_kind, wire_fields
from manyarms.errors import CorruptMessageError, ImpossibleMessageError, WireVersionError

VERSION = 1
_MAGIC = b"MA"
_HEADER = struct.Struct("<2sBBiIII")
_CHECKSUM_AT = 16  # offset of the checksum in the header
HEADER_BYTES = _HEADER.size
_TYPES = {0: np.dtype("<f8"), 1: np.dtype("<i8")}


def encode(message: Message) -> bytes:
    """The message as bytes."""
    body = b"".join(_packed(getattr(message, name), form) for name, form in wire_fields(type(message)))
    blank = _HEADER.pack(_MAGIC, VERSION, message.KIND, message.sender, message.epoch, len(body), 0)
    checksum = zlib.crc32(body, zlib.crc32(blank))
    return blank[:_CHECKSUM_AT] + struct.pack("<I", checksum) + body


def decode(data: bytes) -> Message:
    """The message in these bytes; raises a `MessageError` if they are not a valid message."""
    if len(data) < HEADER_BYTES:
        raise CorruptMessageError(
            f"{len(data)} bytes are too few for a message; the header alone has {HEADER_BYTES}"
        )
    magic, version, number, sender, epoch, length, checksum = _HEADER.unpack_from(data)
    if magic != _MAGIC:
        raise CorruptMessageError(f"a message starts with {_MAGIC!r}, not with {magic!r}")
    blank = data[:_CHECKSUM_AT] + b"\0\0\0\0"
    if zlib.crc32(data[HEADER_BYTES:], zlib.crc32(blank)) != checksum:
        raise CorruptMessageError(f"checksum {checksum:#010x} does not match the {len(data)} bytes received")
    if version != VERSION:
        raise WireVersionError(
            f"the message has encoding version {version}; this package reads version {VERSION}"
        )
    kind = message_kind(number)
    if kind is None or length != len(data) - HEADER_BYTES:
        raise CorruptMessageError(
            f"kind {number} is unknown, or its stated length {length} is not {len(data) - HEADER_BYTES} bytes"
        )
    reader = _Reader(data, HEADER_BYTES)
    values = {name: reader.field(form) for name, form in wire_fields(kind)}
    if reader.position != len(data):
        raise CorruptMessageError(f"{len(data) - reader.position} bytes follow the fields of {kind.__name__}")
    return kind(sender=sender, epoch=epoch, **values)


def overhead(message: Message) -> int:
    """The bytes beyond 8 per counted real: header, array dimensions, digests and integers."""
    return len(encode(message)) - 8 * message.real_numbers


def _packed(value: Any, form: str) -> bytes:
    if form == "real":
        return struct.pack("<d", value)
    if form == "integer":
        return struct.pack("<i", value)
    if form == "digest":
        if len(value) != DIGEST_BYTES:
            raise ImpossibleMessageError(f"a digest must have {DIGEST_BYTES} bytes, got {len(value)}")
        return bytes(value)
    if form == "integers":
        integers = np.asarray(value, dtype="<i4")
        return struct.pack("<I", integers.size) + integers.tobytes()
    code = 1 if value.dtype.kind == "i" else 0
    array = np.ascontiguousarray(value, dtype=_TYPES[code])
    return struct.pack(f"<BB{array.ndim}I", code, array.ndim, *array.shape) + array.tobytes()


class _Reader:
    """Reads one field after the other and never beyond the end of the data."""

    def __init__(self, data: bytes, position: int) -> None:
        self.data, self.position = data, position

    def field(self, form: str) -> Any:
        if form == "real":
            return self._unpack("<d")[0]
        if form == "integer":
            return self._unpack("<i")[0]
        if form == "digest":
            return self._take(DIGEST_BYTES)
        if form == "integers":
            (size,) = self._unpack("<I")
            return self._array(np.dtype("<i4"), (size,)).astype(np.int64)
        code, dimensions = self._unpack("<BB")
        if code not in _TYPES or dimensions not in (1, 2):
            raise CorruptMessageError(f"an array cannot have type code {code} and {dimensions} dimensions")
        return self._array(_TYPES[code], self._unpack(f"<{dimensions}I"))

    def _unpack(self, layout: str) -> tuple[Any, ...]:
        return struct.unpack(layout, self._take(struct.calcsize(layout)))

    def _array(self, dtype: np.dtype[Any], shape: tuple[int, ...]) -> NDArray[Any]:
        n_entries = 1
        for length in shape:
            n_entries *= length  # Python integers cannot overflow
        raw = self._take(n_entries * dtype.itemsize)
        return np.frombuffer(raw, dtype=dtype).reshape(shape).astype(dtype.newbyteorder("="))

    def _take(self, n_bytes: int) -> bytes:
        end = self.position + n_bytes
        if end > len(self.data):
            raise CorruptMessageError(f"a field of {n_bytes} bytes extends beyond the end of the message")
        piece = self.data[self.position : end]
        self.position = end
        return piece
