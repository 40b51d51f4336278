"""The all-to-all of pooled embeddings: unrecat after it in the forward pass, recat before it in
the backward pass.

    forward   lookup [B_global, D_local] -> all-to-all -> flat -> unrecat -> [B_local, sum(D)]
    backward  grad [B_local, sum(D)] -> recat into the module's send buffer -> all-to-all
              -> [B_global, D_local] -> fused optimizer

Between the interaction and the wire nothing else touches the gradient: one pass over the data
moves it, and divides it by the number of ranks where TorchRec's gradient division is on.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.autograd.profiler import record_function
from torchrec.distributed.comm_ops import (
    Request,
    get_gradient_division,
    get_use_sync_collectives,
)
from torchrec.distributed.dist_data import PooledEmbeddingsAllToAll, PooledEmbeddingsAwaitable
from torchrec.distributed.types import QuantizedCommCodec, QuantizedCommCodecs

from torchrec_ascend.splits import RankSplits

_ops = torch.ops.torchrec_ascend


class BufferPool:
    """Flat buffers that a module keeps from step to step.

    A fresh large buffer costs more in page faults than the copy into it. A buffer is taken for one
    collective and given back only when that collective has been waited for, so two in flight never
    share one. The pool holds as many as were in flight together, each as large as the largest
    batch so far.
    """

    def __init__(self) -> None:
        self._free: list[Tensor] = []

    def take(self, numel: int, dtype: torch.dtype, device: torch.device) -> Tensor:
        """An uninitialised 1-D tensor of at least `numel` elements."""
        kept = [b for b in self._free if b.dtype == dtype and b.device == device]
        chosen = next((b for b in kept if b.numel() >= numel), kept[0] if kept else None)
        self._free = [b for b in self._free if b is not chosen]
        if chosen is None or chosen.numel() < numel:  # one too small is replaced, not kept
            chosen = torch.empty(numel, dtype=dtype, device=device)
        return chosen

    def give(self, buffer: Tensor) -> None:
        """Returns what :meth:`take` gave, once the collective that used it is done."""
        self._free.append(buffer)


class ExchangeRequest(Request[Tensor]):
    """One batch's exchange: started in the forward pass, waited for, and reversed in the backward.

    `wait()` gives this rank's rows, differentiable with respect to the local embeddings. A subclass
    says what is sent and what becomes of it.

    Args:
        pg: process group of the exchange.
        embeddings: pooled rows of every rank, [sum of batch sizes, D_local].
        batch_sizes: rows of each rank.
        codecs: quantised communication, or None.
    """

    tensor: Tensor | None

    def __init__(
        self,
        pg: dist.ProcessGroup,
        embeddings: Tensor,
        batch_sizes: list[int],
        codecs: QuantizedCommCodecs | None,
    ) -> None:
        super().__init__(pg, device=embeddings.device)
        self.wait_function = _Wait
        self.batch_sizes = batch_sizes
        self.codecs = codecs
        self.rank: int = dist.get_rank(pg)
        self.keep: list[Tensor] = []  # pool buffers the running collective reads or writes
        self._sending: Tensor | None = None
        # The output that carries the graph from the start of the exchange to its end.
        self.dummy_tensor = _Start.apply(self, embeddings)

    def start(self, embeddings: Tensor) -> None:
        """Forward, first half: sends the embeddings."""
        raise NotImplementedError

    def finish(self) -> Tensor:
        """Forward, second half: waits, and returns this rank's rows."""
        raise NotImplementedError

    def start_backward(self, grad: Tensor) -> None:
        """Backward, first half: sends the gradient of what `finish` returned."""
        raise NotImplementedError

    def finish_backward(self) -> Tensor:
        """Backward, second half: waits, and returns the gradient of the embeddings."""
        raise NotImplementedError

    def _exchange(
        self,
        name: str,
        send: Tensor,
        send_sizes: Sequence[int],
        receive_sizes: Sequence[int],
        codec: QuantizedCommCodec | None,
        pool: BufferPool | None = None,
    ) -> None:
        if codec is not None:
            send_sizes = [codec.calc_quantized_size(n, self.qcomm_ctx) for n in send_sizes]
            receive_sizes = [codec.calc_quantized_size(n, self.qcomm_ctx) for n in receive_sizes]
        total = sum(receive_sizes)
        if pool is None:  # the result leaves with autograd, which may hold it for any time
            receive = torch.empty(total, dtype=send.dtype, device=send.device)
        else:
            buffer = pool.take(total, send.dtype, send.device)
            self.keep.append(buffer)
            receive = buffer[:total]
        with record_function(name):
            self.req = dist.all_to_all_single(
                output=receive,
                input=send,
                output_split_sizes=list(receive_sizes),
                input_split_sizes=list(send_sizes),
                group=self.pg,
                async_op=True,
            )
        self.tensor = receive
        self._sending = send

    def _wait(self) -> Tensor:
        work, flat = self.req, self.tensor
        if work is None or flat is None:
            raise RuntimeError("this exchange was waited for already")
        work.wait()
        self._sending = None
        self.req, self.tensor = None, None
        return flat

    def _release(self, pool: BufferPool) -> None:
        for buffer in self.keep:
            pool.give(buffer)
        self.keep = []


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


def gradient_divisor(pg: dist.ProcessGroup) -> int:
    """What TorchRec divides gradients by: the ranks of the group, or 1 where that is off."""
    return pg.size() if get_gradient_division() else 1


class _Start(torch.autograd.Function):
    """Starts the exchange; its backward waits for the reverse one."""

    @staticmethod
    def forward(ctx: Any, request: ExchangeRequest, embeddings: Tensor) -> Tensor:
        ctx.request = request
        request.start(embeddings)
        return embeddings.new_empty(0)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, _: Tensor) -> tuple[None, Tensor]:
        return None, ctx.request.finish_backward()


class _Wait(torch.autograd.Function):
    """Waits for the exchange; its backward starts the reverse one."""

    @staticmethod
    def forward(ctx: Any, pg: dist.ProcessGroup, request: ExchangeRequest, dummy: Tensor) -> Tensor:
        ctx.request = request
        return request.finish()

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[None, None, Tensor]:
        ctx.request.start_backward(grad)
        return None, None, grad.new_empty(0)


class AscendPooledEmbeddingsAllToAll(PooledEmbeddingsAllToAll):
    """TorchRec's pooled all-to-all with the compiled recat and unrecat.

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
