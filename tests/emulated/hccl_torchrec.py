"""TorchRec's own exchanges over the emulated HCCL. Runs on each rank of a world."""

from __future__ import annotations

import torch
import torch.distributed as dist
from torch import Tensor
from torchrec.distributed.dist_data import KJTAllToAll, PooledEmbeddingsAllToAll
from torchrec.sparse.jagged_tensor import KeyedJaggedTensor

BATCH = 3


def _batch(rank: int, features: int) -> KeyedJaggedTensor:
    generator = torch.Generator().manual_seed(rank)
    lengths = torch.randint(0, 4, (features * BATCH,), generator=generator)
    values = torch.randint(0, 100, (int(lengths.sum()),), generator=generator)
    keys = [f"f{feature}" for feature in range(features)]
    return KeyedJaggedTensor(keys=keys, values=values, lengths=lengths)


def _permute_on_cpu(
    permute: Tensor,
    lengths: Tensor,
    values: Tensor,
    weights: Tensor | None = None,
    permuted_lengths_sum: int | None = None,
) -> tuple[Tensor, Tensor, Tensor | None]:
    """fbgemm brings no kernel for NPUs, and the exchange is what is tested."""
    assert weights is None
    permuted = torch.ops.fbgemm.permute_2D_sparse_data(permute.cpu(), lengths.cpu(), values.cpu())
    return permuted[0].to("npu"), permuted[1].to("npu"), None


def input_exchange() -> None:
    """KJTAllToAll: rank r gets its features of every rank's batch; the last rank has none."""
    rank, size = dist.get_rank(), dist.get_world_size()
    splits = [peer + 1 for peer in range(size - 1)] + [0]
    features = sum(splits)
    group = dist.group.WORLD
    assert group is not None
    mine = _batch(rank, features).to(torch.device("npu"))
    with torch.library._scoped_library("fbgemm", "IMPL") as kernels:
        kernels.impl("permute_2D_sparse_data", _permute_on_cpu, "PrivateUse1")
        got = KJTAllToAll(group, splits)(mine).wait().wait()
    first = sum(splits[:rank])
    keys = [f"f{feature}" for feature in range(first, first + splits[rank])]
    assert got.keys() == keys, got.keys()
    batches = [_batch(peer, features) for peer in range(size)]
    for key in keys:
        lengths = torch.cat([batch[key].lengths() for batch in batches])
        values = torch.cat([batch[key].values() for batch in batches])
        assert torch.equal(got[key].lengths().cpu(), lengths), (key, got[key].lengths(), lengths)
        assert torch.equal(got[key].values().cpu(), values), (key, got[key].values(), values)


def output_exchange() -> None:
    """PooledEmbeddingsAllToAll, forward and backward, with a rank of width 0."""
    rank, size = dist.get_rank(), dist.get_world_size()
    dims = [0] + [4 * peer + 1 for peer in range(1, size)]
    group = dist.group.WORLD
    assert group is not None
    pooled = [torch.randn(BATCH * size, dims[peer], generator=_generator(peer)) for peer in
              range(size)]  # fmt: skip
    leaf = pooled[rank].to("npu").requires_grad_()
    exchange = PooledEmbeddingsAllToAll(group, dims, torch.device("npu"))
    got = exchange(leaf).wait()
    own = slice(BATCH * rank, BATCH * (rank + 1))
    want = torch.cat([rows[own] for rows in pooled], dim=1)
    assert torch.equal(got.detach().cpu(), want), (got, want)
    gradients = [torch.randn(BATCH, sum(dims), generator=_generator(100 + peer)) for peer in
                 range(size)]  # fmt: skip
    got.backward(gradients[rank].to("npu"))
    columns = slice(sum(dims[:rank]), sum(dims[: rank + 1]))
    back: Tensor = torch.cat([gradient[:, columns] for gradient in gradients]) / size
    assert leaf.grad is not None
    assert torch.equal(leaf.grad.cpu(), back), (leaf.grad, back)


def _generator(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)
