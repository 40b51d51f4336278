"""What users of the sharder ran into elsewhere: each works, or fails at once and says why."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.distributed as dist
from models import (
    SHARDERS,
    TABLES,
    Case,
    Model,
    Table,
    batch,
    compare,
    difference,
    local_blocks,
    mixed_pooling,
    quiet,
    shard,
    shardings,
    train_sharded,
    train_unsharded,
)
from ranks import World
from torchrec import EmbeddingBagCollection, EmbeddingBagConfig, KeyedJaggedTensor, PoolingType
from torchrec.distributed import DistributedModelParallel
from torchrec.distributed import sharding_plan as plans
from torchrec.distributed.comm_ops import set_gradient_division, torchrec_use_sync_collectives
from torchrec.distributed.types import ShardingPlan
from torchrec.modules.embedding_configs import DataType

from torchrec_ascend.sharding import AscendEmbeddingBagCollectionSharder

EIGHT = Table("t", 4, 8, ("f",))


def message(fn: Callable[[], Any], error: type[Exception] = ValueError) -> str:
    try:
        fn()
    except error as raised:
        return str(raised)
    raise AssertionError(f"no {error.__name__} was raised")


# Ranks without tables, and widths no kernel likes.


def test_only_some_ranks_hold_tables(world: Callable[..., World]) -> None:
    """At 4 ranks, tables on ranks 0 and 2 only."""
    tables = (Table("a", 5, 12, ("fa",)), Table("b", 6, 4, ("fb",)))
    assert world(4, 2).run(_compare_on_ranks, tables, (0, 2)) == [(0.0, 0.0)] * 4


def _compare_on_ranks(tables: tuple[Table, ...], ranks: tuple[int, ...]) -> tuple[float, float]:
    case = Case(("tw",), tables)
    sharder = AscendEmbeddingBagCollectionSharder()
    with quiet():
        mine = train_sharded(
            case,
            sharder,
            {t.name: plans.table_wise(rank=r) for t, r in zip(tables, ranks, strict=True)},
        )
    return difference(mine, train_unsharded(case, dist.get_world_size(), dist.get_rank()))


def test_two_features_of_one_table(world: Callable[..., World]) -> None:
    case = Case(("tw",), (Table("t", 9, 8, ("f", "g")),))
    assert world(2).run(compare, case) == [(0.0, 0.0)] * 2


# Gradient scale.


def _sgd_delta(divide: bool) -> list[float]:
    """One id looked up once by each rank, gradient 1: how far its row moves with lr 1."""
    case = Case(("tw0",), (EIGHT,))
    set_gradient_division(divide)
    try:
        with quiet():
            dmp = shard(case, AscendEmbeddingBagCollectionSharder(), lr=1.0)
            before = [t.clone() for _, t, _ in local_blocks(dmp)]
            features = KeyedJaggedTensor(["f"], torch.tensor([1]), lengths=torch.tensor([1]))
            if dist.get_rank() == 1:  # only rank 0's row has a gradient
                features = KeyedJaggedTensor(["f"], torch.tensor([2]), lengths=torch.tensor([1]))
            dmp(features)["f"].sum().backward()
            return [
                float(d)
                for (_, t, _), b in zip(local_blocks(dmp), before, strict=True)
                for d in (t - b)[1].unique()
            ]
    finally:
        set_gradient_division(True)


def test_gradient_division(world: Callable[..., World]) -> None:
    assert world(2).run(_sgd_delta, True)[0] == [-0.5]
    assert world(2).run(_sgd_delta, False)[0] == [-1.0]


# Keys.


@pytest.mark.parametrize("plan", [("tw",), ("tw", "rw"), ("cw", "twrw")], ids=str)
def test_key_order_may_change_from_batch_to_batch(
    world: Callable[..., World], plan: tuple[str, ...]
) -> None:
    forward = tuple(Case(plan).features)
    case = Case(plan, mixed_pooling(), keys=(forward, forward[::-1], forward[2:] + forward[:2]))
    assert max(max(r) for r in world(2).run(compare, case)) <= 1e-6


def test_the_first_batch_may_have_another_order(world: Callable[..., World]) -> None:
    case = Case(("tw", "rw"), keys=(tuple(Case(("tw",)).features[::-1]),))
    assert world(2).run(compare, case) == [(0.0, 0.0)] * 2


def _bad_keys(first: list[str], second: list[str] | None) -> str:
    """The message for batch 1 (or batch 0 where second is None), from before any collective."""
    with quiet():
        dmp = shard(Case(("tw",)), AscendEmbeddingBagCollectionSharder())

    def features(keys: list[str]) -> KeyedJaggedTensor:
        ones = torch.ones(len(keys), dtype=torch.int64)
        return KeyedJaggedTensor(keys, ones, lengths=ones)

    if second is None:
        return message(lambda: dmp(features(first)))
    dmp(features(first))["f0"]
    return message(lambda: dmp(features(second)))


def test_a_missing_key_is_named(world: Callable[..., World]) -> None:
    keys = Case(("tw",)).features
    for text in world(2).run(_bad_keys, keys[1:], None) + world(2).run(_bad_keys, keys, keys[1:]):
        assert "f0 (table t0)" in text and "rank" in text


def test_a_doubled_key_is_named(world: Callable[..., World]) -> None:
    keys = Case(("tw",)).features
    for text in world(2).run(_bad_keys, keys, [*keys, "f2"]):
        assert "['f2'] occur twice" in text


def _extra_keys() -> float:
    """Keys the module does not use may come and go: differences from the unsharded outputs."""
    case = Case(("tw", "rw"))
    with quiet():
        dmp = shard(case, AscendEmbeddingBagCollectionSharder())
    worst = 0.0
    for step, extra in enumerate((["zz"], [], ["other", "zz"])):
        plain = batch(case, 0, dist.get_rank())
        values, lengths = plain.values(), plain.lengths()
        keys = [*extra, *plain.keys()]
        more = KeyedJaggedTensor(
            keys,
            torch.cat([torch.zeros(5 * len(extra), dtype=torch.int64), values]),
            lengths=torch.cat([torch.ones(5 * len(extra), dtype=torch.int64), lengths]),
        )
        got, want = dmp(more), Model(case)(plain)
        assert set(got) == set(want), step
        worst = max([worst, *(float((got[key] - want[key]).abs().max()) for key in want)])
    return worst


def test_unused_keys_may_come_and_go(world: Callable[..., World]) -> None:
    assert world(2).run(_extra_keys) == [0.0, 0.0]


def test_names_may_contain_an_at_sign(world: Callable[..., World]) -> None:
    """TorchRec names a feature of several tables feature@table."""
    shared = (
        Table("t@0", 17, 8, ("a@b", "s"), PoolingType.MEAN),
        Table("t1", 20, 8, ("s",), PoolingType.SUM),
    )
    case = Case(("rw",), (shared[0],))
    assert max(max(r) for r in world(2).run(compare, case)) <= 1e-6
    assert max(world(2).run(_shared_feature, shared)) <= 1e-6


def _shared_feature(tables: tuple[Table, ...]) -> float:
    case = Case(("rw",), tables)
    once = Case(("rw",), (tables[0],))  # the batch names each feature once
    with quiet():
        dmp = shard(case, AscendEmbeddingBagCollectionSharder())
    got, want = dmp(batch(once, 0, dist.get_rank())), Model(case)(batch(once, 0, dist.get_rank()))
    assert set(got) == set(want)
    return max(float((got[key] - want[key]).abs().max()) for key in want)


# Weights of ids, and of tables.


def _weights_mismatch(weighted: bool) -> str:
    """With all tables on rank 0: rank 1 must refuse too, or it waits."""
    with quiet():
        dmp = shard(Case(("tw0",), weighted=weighted), AscendEmbeddingBagCollectionSharder())
    return message(lambda: dmp(batch(Case(("tw0",), weighted=not weighted), 0, dist.get_rank())))


def test_weights_must_agree_with_is_weighted(world: Callable[..., World]) -> None:
    assert all("is_weighted=False" in text for text in world(2).run(_weights_mismatch, False))
    assert all("is_weighted=True" in text for text in world(2).run(_weights_mismatch, True))


def _weighted_mean() -> str:
    case = Case(("tw",), mixed_pooling(), weighted=True)
    with quiet():
        return message(lambda: shard(case, AscendEmbeddingBagCollectionSharder()))


def test_a_weighted_mean_is_refused_at_shard_time(world: Callable[..., World]) -> None:
    for text in world(2).run(_weighted_mean):
        assert "['t1', 't3']" in text and "MEAN" in text


def _kept_weights(plan: tuple[str, ...]) -> float:
    """Weights set by hand, different on every rank for the replicated tables."""
    case = Case(plan)
    model = Model(case)
    with torch.no_grad():
        for i, parameter in enumerate(model.ebc.parameters()):
            parameter.copy_(torch.arange(parameter.numel()).view_as(parameter) + i)
    full = {name: value.clone() for name, value in model.state_dict().items()}
    with quiet():
        dmp = shard(case, AscendEmbeddingBagCollectionSharder(), model)
    worst = 0.0
    for name, tensor, (row, column) in local_blocks(dmp):
        rows, columns = tensor.shape
        part = full[name][row : row + rows, column : column + columns]
        worst = max(worst, float((tensor - part).abs().max()))
    return worst


@pytest.mark.parametrize("plan", [("tw", "cw", "rw", "dp", "twrw"), ("grid", "twcw")], ids=str)
def test_weights_set_before_sharding_are_kept(
    world: Callable[..., World], plan: tuple[str, ...]
) -> None:
    assert world(4, 2).run(_kept_weights, plan) == [0.0] * 4


def _replicas() -> list[float]:
    torch.manual_seed(dist.get_rank())
    ebc = EmbeddingBagCollection(
        device=torch.device("cpu"),
        tables=[
            EmbeddingBagConfig(name="t", num_embeddings=5, embedding_dim=8, feature_names=["f"])
        ],
    )
    model = torch.nn.Module()
    model.ebc = ebc
    with quiet():
        dmp = shard(Case(("dp",), (Table("t", 5, 8, ("f",)),)), SHARDERS["ours"](), model)
    return next(t for _, t, _ in local_blocks(dmp)).flatten().tolist()


def test_replicas_are_equal_whatever_the_seeds(world: Callable[..., World]) -> None:
    first, *others = world(4, 2).run(_replicas)
    assert len(set(first)) > 1
    assert all(other == first for other in others)


# Plans that would train nothing or wrongly.


def _dense_plan(fused_params: dict[str, Any] | None) -> tuple[bool, list[str]]:
    """A hand-made plan without apply_optimizer_in_backward: (weights moved, warnings)."""
    case = Case(("tw",))
    model = Model(case)
    sharder = AscendEmbeddingBagCollectionSharder(fused_params=fused_params)
    world_size = dist.get_world_size()
    plan = plans.construct_module_sharding_plan(
        model.ebc,
        shardings(case, world_size, world_size),
        sharder=sharder,
        local_size=world_size,
        world_size=world_size,
        device_type="cpu",
    )
    with quiet(), warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        dmp = DistributedModelParallel(
            model, device=torch.device("cpu"), plan=ShardingPlan({"ebc": plan}), sharders=[sharder]
        )
    before = [t.clone() for _, t, _ in local_blocks(dmp)]
    dmp(batch(case, 0, dist.get_rank()))["f0"].sum().backward()
    moved = any(not t.equal(b) for (_, t, _), b in zip(local_blocks(dmp), before, strict=True))
    texts = [str(w.message) for w in caught if w.category is UserWarning]
    return moved, [text for text in texts if "dense compute kernel" in text]


def test_fused_params_train_a_hand_made_plan_and_warn(world: Callable[..., World]) -> None:
    from fbgemm_gpu.split_embedding_configs import EmbOptimType

    params = {"optimizer": EmbOptimType.EXACT_SGD, "learning_rate": 0.5}
    (moved, texts), _ = world(2).run(_dense_plan, params)  # t0 is on rank 0
    assert moved
    assert len(texts) == 1 and "t0" in texts[0]


def test_a_plan_that_trains_nothing_warns(world: Callable[..., World]) -> None:
    (moved, texts), _ = world(2).run(_dense_plan, None)
    assert not moved
    assert len(texts) == 1 and "apply_optimizer_in_backward" in texts[0]


def _few_rows(kind: str) -> str:
    case = Case((kind,), (Table("small", 2, 8, ("f",)), *TABLES[1:]))
    with quiet():
        return message(lambda: shard(case, AscendEmbeddingBagCollectionSharder()))


@pytest.mark.parametrize("kind", ["rw", "twrw"])
def test_a_rank_without_rows_of_a_table_is_refused(world: Callable[..., World], kind: str) -> None:
    """fbgemm would silently not train the next table of that rank, or fail there alone."""
    if kind == "twrw":
        tables = (Table("small", 1, 8, ("f",)),)
        texts = world(4, 2).run(_shard_message, Case((kind,), tables))
    else:
        texts = world(4, 2).run(_few_rows, kind)
    for text in texts:
        assert "'small'" in text and "rows" in text and "rank" in text


def _shard_message(case: Case) -> str:
    with quiet():
        return message(lambda: shard(case, AscendEmbeddingBagCollectionSharder()))


# Empty batches and dtypes.


def _empty_features() -> dict[str, tuple[int, ...]]:
    with quiet():
        dmp = shard(Case(("tw", "rw"), mixed_pooling()), AscendEmbeddingBagCollectionSharder())
    features = KeyedJaggedTensor(
        Case(("tw",)).features, torch.empty(0, dtype=torch.int64), lengths=torch.empty(0).long()
    )
    out = dmp(features)
    torch.stack([value.sum() for value in out.values()]).sum().backward()
    return {key: tuple(value.shape) for key, value in out.items()}


def test_keys_without_rows(world: Callable[..., World]) -> None:
    want = {f: (0, t.dim) for t in TABLES for f in t.features}
    assert world(2).run(_empty_features) == [want] * 2


def _dtypes(data_type: DataType, output_dtype: DataType) -> tuple[str, float]:
    """(dtype of the outputs, largest difference from the unsharded outputs in fp32)."""
    case = Case(("tw", "cw"), data_type=data_type)
    sharder = AscendEmbeddingBagCollectionSharder(fused_params={"output_dtype": output_dtype})
    with quiet():
        mine = train_sharded(case, sharder)
    wanted = train_unsharded(Case(("tw", "cw")), dist.get_world_size(), dist.get_rank())
    (dtype,) = {value.dtype for value in mine.outputs[0].values()}
    return str(dtype), difference(mine, wanted)[0]


@pytest.mark.parametrize("output_dtype", [DataType.FP32, DataType.FP16], ids=str)
@pytest.mark.parametrize("data_type", [DataType.FP32, DataType.FP16], ids=str)
def test_table_and_output_dtypes(
    world: Callable[..., World], data_type: DataType, output_dtype: DataType
) -> None:
    """At world 2 every table of the table-wise plan is on rank 0: rank 1's lookup has no dtype."""
    names = {DataType.FP32: "torch.float32", DataType.FP16: "torch.float16"}
    for dtype, worst in world(2).run(_dtypes, data_type, output_dtype):
        assert dtype == names[output_dtype]
        assert worst == 0.0  # the numbers are small enough to be exact in fp16


