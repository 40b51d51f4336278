"""The reduce-scatter of row-sharded pooled embeddings when ranks have unequal batches.

Equal batches use TorchRec's. For unequal ones TorchRec asks the backend for an all-gather of
unequal parts in the backward pass, which gloo refuses: one rank's short or empty last batch ends
the run. An all-to-all does the same with what every backend has: each rank receives its rows'
partial sums from all ranks and adds them in rank order; backward, it sends its gradient to all.
"""

from __future__ import annotations

from torch import Tensor
from torch.autograd.profiler import record_function
from torchrec.distributed.comm_ops import get_use_sync_collectives
from torchrec.distributed.dist_data import (
    PooledEmbeddingsAwaitable,
    PooledEmbeddingsReduceScatter,
)

from torchrec_ascend.exchange import ExchangeRequest, gradient_divisor


class ReduceScatterRequest(ExchangeRequest):
    """`wait()` gives the sum over ranks of this rank's rows, [B_local, D]."""

    def start(self, embeddings: Tensor) -> None:
        self.width = embeddings.shape[1]
        codec = self.codecs.forward if self.codecs is not None else None
        send = embeddings.contiguous().view(-1)
        if codec is not None:
            self.qcomm_ctx = codec.create_context()
            send = codec.encode(send, self.qcomm_ctx)
        self._exchange(
            "## ReduceScatterV_fwd (all_to_all) ##",
            send,
            [batch * self.width for batch in self.batch_sizes],
            [self.batch_sizes[self.rank] * self.width] * len(self.batch_sizes),
            codec,
        )

    def finish(self) -> Tensor:
        flat = self._wait()
        if self.codecs is not None:
            flat = self.codecs.forward.decode(flat, self.qcomm_ctx)
        with record_function("## ReduceScatterV_fwd (sum) ##"):
            shape = (len(self.batch_sizes), self.batch_sizes[self.rank], self.width)
            return flat.view(shape).sum(dim=0)

    def start_backward(self, grad: Tensor) -> None:
        codec = self.codecs.backward if self.codecs is not None else None
        send = grad.expand(len(self.batch_sizes), *grad.shape).reshape(-1)
        self.qcomm_ctx = None
        if codec is not None:
            self.qcomm_ctx = codec.create_context()
            send = codec.encode(send, self.qcomm_ctx)
        self._exchange(
            "## ReduceScatterV_bwd (all_to_all) ##",
            send,
            [self.batch_sizes[self.rank] * self.width] * len(self.batch_sizes),
            [batch * self.width for batch in self.batch_sizes],
            codec,
        )

    def finish_backward(self) -> Tensor:
        flat = self._wait()
        if self.codecs is not None:
            flat = self.codecs.backward.decode(flat, self.qcomm_ctx)
        flat.div_(gradient_divisor(self.pg))
        return flat.view(sum(self.batch_sizes), self.width)


class AscendPooledEmbeddingsReduceScatter(PooledEmbeddingsReduceScatter):
    """TorchRec's reduce-scatter, on any backend for any batch sizes."""

    def forward(
        self, local_embs: Tensor, input_splits: list[int] | None = None
    ) -> PooledEmbeddingsAwaitable:
        """Starts the reduction of `local_embs`, [sum of batch sizes, D].

        Args:
            input_splits: rows of each rank; equal parts where absent.

        Raises:
            RuntimeError: the rows are not as many as the batch sizes say.
        """
        if input_splits is None or get_use_sync_collectives() or len(set(input_splits)) == 1:
            return super().forward(local_embs, input_splits)
        if local_embs.shape[0] != sum(input_splits):
            raise RuntimeError(
                f"rank {self._pg.rank()}: local embeddings have {local_embs.shape[0]} rows, "
                f"expected {sum(input_splits)} from batch sizes {input_splits}"
            )
        return PooledEmbeddingsAwaitable(
            ReduceScatterRequest(self._pg, local_embs, list(input_splits), self._codecs)
        )
