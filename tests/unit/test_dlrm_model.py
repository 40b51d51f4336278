"""Parts of a run that need no other process: schedule, loss, baseline, empty batches, start."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from torchrec_ascend.dlrm import baseline
from torchrec_ascend.dlrm.batch import Dataset, Jagged, Table
from torchrec_ascend.dlrm.config import Config, ConfigError
from torchrec_ascend.dlrm.model import BatchDLRM, _small_tables, make_dlrm, shard
from torchrec_ascend.dlrm.optim import MIN_FACTOR, learning_rate_factor
from torchrec_ascend.dlrm.steps import loss_of
from torchrec_ascend.dlrm.world import World, join_world

SMALL: dict[str, Any] = {
    "embedding_dim": 4,
    "dense_arch_layer_sizes": (4,),
    "over_arch_layer_sizes": (4, 1),
}


def linear_dataset(rows: int = 600) -> Dataset:
    """The label follows one id, one bag and one dense feature, additively."""
    draw = np.random.default_rng(0)
    ids, dense = draw.integers(0, 6, rows), draw.normal(size=(rows, 2)).astype(np.float32)
    bags = [draw.integers(0, 5, draw.integers(0, 4)).tolist() for _ in range(rows)]
    score = ids - 2.5 + dense[:, 0] + np.array([np.mean(bag) - 2 if bag else 0 for bag in bags])
    third = rows // 3
    return Dataset(
        dense=dense * 100 + 7,
        dense_names=("x", "y"),
        sparse={"id": Jagged.of_ids(ids), "bag": Jagged.of_lists(bags)},
        labels=(score > 0).astype(np.float32),
        tables=(Table("id", 6, ("id",)), Table("bag", 5, ("bag",))),
        splits={
            "train": np.arange(third),
            "val": np.arange(third, 2 * third),
            "test": np.arange(2 * third, rows),
        },
    )


def test_learning_rates_warm_up_hold_and_decay() -> None:
    factors = [learning_rate_factor(step, 4, 6, 10) for step in range(20)]
    assert factors[:6] == [0.25, 0.5, 0.75, 1.0, 1.0, 1.0]
    assert factors[6:16] == pytest.approx([(1 - k / 10) ** 2 for k in range(10)])
    assert factors[16:] == [MIN_FACTOR] * 4
    assert {learning_rate_factor(step, 0, 0, 0) for step in range(9)} == {1.0}


@given(cut=st.lists(st.integers(0, 3), min_size=1, max_size=5).filter(any))
def test_ranks_losses_average_to_the_mean_over_all_rows(cut: list[int]) -> None:
    generator = torch.Generator().manual_seed(1)
    logits = torch.randn(sum(cut), generator=generator)
    labels = torch.rand(sum(cut), generator=generator).round()
    shares = [
        loss_of(z, y, sum(cut), len(cut))
        for z, y in zip(logits.split(cut), labels.split(cut), strict=True)
    ]
    whole = torch.nn.functional.binary_cross_entropy_with_logits(logits, labels)
    torch.testing.assert_close(torch.stack(shares).mean(), whole)


@pytest.mark.parametrize("interaction", ["original", "dcn", "projection"])
def test_no_rows_give_no_logits_and_no_gradients(interaction: str) -> None:
    dataset = linear_dataset()
    config = Config(
        interaction_type=interaction,
        interaction_branch1_layer_sizes=(8,),
        interaction_branch2_layer_sizes=(8,),
        **SMALL,
    )
    model = BatchDLRM(make_dlrm(config, dataset))
    batch = dataset.batch(np.arange(0))
    logits = model(batch)
    assert logits.shape == (0,)
    loss_of(logits, batch.labels, 5, 2).backward()
    gradients = {name: p.grad for name, p in model.named_parameters()}
    assert all(g is not None and not g.any() for g in gradients.values()), gradients


def test_initial_weights_depend_on_the_seed_alone() -> None:
    dataset = linear_dataset()
    models = [make_dlrm(Config(seed=seed, **SMALL), dataset) for seed in (3, 3, 4)]
    weights = [torch.nn.utils.parameters_to_vector(model.parameters()) for model in models]
    assert torch.equal(weights[0], weights[1]) and not torch.equal(weights[0], weights[2])


def test_embedding_init_bounds_the_tables() -> None:
    model = make_dlrm(Config(embedding_init=0.01, **SMALL), linear_dataset())
    for bag in model.sparse_arch.embedding_bag_collection.embedding_bags.values():
        assert 0 < bag.weight.abs().max() <= 0.01


@pytest.mark.parametrize("argument", ["sharding", "table_learning_rates"])
def test_a_table_that_does_not_exist_is_named(argument: str) -> None:
    value: Any = {"nobody": "row_wise" if argument == "sharding" else 1.0}
    world = World(0, 1, 1, torch.device("cpu"))
    with pytest.raises(ConfigError, match=rf"{argument} names table 'nobody'.*'id', 'bag'"):
        shard(Config(**(SMALL | {argument: value})), linear_dataset(), world)


def test_the_baseline_sees_every_feature_and_converges() -> None:
    dataset = linear_dataset()
    features = baseline.design_matrix(dataset)
    assert features.shape == (600, 6 + 5 + 2)
    lengths = np.diff(dataset.sparse["bag"].offsets)
    np.testing.assert_allclose(features[:, :6].sum(axis=1).ravel(), 1)
    np.testing.assert_allclose(np.asarray(features[:, 6:11].sum(axis=1)).ravel(), lengths > 0)
    dense = features[:, 11:].toarray()[dataset.splits["train"]]
    np.testing.assert_allclose(dense.mean(axis=0), 0, atol=1e-9)
    np.testing.assert_allclose(dense.std(axis=0), 1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fitted = baseline.fit(dataset)
    assert fitted.auroc_test > 0.97 and fitted.C in baseline.INVERSE_PENALTIES
    assert 0 < fitted.iterations < baseline.MAX_ITERATIONS


def test_a_half_set_environment_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("RANK", "1")
    with (
        pytest.raises(RuntimeError, match="WORLD_SIZE, MASTER_ADDR, MASTER_PORT missing"),
        join_world("cpu", "gloo"),
    ):
        pass


def test_alone_is_a_world_of_one_and_the_group_is_always_destroyed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT", "LOCAL_WORLD_SIZE"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(KeyError), join_world("cpu", "gloo") as world:
        assert (world.rank, world.size, world.local_size) == (0, 1, 1)
        raise KeyError
    assert not torch.distributed.is_initialized()


def test_a_table_without_rows_for_every_rank_is_not_split_by_rows() -> None:
    """TorchRec gives 4 ranks of a 6-row table 2, 2, 2 and no rows, of a 5-row one 2, 2, 1 and 0."""
    four = World(rank=0, size=4, local_size=4, device=torch.device("cpu"))
    one = World(rank=0, size=1, local_size=1, device=torch.device("cpu"))
    assert set(_small_tables(linear_dataset(), four)) == {"id", "bag"}
    assert _small_tables(linear_dataset(), one) == {}
    with pytest.raises(ConfigError, match=r"'id'.*row_wise.*rank of 4"):
        shard(Config(sharding={"id": "row_wise"}), linear_dataset(), four)
