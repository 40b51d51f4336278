"""Made-up MovieLens events: few users and items, and many events in one second."""

from __future__ import annotations

import numpy as np

from torchrec_ascend.dlrm.features import DAY
from torchrec_ascend.dlrm.movielens import GENRES, Events


def make_events(count: int = 300, users: int = 9, items: int = 14, seed: int = 0) -> Events:
    """`count` events over about ten days; about two thirds share their second with another."""
    random = np.random.default_rng(seed)
    user, item = random.integers(1, users + 1, count), random.integers(1, items + 1, count)
    # Whole pages at once, and a jump to another hour or day between the pages.
    steps = random.choice([0, 0, 0, 1, 30 * DAY // count * 10], count)
    attributes = np.random.default_rng(1)
    ages = attributes.integers(10, 70, users + 1)
    genders = attributes.choice(["F", "M"], users + 1)
    occupations = attributes.choice(["artist", "doctor", "writer"], users + 1)
    zips = attributes.choice(["10001", "20002", "90009", "V0R2M"], users + 1)
    genres = [attributes.choice(len(GENRES), n % 3 + 1).tolist() for n in range(items + 1)]
    return Events(
        user=user,
        item=item,
        rating=random.integers(1, 6, count),
        timestamp=880_000_000 + np.cumsum(steps),
        age=ages[user],
        gender=genders[user],
        occupation=occupations[user],
        zip_code=zips[user],
        genres=[genres[i] for i in item],
    )
