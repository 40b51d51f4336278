"""TorchRec's DLRM models, sharded over the ranks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.fx._symbolic_trace import is_fx_tracing
from torchrec.datasets.utils import Batch
from torchrec.distributed.model_parallel import DistributedModelParallel
from torchrec.distributed.planner.types import ParameterConstraints
from torchrec.distributed.types import EmbeddingModuleShardingPlan, ShardingPlan
from torchrec.models.dlrm import DLRM, DLRM_DCN, DLRM_Projection
from torchrec.modules.embedding_configs import EmbeddingBagConfig
from torchrec.modules.embedding_modules import EmbeddingBagCollection
from torchrec.optim.apply_optimizer_in_backward import apply_optimizer_in_backward
from torchrec.optim.rowwise_adagrad import RowWiseAdagrad
from torchrec.sparse.jagged_tensor import KeyedJaggedTensor

from torchrec_ascend.dlrm.batch import Dataset
from torchrec_ascend.dlrm.config import SHARDING_TYPES, Config, ConfigError
from torchrec_ascend.dlrm.world import World
from torchrec_ascend.planner import AscendShardingPlanner, AscendTopology, PlanReport
from torchrec_ascend.sharding import AscendEmbeddingBagCollectionSharder
from torchrec_ascend.sharding.mean import ROW_SHARDED

TABLE_OPTIMIZERS: dict[str, type[torch.optim.Optimizer]] = {
    "sgd": torch.optim.SGD,
    "adagrad": torch.optim.Adagrad,
    "rowwise_adagrad": RowWiseAdagrad,
    "adam": torch.optim.Adam,
}


class Sharder(AscendEmbeddingBagCollectionSharder):
    """Offers the planner SHARDING_TYPES on every device: all but data-parallel, whose tables no
    fused optimizer trains."""

    def sharding_types(self, compute_device_type: str) -> list[str]:
        return list(SHARDING_TYPES)


def padded(batch: Batch) -> Batch:
    """The batch; where it has no row, one row of zeros and empty bags, and still no label.

    TorchRec's DLRM cannot reshape an empty batch, and a rank without rows still has to take part in
    every collective.
    """
    if len(batch.dense_features):
        return batch
    dense, sparse = batch.dense_features, batch.sparse_features
    keys = sparse.keys()
    lengths = sparse.lengths().new_zeros(len(keys))
    return Batch(
        dense_features=dense.new_zeros(1, dense.shape[1]),
        sparse_features=KeyedJaggedTensor(keys, sparse.values(), lengths=lengths, stride=1),
        labels=batch.labels,
    )


class BatchDLRM(nn.Module):
    """A DLRM on a `Batch`: logits, one a label, also where there is none.

    Of a padded row nothing is returned: its gradients are exactly zero and its embeddings are not
    touched.
    """

    def __init__(self, dlrm: DLRM) -> None:
        super().__init__()
        self.dlrm = dlrm

    def forward(self, batch: Batch) -> Tensor:
        if not is_fx_tracing():  # a pipeline traces the path of the features, and pads itself
            batch = padded(batch)
        logits = self.dlrm(batch.dense_features, batch.sparse_features)
        return logits.squeeze(-1)[: batch.labels.shape[0]]


def make_dlrm(config: Config, dataset: Dataset) -> DLRM:
    """The unsharded model of `config` for the tables and dense features of `dataset`.

    Weights depend on `config.seed` alone.
    """
    torch.manual_seed(config.seed)
    low = None if config.embedding_init is None else -config.embedding_init
    kwargs: dict[str, Any] = {
        "embedding_bag_collection": EmbeddingBagCollection(
            device=torch.device("cpu"),
            tables=[
                EmbeddingBagConfig(
                    name=table.name,
                    embedding_dim=config.embedding_dim,
                    num_embeddings=table.num_embeddings,
                    feature_names=list(table.features),
                    pooling=table.pooling,
                    weight_init_min=low,
                    weight_init_max=config.embedding_init,
                )
                for table in dataset.tables
            ],
        ),
        "dense_in_features": dataset.dense.shape[1],
        "dense_arch_layer_sizes": list(config.dense_arch_layer_sizes),
        "over_arch_layer_sizes": list(config.over_arch_layer_sizes),
    }
    if config.interaction_type == "dcn":
        return DLRM_DCN(
            **kwargs,
            dcn_num_layers=config.dcn_num_layers,
            dcn_low_rank_dim=config.dcn_low_rank_dim,
        )
    if config.interaction_type == "projection":
        return DLRM_Projection(
            **kwargs,
            interaction_branch1_layer_sizes=list(config.interaction_branch1_layer_sizes),
            interaction_branch2_layer_sizes=list(config.interaction_branch2_layer_sizes),
        )
    return DLRM(**kwargs)


def shard(
    config: Config, dataset: Dataset, world: World, run_dir: Path | None = None
) -> DistributedModelParallel:
    """The model of `config` over all ranks, its tables with their optimizer fused in.

    Collective: the ranks agree on a plan. Rank 0 writes plan.json and plan.png into `run_dir`, and
    prints the plan if `config.print_sharding_plan`. Raises ConfigError for a table that does not
    exist.
    """
    _check_tables(config, dataset)
    small = _small_tables(dataset, world)
    for table, sharding_type in config.sharding.items():
        if table in small and sharding_type in ROW_SHARDED:
            raise ConfigError(
                f"sharding of {table!r} is {sharding_type}, which leaves a rank of {world.size} "
                "without rows of it; expected a type that does not split rows"
            )
    model = BatchDLRM(make_dlrm(config, dataset))
    _fuse_optimizer(config, model)
    sharders = [Sharder()]
    planner = AscendShardingPlanner(
        topology=AscendTopology(world.size, local_world_size=world.local_size),
        device_type=world.device.type,
        constraints=small
        | {
            table: _constraint(sharding_type, config.embedding_dim, world)
            for table, sharding_type in config.sharding.items()
        },
    )
    plan = planner.collective_plan(model, sharders, world.group)
    if world.rank == 0 and planner.report is not None:
        if config.print_sharding_plan:
            print(planner.report.table(), flush=True)
        if run_dir is not None:
            _save(planner.report, run_dir)
    return DistributedModelParallel(model, device=world.device, plan=plan, sharders=sharders)


def _save(report: PlanReport, run_dir: Path) -> None:
    try:
        report.save(run_dir)
    except ImportError as error:  # the picture alone needs more than a run does
        print(f"no plan.png: {error}", flush=True)


def plan_by_table(plan: ShardingPlan) -> dict[str, dict[str, Any]]:
    """{table: {"sharding_type", "compute_kernel", "ranks"}} of a plan."""
    tables: dict[str, dict[str, Any]] = {}
    for module_plan in plan.plan.values():
        assert isinstance(module_plan, EmbeddingModuleShardingPlan)
        for table, sharding in module_plan.items():
            tables[table] = {
                "sharding_type": sharding.sharding_type,
                "compute_kernel": sharding.compute_kernel,
                "ranks": list(sharding.ranks or []),
            }
    return tables


def _check_tables(config: Config, dataset: Dataset) -> None:
    names = [table.name for table in dataset.tables]
    for argument in ("sharding", "table_learning_rates"):
        for table in getattr(config, argument):
            if table not in names:
                raise ConfigError(f"{argument} names table {table!r}; tables are {names}")


def _fuse_optimizer(config: Config, model: BatchDLRM) -> None:
    kwargs: dict[str, Any] = {} if config.table_optimizer == "sgd" else {"eps": config.eps}
    bags = model.dlrm.sparse_arch.embedding_bag_collection.embedding_bags
    for table, bag in bags.items():
        rate = config.table_learning_rates.get(table, config.learning_rate)
        # a dict of its own: the call changes it
        apply_optimizer_in_backward(
            TABLE_OPTIMIZERS[config.table_optimizer], bag.parameters(), {**kwargs, "lr": rate}
        )


def _small_tables(dataset: Dataset, world: World) -> dict[str, ParameterConstraints]:
    """No splitting by rows of tables that would leave a rank without any: the sharder refuses it.

    TorchRec gives each rank ceil(rows / ranks) rows until none are left.
    """
    whole_rows = [t for t in SHARDING_TYPES if t not in ROW_SHARDED]
    constraints = {}
    for table in dataset.tables:
        block = -(-table.num_embeddings // world.size)
        if block * (world.size - 1) >= table.num_embeddings:
            constraints[table.name] = ParameterConstraints(sharding_types=whole_rows)
    return constraints


def _constraint(sharding_type: str, dim: int, world: World) -> ParameterConstraints:
    """One sharding type. Columns are split over as many ranks as leaves each a multiple of 4."""
    ranks = world.size if sharding_type == "column_wise" else world.local_size
    if sharding_type == "grid_shard":
        ranks = world.size // world.local_size
    ranks = next(n for n in range(ranks, 0, -1) if dim % (4 * n) == 0)
    return ParameterConstraints(sharding_types=[sharding_type], min_partition=dim // ranks)