def _refused_dtypes(data_type: DataType, output_dtype: DataType) -> str:
    return message(lambda: _dtypes(data_type, output_dtype))


@pytest.mark.parametrize(
    "data_type, output_dtype, what",
    [
        (DataType.FP32, DataType.BF16, "output_dtype"),
        (DataType.BF16, DataType.FP32, "data_type"),
    ],
    ids=str,
)
def test_bf16_on_the_cpu_is_refused_at_shard_time(
    world: Callable[..., World], data_type: DataType, output_dtype: DataType, what: str
) -> None:
    """fbgemm's CPU lookup lacks it, and would fail on the ranks that hold tables alone."""
    for text in world(2).run(_refused_dtypes, data_type, output_dtype):
        assert "'t0'" in text and "bfloat16" in text and what in text


# TorchRec's other ways through the same module.


def _sync() -> tuple[float, float]:
    with torchrec_use_sync_collectives():
        return compare(Case(("tw", "cw")))


def test_sync_collectives_use_upstreams_path(world: Callable[..., World]) -> None:
    assert world(2).run(_sync) == [(0.0, 0.0)] * 2


def _no_list_all_to_all() -> tuple[float, float]:
    def refuse(*args: Any, **kwargs: Any) -> None:
        raise AssertionError("the list form of all_to_all was called")

    kept, dist.all_to_all = dist.all_to_all, refuse
    try:
        return compare(Case(("tw", "cw", "rw", "twrw"), batch_sizes=(2, 3)))
    finally:
        dist.all_to_all = kept


def test_only_all_to_all_single_is_used(world: Callable[..., World]) -> None:
    assert world(2, 1).run(_no_list_all_to_all) == [(0.0, 0.0)] * 2


def _foreign_context(case: Case) -> str:
    """A wrapper that makes its own context and input dist, as managed collisions do."""
    with quiet():
        dmp = shard(case, AscendEmbeddingBagCollectionSharder())
    sharded = dmp._dmp_wrapped_module.ebc
    return message(lambda: sharded._divide(object(), None), NotImplementedError)


def test_row_sharded_mean_without_bag_lengths_is_refused(world: Callable[..., World]) -> None:
    for text in world(2).run(_foreign_context, Case(("rw",), mixed_pooling())):
        assert "MEAN" in text and "object" in text
