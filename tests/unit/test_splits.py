"""RankSplits: columns per rank from the plan, and sizes that agree between sender and receiver."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torchrec.distributed import sharding_plan as plans
from torchrec.distributed.embedding_sharding import EmbeddingShardingInfo, group_tables
from torchrec.distributed.embeddingbag import EmbeddingBagCollectionSharder
from torchrec.distributed.sharding.cw_sharding import CwPooledEmbeddingSharding
from torchrec.distributed.sharding.grid_sharding import GridPooledEmbeddingSharding
from torchrec.distributed.sharding.tw_sharding import TwPooledEmbeddingSharding
from torchrec.distributed.sharding.twrw_sharding import TwRwPooledEmbeddingSharding
from torchrec.distributed.types import ShardingEnv
from torchrec.modules.embedding_configs import EmbeddingTableConfig

from torchrec_ascend.splits import RankSplits

DIMS = st.lists(st.integers(0, 100), min_size=1, max_size=9)


@settings(deadline=None, derandomize=True)
@given(dims=DIMS)
def test_offsets_are_the_exclusive_prefix_sum(dims: list[int]) -> None:
    splits = RankSplits(tuple(dims))
    assert splits.num_ranks == len(splits.offsets) == len(dims)
    assert splits.offsets == tuple(sum(dims[:rank]) for rank in range(len(dims)))
    assert splits.width == sum(dims)


def test_the_drawn_example() -> None:
    splits = RankSplits((2, 3, 0, 1))
    assert (splits.offsets, splits.width) == ((0, 2, 5, 5), 6)
    rows = torch.tensor([[10, 11, 20, 21, 22, 40], [50, 51, 60, 61, 62, 80]], dtype=torch.float32)
    flat = torch.ops.torchrec_ascend.recat(rows, splits.dims)
    assert flat.tolist() == [10, 11, 50, 51, 20, 21, 22, 60, 61, 62, 40, 80]


@settings(deadline=None, derandomize=True)
@given(data=st.data(), dims=DIMS)
def test_what_is_sent_is_what_is_received(data: st.DataObject, dims: list[int]) -> None:
    """The all-to-all hangs or mixes data up if send[i -> j] differs from receive[j <- i]."""
    splits, ranks = RankSplits(tuple(dims)), range(len(dims))
    sizes = st.lists(st.integers(0, 50), min_size=len(dims), max_size=len(dims))
    batches = data.draw(sizes)
    owned = [splits.owned_sizes(rank, batches) for rank in ranks]
    rows = [splits.row_sizes(batches[rank]) for rank in ranks]
    for i in ranks:
        for j in ranks:
            # forward: rank i sends its columns of j's rows; backward: the same in reverse
            assert owned[i][j] == rows[j][i] == dims[i] * batches[j]
        assert sum(rows[i]) == batches[i] * splits.width


def test_immutable_and_compared_by_value() -> None:
    splits = RankSplits((2, 3))
    with pytest.raises(dataclasses.FrozenInstanceError):
        splits.dims = (1,)  # type: ignore[misc]
    splits.to("cpu")
    assert splits == RankSplits((2, 3))
    assert hash(splits) == hash(RankSplits((2, 3)))
    assert splits != RankSplits((3, 2))
    from_list: Any = [2, 3]
    assert RankSplits(from_list) == splits


@pytest.mark.parametrize("device", ["cpu", "meta"])
def test_to_makes_int64_tensors_once(device: str) -> None:
    splits = RankSplits((2, 0, 3))
    dims, offsets = splits.to(device)
    assert dims.dtype == offsets.dtype == torch.int64
    assert dims.device == offsets.device == torch.device(device)
    assert dims.shape == offsets.shape == (3,)
    if device == "cpu":
        assert (dims.tolist(), offsets.tolist()) == ([2, 0, 3], [0, 2, 2])
    again = splits.to(torch.device(device))
    assert again[0] is dims and again[1] is offsets


def test_bad_dims_are_refused() -> None:
    with pytest.raises(ValueError, match=r"dims is empty, expected one entry per rank"):
        RankSplits(())
    with pytest.raises(ValueError, match=r"dims\[1\] is -3, expected >= 0"):
        RankSplits((2, -3, 4))


# --- from the plan: small stand-ins


def stand_in(features: int, *shards: tuple[int, int, int]) -> Any:
    """A table of `features` features, and its shards: (rank, first column, columns)."""
    specs = [SimpleNamespace(shard_offsets=[0, at], shard_sizes=[9, n]) for _, at, n in shards]
    return SimpleNamespace(
        embedding_config=SimpleNamespace(
            name="movies", feature_names=[f"f{i}" for i in range(features)]
        ),
        param_sharding=SimpleNamespace(
            ranks=[rank for rank, _, _ in shards], sharding_spec=SimpleNamespace(shards=specs)
        ),
    )


def test_a_table_counts_once_per_feature() -> None:
    table = stand_in(2, (1, 0, 8))
    assert RankSplits.from_sharding_infos([table], 3).dims == (0, 16, 0)


def test_column_shards_on_one_rank_add_up() -> None:
    table = stand_in(1, (0, 0, 8), (1, 8, 4), (0, 12, 4))
    assert RankSplits.from_sharding_infos([table], 2).dims == (12, 4)


def test_row_shards_in_one_group_count_once() -> None:
    rows = stand_in(2, (2, 0, 8), (3, 0, 8))
    assert RankSplits.from_sharding_infos([rows], 2, ranks_per_group=2).dims == (0, 16)
    # the same columns of two tables are not the same columns
    assert RankSplits.from_sharding_infos([rows, rows], 2, ranks_per_group=2).dims == (0, 32)
    grid = stand_in(1, (0, 0, 8), (1, 0, 8), (2, 8, 4), (3, 8, 4))
    assert RankSplits.from_sharding_infos([grid], 2, ranks_per_group=2).dims == (8, 4)


def test_no_tables() -> None:
    assert RankSplits.from_sharding_infos([], 3).dims == (0, 0, 0)


@pytest.mark.parametrize(("ranks", "per_group", "rank"), [(2, 1, 2), (2, 2, 4), (2, 1, -1)])
def test_a_rank_outside_the_exchange_is_refused(ranks: int, per_group: int, rank: int) -> None:
    message = (
        rf"table 'movies' has a shard on rank {rank}, expected a rank below {ranks * per_group}"
    )
    with pytest.raises(ValueError, match=message):
        RankSplits.from_sharding_infos([stand_in(1, (rank, 0, 8))], ranks, per_group)


# --- from the plan: TorchRec's own objects and sums

WORLD, LOCAL = 4, 2


def info(name: str, dim: int, features: Sequence[str], placement: Callable[..., Any]) -> Any:
    parameter = torch.nn.Parameter(torch.empty(12, dim))
    sharding = placement(parameter, LOCAL, WORLD, "cpu", EmbeddingBagCollectionSharder())
    config = EmbeddingTableConfig(
        name=name, num_embeddings=12, embedding_dim=dim, feature_names=list(features)
    )
    return EmbeddingShardingInfo(config, sharding, parameter)


def upstream(cls: Any, infos: list[Any]) -> Any:
    """TorchRec's sharding of `infos` as far as its sums need it: no process group."""
    sharding = cls.__new__(cls)
    sharding._env = ShardingEnv.from_local(WORLD, 0)
    sharding._world_size, sharding._local_size = WORLD, LOCAL
    sharding._is_2D_parallel, sharding._pg = False, None
    per_rank = group_tables(sharding._shard(infos))
    sharding._grouped_embedding_configs_per_rank = per_rank
    sharding._grouped_embedding_configs_per_node = per_rank[::LOCAL]
    return sharding


