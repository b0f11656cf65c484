"""Messages as bytes: compact, versioned, no pickle, with a checksum.

    header, 20 bytes   mark "MA", version u8, kind u8, sender i32, epoch u32, body length u32, CRC-32 u32
    body               the fields in order: a real is 8 bytes; an array is a type, a number of dimensions,
                       their lengths, then 8 bytes an entry; a digest is 8 bytes; a whole number is 4 bytes

All little-endian. The checksum covers header and body; CRC-32 recognises every error within 32 bits in a
row, hence any corrupted byte. `overhead` is what a message needs beyond 8 bytes per counted real.
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
_MARK = b"MA"
_HEADER = struct.Struct("<2sBBiIII")
_CHECKSUM_AT = 16  # position of the checksum in the header
HEADER_BYTES = _HEADER.size
_TYPES = {0: np.dtype("<f8"), 1: np.dtype("<i8")}


def encode(message: Message) -> bytes:
    """The bytes that go over the wire."""
    body = b"".join(_packed(getattr(message, name), form) for name, form in wire_fields(type(message)))
    blank = _HEADER.pack(_MARK, VERSION, message.KIND, message.sender, message.epoch, len(body), 0)
    checksum = zlib.crc32(body, zlib.crc32(blank))
    return blank[:_CHECKSUM_AT] + struct.pack("<I", checksum) + body


def decode(data: bytes) -> Message:
    """The message in these bytes, or a typed reason why there is none."""
    if len(data) < HEADER_BYTES:
        raise CorruptMessageError(f"{len(data)} bytes are too few for a message of {HEADER_BYTES} and more")
    mark, version, number, sender, epoch, length, checksum = _HEADER.unpack_from(data)
    if mark != _MARK:
        raise CorruptMessageError(f"a message starts with {_MARK!r}, these bytes with {mark!r}")
    blank = data[:_CHECKSUM_AT] + b"\0\0\0\0"
    if zlib.crc32(data[HEADER_BYTES:], zlib.crc32(blank)) != checksum:
        raise CorruptMessageError(f"checksum {checksum:#010x} does not fit the {len(data)} bytes")
    if version != VERSION:
        raise WireVersionError(f"message in version {version} of the encoding, this is version {VERSION}")
    kind = message_kind(number)
    if kind is None or length != len(data) - HEADER_BYTES:
        raise CorruptMessageError(f"kind {number} with {length} of {len(data) - HEADER_BYTES} bytes")
    reader = _Reader(data, HEADER_BYTES)
    values = {name: reader.field(form) for name, form in wire_fields(kind)}
    if reader.position != len(data):
        raise CorruptMessageError(f"{len(data) - reader.position} bytes left over after {kind.__name__}")
    return kind(sender=sender, epoch=epoch, **values)


def overhead(message: Message) -> int:
    """Bytes beyond 8 per counted real: header, lengths of arrays, digests, numbers of agents."""
    return len(encode(message)) - 8 * message.real_numbers


def _packed(value: Any, form: str) -> bytes:
    if form == "real":
        return struct.pack("<d", value)
    if form == "whole":
        return struct.pack("<i", value)
    if form == "digest":
        if len(value) != DIGEST_BYTES:
            raise ImpossibleMessageError(f"a digest has {DIGEST_BYTES} bytes, got {len(value)}")
        return bytes(value)
    if form == "wholes":
        whole = np.asarray(value, dtype="<i4")
        return struct.pack("<I", whole.size) + whole.tobytes()
    code = 1 if value.dtype.kind == "i" else 0
    array = np.ascontiguousarray(value, dtype=_TYPES[code])
    return struct.pack(f"<BB{array.ndim}I", code, array.ndim, *array.shape) + array.tobytes()


class _Reader:
    """Reads fields one after the other, never beyond the end."""

    def __init__(self, data: bytes, position: int) -> None:
        self.data, self.position = data, position

    def field(self, form: str) -> Any:
        if form == "real":
            return self._unpack("<d")[0]
        if form == "whole":
            return self._unpack("<i")[0]
        if form == "digest":
            return self._take(DIGEST_BYTES)
        if form == "wholes":
            (size,) = self._unpack("<I")
            return self._array(np.dtype("<i4"), (size,)).astype(np.int64)
        code, dimensions = self._unpack("<BB")
        if code not in _TYPES or dimensions not in (1, 2):
            raise CorruptMessageError(f"an array of type {code} with {dimensions} dimensions")
        return self._array(_TYPES[code], self._unpack(f"<{dimensions}I"))

    def _unpack(self, layout: str) -> tuple[Any, ...]:
        return struct.unpack(layout, self._take(struct.calcsize(layout)))

    def _array(self, dtype: np.dtype[Any], shape: tuple[int, ...]) -> NDArray[Any]:
        n_entries = 1
        for length in shape:
            n_entries *= length  # Python integers: no overflow
        raw = self._take(n_entries * dtype.itemsize)
        return np.frombuffer(raw, dtype=dtype).reshape(shape).astype(dtype.newbyteorder("="))

    def _take(self, n_bytes: int) -> bytes:
        end = self.position + n_bytes
        if end > len(self.data):
            raise CorruptMessageError(f"a field of {n_bytes} bytes reaches beyond the end of the message")
        piece = self.data[self.position : end]
        self.position = end
        return piece
