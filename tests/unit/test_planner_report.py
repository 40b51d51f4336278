"""What a plan is reported to put on each rank."""

from __future__ import annotations

import json
import pickle
import runpy
import sys
from pathlib import Path

import pytest
import torch
from torchrec.distributed.planner.types import ParameterConstraints
from torchrec.modules.embedding_configs import EmbeddingBagConfig
from torchrec.modules.embedding_modules import EmbeddingBagCollection

from torchrec_ascend.planner import AscendShardingPlanner, AscendTopology, PlanReport
from torchrec_ascend.planner import report as report_module
from torchrec_ascend.sharding import AscendEmbeddingBagCollectionSharder

KINDS = {"whole": "table_wise", "rows": "row_wise", "copied": "data_parallel"}


@pytest.fixture
def report(monkeypatch: pytest.MonkeyPatch) -> PlanReport:
    """Of three tables of 1000 x 64 floats, nested in a module, on 2 ranks."""
    for variable in ("RANK", "LOCAL_RANK"):
        monkeypatch.delenv(variable, raising=False)
    collection = EmbeddingBagCollection(
        tables=[
            EmbeddingBagConfig(
                name=name, num_embeddings=1000, embedding_dim=64, feature_names=[f"f_{name}"]
            )
            for name in KINDS
        ],
        device=torch.device("meta"),
    )
    planner = AscendShardingPlanner(
        AscendTopology(2, soc="a3", local_world_size=2),
        constraints={name: ParameterConstraints(sharding_types=[k]) for name, k in KINDS.items()},
        stats=[],
        device_type="cpu",
    )
    model = torch.nn.ModuleDict({"sparse": collection})
    planner.plan(model, [AscendEmbeddingBagCollectionSharder()])
    assert planner.report is not None
    return planner.report


def test_each_table_is_there_with_its_shards(report: PlanReport) -> None:
    found = {table.name: table for table in report.tables}
    assert set(found) == {f"sparse.{name}" for name in KINDS}
    for name, kind in KINDS.items():
        table = found[f"sparse.{name}"]
        assert (table.sharding_type, table.rows, table.columns) == (kind, 1000, 64)
        assert table.compute_kernel == ("dense" if kind == "data_parallel" else "fused")
        ranks = {shard.rank for shard in table.shards}
        assert len(ranks) == len(table.shards) == (1 if kind == "table_wise" else 2)
    assert {s.size[0] for s in found["sparse.rows"].shards} == {500}
    for shard in found["sparse.copied"].shards:
        assert shard.bytes >= 1000 * 64 * 4 and shard.ms > 0


def test_ranks_add_up_to_the_tables(report: PlanReport) -> None:
    shards = [shard for table in report.tables for shard in table.shards]
    assert sum(report.bytes_by_rank) == sum(shard.bytes for shard in shards)
    assert sum(report.ms_by_rank) == pytest.approx(sum(shard.ms for shard in shards))
    (whole,) = next(t for t in report.tables if t.name == "sparse.whole").shards
    other = 1 - whole.rank
    assert report.bytes_by_rank[whole.rank] - report.bytes_by_rank[other] == whole.bytes
    assert report.hbm_bytes == [64 << 30] * 2
    assert all(
        0 < free < hbm for free, hbm in zip(report.free_bytes, report.hbm_bytes, strict=True)
    )


def test_the_text_names_tables_ranks_and_bytes(report: PlanReport) -> None:
    lines = report.table().splitlines()
    assert "Ascend910_9391" in lines[0]
    assert lines[0].endswith("calculated by the planner, not measured")
    for table in report.tables:
        (line,) = [line for line in lines if line.startswith(table.name + " ")]
        assert f"{table.sharding_type} " in line and "1000 x 64" in line
        assert table.compute_kernel in line
        for shard in table.shards:
            assert str(shard.bytes) in line and f"{shard.ms:.3g}" in line
    for rank, used in enumerate(report.bytes_by_rank):
        assert any(line.split()[:2] == [str(rank), str(used)] for line in lines)


def test_the_saved_file_holds_what_the_report_does(report: PlanReport, tmp_path: Path) -> None:
    folder = tmp_path / "new" / "folder"
    report.save(folder)
    saved = json.loads((folder / "plan.json").read_text())
    assert saved["note"] == "calculated by the planner, not measured"
    assert saved["soc"] == "Ascend910_9391" and saved["local_world_size"] == 2
    assert saved["bandwidths"]["intra_host_bw"] == 196e6
    assert [rank["bytes"] for rank in saved["ranks"]] == report.bytes_by_rank
    assert [rank["ms"] for rank in saved["ranks"]] == pytest.approx(report.ms_by_rank)
    assert [table["name"] for table in saved["tables"]] == [t.name for t in report.tables]
    shard = report.tables[0].shards[0]
    assert saved["tables"][0]["shards"][0] == vars(shard)
    assert (folder / "plan.png").read_bytes().startswith(b"\x89PNG\r\n\x1a\n")


def test_the_picture_has_a_bar_a_rank_of_bytes_and_of_time(report: PlanReport) -> None:
    figure = report.figure()
    memory, time = figure.axes
    gib = [used / (1 << 30) for used in report.bytes_by_rank]
    assert [bar.get_height() for bar in memory.patches] == pytest.approx(gib)
    assert [bar.get_height() for bar in time.patches] == pytest.approx(report.ms_by_rank)
    assert figure.get_suptitle().endswith("calculated by the planner, not measured")


def test_it_travels_between_ranks(report: PlanReport) -> None:
    assert pickle.loads(pickle.dumps(report)) == report


def test_without_matplotlib_all_but_the_picture_is_there(
    report: PlanReport, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("matplotlib", "matplotlib.figure", "matplotlib.backends.backend_agg"):
        monkeypatch.setitem(sys.modules, name, None)
    runpy.run_path(report_module.__file__)  # its imports do without
    with pytest.raises(ImportError, match="matplotlib"):
        report.save(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["plan.json"]
