"""Small embedding models with a known answer, for tests that hold sharded against unsharded.

All numbers are small integers over powers of two, so that sums are exact in fp32 in any order and
"equal" can mean a difference of zero. Means divide by bag lengths and are compared to 1e-6.
"""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed._shard.sharded_tensor.api import ShardedTensor
from torchrec import EmbeddingBagCollection, EmbeddingBagConfig, KeyedJaggedTensor, PoolingType
from torchrec.distributed import DistributedModelParallel
from torchrec.distributed import sharding_plan as plans
from torchrec.distributed.embeddingbag import EmbeddingBagCollectionSharder
from torchrec.distributed.types import ShardingPlan
from torchrec.modules.embedding_configs import DataType
from torchrec.optim.apply_optimizer_in_backward import apply_optimizer_in_backward

from torchrec_ascend.device import rank_device
from torchrec_ascend.sharding import AscendEmbeddingBagCollectionSharder

SHARDERS = {
    "ours": AscendEmbeddingBagCollectionSharder,
    "upstream": EmbeddingBagCollectionSharder,
}
LR = 0.5
CPU = torch.device("cpu")


@dataclass(frozen=True)
class Table:
    name: str
    rows: int
    dim: int
    features: tuple[str, ...]
    pooling: PoolingType = PoolingType.SUM


# Mixed dims, one table with two features; enough rows for a row on each of four ranks.
TABLES = (
    Table("t0", 17, 8, ("f0",)),
    Table("t1", 40, 16, ("f1", "f1b")),
    Table("t2", 10, 8, ("f2",)),
    Table("t3", 33, 24, ("f3",)),
    Table("t4", 12, 40, ("f4",)),
)


def mixed_pooling(tables: Sequence[Table] = TABLES) -> tuple[Table, ...]:
    """Every other table MEAN."""
    return tuple(
        Table(t.name, t.rows, t.dim, t.features, PoolingType.MEAN if i % 2 else PoolingType.SUM)
        for i, t in enumerate(tables)
    )


@dataclass(frozen=True)
class Case:
    """A model, its batches and its plan. `plan` maps each table to a sharding; see `SHARDINGS`."""

    plan: tuple[str, ...]
    tables: tuple[Table, ...] = TABLES
    weighted: bool = False
    batch_sizes: tuple[int, ...] = ()  # by rank, repeated over the ranks; () means 5 everywhere
    steps: int = 3
    data_type: DataType = DataType.FP32
    keys: tuple[tuple[str, ...], ...] = field(default=())  # by step, repeated; () means in order

    def batch_size(self, rank: int) -> int:
        return self.batch_sizes[rank % len(self.batch_sizes)] if self.batch_sizes else 5

    @property
    def features(self) -> list[str]:
        return [feature for table in self.tables for feature in table.features]


def _grid(table: Table) -> Callable[..., Any]:
    # plans.grid_shard() cuts columns in blocks of at least 128: these tables need their own.
    def generate(param: Any, local: int, world: int, device_type: str, sharder: Any) -> Any:
        nodes = world // local
        width = table.dim // nodes
        rows = plans._get_parameter_size_offsets(
            param, plans.ShardingType.TABLE_ROW_WISE, local, world
        )
        shards = [
            ([size[0], width], [offset[0], node * width], node * local + r)
            for node in range(nodes)
            for r, (size, offset) in enumerate(rows)
        ]
        return plans._get_parameter_sharding(
            param, "grid_shard", shards, local, device_type, sharder
        )

    return generate


