"""TorchRec's other embedding modules: sharded equals unsharded, or TorchRec's sharder exactly."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
import torch.distributed as dist
from models import CPU, LR, Case, Model, Table, batch, loss_of, quiet, shardings
from ranks import World
from sequence_models import TABLES, SequenceModel, compare_sequence, sequence_loss
from torch import Tensor, nn
from torch.distributed._shard.sharded_tensor.api import ShardedTensor
from torchrec import KeyedJaggedTensor
from torchrec.distributed import DistributedModelParallel
from torchrec.distributed import sharding_plan as plans
from torchrec.distributed.comm import get_local_size
from torchrec.distributed.embedding_tower_sharding import (
    EmbeddingTowerCollectionSharder,
    EmbeddingTowerSharder,
)
from torchrec.distributed.embeddingbag import EmbeddingBagSharder
from torchrec.distributed.sharding_plan import get_default_sharders
from torchrec.distributed.types import ShardingEnv, ShardingPlan
from torchrec.modules.embedding_tower import EmbeddingTower, EmbeddingTowerCollection
from torchrec.modules.feature_processor_ import PositionWeightedModuleCollection
from torchrec.modules.fp_embedding_modules import FeatureProcessedEmbeddingBagCollection
from torchrec.modules.mc_embedding_modules import (
    ManagedCollisionEmbeddingBagCollection,
    ManagedCollisionEmbeddingCollection,
)
from torchrec.modules.mc_modules import (
    DistanceLFU_EvictionPolicy,
    ManagedCollisionCollection,
    MCHManagedCollisionModule,
)
from torchrec.optim.apply_optimizer_in_backward import apply_optimizer_in_backward

from torchrec_ascend.lookup.choice import SWITCH
from torchrec_ascend.sharding.all import sharders
from torchrec_ascend.sharding.wrappers import (
    AscendEmbeddingBagSharder,
    AscendEmbeddingTowerCollectionSharder,
    AscendEmbeddingTowerSharder,
)

SEQUENCE_PLANS = [("tw",), ("cw",), ("rw",), ("dp",), ("tw", "cw", "rw", "dp")]
BATCHES = {"equal": (), "one-rank-empty": (0, 3), "all-empty": (0,)}


@pytest.fixture(scope="module")
def composed() -> Iterator[World]:
    """Two ranks whose lookup is ours, of stock operators."""
    running = World(2, 2, environment={**os.environ, SWITCH: "composed"})
    yield running
    running.stop()


@pytest.mark.parametrize("batches", BATCHES)
@pytest.mark.parametrize("plan", SEQUENCE_PLANS, ids="+".join)
def test_sequences_equal_unsharded(
    world: Callable[..., World], plan: tuple[str, ...], batches: str
) -> None:
    case = Case(plan, TABLES, batch_sizes=BATCHES[batches])
    assert world(2).run(compare_sequence, case) == [(0.0, 0.0)] * 2


@pytest.mark.parametrize("batches", BATCHES)
@pytest.mark.parametrize("plan", SEQUENCE_PLANS, ids="+".join)
def test_sequences_equal_unsharded_with_our_lookup(
    composed: World, plan: tuple[str, ...], batches: str
) -> None:
    case = Case(plan, TABLES, batch_sizes=BATCHES[batches])
    assert composed.run(compare_sequence, case) == [(0.0, 0.0)] * 2


def test_sequences_equal_unsharded_on_four_ranks(world: Callable[..., World]) -> None:
    case = Case(("tw", "cw", "rw", "dp"), TABLES, batch_sizes=(2, 0, 3, 1))
    assert world(4, 2).run(compare_sequence, case) == [(0.0, 0.0)] * 4


STEPS = 3
PROCESSED = Case(("tw", "cw", "rw"), weighted=True)
SMALL = (Table("t0", 16, 8, ("f0",)), Table("t1", 40, 8, ("f1",)))
MANAGED = Case(("rw",), SMALL)
TOWERS = Case(("twrw", "twcw"), SMALL)  # t0 on the first node, t1 on the second
EXACT_SGD = {"learning_rate": LR}


def _managed(embeddings: nn.Module, configs: Any, wrapper: Any) -> nn.Module:
    modules = {
        c.name: MCHManagedCollisionModule(
            c.num_embeddings,
            CPU,
            DistanceLFU_EvictionPolicy(),
            2,
            input_hash_size=91 * c.num_embeddings,
        )
        for c in configs
    }
    return wrapper(embeddings, ManagedCollisionCollection(modules, configs))


def _module(kind: str) -> nn.Module:
    if kind == "processed":
        lengths = dict.fromkeys(PROCESSED.features, 5)
        return FeatureProcessedEmbeddingBagCollection(
            Model(PROCESSED).ebc, PositionWeightedModuleCollection(lengths)
        )
    if kind == "managed":
        ebc = Model(MANAGED).ebc
        configs = ebc.embedding_bag_configs()
        return _managed(ebc, configs, ManagedCollisionEmbeddingBagCollection)
    if kind == "managed-sequence":
        ec = SequenceModel(MANAGED).ec
        return _managed(ec, ec.embedding_configs(), ManagedCollisionEmbeddingCollection)
    bag = nn.EmbeddingBag(20, 8, mode="sum", include_last_offset=True)
    with torch.no_grad():
        bag.weight.copy_(torch.arange(160).view(20, 8) / 16)
    return bag


class Wrapped(nn.Module):
    """A module by its kind, and a loss over what it returns."""

    def __init__(self, kind: str) -> None:
        super().__init__()
        self.kind = kind
        self.inner = _module(kind)

    def forward(self, step: int) -> tuple[dict[str, Tensor], Tensor]:
        case = PROCESSED if self.kind == "processed" else MANAGED
        features = batch(Case(case.plan, case.tables), step, dist.get_rank())
        if self.kind.startswith("bag"):
            jagged = features["f0"]
            out = {"f0": torch.as_tensor(self.inner(jagged.values(), jagged.offsets()) + 0)}
            return out, loss_of(out, step)
        if self.kind == "processed":
            out = self.inner(features).to_dict()
            return out, loss_of(out, step)
        raw = KeyedJaggedTensor(features.keys(), features.values() * 91, lengths=features.lengths())
        result, _ = self.inner(raw)
        if self.kind == "managed":
            out = result.to_dict()
            return out, loss_of(out, step)
        jagged = dict(result.items())
        return {key: j.values() for key, j in jagged.items()}, sequence_loss(jagged, step)


def _sharder(kind: str, module: nn.Module, ours: bool) -> Any:
    if kind.startswith("bag"):
        return (AscendEmbeddingBagSharder if ours else EmbeddingBagSharder)(dict(EXACT_SGD))
    known = sharders() if ours else get_default_sharders()
    return next(s for s in known if s.module_type is type(module))


def _plan(kind: str, module: nn.Module, sharder: Any) -> Any:
    size = dist.get_world_size()
    local = get_local_size(size)
    case = PROCESSED if kind == "processed" else MANAGED
    by_table = shardings(case, size, local)
    if kind.startswith("bag"):
        kinds = {
            "bag-cw": plans.column_wise(ranks=[1, 0]),
            "bag-rw": plans.row_wise(),
            "bag-twrw": plans.table_row_wise(host_index=1),
        }
        by_table = {"weight": kinds[kind]}
    return plans.construct_module_sharding_plan(
        module, by_table, sharder=sharder, local_size=local, world_size=size, device_type="cpu"
    )


def _weights(state: dict[str, Any]) -> Iterator[tuple[str, Tensor, list[int]]]:
    for name, value in state.items():
        if isinstance(value, ShardedTensor):
            for part in value.local_shards():
                yield name, part.tensor, part.metadata.shard_offsets
        elif isinstance(value, Tensor):
            yield name, value, [0] * value.dim()


def _load(state: dict[str, Any], full: dict[str, Tensor]) -> None:
    """TorchRec draws new weights where ours are kept."""
    with torch.no_grad():
        for name, tensor, offsets in _weights(state):
            if name.endswith("weight") and tensor.dim() == 2 and name in full:
                (row, column), (rows, columns) = offsets, tensor.shape
                tensor.copy_(full[name][row : row + rows, column : column + columns])


def _exchanges(sharded: Any) -> set[str]:
    """Names of what carries the outputs."""
    inner = getattr(sharded, "_embedding_bag_collection", None)
    inner = inner if inner is not None else getattr(sharded, "_embedding_module", None)
    dists = inner._output_dists if inner is not None else [sharded._output_dist]
    return {type(getattr(d, "_cross_dist", getattr(d, "_dist", d))).__name__ for d in dists}


def _train(kind: str, ours: bool) -> tuple[dict[str, Tensor], set[str]]:
    torch.manual_seed(3)  # evicted rows are drawn anew
    model = Wrapped(kind)
    full = {name: value.clone() for name, value in model.state_dict().items()}
    tables = [p for name, p in model.named_parameters() if "position" not in name]
    apply_optimizer_in_backward(torch.optim.SGD, tables, {"lr": LR})
    sharder = _sharder(kind, model.inner, ours)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        dmp = DistributedModelParallel(
            model,
            device=CPU,
            plan=ShardingPlan({"inner": _plan(kind, model.inner, sharder)}),
            sharders=[sharder],
        )
    if not ours:
        _load(dmp.state_dict(), full)
    others = [p for name, p in dmp.named_parameters() if "position" in name]
    optimizer = torch.optim.SGD(others, lr=LR) if others else None
    torch.manual_seed(3)
    seen = {}
    for step in range(STEPS):
        if optimizer is not None:
            optimizer.zero_grad()
        outputs, loss = dmp(step)
        loss.backward()
        if optimizer is not None:
            optimizer.step()
        seen.update({f"{step}.{key}": value.detach().clone() for key, value in outputs.items()})
    _keep(seen, dmp.state_dict(), full)
    return seen, _exchanges(dmp.module.inner)


def _keep(seen: dict[str, Tensor], state: dict[str, Any], full: dict[str, Tensor]) -> None:
    """The table parts and other parameters at the end, of which each has moved."""
    for name, tensor, offsets in _weights(state):
        seen[f"{name}{offsets}"] = tensor.detach().clone()
        if name.endswith("weight") and tensor.dim() == 2:
            (row, column), (rows, columns) = offsets, tensor.shape
            start = full[name][row : row + rows, column : column + columns]
            assert not tensor.equal(start), f"{name} was not trained"
        elif "position" in name:
            assert not tensor.equal(full[name]), f"{name} was not trained"


def _differences(ours: dict[str, Tensor], theirs: dict[str, Tensor]) -> list[str]:
    assert set(ours) == set(theirs), (sorted(ours), sorted(theirs))
    return [name for name in ours if not ours[name].equal(theirs[name])]


def _train_bag(steps: int) -> dict[str, Tensor]:
    """What this rank should see of a bag, computed by one process on all batches."""
    module: Any = _module("bag")
    optimizer = torch.optim.SGD(module.parameters(), lr=LR)
    seen = {}
    for step in range(steps):
        optimizer.zero_grad()
        for rank in range(dist.get_world_size()):
            jagged = batch(MANAGED, step, rank)["f0"]
            out = module(jagged.values(), jagged.offsets())
            (loss_of({"f0": out}, step) / dist.get_world_size()).backward()
            if rank == dist.get_rank():
                seen[f"{step}.f0"] = out.detach().clone()
        optimizer.step()
    return {**seen, "inner.weight": module.weight.detach()}


def bag_same_as_unsharded(kind: str) -> tuple[list[str], set[str]]:
    """What differs from the result of one process, and the exchanges."""
    with quiet():
        ours, exchanges = _train(kind, True)
    wanted = _train_bag(STEPS)
    weight = wanted.pop("inner.weight")
    for name in [name for name in ours if "weight" in name]:  # none where no rows lie
        rows, columns = ours[name].shape
        row, column = (int(x) for x in name.partition("[")[2].rstrip("]").split(","))
        wanted[name] = weight[row : row + rows, column : column + columns]
    return _differences(ours, wanted), exchanges


def same_as_upstream(kind: str) -> tuple[list[str], set[str]]:
    """What differs from TorchRec's result, and the exchanges of ours."""
    with quiet():
        ours, exchanges = _train(kind, True)
        theirs, _ = _train(kind, False)
    return _differences(ours, theirs), exchanges


