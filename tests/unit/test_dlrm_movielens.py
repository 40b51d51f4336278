"""The three files of MovieLens-100k become events in time order; what is missing is named."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from torchrec_ascend.dlrm import movielens
from torchrec_ascend.dlrm.movielens import FILES, GENRES


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    def write(name: str, columns: dict[str, Any]) -> None:
        pq.write_table(pa.table(columns), tmp_path / FILES[name], compression="brotli")

    write(
        "data",
        {
            "user_id": [2, 1, 2, 1, 2],
            "movie_id": [30, 10, 20, 20, 10],
            "rating": [5, 3, 4, 1, 2],
            "timestamp": [300, 200, 100, 200, 100],
        },
    )
    write(
        "users",
        {
            "user_id": [2, 1],
            "age": [33, 11],
            "gender": ["F", "M"],
            "occupation": ["writer", "artist"],
            "zip_code": ["V0R2M", "01234"],
        },
    )
    genres: dict[str, list[int]] = {genre: [0, 0, 0] for genre in GENRES}
    genres["Drama"] = [1, 0, 1]
    genres["Action"] = [1, 0, 0]
    write("items", {"movie_id": [10, 20, 30], **genres})
    return tmp_path


def test_events_are_in_time_order_with_their_user_and_item(folder: Path) -> None:
    events = movielens.read(folder)
    assert len(events) == 5
    assert events.timestamp.tolist() == [100, 100, 200, 200, 300]
    assert events.user.tolist() == [2, 2, 1, 1, 2]
    assert events.item.tolist() == [10, 20, 10, 20, 30]  # of one second: by user, then by item
    assert events.rating.tolist() == [2, 4, 3, 1, 5]
    assert events.age.tolist() == [33, 33, 11, 11, 33]
    assert events.gender.tolist() == ["F", "F", "M", "M", "F"]
    assert events.occupation.tolist() == ["writer", "writer", "artist", "artist", "writer"]
    assert events.zip_code.tolist() == ["V0R2M", "V0R2M", "01234", "01234", "V0R2M"]
    drama, action = GENRES.index("Drama"), GENRES.index("Action")
    assert events.genres == [[action, drama], [], [action, drama], [], [drama]]


def test_the_installed_files_are_movielens_100k() -> None:
    events = movielens.read()
    assert len(events) == 100_000
    assert len(np.unique(events.user)) == 943 and len(np.unique(events.item)) == 1682
    assert sorted(np.unique(events.rating)) == [1, 2, 3, 4, 5]
    assert (np.diff(events.timestamp) >= 0).all()
    assert all(events.genres)


@pytest.mark.parametrize("name", FILES)
def test_a_missing_file_is_named(folder: Path, name: str) -> None:
    (folder / FILES[name]).unlink()
    with pytest.raises(FileNotFoundError, match=FILES[name]):
        movielens.read(folder)


@pytest.mark.parametrize("column", ["user_id", "movie_id"])
def test_a_rating_of_nobody_or_of_nothing_is_named(folder: Path, column: str) -> None:
    path = folder / FILES["data"]
    table = pq.read_table(path)
    ids = table[column].to_pylist()
    ids[3] = 77
    table = table.set_column(table.column_names.index(column), column, pa.array(ids))
    pq.write_table(table, path)
    with pytest.raises(ValueError, match=f"{column} 77"):
        movielens.read(folder)
