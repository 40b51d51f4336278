"""One exchange of pooled embeddings: started in the forward pass, waited for, and reversed in the
backward pass. What is sent, and what becomes of it, is in comm.py and reduce_scatter.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.autograd.profiler import record_function
from torchrec.distributed.comm_ops import Request, get_gradient_division
from torchrec.distributed.types import QuantizedCommCodec, QuantizedCommCodecs


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
        ctx.request.dummy_tensor = None  # else request and graph would keep each other alive
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


def gradient_divisor(pg: dist.ProcessGroup) -> int:
    """What TorchRec divides gradients by: the ranks of the group, or 1 where that is off."""
    return pg.size() if get_gradient_division() else 1