class Interaction(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.arange(24.0).view(8, 3) % 5 - 2)

    def forward(self, pooled: Any) -> Tensor:
        return pooled.values() @ self.weight


def _towers(count: int) -> nn.Module:
    towers = [EmbeddingTower(Model(Case(("tw",), (table,))).ebc, Interaction()) for table in SMALL]
    return towers[0] if count == 1 else EmbeddingTowerCollection(towers)


def _train_towers(count: int, ours: bool) -> tuple[dict[str, Tensor], set[str]]:
    module = _towers(count)
    full = {name: value.clone() for name, value in module.state_dict().items()}
    tables = [p for name, p in module.named_parameters() if "embedding_bags" in name]
    apply_optimizer_in_backward(torch.optim.SGD, tables, {"lr": LR})
    kinds: Any = {
        (1, True): AscendEmbeddingTowerSharder,
        (1, False): EmbeddingTowerSharder,
        (2, True): AscendEmbeddingTowerCollectionSharder,
        (2, False): EmbeddingTowerCollectionSharder,
    }
    sharder = kinds[count, ours]()
    size = dist.get_world_size()
    local = get_local_size(size)
    by_table = shardings(TOWERS, size, local)
    by_table = {name: by_table[name] for name in sharder.shardable_parameters(module)}
    plan = plans.construct_module_sharding_plan(
        module, by_table, sharder=sharder, local_size=local, world_size=size, device_type="cpu"
    )
    env = ShardingEnv.from_process_group(dist.group.WORLD)
    # TorchRec's towers refuse the CPU by name.
    sharded = sharder.shard(module, plan, env, CPU if ours else None)
    if not ours:
        _load(sharded.state_dict(), full)
    dense = [p for name, p in sharded.named_parameters() if "interaction" in name]
    optimizer = torch.optim.SGD(dense, lr=LR) if dense else None
    seen = {}
    for step in range(STEPS):
        if optimizer is not None:
            optimizer.zero_grad()
        out = {"out": torch.as_tensor(sharded(batch(TOWERS, step, dist.get_rank())) + 0)}
        loss_of(out, step).backward()
        if optimizer is not None:
            optimizer.step()
        seen[f"{step}"] = out["out"].detach().clone()
    _keep(seen, sharded.state_dict(), full)
    return seen, {type(sharded._output_dist).__name__}


