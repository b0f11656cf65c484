"""Streams are those of numpy's SeedSequence, whichever way their seeds are computed."""

import copy
import pickle
import zlib

import numpy as np
import pytest

from manyarms.support.random_streams import RandomStreams
from manyarms.support.seeding import BLOCK

LAST = 2**32 - 1
SEEDS = [0, 1, 7, LAST, LAST + 1, 2**64 + 3, 2**96, 2**127 + 11, 2**128 + 5, 2**160 + 1, 3**200]
NUMBERS = [0, 1, BLOCK - 1, BLOCK, BLOCK + 1, 12_345, LAST - 1, LAST, LAST + 1, 2**40]


def reference(seed: int, purpose: str, number: int) -> np.random.Generator:
    key = (zlib.crc32(purpose.encode()), number)
    return np.random.Generator(np.random.PCG64(np.random.SeedSequence(seed, spawn_key=key)))


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("purpose", ["inducing", "thompson", ""])
def test_the_stream_of_every_address_is_that_of_a_seed_sequence(seed, purpose):
    for number in NUMBERS:
        stream, expected = RandomStreams(seed).at(purpose, number), reference(seed, purpose, number)
        assert stream.bit_generator.state == expected.bit_generator.state
        assert stream.random(5).tolist() == expected.random(5).tolist()


def test_a_stream_can_be_drawn_again_and_is_not_affected_by_others():
    streams = RandomStreams(5)
    first = streams.at("inducing", 3)
    first.random(100)
    assert streams.at("inducing", 3).random() == reference(5, "inducing", 3).random()


def test_a_stream_spawns_the_same_children_in_the_same_order():
    stream, expected = RandomStreams(9).at("own rule", 2), reference(9, "own rule", 2)
    for count in (1, 2):
        children, others = stream.spawn(count), expected.spawn(count)
        assert [child.random() for child in children] == [child.random() for child in others]


def test_a_stream_survives_a_copy_and_pickle():
    stream = RandomStreams(9).at("own rule", 2)
    stream.random()
    copies = [copy.deepcopy(stream), pickle.loads(pickle.dumps(stream))]
    assert len({each.random() for each in [stream, *copies]}) == 1


def test_other_bit_generators_can_be_seeded_with_a_streams_seed():
    seed = RandomStreams(4).at("own rule", 1).bit_generator.seed_seq
    sequence = np.random.SeedSequence(4, spawn_key=(zlib.crc32(b"own rule"), 1))
    own, expected = np.random.Philox(seed), np.random.Philox(sequence)
    assert np.random.Generator(own).random() == np.random.Generator(expected).random()
    assert seed.generate_state(4).tolist() == sequence.generate_state(4).tolist()
    assert seed.generate_state(4, np.uint64).tolist() == sequence.generate_state(4, np.uint64).tolist()
