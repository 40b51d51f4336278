"""The all-to-all of pooled embeddings: unrecat after it in the forward pass, recat before it in
the backward pass.

    forward   lookup [B_global, D_local] -> all-to-all -> flat -> unrecat -> [B_local, sum(D)]
    backward  grad [B_local, sum(D)] -> recat into the module's send buffer -> all-to-all
              -> [B_global, D_local] -> fused optimizer

Between the interaction and the wire nothing else touches the gradient: one pass over the data
moves it, and divides it by the number of ranks where TorchRec's gradient division is on.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch.autograd.profiler import record_function
from torchrec.distributed.comm_ops import get_use_sync_collectives
from torchrec.distributed.dist_data import PooledEmbeddingsAllToAll, PooledEmbeddingsAwaitable
from torchrec.distributed.types import QuantizedCommCodecs

from torchrec_ascend.exchange import BufferPool, ExchangeRequest, gradient_divisor
from torchrec_ascend.selftest import check_all_to_all_once
from torchrec_ascend.splits import RankSplits

_ops = torch.ops.torchrec_ascend


class PooledRequest(ExchangeRequest):
    """An all-to-all: each rank's columns of every row come together with the row.

    Args:
        splits: columns per rank of `pg`.
        received: buffers between the wire and unrecat, in the forward pass.
        sent: buffers between recat and the wire, in the backward pass.
    """

    def __init__(
        self,
        pg: dist.ProcessGroup,
        embeddings: Tensor,
        batch_sizes: list[int],
        codecs: QuantizedCommCodecs | None,
        splits: RankSplits,
        received: BufferPool,
        sent: BufferPool,
    ) -> None:
        self.splits, self.received, self.sent = splits, received, sent
        super().__init__(pg, embeddings, batch_sizes, codecs)

    def start(self, embeddings: Tensor) -> None:
        wire = self.splits
        send = embeddings.contiguous()
        codec = self.codecs.forward if self.codecs is not None else None
        if codec is None:
            send = send.view(-1)
        else:
            self.qcomm_ctx = codec.create_context()
            _, padding = codec.padded_size(send, list(wire.dims), self.rank, self.qcomm_ctx)
            wire = _padded_splits(self.qcomm_ctx) or wire
            send = torch.nn.functional.pad(send, (0, padding)) if padding else send.view(-1)
            send = codec.encode(send, self.qcomm_ctx)
        self._exchange(
            "## All2All_Pooled_fwd ##",
            send,
            wire.owned_sizes(self.rank, self.batch_sizes),
            wire.row_sizes(self.batch_sizes[self.rank]),
            codec,
            self.received,
        )

    def finish(self) -> Tensor:
        flat = self._wait()
        splits, batch_size = self.splits, self.batch_sizes[self.rank]
        if self.codecs is not None:
            flat = self.codecs.forward.decode(flat, self.qcomm_ctx)
        with record_function("## unrecat ##"):
            padded = _padded_splits(self.qcomm_ctx)
            if padded is None:
                rows = _ops.unrecat(flat, splits.dims, batch_size)
            else:
                parts = _ops.unrecat(flat, padded.dims, batch_size).split(padded.dims, dim=1)
                rows = torch.cat(
                    [part[:, :dim] for part, dim in zip(parts, splits.dims, strict=True)], dim=1
                )
        self._release(self.received)
        return rows

    def start_backward(self, grad: Tensor) -> None:
        splits, batch_size = self.splits, self.batch_sizes[self.rank]
        codec = self.codecs.backward if self.codecs is not None else None
        # A codec may have a narrower range than the gradient: divide what it decodes, not what it
        # encodes. Without one, the division rides on the copy.
        scale = 1.0 if codec is not None else 1.0 / gradient_divisor(self.pg)
        buffer = self.sent.take(grad.numel(), grad.dtype, grad.device)
        send = buffer[: grad.numel()]
        with record_function("## recat ##"):
            _ops.recat(grad, splits.dims, scale=scale, out=send)
        self.keep.append(buffer)
        self.qcomm_ctx = None
        if codec is not None:
            self.qcomm_ctx = codec.create_context()
            send = codec.encode(send, self.qcomm_ctx)
        self._exchange(
            "## All2All_Pooled_bwd ##",
            send,
            splits.row_sizes(batch_size),
            splits.owned_sizes(self.rank, self.batch_sizes),
            codec,
        )

    def finish_backward(self) -> Tensor:
        flat = self._wait()
        if self.codecs is not None:
            flat = self.codecs.backward.decode(flat, self.qcomm_ctx)
            flat.div_(gradient_divisor(self.pg))
        self._release(self.sent)
        return flat.view(sum(self.batch_sizes), self.splits.dims[self.rank])


def _padded_splits(qcomm_ctx: Any) -> RankSplits | None:
    dims = None if qcomm_ctx is None else qcomm_ctx.padded_dim_sum_per_rank
    return None if dims is None else RankSplits(tuple(dims))


class AscendPooledEmbeddingsAllToAll(PooledEmbeddingsAllToAll):
    """TorchRec's pooled all-to-all with the compiled recat and unrecat.

    Every rank of `pg` must make one: the first tries the group (:mod:`torchrec_ascend.selftest`).

    Args:
        pg: process group of the exchange.
        splits: columns per rank of `pg`.
        device: where the splits' tensors live.
        callbacks: applied to the result of `wait()`, in order.
        codecs: quantised communication, as TorchRec's registry gives it.
        dtype: of the embeddings on every rank. The lookup of a rank without tables answers in
            float32, whatever the others do, and its peers would read its buffers wrongly.
    """

    def __init__(
        self,
        pg: dist.ProcessGroup,
        splits: RankSplits,
        device: torch.device | None = None,
        callbacks: list[Any] | None = None,
        codecs: QuantizedCommCodecs | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        if splits.num_ranks != pg.size():
            raise ValueError(
                f"splits have {splits.num_ranks} ranks, expected the group's {pg.size()}"
            )
        check_all_to_all_once(pg, device)
        super().__init__(pg, list(splits.dims), device, callbacks, codecs)
        # Upstream registers int32 and an inclusive prefix, which no kernel reads. These are what
        # recat_embedding_grad_output_mixed_D_batch takes.
        dims, offsets = splits.to(device or "cpu")
        self._dim_sum_per_rank_tensor = dims
        self._cumsum_dim_sum_per_rank_tensor = offsets
        self._splits = splits
        self._dtype = dtype
        self._received = BufferPool()
        self._sent = BufferPool()

    def forward(
        self, local_embs: Tensor, batch_size_per_rank: list[int] | None = None
    ) -> PooledEmbeddingsAwaitable:
        """Starts the exchange of `local_embs`, [sum of batch sizes, D_local].

        Args:
            batch_size_per_rank: rows of each rank; equal parts where absent.

        Raises:
            RuntimeError: the shape is not what the plan and the batch sizes say.
        """
        pg, splits = self._pg, self._splits
        if pg.size() == 1 or get_use_sync_collectives():  # nothing to exchange, or torch.compile
            return super().forward(local_embs, batch_size_per_rank)
        if not batch_size_per_rank:
            batch_size_per_rank = [local_embs.shape[0] // pg.size()] * pg.size()
        rank = dist.get_rank(pg)
        expected = (sum(batch_size_per_rank), splits.dims[rank])
        if tuple(local_embs.shape) != expected:
            raise RuntimeError(
                f"rank {rank}: local embeddings have shape {list(local_embs.shape)}, expected "
                f"{list(expected)} from batch sizes {batch_size_per_rank} and dims {splits.dims}"
            )
        request = PooledRequest(
            pg,
            local_embs.to(self._dtype or local_embs.dtype),
            list(batch_size_per_rank),
            self._codecs,
            splits,
            self._received,
            self._sent,
        )
        awaitable = PooledEmbeddingsAwaitable(request)
        awaitable.callbacks.extend(self._callbacks)
        return awaitable