def tower_same_as_upstream(count: int) -> tuple[list[str], set[str]]:
    with quiet():
        ours, exchanges = _train_towers(count, True)
        theirs, _ = _train_towers(count, False)
    return _differences(ours, theirs), exchanges


# Modules around a collection: what TorchRec's sharder computes, through our exchanges.

WRAPPED = {
    "processed": {"AscendPooledEmbeddingsAllToAll", "AscendPooledEmbeddingsReduceScatter"},
    "managed": {"AscendPooledEmbeddingsReduceScatter"},  # TorchRec has row-wise plans only
    "managed-sequence": {"SequenceEmbeddingsAllToAll"},
    "bag-rw": {"AscendPooledEmbeddingsReduceScatter"},
}


@pytest.mark.parametrize("kind", WRAPPED)
def test_wrapped_collections_train_as_upstream(world: Callable[..., World], kind: str) -> None:
    for differences, exchanges in world(2).run(same_as_upstream, kind):
        assert differences == []
        assert exchanges == WRAPPED[kind]


@pytest.mark.parametrize("kind", ["bag-cw", "bag-rw", "bag-twrw"])
def test_a_bag_equals_unsharded(world: Callable[..., World], kind: str) -> None:
    """By columns TorchRec's own cannot run: it sends the ids to one of the shards."""
    name = "AscendPooledEmbeddingsAllToAll"
    if kind == "bag-rw":
        name = "AscendPooledEmbeddingsReduceScatter"
    for differences, exchanges in world(2, 1).run(bag_same_as_unsharded, kind):
        assert differences == []
        assert exchanges == {name}


@pytest.mark.parametrize("towers", [1, 2])
def test_towers_train_as_upstream(world: Callable[..., World], towers: int) -> None:
    for differences, exchanges in world(4, 2).run(tower_same_as_upstream, towers):
        assert differences == []
        assert exchanges == {"AscendPooledEmbeddingsAllToAll"}