def _table_column_wise(rank: int, local_size: int, world_size: int) -> Callable[..., Any]:
    node = rank % (world_size // local_size)
    ranks = [node * local_size + r for r in range(local_size)]

    def generate(param: Any, local: int, world: int, device_type: str, sharder: Any) -> Any:
        sharding = plans.column_wise(ranks=ranks)(param, local, world, device_type, sharder)
        sharding.sharding_type = "table_column_wise"
        return sharding

    return generate


def shardings(case: Case, world_size: int, local_size: int) -> dict[str, Any]:
    """tw, tw0 (all on rank 0), cw, twcw, rw, twrw, grid, dp: by table, in the order of `plan`."""
    nodes = world_size // local_size
    result = {}
    for i, table in enumerate(case.tables):
        kind = case.plan[i % len(case.plan)]
        result[table.name] = {
            "tw": lambda i=i: plans.table_wise(rank=i % world_size),
            "tw0": lambda: plans.table_wise(rank=0),
            "cw": lambda i=i: plans.column_wise(ranks=[(i + k) % world_size for k in range(2)]),
            "twcw": lambda i=i: _table_column_wise(i, local_size, world_size),
            "rw": plans.row_wise,
            "twrw": lambda i=i: plans.table_row_wise(host_index=i % nodes),
            "grid": lambda table=table: _grid(table),
            "dp": plans.data_parallel,
        }[kind]()
    return result


class Model(nn.Module):
    """The collection alone: outputs by key, in the tables' order."""

    def __init__(self, case: Case) -> None:
        super().__init__()
        self.ebc = EmbeddingBagCollection(
            device=torch.device("cpu"),
            is_weighted=case.weighted,
            tables=[
                EmbeddingBagConfig(
                    name=t.name,
                    num_embeddings=t.rows,
                    embedding_dim=t.dim,
                    feature_names=list(t.features),
                    pooling=t.pooling,
                    data_type=case.data_type,
                )
                for t in case.tables
            ],
        )
        generator = torch.Generator().manual_seed(7)
        with torch.no_grad():
            for parameter in self.ebc.parameters():
                values = torch.randint(-32, 33, parameter.shape, generator=generator)
                parameter.copy_(values / 16)

    def forward(self, features: KeyedJaggedTensor) -> dict[str, Tensor]:
        return self.ebc(features).to_dict()


def batch(case: Case, step: int, rank: int) -> KeyedJaggedTensor:
    """The same for the same arguments, on every rank; bags of 0 to 4 ids, some ids twice."""
    generator = torch.Generator().manual_seed(1000 * step + rank)
    lengths, values, weights = {}, {}, {}
    for table in case.tables:
        for feature in table.features:
            bags = torch.randint(0, 5, (case.batch_size(rank),), generator=generator)
            count = int(bags.sum())
            lengths[feature] = bags
            values[feature] = torch.randint(0, table.rows, (count,), generator=generator)
            weights[feature] = torch.randint(1, 5, (count,), generator=generator) / 4
    keys = list(case.keys[step % len(case.keys)]) if case.keys else case.features
    return KeyedJaggedTensor(
        keys,
        torch.cat([values[key] for key in keys]),
        lengths=torch.cat([lengths[key] for key in keys]),
        weights=torch.cat([weights[key] for key in keys]) if case.weighted else None,
    )


def loss_of(outputs: dict[str, Tensor], step: int) -> Tensor:
    """A sum with integer coefficients that differ by row and column; 0 for an empty batch."""
    total = torch.zeros((), device=next(iter(outputs.values())).device)
    for i, key in enumerate(sorted(outputs)):
        out = outputs[key].float()
        rows = torch.arange(out.shape[0], device=out.device).unsqueeze(1)
        columns = torch.arange(out.shape[1], device=out.device).unsqueeze(0)
        total = total + (out * ((rows * 3 + columns * 5 + i + step) % 7 - 3)).sum()
    return total


def shard(
    case: Case,
    sharder: EmbeddingBagCollectionSharder,
    model: nn.Module | None = None,
    plan: dict[str, Any] | None = None,
    lr: float = LR,
    device: torch.device = CPU,
) -> DistributedModelParallel:
    """`model` (with an `ebc`) under DMP: the case's plan or another, and fused SGD."""
    from torchrec.distributed.comm import get_local_size

    model = model if model is not None else Model(case)
    ebc: Any = model.ebc
    apply_optimizer_in_backward(torch.optim.SGD, ebc.parameters(), {"lr": lr})
    world_size = dist.get_world_size()
    module_plan = plans.construct_module_sharding_plan(
        ebc,
        plan or shardings(case, world_size, get_local_size(world_size)),
        sharder=sharder,
        local_size=get_local_size(world_size),
        world_size=world_size,
        device_type=device.type,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        dmp = DistributedModelParallel(
            model,
            device=device,
            plan=ShardingPlan({"ebc": module_plan}),
            sharders=[sharder],
        )
    if type(sharder) is EmbeddingBagCollectionSharder:  # upstream draws new weights
        load(dmp, Model(case).state_dict())
    return dmp


def local_blocks(dmp: nn.Module) -> Iterator[tuple[str, Tensor, tuple[int, int]]]:
    """(name, tensor, first row and column) of each table part this rank holds."""
    for name, value in dmp.state_dict().items():
        if isinstance(value, ShardedTensor):
            for part in value.local_shards():
                row, column = part.metadata.shard_offsets
                yield name, part.tensor, (row, column)
        else:
            yield name, value, (0, 0)


def load(dmp: nn.Module, full: dict[str, Tensor]) -> None:
    with torch.no_grad():
        for name, tensor, (row, column) in local_blocks(dmp):
            rows, columns = tensor.shape
            tensor.copy_(full[name][row : row + rows, column : column + columns])


@dataclass
class Trace:
    """What one rank saw: outputs by step, and its table parts at the end."""

    outputs: list[dict[str, Tensor]]
    weights: list[tuple[str, Tensor, tuple[int, int]]]


def train_sharded(
    case: Case,
    sharder: EmbeddingBagCollectionSharder,
    plan: dict[str, Any] | None = None,
    device: torch.device = CPU,
) -> Trace:
    dmp = shard(case, sharder, plan=plan, device=device)
    return train(case, dmp, device, "ebc.embedding_bags", loss_of, dict)


def train(
    case: Case,
    dmp: DistributedModelParallel,
    device: torch.device,
    tables: str,
    loss: Callable[[Any, int], Tensor],
    tensors: Callable[[Any], dict[str, Tensor]],
) -> Trace:
    """The case's steps on this rank.

    tables: the path of the tables in `dmp`; tensors: the outputs as tensors by key.
    """
    # Data-parallel tables have no fused optimizer: one outside trains them.
    names = {
        f"{tables}.{table.name}.weight"
        for i, table in enumerate(case.tables)
        if case.plan[i % len(case.plan)] == "dp"
    }
    data_parallel = [p for name, p in dmp.named_parameters() if name in names]
    optimizer = torch.optim.SGD(data_parallel, lr=LR) if data_parallel else None
    outputs = []
    for step in range(case.steps):
        if optimizer is not None:
            optimizer.zero_grad()
        result = dict(dmp(batch(case, step, dist.get_rank()).to(device)).items())
        loss(result, step).backward()
        if optimizer is not None:
            optimizer.step()
        outputs.append({key: kept(value) for key, value in tensors(result).items()})
    return Trace(outputs, [(n, kept(t), o) for n, t, o in local_blocks(dmp)])


def kept(value: Tensor) -> Tensor:
    """A copy on the CPU."""
    return value.detach().clone().cpu()


def train_unsharded(case: Case, world_size: int, rank: int, divide: bool = True) -> Trace:
    """What rank `rank` of `world_size` should see, computed by one process on all batches."""
    model = Model(case)
    optimizer = torch.optim.SGD(model.parameters(), lr=LR)
    outputs = []
    for step in range(case.steps):
        optimizer.zero_grad()
        for other in range(world_size):
            if case.batch_size(other) == 0:
                result = {
                    f: torch.zeros(0, t.dim) for t in case.tables for f in t.features
                }  # the unsharded to_dict() fails on an empty batch
            else:
                result = model(batch(case, step, other))
                (loss_of(result, step) / (world_size if divide else 1)).backward()
            if other == rank:
                outputs.append({key: value.detach().clone() for key, value in result.items()})
        optimizer.step()
    state = model.state_dict()
    return Trace(outputs, [(name, value, (0, 0)) for name, value in state.items()])


def difference(mine: Trace, wanted: Trace) -> tuple[float, float]:
    """Largest differences of (outputs, weights), relative to 1 or the value if that is larger.

    Raises AssertionError if keys or shapes differ.
    """

    def of(a: Tensor, b: Tensor) -> float:
        assert a.shape == b.shape, (a.shape, b.shape)
        if not a.numel():
            return 0.0
        worst = ((a.double() - b.double()).abs() / b.double().abs().clamp(min=1)).max()
        return float(worst.nan_to_num(nan=torch.inf))  # max() of floats would pass over a NaN

    outputs = 0.0
    for got, want in zip(mine.outputs, wanted.outputs, strict=True):
        assert set(got) == set(want), (sorted(got), sorted(want))
        outputs = max([outputs, *(of(got[key], want[key]) for key in want)])
    full = {name: value for name, value, _ in wanted.weights}
    weights = 0.0
    for name, value, (row, column) in mine.weights:
        rows, columns = value.shape
        weights = max(weights, of(value, full[name][row : row + rows, column : column + columns]))
    return outputs, weights


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    import logging

    logging.disable(logging.WARNING)
    try:
        yield
    finally:
        logging.disable(logging.NOTSET)


def compare(case: Case, sharder: str = "ours", device: str = "cpu") -> tuple[float, float]:
    """On each rank: the differences of the sharded model on `device` from the unsharded one."""
    with quiet():
        mine = train_sharded(case, SHARDERS[sharder](), device=rank_device(device))
    return difference(mine, train_unsharded(case, dist.get_world_size(), dist.get_rank()))
