"""Features of MovieLens events that use nothing but strictly earlier events.

An event's features may depend on its user, its item and its time, and on the ratings of events with
a smaller timestamp: not on its own rating, nor on those of the same second (people rate whole pages
at once). Vocabularies are made of the training rows; index 0 of every table is "unknown".

Most users of the last months never rated before: 86 % of the test rows have a user without a
training row. A model that learns user ids from the first rating on would be trained on rows unlike
those it is tested on. So a user is unknown during the first day, as if the vocabulary were renewed
every night, and an item until its first rating.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from torchrec_ascend.dlrm.batch import Dataset, Jagged, Rows, Table
from torchrec_ascend.dlrm.movielens import GENRES, LIKED, Events

AGES = (18, 25, 35, 45, 50, 56)  # lower bounds of the age buckets after the first
DAY = 86400  # seconds; days begin at midnight UTC
# log(1 + how many strictly earlier events): of the user, of them liked; of the item, of them liked
DENSE = ("user_events", "user_likes", "item_events", "item_likes")


def split_by_time(count: int) -> dict[str, Rows]:
    """The first 80 % of `count` events in time order, the next 10 % and the last 10 %."""
    first, second = count * 8 // 10, count * 9 // 10
    rows = np.arange(count)
    return {"train": rows[:first], "val": rows[first:second], "test": rows[second:]}


def make_dataset(events: Events, history_length: int) -> Dataset:
    """The rows of `events` (same order) with all features.

    Args:
        events: in time order.
        history_length: the most recent liked, and as many disliked, items kept for a row.
    """
    splits = split_by_time(len(events))
    train = splits["train"]
    labels = (events.rating >= LIKED).astype(np.float32)

    item_ids, items = _vocabulary(events.item, train)
    user_ids, users = _vocabulary(events.user, train)
    zip_ids, zips = _vocabulary(events.zip_code.astype("U1"), train)
    gender_ids, genders = _vocabulary(events.gender, train)
    occupation_ids, occupations = _vocabulary(events.occupation, train)

    counts = np.zeros((len(events), len(DENSE)), dtype=np.float32)
    liked: list[list[int]] = [[]] * len(events)
    disliked: list[list[int]] = [[]] * len(events)
    user_known = np.zeros(len(events), dtype=bool)
    for n, state in _states_before(events, labels, item_ids):
        user, item = events.user[n], events.item[n]
        counts[n] = (*state.user_counts[user], *state.item_counts[item])
        liked[n] = state.liked[user][-history_length:]
        disliked[n] = state.disliked[user][-history_length:]
        first_day = state.first_day.get(user)
        user_known[n] = first_day is not None and first_day < events.timestamp[n] // DAY

    return Dataset(
        # of order 1, by constants: no statistics of labels
        dense=((np.log1p(counts) - 4) / 1.5).astype(np.float32),
        dense_names=DENSE,
        sparse={
            "user": Jagged.of_ids(np.where(user_known, user_ids, 0)),
            "item": Jagged.of_ids(np.where(counts[:, 2] > 0, item_ids, 0)),
            "age": Jagged.of_ids(np.searchsorted(AGES, events.age, side="right") + 1),
            "gender": Jagged.of_ids(gender_ids),
            "occupation": Jagged.of_ids(occupation_ids),
            "zip": Jagged.of_ids(zip_ids),
            "genres": Jagged.of_lists([[g + 1 for g in genres] for genres in events.genres]),
            "liked": Jagged.of_lists(liked),
            "disliked": Jagged.of_lists(disliked),
        },
        labels=labels,
        tables=(
            Table("user", users, ("user",)),
            Table("item", items, ("item", "liked", "disliked")),
            Table("age", len(AGES) + 2, ("age",)),
            Table("gender", genders, ("gender",)),
            Table("occupation", occupations, ("occupation",)),
            Table("zip", zips, ("zip",)),
            Table("genres", len(GENRES) + 1, ("genres",)),
        ),
        splits=splits,
    )


class _State:
    """What is known at a moment: of earlier events only."""

    def __init__(self) -> None:
        self.user_counts: dict[int, list[int]] = defaultdict(lambda: [0, 0])  # events, likes
        self.item_counts: dict[int, list[int]] = defaultdict(lambda: [0, 0])
        self.liked: dict[int, list[int]] = defaultdict(list)  # item indices, oldest first
        self.disliked: dict[int, list[int]] = defaultdict(list)
        self.first_day: dict[int, int] = {}

    def add(self, user: int, item: int, item_id: int, liked: bool, timestamp: int) -> None:
        for counts in (self.user_counts[user], self.item_counts[item]):
            counts[0] += 1
            counts[1] += liked
        (self.liked if liked else self.disliked)[user].append(item_id)
        self.first_day.setdefault(user, timestamp // DAY)


def _states_before(
    events: Events, labels: npt.NDArray[np.float32], item_ids: npt.NDArray[np.int64]
) -> Iterator[tuple[int, _State]]:
    """Each event with the state before its second. The state is valid until the next one."""
    state = _State()
    added = 0
    for n in range(len(events)):
        while events.timestamp[added] < events.timestamp[n]:
            state.add(
                int(events.user[added]),
                int(events.item[added]),
                int(item_ids[added]),
                bool(labels[added]),
                int(events.timestamp[added]),
            )
            added += 1
        yield n, state


def _vocabulary(
    values: npt.NDArray[np.int64] | npt.NDArray[np.str_], train: Rows
) -> tuple[npt.NDArray[np.int64], int]:
    """Indices of `values` among the sorted values of the training rows, from 1 (0: not among
    them), and how many embeddings that takes."""
    known = np.unique(values[train])
    if len(known) == 0:
        return np.zeros(len(values), dtype=np.int64), 1
    position = np.minimum(np.searchsorted(known, values), len(known) - 1)
    return np.where(known[position] == values, position + 1, 0), len(known) + 1
