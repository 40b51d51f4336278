"""Plans for NPUs: what fits where, and on which card. Single process; nothing is allocated."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch.utils.backend_registration import rename_privateuse1_backend
from torchrec.distributed.model_parallel import DistributedModelParallel
from torchrec.distributed.planner.storage_reservations import FixedPercentageStorageReservation
from torchrec.distributed.planner.types import ParameterConstraints, PlannerError, Topology
from torchrec.distributed.types import ShardingEnv, ShardingPlan, ShardingType
from torchrec.modules.embedding_configs import EmbeddingBagConfig
from torchrec.modules.embedding_modules import EmbeddingBagCollection
from torchrec.optim.apply_optimizer_in_backward import apply_optimizer_in_backward
from torchrec.optim.rowwise_adagrad import RowWiseAdagrad

from torchrec_ascend.planner import (
    AscendDistributedModelParallel,
    AscendEnumerator,
    AscendShardingPlanner,
    AscendTopology,
)
from torchrec_ascend.planner import model_parallel as model_parallel_module
from torchrec_ascend.sharding import AscendEmbeddingBagCollectionSharder

SHARDERS = [AscendEmbeddingBagCollectionSharder()]
TYPES = [kind.value for kind in ShardingType]
GIB = 1 << 30


@pytest.fixture(autouse=True)
def npu(monkeypatch: pytest.MonkeyPatch) -> None:
    """A torch that knows the name npu, as after importing torch_npu, and no launcher."""
    for variable in ("RANK", "LOCAL_RANK", "LOCAL_WORLD_SIZE"):
        monkeypatch.delenv(variable, raising=False)
    try:
        torch.device("npu")
    except RuntimeError:
        rename_privateuse1_backend("npu")


def tables(**rows: int) -> EmbeddingBagCollection:
    return wide_tables(256, **rows)


def wide_tables(dim: int, **rows: int) -> EmbeddingBagCollection:
    configs = [
        EmbeddingBagConfig(
            name=name, num_embeddings=count, embedding_dim=dim, feature_names=[f"f_{name}"]
        )
        for name, count in rows.items()
    ]
    return EmbeddingBagCollection(tables=configs, device=torch.device("meta"))


def planner(
    world: int = 2,
    local: int = 2,
    kinds: dict[str, list[str]] | None = None,
    device_type: str = "npu",
    **options: Any,
) -> AscendShardingPlanner:
    constraints = {
        table: ParameterConstraints(sharding_types=types) for table, types in (kinds or {}).items()
    }
    return AscendShardingPlanner(
        AscendTopology(world, local_world_size=local, soc="a2", **options),
        constraints=constraints,
        storage_reservation=FixedPercentageStorageReservation(0.25),
        stats=[],
        device_type=device_type,
    )


def placements(plan: ShardingPlan, table: str) -> list[str]:
    return [str(shard.placement) for shard in plan.plan[""][table].sharding_spec.shards]


@pytest.mark.parametrize("world, local", [(1, 1), (2, 2), (4, 2), (16, 2), (16, 8), (16, 16)])
@pytest.mark.parametrize("kind", TYPES)
def test_every_sharding_type_is_placed_on_cards(kind: str, world: int, local: int) -> None:
    plan = planner(world, local, {"t": [kind]}).plan(tables(t=4096), SHARDERS)
    sharding = plan.plan[""]["t"]
    assert sharding.sharding_type == kind
    if kind == ShardingType.DATA_PARALLEL.value:
        assert sharding.sharding_spec is None
        assert sharding.compute_kernel == "dense" and sharding.ranks == list(range(world))
        return
    assert sharding.compute_kernel == "fused"
    expected = [f"rank:{rank}/npu:{rank % local}" for rank in sharding.ranks]
    assert placements(plan, "t") == expected
    covered = sum(s.shard_sizes[0] * s.shard_sizes[1] for s in sharding.sharding_spec.shards)
    assert covered == 4096 * 256
    if kind == ShardingType.ROW_WISE.value:
        assert sorted(sharding.ranks) == list(range(world))


def test_on_cpu_the_same_plan_without_cards() -> None:
    kinds = {"t": ["row_wise"]}
    on_npu = planner(4, 2, kinds).plan(tables(t=4096), SHARDERS)
    on_cpu = planner(4, 2, kinds, device_type="cpu").plan(tables(t=4096), SHARDERS)
    assert placements(on_cpu, "t") == [f"rank:{rank}/cpu" for rank in range(4)]
    assert on_cpu.plan[""]["t"].ranks == on_npu.plan[""]["t"].ranks


def test_only_kernels_of_an_npu_are_offered() -> None:
    topology = AscendTopology(4, local_world_size=2, soc="a2")
    module = tables(small=100, large=10**6)
    options = AscendEnumerator(topology, 512).enumerate(module, SHARDERS)
    assert {option.compute_kernel for option in options} == {"fused", "dense"}
    enumerator = AscendEnumerator(topology, 512)
    for _ in range(2):  # the second comes from upstream's cache
        again = enumerator.enumerate(module, SHARDERS)
        assert {option.compute_kernel for option in again} == {"fused", "dense"}
    # every type, but grid, which upstream offers only where a constraint names it
    offered = {option.sharding_type for option in options}
    assert offered == set(TYPES) - {ShardingType.GRID_SHARD.value}


@pytest.mark.parametrize("kernel", ["fused_uvm", "fused_uvm_caching", "key_value"])
def test_a_constraint_to_host_memory_is_refused(kernel: str) -> None:
    constraints = {"t": ParameterConstraints(compute_kernels=[kernel])}
    topology = AscendTopology(2, local_world_size=2, soc="a2")
    subject = AscendShardingPlanner(topology, constraints=constraints, stats=[])
    with pytest.raises(ValueError, match=f"'t' runs on an NPU: compute kernel {kernel}"):
        subject.plan(tables(t=4096), SHARDERS)


def test_a_device_group_is_refused_because_it_would_drop_the_table() -> None:
    constraints = {"t": ParameterConstraints(device_group="npu")}
    with pytest.raises(ValueError, match="'t' has device_group 'npu'"):
        AscendEnumerator(AscendTopology(1, soc="a2"), 512, constraints)


def test_what_the_sharder_refuses_is_not_planned() -> None:
    few = planner(4, 2).plan(tables(t=3), SHARDERS).plan[""]["t"]
    rows = [s.shard_sizes[0] for s in few.sharding_spec.shards] if few.sharding_spec else [3]
    assert min(rows) > 0
    with pytest.raises(ValueError, match="'t' runs on an NPU: row_wise leaves a rank without rows"):
        planner(4, 2, {"t": ["row_wise"]}).plan(tables(t=3), SHARDERS)
    odd = planner(4, 2).plan(wide_tables(30, t=1000), SHARDERS).plan[""]["t"]
    assert odd.sharding_type == "data_parallel"
    with pytest.raises(ValueError, match=r"shards of \[30\] columns, not multiples of 4"):
        planner(4, 2, {"t": ["table_wise"]}).plan(wide_tables(30, t=1000), SHARDERS)


def test_device_memory_is_counted() -> None:
    """A table of 1 GiB on 2 ranks: table-wise where it fits, split where not, and an error where
    its halves do not fit either."""
    module = tables(t=1 << 20)
    kinds = {"t": ["table_wise", "row_wise"]}

    def largest_rows(cap: int) -> int:
        plan = planner(2, 2, kinds, hbm_cap=cap, intra_host_bw=1e3).plan(module, SHARDERS)
        return max(s.shard_sizes[0] for s in plan.plan[""]["t"].sharding_spec.shards)

    assert largest_rows(2 * GIB) == 1 << 20  # 1.5 GiB free
    assert largest_rows(1 * GIB) == 1 << 19  # 0.75 GiB free
    with pytest.raises(PlannerError):
        largest_rows(GIB // 2)


def test_where_nothing_fits_the_error_says_which_table_and_what_to_do() -> None:
    subject = planner(2, 2, hbm_cap=GIB // 2)
    with pytest.raises(PlannerError) as caught:
        subject.plan(tables(small=100, huge=1 << 20, large=1 << 19), SHARDERS)
    message = str(caught.value)
    free = GIB // 2 * 3 // 4
    options = AscendEnumerator(subject._topology, 512).enumerate(tables(huge=1 << 20), SHARDERS)
    best = min(max(shard.storage.hbm for shard in option.shards) for option in options)
    assert best >= GIB // 2 > free  # half the weights
    assert "'huge' (1048576 x 256, float32)" in message
    assert f"{best} bytes" in message and f"{free} bytes" in message
    assert f"hbm_cap {GIB // 2} bytes" in message
    for remedy in ("more ranks than 2", "row_wise", "fp16", "larger hbm_cap"):
        assert remedy in message
    assert caught.value.error_type.value == "insufficient_storage"
    assert subject.report is None


def planned_bytes(optimizer: type[torch.optim.Optimizer] | None, **options: Any) -> int:
    module = tables(t=1 << 20)  # 1 GiB
    if optimizer is not None:
        apply_optimizer_in_backward(optimizer, module.parameters(), {"lr": 0.1})
    subject = planner(1, 1, {"t": ["table_wise"]}, **options)
    subject.plan(module, SHARDERS)
    assert subject.report is not None
    return sum(shard.bytes for table in subject.report.tables for shard in table.shards)


def test_the_optimizers_state_is_counted() -> None:
    """None for SGD, a number a row for row-wise Adagrad, twice the table for Adam."""
    sgd = planned_bytes(torch.optim.SGD)
    rowwise = planned_bytes(RowWiseAdagrad)
    adam = planned_bytes(torch.optim.Adam)
    assert GIB <= sgd < rowwise < sgd + GIB // 16
    assert adam > 2.9 * GIB
    cap = 2 * adam // 3  # of which three quarters are free: half of what Adam needs
    assert planned_bytes(torch.optim.SGD, hbm_cap=cap) == sgd
    with pytest.raises(PlannerError, match="'t'"):
        planned_bytes(torch.optim.Adam, hbm_cap=cap)


def test_where_a_constraint_forbids_the_split_the_error_names_it() -> None:
    subject = planner(2, 2, {"t": ["table_wise"]}, hbm_cap=GIB)
    with pytest.raises(PlannerError, match=r"'t' .* on a rank at best, table_wise") as caught:
        subject.plan(tables(t=1 << 20), SHARDERS)
    assert caught.value.error_type.value == "strict_constraints"


def test_a_module_without_tables_has_an_empty_plan() -> None:
    subject = planner()
    subject.plan(tables(t=4096), SHARDERS)
    assert subject.report is not None
    assert subject.plan(torch.nn.Linear(2, 2, device="meta"), SHARDERS).plan == {}
    assert subject.report is None


@pytest.mark.parametrize("device_type", ["cuda", "npu:0", ""])
def test_another_device_type(device_type: str) -> None:
    with pytest.raises(ValueError, match="expected 'npu' or 'cpu'"):
        planner(device_type=device_type)


def test_a_topology_of_another_device() -> None:
    with pytest.raises(ValueError, match="compute_device 'cpu', expected 'cuda'"):
        AscendShardingPlanner(Topology(2, "cpu", local_world_size=2))


def test_without_torch_npu(monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(name: str) -> None:
        raise RuntimeError("Expected one of cpu, cuda")

    topology = AscendTopology(1, soc="a2")
    monkeypatch.setattr(torch, "device", unknown)
    with pytest.raises(RuntimeError, match="import torch_npu first"):
        AscendShardingPlanner(topology)


class Broadcast:
    """Rank 0 speaks; what it says is what the other ranks hear."""

    said: Any = None

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.rank = 0
        monkeypatch.setattr(dist, "get_rank", lambda group: self.rank)
        monkeypatch.setattr(dist, "broadcast_object_list", self)

    def __call__(self, objects: list[Any], group: Any, group_src: int) -> None:
        assert group_src == 0
        if self.rank == 0:
            self.said = objects[0]
        objects[0] = self.said


def test_rank_0_plans_for_all(monkeypatch: pytest.MonkeyPatch) -> None:
    broadcast = Broadcast(monkeypatch)
    group: Any = object()
    first, second = planner(), planner()
    plan = first.collective_plan(tables(t=4096), SHARDERS, group)
    broadcast.rank = 1
    monkeypatch.setattr(second, "plan", None)  # only rank 0 plans
    assert second.collective_plan(tables(t=4096), SHARDERS, group) is plan
    assert second.report is first.report is not None


def test_where_rank_0_fails_all_raise(monkeypatch: pytest.MonkeyPatch) -> None:
    broadcast = Broadcast(monkeypatch)
    group: Any = object()
    for broadcast.rank in (0, 1):
        with pytest.raises(PlannerError, match="no plan fits"):
            planner(hbm_cap=1 << 20).collective_plan(tables(t=1 << 20), SHARDERS, group)


def test_no_group_to_plan_with() -> None:
    with pytest.raises(ValueError, match="there is no process group"):
        planner().collective_plan(tables(t=4096), SHARDERS)


@pytest.fixture
def wrapped(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What upstream's wrapper is given: [module, env, device, plan, sharders]."""
    seen: list[Any] = []
    monkeypatch.setattr(
        DistributedModelParallel, "__init__", lambda self, *args, **kwargs: seen.extend(args)
    )
    return seen


def test_the_wrapper_plans_on_an_npu(wrapped: list[Any]) -> None:
    env = ShardingEnv(world_size=1, rank=0)
    AscendDistributedModelParallel(
        tables(t=4096), env, torch.device("npu:0"), sharders=list(SHARDERS)
    )
    _, seen_env, device, plan, sharders = wrapped
    assert seen_env is env and device == torch.device("npu:0") and sharders == SHARDERS
    assert list(plan.plan[""]) == ["t"]


@pytest.mark.parametrize("device", [torch.device("cpu"), None])
def test_elsewhere_the_wrapper_leaves_planning_to_upstream(
    wrapped: list[Any], monkeypatch: pytest.MonkeyPatch, device: torch.device | None
) -> None:
    monkeypatch.setattr(model_parallel_module, "_plan", None)
    module = tables(t=4096)
    AscendDistributedModelParallel(module, None, device)
    assert wrapped == [module, None, device, None, None]


def test_the_wrapper_keeps_a_given_plan(
    wrapped: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(model_parallel_module, "_plan", None)
    plan = ShardingPlan({})
    AscendDistributedModelParallel(tables(t=4096), device=torch.device("npu:0"), plan=plan)
    assert wrapped[3] is plan
