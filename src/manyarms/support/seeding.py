"""The seeds of many consecutive random streams at once, bit for bit those of `numpy.random.SeedSequence`.

Every draw of a run has a stream of its own, addressed by numbers. To make one with SeedSequence takes a
twentieth of a step on a small pool; here the seeds of a block of numbers are computed together. NumPy
guarantees that the algorithm (O'Neill's seed_seq_fe) never changes. Its words have 32 bits, as here.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
from numpy.random.bit_generator import ISpawnableSeedSequence
from numpy.typing import DTypeLike, NDArray

BLOCK = 256  # consecutive numbers that are seeded together

_LAST = (1 << 32) - 1  # the largest number of one word
_POOL = 4  # words of mixed entropy
_FIRST, _NEXT = 0x43B0D7E5, 0x931E8875  # multipliers that absorb entropy
_FIRST_OUT, _NEXT_OUT = 0x8B51F9DD, 0x58F38DED  # multipliers that produce seeds
_LEFT, _RIGHT = 0xCA01F9DD, 0x4973F715  # of the mixing of two words
_SEED_WORDS = 8  # a PCG64 has a state and an increment of 128 bits each

Words = Any  # an int below 2³², or an array of uint32


class Seed(ISpawnableSeedSequence):
    """The seed of one generator, which has been computed already; `spawn` does what that of numpy does."""

    def __init__(self, words: NDArray[np.uint64], entropy: int, key: tuple[int, ...]) -> None:
        self._words, self._entropy, self._key = words, entropy, key
        self._whole: np.random.SeedSequence | None = None

    def _sequence(self) -> np.random.SeedSequence:
        if self._whole is None:
            self._whole = np.random.SeedSequence(self._entropy, spawn_key=self._key)
        return self._whole

    def generate_state(self, n_words: int, dtype: DTypeLike = np.uint32) -> NDArray[Any]:
        """The words of a state; those of a PCG64 are known."""
        if n_words == len(self._words) and dtype is np.uint64:
            return self._words.copy()
        return self._sequence().generate_state(n_words, dtype)  # type: ignore[arg-type]

    def spawn(self, n_children: int) -> list[Any]:
        """Further seeds, others at each call."""
        return self._sequence().spawn(n_children)


def seed_of(entropy: int, purpose: int, number: int) -> Seed:
    """The seed of a PCG64 with this entropy and the spawn key (purpose, number), each of one word."""
    block, place = divmod(number, BLOCK)
    return Seed(_block(entropy, purpose, block)[place], entropy, (purpose, number))


@lru_cache(maxsize=32)
def _block(entropy: int, purpose: int, block: int) -> NDArray[np.uint64]:
    """The seeds of `BLOCK` consecutive numbers, one in each row."""
    with np.errstate(over="ignore"):
        numbers = np.arange(block * BLOCK, (block + 1) * BLOCK, dtype=np.uint32)
        pool, multiplier = _absorbed(*_mixed(entropy), purpose)
        pool, _ = _absorbed(pool, multiplier, numbers)
        words = np.stack(_produced(pool), axis=1).astype(np.uint64)
    seeds: NDArray[np.uint64] = words[:, ::2] | (words[:, 1::2] << np.uint64(32))
    seeds.flags.writeable = False
    return seeds


def _mixed(entropy: int) -> tuple[list[Words], int]:
    """The pool after the entropy alone, which fills it up with zeros if a spawn key follows."""
    words = [entropy >> shift & _LAST for shift in range(0, max(entropy.bit_length(), 1), 32)]
    words += [0] * (_POOL - len(words))
    pool: list[Words] = []
    multiplier = _FIRST
    for word in words[:_POOL]:
        hashed, multiplier = _hashed(word, multiplier, _NEXT)
        pool.append(hashed)
    for source in range(_POOL):
        for target in range(_POOL):
            if source != target:
                hashed, multiplier = _hashed(pool[source], multiplier, _NEXT)
                pool[target] = _mix(pool[target], hashed)
    for word in words[_POOL:]:
        pool, multiplier = _absorbed(pool, multiplier, word)
    return pool, multiplier


def _absorbed(pool: list[Words], multiplier: int, word: Words) -> tuple[list[Words], int]:
    """The pool after one more word of entropy, and the next multiplier."""
    after = []
    for present in pool:
        hashed, multiplier = _hashed(word, multiplier, _NEXT)
        after.append(_mix(present, hashed))
    return after, multiplier


def _produced(pool: list[Words]) -> list[Words]:
    """The words of a PCG64's seed."""
    words: list[Words] = []
    multiplier = _FIRST_OUT
    for place in range(_SEED_WORDS):
        hashed, multiplier = _hashed(pool[place % _POOL], multiplier, _NEXT_OUT)
        words.append(hashed)
    return words


def _hashed(word: Words, multiplier: int, factor: int) -> tuple[Words, int]:
    """The hash of a word, and the multiplier of the next one."""
    later = multiplier * factor & _LAST
    if isinstance(word, int):
        number = (word ^ multiplier) * later & _LAST
        return number ^ number >> 16, later
    product = (word ^ np.uint32(multiplier)) * np.uint32(later)
    return product ^ (product >> np.uint32(16)), later


def _mix(x: Words, y: Words) -> Words:
    if isinstance(x, int) and isinstance(y, int):
        number = _LEFT * x - _RIGHT * y & _LAST
        return number ^ number >> 16
    mixed = np.uint32(_LEFT) * np.uint32(x) - np.uint32(_RIGHT) * np.uint32(y)
    return mixed ^ (mixed >> np.uint32(16))