def test_table_wise_equals_upstream() -> None:
    infos = [
        info("a", 8, ["f0", "f1"], plans.table_wise(rank=2)),
        info("b", 24, ["f2"], plans.table_wise(rank=0)),
        info("c", 5, ["f3", "f0", "f4"], plans.table_wise(rank=2)),
    ]
    splits = RankSplits.from_sharding_infos(infos, WORLD)
    assert splits.dims == (24, 0, 31, 0)
    assert list(splits.dims) == upstream(TwPooledEmbeddingSharding, infos)._dim_sum_per_rank()


def test_column_wise_equals_upstream() -> None:
    infos = [
        info("a", 8, ["f0", "f1"], plans.column_wise(ranks=[3, 1])),
        info("b", 24, ["f2"], plans.column_wise(ranks=[0, 1, 0])),
        info("c", 12, ["f3"], plans.column_wise(size_per_rank=[4, 8])),
    ]
    splits = RankSplits.from_sharding_infos(infos, WORLD)
    assert splits.dims == (16 + 4, 8 + 8 + 8, 0, 8)
    assert list(splits.dims) == upstream(CwPooledEmbeddingSharding, infos)._dim_sum_per_rank()


def test_table_row_wise_equals_upstream() -> None:
    infos = [
        info("a", 8, ["f0", "f1"], plans.table_row_wise(host_index=1)),
        info("b", 24, ["f2"], plans.table_row_wise(host_index=0)),
        info("c", 5, ["f3"], plans.table_row_wise(host_index=1)),
    ]
    splits = RankSplits.from_sharding_infos(infos, WORLD // LOCAL, ranks_per_group=LOCAL)
    assert splits.dims == (24, 21)
    assert list(splits.dims) == upstream(TwRwPooledEmbeddingSharding, infos)._dim_sum_per_node()


def test_grid_equals_upstream() -> None:
    infos = [
        info("a", 256, ["f0", "f1"], plans.grid_shard(host_indexes=[0, 1])),
        info("b", 128, ["f2"], plans.grid_shard(host_indexes=[1])),
        info("c", 384, ["f3"], plans.grid_shard(host_indexes=[1, 0, 1])),
    ]
    splits = RankSplits.from_sharding_infos(infos, WORLD // LOCAL, ranks_per_group=LOCAL)
    assert splits.dims == (256 + 128, 256 + 128 + 256)
    assert list(splits.dims) == upstream(GridPooledEmbeddingSharding, infos)._dim_sum_per_node()
