"""Scripts that run in a process of their own: they change its environment, or end it."""

from __future__ import annotations

import copy
import json
import os
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class SmallDLRM(nn.Module):
    """Embedding bags, a bottom and a top network, and their pairwise products."""

    def __init__(self) -> None:
        super().__init__()
        self.tables = nn.ModuleList(nn.EmbeddingBag(20, 8, mode="sum") for _ in range(3))
        self.bottom = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 8), nn.ReLU())
        self.top = nn.Sequential(nn.Linear(14, 16), nn.ReLU(), nn.Linear(16, 1))
        self.pairs = nn.Buffer(torch.tril_indices(4, 4, -1))

    def forward(self, dense: Tensor, ids: Tensor, offsets: Tensor) -> Tensor:
        x = self.bottom(dense)
        bags = [table(ids[i], offsets[i]) for i, table in enumerate(self.tables)]
        vectors = torch.stack([x, *bags], 1)
        products = torch.bmm(vectors, vectors.transpose(1, 2))
        crossed = products[:, self.pairs[0], self.pairs[1]]
        return self.top(torch.cat([x, crossed], 1)).squeeze(1)


OPTIMIZERS: dict[str, Callable[[Any], torch.optim.Optimizer]] = {
    "SGD": lambda parameters: torch.optim.SGD(parameters, lr=0.1),
    "Adagrad": lambda parameters: torch.optim.Adagrad(parameters, lr=0.1),
    "Adam": lambda parameters: torch.optim.Adam(parameters, lr=0.01),
}


def dlrm() -> None:
    """Prints by optimizer: the largest difference to the CPU, and how far the weights moved."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    start = SmallDLRM()
    generator = torch.Generator().manual_seed(1)
    batches = [_batch(generator) for _ in range(5)]
    result = {}
    for name, make in OPTIMIZERS.items():
        cpu, npu = (_trained(copy.deepcopy(start), batches, make, d) for d in ("cpu", "npu"))
        difference = max(float((a - b).abs().max()) for a, b in zip(cpu, npu, strict=True))
        moved = min(
            float((a - b.detach()).abs().max())
            for a, b in zip(cpu[1:], start.parameters(), strict=True)
        )
        result[name] = (difference, moved)
    print(json.dumps(result))


def _batch(generator: torch.Generator) -> tuple[Tensor, ...]:
    """Dense values, ids of three features, offsets of their bags, labels of 16 examples."""
    dense = torch.randn(16, 4, generator=generator)
    ids = torch.randint(0, 20, (3, 40), generator=generator)
    offsets = torch.randint(0, 41, (3, 16), generator=generator).sort(1).values
    offsets[:, 0] = 0
    labels = torch.randint(0, 2, (16,), generator=generator).float()
    return dense, ids, offsets, labels


def _trained(
    model: nn.Module,
    batches: list[tuple[Tensor, ...]],
    make: Callable[[Any], torch.optim.Optimizer],
    device: str,
) -> list[Tensor]:
    """The last loss and the weights, on the CPU."""
    model = model.to(device)
    optimizer = make(model.parameters())
    for batch in batches:
        dense, ids, offsets, labels = (tensor.to(device) for tensor in batch)
        loss = F.binary_cross_entropy_with_logits(model(dense, ids, offsets), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return [loss.detach().cpu(), *(p.detach().cpu() for p in model.parameters())]


def _bad_index() -> dict[str, Callable[[], object]]:
    x = torch.ones(4, 3, device="npu")
    bad, row = torch.tensor([0, 9], device="npu"), torch.zeros(2, 3, device="npu")
    column, starts = bad.view(2, 1), torch.tensor([0], device="npu")
    grads = torch.ones(2, 3, device="npu")
    return {
        "aclnnIndexSelect": lambda: x.index_select(0, bad),
        "aclnnGather": lambda: x.gather(0, column),
        "aclnnIndex": lambda: x[bad],
        "aclnnIndexPutImpl": lambda: x.index_put_((bad,), row),
        "aclnnIndexAdd": lambda: x.index_add(0, bad, row),
        "aclnnInplaceIndexCopy": lambda: x.index_copy_(0, bad, row),
        "aclnnScatterAdd": lambda: x.scatter_add(0, column, row),
        "aclnnScatter": lambda: x.scatter(0, column, row),
        "aclnnTake": lambda: x.take(bad * 9),
        "aclnnEmbedding": lambda: F.embedding(bad, x),
        "aclnnEmbeddingBag": lambda: F.embedding_bag(bad, x, starts),
        "aclnnEmbeddingDenseBackward": lambda: torch.ops.aten.embedding_dense_backward(
            grads, bad, 4, -1, False
        ),
    }


def bad_indices() -> None:
    """Prints what each operator says of an index that is out of range, run one by one."""
    said = {}
    for name, call in _bad_index().items():
        try:
            call()
            said[name] = ""
        except RuntimeError as error:
            said[name] = str(error)
    print(json.dumps({**said, "then": (torch.ones(2, device="npu") + 1).tolist()}))


def late_error() -> None:
    """Prints what the first synchronize says after a bad index."""
    _bad_index()["aclnnGather"]()
    try:
        torch.get_device_module("npu").synchronize()
        print("nothing")
    except RuntimeError as error:
        print(error)


def caller_state() -> None:
    """Prints facts: operators that run in the calling thread take no part in what it has set up."""
    from torch.utils._python_dispatch import TorchDispatchMode

    class Seen(TorchDispatchMode):
        def __torch_dispatch__(
            self, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            seen.append(tuple(a.device.type for a in args if isinstance(a, Tensor)))
            return func(*args, **(kwargs or {}))

    seen: list[tuple[str, ...]] = []
    x = torch.full((3, 3), 1.0 + 2.0**-20, device="npu")
    eye = torch.eye(3, device="npu")
    with torch.autocast("cpu", dtype=torch.bfloat16):
        exact = torch.equal((x @ eye).cpu(), x.cpu())
    with Seen():
        torch.mm(x, eye)
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
        torch.mm(x, eye)
    names = [event.key for event in profile.key_averages()]
    print(json.dumps([exact, seen, names.count("aten::mm"), "aten::copy_" in names]))


def threads() -> None:
    """Prints how many threads a product and a sum add to the process, on an NPU and on the CPU."""
    number = torch.get_num_threads()
    added = []
    for device in ("npu", "cpu"):
        (torch.ones(2, device=device) + 1).cpu()
        before = len(os.listdir("/proc/self/task"))
        x = torch.ones(600, 600, device=device)
        assert (x @ x).sum().item() == 600.0**3
        added.append(len(os.listdir("/proc/self/task")) - before)
    print(json.dumps([*added, torch.get_num_threads() - number]))
