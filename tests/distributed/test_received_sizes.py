"""Sizes that no rank can have sent are refused before memory is asked for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.distributed as dist
from models import SHARDERS, Case, batch, shard
from ranks import World

CASE = Case(("tw", "rw", "cw", "twrw"))


def deliver_size(size: int) -> str:
    """Rank 1 is told that rank 0 sends `size` elements; the other ranks get the truth."""
    ebc: Any = shard(CASE, SHARDERS["ours"]()).module.ebc
    features = batch(CASE, 0, dist.get_rank())
    real, empty, allocated = dist.all_to_all_single, torch.empty, []

    def corrupt(output: Any, input: Any, *args: Any, **kwargs: Any) -> Any:
        work = real(output, input, *args, **kwargs)
        if work is not None:
            work.wait()
        if dist.get_rank() == 1:
            output[0] = size
        return work

    def record(*sizes: Any, **kwargs: Any) -> Any:
        allocated.append(sizes)
        return empty(*sizes, **kwargs)

    dist.all_to_all_single = corrupt
    try:
        exchanges = ebc.input_dist(ebc.create_context(), features)
    finally:
        dist.all_to_all_single = real
    if dist.get_rank() == 0:  # its own sizes are right; it would wait for rank 1 from here on
        return ""
    torch.empty = record
    try:
        with pytest.raises(RuntimeError) as raised:
            exchanges.wait()
    finally:
        torch.empty = empty
    assert allocated == []
    return str(raised.value)


@pytest.mark.parametrize("size", [-5, -1, 1 << 31, 1 << 62])
def test_refused_and_named(world: Callable[..., World], size: int) -> None:
    message = world(2).run(deliver_size, size)[1]
    assert f"rank 1: the input exchange announces a size of {size} from rank 0" in message
    assert "expected 0 to 2147483647" in message
