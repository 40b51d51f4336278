"""Features use nothing but strictly earlier events; vocabularies nothing but training rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from dlrm_events import make_events

from torchrec_ascend.dlrm import movielens
from torchrec_ascend.dlrm.batch import Dataset
from torchrec_ascend.dlrm.features import DAY, make_dataset, split_by_time
from torchrec_ascend.dlrm.movielens import Events

HISTORY = 100


@pytest.fixture(scope="module")
def real() -> Events:
    return movielens.read()


@pytest.fixture(scope="module")
def real_dataset(real: Events) -> Dataset:
    return make_dataset(real, HISTORY)


def changed(one: Dataset, other: Dataset, rows: npt.ArrayLike) -> list[str]:
    """The features that differ between two data sets in any of `rows`."""
    rows = np.asarray(rows, dtype=np.int64)
    names = [] if np.array_equal(one.dense[rows], other.dense[rows]) else ["dense"]
    for name in one.sparse:
        (values, lengths), (values2, lengths2) = (d.sparse[name].take(rows) for d in (one, other))
        if not (np.array_equal(values, values2) and np.array_equal(lengths, lengths2)):
            names.append(name)
    return names


def with_rating(events: Events, rows: Sequence[int] | npt.NDArray[np.int64]) -> Events:
    """Likes among `rows` become dislikes, and the other way round."""
    rating = events.rating.copy()
    rating[rows] = 6 - rating[rows]
    rating[rows] = np.where(rating[rows] == 3, 5, rating[rows])
    return replace(events, rating=rating)


def with_events_of(events: Events, rows: npt.NDArray[np.int64], source: Any) -> Events:
    """`rows` become the events `source`, but keep their time."""
    new: dict[str, Any] = {}
    for name in {f.name for f in fields(Events)} - {"timestamp", "genres"}:
        new[name] = getattr(events, name).copy()
        new[name][rows] = getattr(events, name)[source]
    genres = list(events.genres)
    for row, other in zip(rows, np.broadcast_to(source, rows.shape), strict=True):
        genres[row] = events.genres[other]
    return replace(events, **new, genres=genres)


def assert_rating_is_seen_later_only(events: Events, before: Dataset, n: int) -> bool:
    """Returns whether a later row saw the change."""
    after = make_dataset(with_rating(events, [n]), HISTORY)
    assert after.labels[n] != before.labels[n]
    until = np.flatnonzero(events.timestamp <= events.timestamp[n])
    assert changed(before, after, until) == [], n
    later = changed(before, after, np.flatnonzero(events.timestamp > events.timestamp[n]))
    assert set(later) <= {"dense", "liked", "disliked"}, n
    return bool(later)


def test_a_rating_changes_nothing_up_to_its_second_in_the_real_events(
    real: Events, real_dataset: Dataset
) -> None:
    # a row with others of its user in its second, which see neither it nor each other
    same = (np.diff(real.timestamp) == 0) & (np.diff(real.user) == 0)
    for n in np.flatnonzero(same)[[1000, -1000]]:
        assert assert_rating_is_seen_later_only(real, real_dataset, int(n))


def test_later_real_ratings_change_nothing_earlier(real: Events, real_dataset: Dataset) -> None:
    moment = real.timestamp[57_000]
    after = make_dataset(with_rating(real, np.flatnonzero(real.timestamp >= moment)), HISTORY)
    assert changed(real_dataset, after, np.flatnonzero(real.timestamp <= moment)) == []
    assert changed(real_dataset, after, np.flatnonzero(real.timestamp > moment))


@pytest.mark.parametrize("seed", range(5))
def test_later_events_change_nothing_earlier(seed: int) -> None:
    """Whole events: who, what, how. The vocabularies keep their content."""
    events = make_events(seed=seed)
    random = np.random.default_rng(seed)
    splits = split_by_time(len(events))
    before = make_dataset(events, HISTORY)
    for n in random.choice(splits["train"], 12, replace=False):
        later = np.flatnonzero(events.timestamp > events.timestamp[n])
        train, rest = later[np.isin(later, splits["train"])], np.setdiff1d(later, splits["train"])
        other = with_events_of(events, train, random.permutation(train))
        other = with_events_of(other, rest, random.choice(len(events), len(rest)))
        after = make_dataset(other, HISTORY)
        until = np.setdiff1d(np.arange(len(events)), later)
        assert changed(before, after, until) == []
        assert "dense" in changed(before, after, later)


def test_events_of_one_second_do_not_see_each_other() -> None:
    """Others of the second become events of the same user and item: nothing changes."""
    events = make_events()
    before = make_dataset(events, HISTORY)
    tried = 0
    for n in np.concatenate([split_by_time(len(events))[s] for s in ("val", "test")]):
        others = np.flatnonzero(events.timestamp == events.timestamp[n])
        others = others[others != n]
        if len(others) and others.min() >= len(events) * 8 // 10:  # the vocabulary stays
            tried += 1
            after = make_dataset(with_events_of(events, others, n), HISTORY)
            assert changed(before, after, [n]) == []
    assert tried >= 20


def test_features_of_real_events_are_what_they_are_defined_to_be(
    real: Events, real_dataset: Dataset
) -> None:
    """Each from its definition, with a search through all events."""
    known = np.unique(real.item[: len(real) * 8 // 10])
    rows = np.random.default_rng(0).choice(len(real), 150, replace=False)
    users_known = 0
    for n in rows:
        earlier = real.timestamp < real.timestamp[n]
        of_user = np.flatnonzero(earlier & (real.user == real.user[n]))
        of_item = np.flatnonzero(earlier & (real.item == real.item[n]))
        counts = [
            count
            for events in (of_user, of_item)
            for count in (len(events), np.count_nonzero(real.rating[events] >= 4))
        ]
        wanted_dense = (np.log1p(np.array(counts)) - 4) / 1.5
        np.testing.assert_allclose(real_dataset.dense[n], wanted_dense, rtol=1e-5, atol=1e-6)
        for name, wanted in (("liked", True), ("disliked", False)):
            history = real.item[of_user[(real.rating[of_user] >= 4) == wanted]][-HISTORY:]
            ids = [int(np.searchsorted(known, i)) + 1 if i in known else 0 for i in history]
            assert real_dataset.sparse[name].take(np.array([n]))[0].tolist() == ids, (n, name)
        yesterday = any(real.timestamp[of_user] // DAY < real.timestamp[n] // DAY)
        users_known += yesterday
        if n < len(real) * 8 // 10:
            assert (real_dataset.sparse["user"].values[n] > 0) == yesterday
        assert (real_dataset.sparse["item"].values[n] > 0) == (
            len(of_item) > 0 and real.item[n] in known
        )
    assert 0 < users_known < len(rows)


def test_no_real_training_row_is_later_than_another_split(
    real: Events, real_dataset: Dataset
) -> None:
    train, val, test = (real.timestamp[real_dataset.splits[s]] for s in ("train", "val", "test"))
    assert (len(train), len(val), len(test)) == (80_000, 10_000, 10_000)
    assert train.max() <= val.min() and val.max() <= test.min()


def test_the_label_is_a_rating_of_four_or_five(real: Events, real_dataset: Dataset) -> None:
    assert real_dataset.labels.dtype == np.float32
    for rating, label in ((1, 0), (2, 0), (3, 0), (4, 1), (5, 1)):
        labels = real_dataset.labels[real.rating == rating]
        assert len(labels) and (labels == label).all()


def test_vocabularies_come_from_the_training_rows() -> None:
    events = make_events()
    before = make_dataset(events, HISTORY)
    train = before.splits["train"]
    rest = np.concatenate([before.splits["val"], before.splits["test"]])
    new: dict[str, Any] = {name: getattr(events, name).copy() for name in ("user", "item")}
    for values in new.values():
        values[rest] += 1000
    words: dict[str, Any] = {
        name: np.array([f"?{v}" if n in rest else v for n, v in enumerate(getattr(events, name))])
        for name in ("gender", "occupation", "zip_code")
    }
    after = make_dataset(replace(events, **new, **words), HISTORY)
    assert after.tables == before.tables
    assert changed(before, after, train) == []
    for name in ("user", "item", "gender", "occupation", "zip"):
        assert (after.sparse[name].take(rest)[0] == 0).all(), name
    assert (after.sparse["liked"].take(rest)[0] == 0).all()  # histories of new users, new items
    assert len(after.sparse["liked"].take(rest)[0])
    sizes = {table.name: table.num_embeddings for table in before.tables}
    assert sizes["user"] == len(np.unique(events.user[train])) + 1
    assert sizes["item"] == len(np.unique(events.item[train])) + 1
    for name in ("gender", "occupation", "zip"):  # a training row is never unknown
        assert before.sparse[name].take(train)[0].min() == 1
        assert before.sparse[name].take(train)[0].max() == sizes[name] - 1


def test_ids_are_within_their_tables(real_dataset: Dataset) -> None:
    features = [name for table in real_dataset.tables for name in table.features]
    assert sorted(features) == sorted(real_dataset.sparse)
    for table in real_dataset.tables:
        for name in table.features:
            values = real_dataset.sparse[name].values
            assert values.min() >= 0 and values.max() < table.num_embeddings, name
    assert real_dataset.dense.dtype == np.float32
    assert real_dataset.dense.shape == (len(real_dataset.labels), len(real_dataset.dense_names))
