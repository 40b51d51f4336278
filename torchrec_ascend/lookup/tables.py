"""Several tables of one rank behind the interface of fbgemm's TBE: storage and forward pass."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, groupby
from typing import Any

import torch
import torch.nn.functional as F
from fbgemm_gpu.split_embedding_configs import SparseType
from fbgemm_gpu.split_table_batched_embeddings_ops_common import EmbeddingLocation, PoolingMode
from fbgemm_gpu.split_table_batched_embeddings_ops_training import ComputeDevice
from torch import Tensor, nn

from torchrec_ascend.ops.jagged import segment_of
from torchrec_ascend.ops.order import MOST as MOST_ROWS


@dataclass
class Run:
    """Neighbouring tables of one dim: to an operator one table, whose last row is a spare one.

    tables, features: [first, last) of the module's.
    weight: [rows + 1, dim], all tables one below the other.
    bases: int64, for each feature the first row of its table.
    states: of the optimizer, [rows + 1, dim] or [rows + 1].
    """

    tables: range
    features: range
    weight: Tensor
    bases: Tensor
    states: list[Tensor]

    @property
    def spare(self) -> int:
        return self.weight.shape[0] - 1


class Tables(nn.Module):
    """What fused and dense tables share: storage, features, pooling.

    Args:
        rows, dims: by table.
        feature_table_map: by feature, the index of its table; ascending.
        pooling: SUM or MEAN over a bag; NONE gives each id its own row (all dims equal).
        dtype: of the tables: float32, float16 or bfloat16.
        output_dtype: of what is returned.
        device: of tables and states.

    Raises:
        ValueError: sizes or dtypes that cannot be.
    """

    def __init__(
        self, rows: Sequence[int], dims: Sequence[int], feature_table_map: Sequence[int],
        pooling: PoolingMode, dtype: torch.dtype, output_dtype: torch.dtype, device: torch.device,
    ) -> None:  # fmt: skip
        super().__init__()
        if dtype not in (torch.float32, torch.float16, torch.bfloat16):
            raise ValueError(f"tables are {dtype}, expected float32, float16 or bfloat16")
        if pooling == PoolingMode.NONE and len(set(dims)) > 1:
            raise ValueError(f"tables of a sequence lookup have dims {list(dims)}, expected one")
        self.pooling = pooling
        self.output_dtype = output_dtype
        self.weights_precision = SparseType.from_dtype(dtype)
        self.embedding_specs: list[Any] = [
            (r, d, EmbeddingLocation.DEVICE, ComputeDevice.CPU)
            for r, d in zip(rows, dims, strict=True)
        ]
        self.feature_dims = [dims[table] for table in feature_table_map]
        self.runs: list[Run] = []
        self.weights_physical_offsets: list[int] = []
        spans = _spans(dims)
        sizes = [(sum(rows[t] for t in span) + 1) * dims[span[0]] for span in spans]
        self._weights = torch.zeros(sum(sizes), dtype=dtype, device=device)
        for span, size, end in zip(spans, sizes, accumulate(sizes), strict=True):
            begin, dim = end - size, dims[span[0]]
            features = [f for f, table in enumerate(feature_table_map) if table in span]
            starts = [0, *accumulate(rows[t] for t in span)]
            if starts[-1] > MOST_ROWS:
                raise ValueError(
                    f"{len(span)} tables of dim {dim} have {starts[-1]} rows on this rank, at most "
                    f"{MOST_ROWS} are possible"
                )
            self.weights_physical_offsets += [begin + start * dim for start in starts[:-1]]
            bases = [starts[feature_table_map[f] - span[0]] for f in features]
            self.runs.append(
                Run(
                    span,
                    range(features[0], features[-1] + 1) if features else range(0),
                    self._weights[begin:end].view(-1, dim),
                    torch.tensor(bases, dtype=torch.int64, device=device),
                    [],
                )
            )

    @property
    def needs_counts(self) -> bool:
        """Whether `forward` needs the ids of each feature counted on the host (several dims)."""
        return len(self.runs) > 1

    def by_table(self, run: Run, tensor: Tensor) -> list[Tensor]:
        """Views [rows, ...] of a run's weight or state."""
        return list(
            tensor.detach()[: run.spare].split([self.embedding_specs[t][0] for t in run.tables])
        )

    def split_embedding_weights(self) -> list[Tensor]:
        """Views [rows, dim], by table."""
        return [view for run in self.runs for view in self.by_table(run, run.weight)]

    def forward(
        self, indices: Tensor, offsets: Tensor, per_sample_weights: Tensor | None = None,
        batch_size_per_feature_per_rank: list[list[int]] | None = None,
        counts: list[int] | None = None,
    ) -> Tensor:  # fmt: skip
        """Looks up and pools.

        Args:
            indices: [N] ids within their table.
            offsets: [F * B + 1]: where each bag begins, features first; with batch sizes, their sum
                in place of F * B.
            per_sample_weights: [N] float32; SUM only.
            batch_size_per_feature_per_rank: [F][ranks], where batch sizes differ by feature.
            counts: [F] ids of each feature; see `needs_counts`.

        Returns:
            [B, sum of D by feature]; NONE: [N, D]; with batch sizes: flat, by rank, then feature,
            [B, D] each.
        """
        features = len(self.feature_dims)
        bags = offsets.numel() - 1
        if batch_size_per_feature_per_rank is None:
            batches = [bags // features if features else 0] * features
        else:
            batches = [sum(sizes) for sizes in batch_size_per_feature_per_rank]
        if self.needs_counts and counts is None:
            raise ValueError("tables of several dims need the ids of each feature counted")
        indices, offsets = indices.long(), offsets.long()
        weights = None if per_sample_weights is None else per_sample_weights.float()
        pooled: list[Tensor] = []
        id_end = bag_end = 0
        for run in self.runs:
            own = batches[run.features.start : run.features.stop]
            id_begin, bag_begin = id_end, bag_end
            bag_end += sum(own)
            id_end += sum(counts[f] for f in run.features) if counts else indices.numel()
            if not own:
                continue
            ids = indices[id_begin:id_end]
            bounds = offsets[bag_begin : bag_end + 1]
            if id_begin:
                bounds = bounds - id_begin
            part = None if weights is None else weights[id_begin:id_end]
            pooled.append(self._lookup_run(run, ids, bounds, part, own))
        return self._arranged(pooled, batches, batch_size_per_feature_per_rank, indices.device)

    def _lookup_run(
        self, run: Run, ids: Tensor, offsets: Tensor, weights: Tensor | None, batches: list[int]
    ) -> Tensor:
        """[bags, D], or [N, D] without pooling."""
        bag = segment_of(offsets.diff(), ids.numel())
        if len(run.tables) > 1:
            base = (
                run.bases.repeat_interleave(
                    torch.tensor(batches, device=ids.device), output_size=sum(batches)
                )
                if len(set(batches)) > 1
                else run.bases.unsqueeze(1).expand(-1, batches[0]).reshape(-1)
            )
            ids = ids + base.index_select(0, bag)
        return self._lookup(run, ids, offsets, bag, weights).to(self.output_dtype)

    def _lookup(
        self, run: Run, ids: Tensor, offsets: Tensor, bag: Tensor, weights: Tensor | None
    ) -> Tensor:
        raise NotImplementedError

    def _arranged(
        self, pooled: list[Tensor], batches: list[int], by_rank: list[list[int]] | None,
        device: torch.device,
    ) -> Tensor:  # fmt: skip
        """The runs' bags, feature by feature below each other, in the order that TBE returns."""
        if self.pooling == PoolingMode.NONE:
            return pooled[0] if len(pooled) == 1 else torch.cat(pooled)
        if not pooled:
            return torch.empty(0, 0, dtype=self.output_dtype, device=device)
        used = [run for run in self.runs if run.features]
        if by_rank is None:
            batch = batches[0]
            rows = []
            for run, part in zip(used, pooled, strict=True):
                count, dim = len(run.features), part.shape[1]
                by_bag = part.view(count, batch, dim).transpose(0, 1)
                rows.append(by_bag.reshape(batch, count * dim))
            return rows[0] if len(rows) == 1 else torch.cat(rows, 1)
        pieces: list[list[Tensor]] = []
        for run, part in zip(used, pooled, strict=True):
            sizes = [size for f in run.features for size in by_rank[f]]
            split = part.split(sizes)
            ranks = len(by_rank[run.features.start])
            pieces += [list(split[i : i + ranks]) for i in range(0, len(split), ranks)]
        return torch.cat(
            [piece[rank].reshape(-1) for rank in range(len(pieces[0])) for piece in pieces]
        )


def _spans(dims: Sequence[int]) -> list[range]:
    """Neighbours of equal dim."""
    spans, begin = [], 0
    for _, group in groupby(dims):
        end = begin + len(list(group))
        spans.append(range(begin, end))
        begin = end
    return spans


def pool(
    table: Tensor, ids: Tensor, offsets: Tensor, weights: Tensor | None, pooling: PoolingMode
) -> Tensor:
    """[bags, D] float32, or [N, D] without pooling."""
    if pooling == PoolingMode.NONE:
        return table.index_select(0, ids).float()
    if table.dtype != torch.float32:  # sums are taken in float32
        table = table.index_select(0, ids).float()
        ids = torch.arange(ids.numel(), device=ids.device)
    mode = "mean" if pooling == PoolingMode.MEAN else "sum"
    return F.embedding_bag(
        ids, table, offsets, mode=mode, per_sample_weights=weights, include_last_offset=True
    )


def shares(
    offsets: Tensor, bag: Tensor, weights: Tensor | None, pooling: PoolingMode
) -> Tensor | None:
    """[N]: the factor of each id in its bag's result; None: 1."""
    if pooling == PoolingMode.MEAN:
        return offsets.diff().float().reciprocal().index_select(0, bag)
    return weights


def weight_gradients(table: Tensor, ids: Tensor, grad: Tensor, bag: Tensor) -> Tensor:
    """[N]: of per_sample_weights."""
    return (table.index_select(0, ids).float() * grad.index_select(0, bag)).sum(1)
