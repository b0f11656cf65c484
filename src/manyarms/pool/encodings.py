"""Find the encoding of a text file.

A byte order mark decides. Without one, a file that is valid UTF-8 is read as UTF-8, and a file with a zero
byte at every other place as UTF-16. Everything else is assumed to be Windows-1252 (which includes the
letters of Latin-1), but only if its letters and signs are those of Western European text: a file in another
encoding is refused rather than read with wrong letters.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Callable
from typing import IO

from manyarms.errors import TableError

UTF_8, WESTERN = "utf-8-sig", "cp1252"
_CHUNK = 1 << 20
_MARKS = (
    (codecs.BOM_UTF8, UTF_8),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_LETTERS = "ÀÁÂÃÄÅÆÇÈÉÊËÌÍÎÏÑÒÓÔÕÖØÙÚÛÜÝßàáâãäåæçèéêëìíîïñòóôõöøùúûüýÿœŒ"
_SIGNS = "°±²³µ·×÷½€£§©®™–—‘’“”•…«»\xa0"
_WESTERN_TEXT = re.compile(f"[\\x00-\\x7f{_LETTERS}{_SIGNS}]*")
_SIGN_IN_A_WORD = re.compile(f"[a-z{_LETTERS}][²³µ±½£§][a-z{_LETTERS}]")


def find_encoding(path: object, opened: Callable[[], IO[bytes]]) -> str:
    """The encoding of the bytes that `opened` gives; `path` begins the error message."""
    with opened() as stream:
        head = stream.read(_CHUNK)
        for mark, name in _MARKS:
            if head.startswith(mark):
                return name
        if b"\0" in head:
            return _utf_16(path, head)
        decoder, piece, western = codecs.getincrementaldecoder("utf-8")(), head, True
        valid = True
        while piece:
            if not piece.isascii() or decoder.getstate()[0]:
                valid = valid and _decodes(decoder, piece)
                western = western and _is_western(piece)
            if not valid and not western:
                break
            piece = stream.read(_CHUNK)
    if valid and not decoder.getstate()[0]:
        return UTF_8
    if western:
        return WESTERN
    raise TableError(
        f"{path}: not a readable text table: the text is neither UTF-8 nor Western European (Windows-1252); "
        f"state its encoding"
    )


def _decodes(decoder: codecs.IncrementalDecoder, piece: bytes) -> bool:
    try:
        decoder.decode(piece)
    except UnicodeDecodeError:
        return False
    return True


def _is_western(piece: bytes) -> bool:
    try:
        text = piece.decode(WESTERN)
    except UnicodeDecodeError:
        return False
    return _WESTERN_TEXT.fullmatch(text) is not None and _SIGN_IN_A_WORD.search(text) is None


def _utf_16(path: object, head: bytes) -> str:
    """UTF-16 without a mark: in a table nearly every second byte is zero."""
    pairs = max(1, len(head) // 2)
    low, high = head[1::2].count(0) / pairs, head[0::2].count(0) / pairs
    if low > 0.7 and high < 0.05:
        return "utf-16-le"
    if high > 0.7 and low < 0.05:
        return "utf-16-be"
    raise TableError(f"{path}: not a readable text table: it contains zero bytes and is not text")
