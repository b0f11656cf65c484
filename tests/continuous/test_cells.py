"""The tree of cells: whatever is split, the leaves cover the box and every point belongs to exactly one."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

import manyarms as ma
from manyarms.continuous.cells import Tree
from manyarms.continuous.descent import Division
from manyarms.continuous.variation import Variation

BOXES = [
    ma.Box([0.0, -1.0], [1.0, 5.0]),
    ma.Box([1, 0.0, 1e-3], [7, 2.0, 10.0], integer=[0], log=[2]),
    ma.Box([0, 1], [3, 40], integer=True, log=[1]),
    ma.Box([-2.0], [2.0]),
]


def grown(box: ma.Box, parts: int, choices: list[int]) -> tuple[Tree, list[int]]:
    """A tree after splitting the leaves that `choices` point at, and the cells that were split."""
    division = Division(box, Variation(ma.RBF(0.3), np.asarray, box), parts)
    centre = box.coordinates(box.points(np.full((1, len(box)), 0.5)))[0]
    tree, split, n_arms = Tree.root(centre), [], 1
    for choice in choices:
        cell = int(tree.leaves[choice % len(tree.leaves)])
        parts_of = division.children(tree, cell)
        if parts_of is None:
            continue
        fresh = ~parts_of.inherited
        arms = np.full(len(fresh), tree.arm[cell])
        arms[fresh] = n_arms + np.arange(fresh.sum())
        n_arms += int(fresh.sum())
        tree = tree.split(cell, parts_of.axis, parts_of.cuts, parts_of.centre, arms)
        split.append(cell)
    return tree, split


trees = st.builds(
    lambda box, parts, choices: (box, *grown(box, parts, choices)),
    st.sampled_from(BOXES),
    st.integers(2, 5),
    st.lists(st.integers(0, 10**6), max_size=25),
)


@settings(max_examples=30, deadline=None)
@given(trees, st.integers(0, 2**32 - 1))
def test_a_point_belongs_to_exactly_one_leaf(grown_tree, seed: int) -> None:
    box, tree, _ = grown_tree
    rng = np.random.default_rng(seed)
    places = box.coordinates(box.points(rng.random((50, len(box)))))
    corners = np.array([np.zeros(len(box)), np.ones(len(box))])
    cuts = np.clip(tree.low[rng.integers(len(tree), size=20)], 0.0, 1.0)  # coordinates on cuts
    places = np.vstack([places, corners, cuts])
    low, high = tree.low[tree.leaves], tree.high[tree.leaves]
    above = places[:, None, :] >= low[None]
    below = (places[:, None, :] < high[None]) | (high[None] == 1.0)
    owners = (above & below).all(axis=2)
    assert (owners.sum(axis=1) == 1).all()
    np.testing.assert_array_equal(tree.leaves[owners.argmax(axis=1)], tree.leaf_of(places))


@settings(max_examples=30, deadline=None)
@given(trees)
def test_no_cell_is_lost_and_the_leaves_cover_the_box(grown_tree) -> None:
    _, tree, split = grown_tree
    volumes = (tree.high - tree.low).prod(axis=1)
    assert np.isclose(volumes[tree.leaves].sum(), 1.0, rtol=1e-9)
    assert sorted(split) == np.flatnonzero(tree.axis >= 0).tolist()
    for cell in split:  # the children of a cell are exactly the cell
        children = np.arange(tree.first[cell], tree.first[cell] + tree.children[cell])
        assert (tree.parent[children] == cell).all()
        assert (tree.depth[children] == tree.depth[cell] + 1).all()
        assert np.isclose(volumes[children].sum(), volumes[cell], rtol=1e-9)
        assert (tree.low[children] >= tree.low[cell]).all()
        assert (tree.high[children] <= tree.high[cell]).all()
    assert np.count_nonzero(tree.parent < 0) == 1


@settings(max_examples=30, deadline=None)
@given(trees)
def test_there_is_one_path_from_the_root_to_every_leaf(grown_tree) -> None:
    _, tree, _ = grown_tree
    for leaf in tree.leaves.tolist():
        path = [leaf]
        while tree.parent[path[-1]] >= 0:
            path.append(int(tree.parent[path[-1]]))
        assert path[-1] == 0
        assert len(path) == tree.depth[leaf] + 1
    everyone = np.concatenate(
        [np.arange(f, f + n) for f, n in zip(tree.first, tree.children, strict=True) if n] or [np.empty(0)]
    )
    assert sorted(everyone.tolist()) == list(range(1, len(tree)))  # every other cell is a child of one cell


@settings(max_examples=30, deadline=None)
@given(trees)
def test_centroids_are_points_of_their_own_cells(grown_tree) -> None:
    box, tree, _ = grown_tree
    points = box.points(tree.centre)
    assert box.contains(points).all()
    leaves = tree.leaves
    np.testing.assert_array_equal(tree.leaf_of(box.coordinates(points[leaves])), leaves)
    assert len({row.tobytes() for row in points[leaves]}) == len(leaves)  # and all different
    for arm in np.unique(tree.arm):  # cells with the same arm have the same centroid
        np.testing.assert_allclose(np.ptp(tree.centre[tree.arm == arm], axis=0), 0.0, atol=1e-12)


def test_the_middle_third_keeps_the_centroid_and_halves_do_not() -> None:
    thirds, _ = grown(BOXES[0], 3, [0, 0, 0, 0])
    halves, _ = grown(BOXES[0], 2, [0])
    assert (thirds.arm[1:4] == [1, 0, 2]).all()
    assert (halves.arm[1:] == [1, 2]).all()


def test_a_box_of_integers_ends_in_single_points() -> None:
    tree, _ = grown(BOXES[2], 3, list(range(1500)))
    assert len(tree.leaves) == 4 * 40
    points = BOXES[2].points(tree.centre[tree.leaves])
    assert {tuple(row) for row in points.tolist()} == {(a, b) for a in range(4) for b in range(1, 41)}


def test_pruned_leaves_still_cover_but_are_not_active() -> None:
    tree, _ = grown(BOXES[0], 3, [0, 1, 2])
    pruned = tree.with_pruned(tree.leaves[:2])
    assert (pruned.active == tree.leaves[2:]).all()
    assert (pruned.leaves == tree.leaves).all()
    assert not tree.pruned.any()


def trees_of_a_run(
    box: ma.Box, policy: ma.Policy, seed: int, batch: int | None
) -> list[tuple[Tree, ma.Pool]]:
    """The trees of a run after each of its steps, with the pools of their centroids."""
    rng, run, found = np.random.default_rng(seed), ma.Optimizer(box, policy, seed=seed), []
    peak = rng.random(len(box))
    for _ in range(12):
        asked = run.ask(batch)
        places = box.coordinates(run.points(asked))
        run.tell(asked, np.exp(-4 * ((places - peak) ** 2).sum(axis=1)) + 0.05 * rng.normal(size=len(places)))
        found.append((run.partition.tree, run.pool))
    return found


@settings(max_examples=5, deadline=None)
@given(
    st.sampled_from(BOXES),
    st.sampled_from([1.0, "auto"]),
    st.integers(0, 2**32 - 1),
    st.sampled_from([None, 3]),
)
def test_a_run_only_ever_divides_and_prunes(box: ma.Box, width: object, seed: int, batch: int | None) -> None:
    """From step to step: cells stay what they were, pruned leaves stay pruned, the leaves cover the box."""
    policy = ma.BBKB(kernel=ma.RBF(1.0), noise_std=0.05, norm_bound=1.0, width=width)
    trees = trees_of_a_run(box, policy, seed, batch)
    assert len(trees[-1][0]) > 1
    for (before, _), (after, _) in pairwise(trees):
        n = len(before)
        for name in ("low", "high", "centre", "arm", "parent", "depth"):
            np.testing.assert_array_equal(getattr(after, name)[:n], getattr(before, name))
        was_split = before.axis >= 0
        np.testing.assert_array_equal(after.axis[:n][was_split], before.axis[was_split])
        assert after.pruned[:n][before.pruned].all()
        assert (after.axis[:n][before.pruned] < 0).all()  # a pruned leaf is never split
    tree, pool = trees[-1]
    volumes = (tree.high - tree.low).prod(axis=1)
    assert np.isclose(volumes[tree.leaves].sum(), 1.0, rtol=1e-9)
    np.testing.assert_array_equal(pool.features[tree.arm], box.points(tree.centre) + 0.0)  # the right arms
    places = box.coordinates(box.points(np.random.default_rng(seed).random((40, len(box)))))
    owners = tree.leaf_of(places)
    assert ((places >= tree.low[owners]) & (places <= tree.high[owners])).all()
