"""The lookup made of stock operators equals fbgemm's TBE on the CPU: outputs, weights, states.

That TBE has no Adam; Adam is held against torch's.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

import pytest
import torch
from fbgemm_gpu.split_embedding_configs import EmbOptimType, SparseType
from fbgemm_gpu.split_table_batched_embeddings_ops_common import EmbeddingLocation, PoolingMode
from fbgemm_gpu.split_table_batched_embeddings_ops_training import (
    ComputeDevice,
    SplitTableBatchedEmbeddingBagsCodegen,
    WeightDecayMode,
)
from torch import Tensor

from torchrec_ascend.lookup import DenseTables, FusedTables
from torchrec_ascend.lookup.optimizers import FusedParams, rounded
from torchrec_ascend.lookup.rows import touched_rows

CPU = torch.device("cpu")
STEPS = 20
ROWS = [11, 40, 7, 1, 25]
MIXED, EQUAL = [8, 8, 16, 4, 4], [8] * 5
FEATURES = [0, 1, 1, 2, 3, 4]  # by feature, its table; nobody looks up more than its rows
OPTIMIZERS = [
    EmbOptimType.EXACT_SGD,
    EmbOptimType.EXACT_ADAGRAD,
    EmbOptimType.EXACT_ROWWISE_ADAGRAD,
]


@dataclass
class Batch:
    indices: Tensor
    offsets: Tensor
    counts: list[int]
    weights: Tensor | None


def make_batch(rng: random.Random, batch: int, weighted: bool, silent: int | None = None) -> Batch:
    """Bags of 0 to 6 ids, many twice; feature `silent` has none."""
    ids: list[int] = []
    offsets, counts = [0], []
    for feature, table in enumerate(FEATURES):
        before = len(ids)
        for _ in range(batch):
            size = 0 if feature == silent else rng.choice([0, 1, 2, 6])
            ids += [rng.randrange(ROWS[table]) for _ in range(size)]
            offsets.append(len(ids))
        counts.append(len(ids) - before)
    weights = torch.tensor([rng.uniform(-2, 2) for _ in ids]) if weighted else None
    return Batch(torch.tensor(ids, dtype=torch.int64), torch.tensor(offsets), counts, weights)


def make_pair(
    dims: list[int], pooling: PoolingMode, dtype: SparseType = SparseType.FP32, **params: Any
) -> tuple[FusedTables, SplitTableBatchedEmbeddingBagsCodegen]:
    """Ours and fbgemm's, of equal weights."""
    params.setdefault("stochastic_rounding", False)
    read = FusedParams.read(params)
    ours = FusedTables(ROWS, dims, FEATURES, pooling, dtype.as_dtype(), CPU, read)
    theirs = SplitTableBatchedEmbeddingBagsCodegen(
        [
            (r, d, EmbeddingLocation.HOST, ComputeDevice.CPU)
            for r, d in zip(ROWS, dims, strict=True)
        ],
        feature_table_map=FEATURES, pooling_mode=pooling, weights_precision=dtype, device=CPU,
        **params,
    )  # fmt: skip
    torch.manual_seed(3)
    for a, b in zip(ours.split_embedding_weights(), theirs.split_embedding_weights(), strict=True):
        a.uniform_(-1, 1)
        b.copy_(a)
    return ours, theirs


def assert_equal(
    ours: FusedTables, theirs: SplitTableBatchedEmbeddingBagsCodegen, **tol: Any
) -> None:
    for a, b in zip(ours.split_embedding_weights(), theirs.split_embedding_weights(), strict=True):
        torch.testing.assert_close(a, b, **tol)
    ours_states, their_states = ours.get_optimizer_state(), theirs.get_optimizer_state()
    assert len(ours_states) == len(their_states)
    for mine, yours in zip(ours_states, their_states, strict=True):
        assert list(mine) == list(yours)
        for a, b in zip(mine.values(), yours.values(), strict=True):
            torch.testing.assert_close(a, b, **tol)


def step(
    ours: FusedTables, theirs: SplitTableBatchedEmbeddingBagsCodegen, batch: Batch, **tol: Any
) -> None:
    outputs = [
        ours(batch.indices, batch.offsets, batch.weights, counts=batch.counts),
        theirs(batch.indices, batch.offsets, batch.weights),
    ]
    torch.testing.assert_close(*outputs, **tol)
    gradient = torch.randn_like(outputs[0].float()).to(outputs[0].dtype)
    for output in outputs:
        output.backward(gradient)


def pooled(batch: Batch, weights: list[Tensor], pooling: PoolingMode) -> Tensor:
    """The law, one bag at a time: [B, sum of D by feature]."""
    size = (batch.offsets.numel() - 1) // len(FEATURES)
    columns = []
    for feature, table in enumerate(FEATURES):
        rows = []
        for b in range(size):
            begin, end = batch.offsets[feature * size + b : feature * size + b + 2].tolist()
            bag = weights[table][batch.indices[begin:end]]
            rows.append(bag.mean(0) if pooling == PoolingMode.MEAN and end > begin else bag.sum(0))
        columns.append(torch.stack(rows))
    return torch.cat(columns, 1)


TOLERANCE: dict[str, Any] = {"rtol": 1e-6, "atol": 1e-6}


@pytest.mark.parametrize("optimizer", OPTIMIZERS, ids=str)
@pytest.mark.parametrize(
    ("pooling", "weighted"),
    [(PoolingMode.SUM, False), (PoolingMode.SUM, True), (PoolingMode.MEAN, False)],
)
@pytest.mark.parametrize("dims", [MIXED, EQUAL], ids=["mixed", "equal"])
def test_twenty_steps_of_pooled_tables(
    optimizer: EmbOptimType, pooling: PoolingMode, weighted: bool, dims: list[int]
) -> None:
    ours, theirs = make_pair(dims, pooling, optimizer=optimizer, learning_rate=0.1, eps=1e-3)
    rng = random.Random(1)
    for turn in range(STEPS):
        batch = make_batch(rng, rng.choice([1, 2, 9]), weighted, silent=turn % len(FEATURES))
        step(ours, theirs, batch, **TOLERANCE)
    assert_equal(ours, theirs, **TOLERANCE)


@pytest.mark.parametrize("optimizer", OPTIMIZERS, ids=str)
def test_twenty_steps_of_sequences(optimizer: EmbOptimType) -> None:
    ours, theirs = make_pair(
        EQUAL, PoolingMode.NONE, optimizer=optimizer, learning_rate=0.1, eps=1e-3
    )
    rng = random.Random(2)
    for _ in range(STEPS):
        step(ours, theirs, make_batch(rng, 5, weighted=False), **TOLERANCE)
    assert_equal(ours, theirs, **TOLERANCE)


@pytest.mark.parametrize(
    "params",
    [
        {"optimizer": EmbOptimType.EXACT_SGD, "gradient_clipping": True, "max_gradient": 0.3},
        {"optimizer": EmbOptimType.EXACT_ADAGRAD, "gradient_clipping": True, "max_gradient": 0.3},
        {"output_dtype": SparseType.FP16},
    ],
    ids=str,
)  # fmt: skip
def test_parameters(params: dict[str, Any]) -> None:
    ours, theirs = make_pair(MIXED, PoolingMode.SUM, learning_rate=0.1, eps=1e-3, **params)
    rng = random.Random(3)
    for _ in range(STEPS):
        step(ours, theirs, make_batch(rng, 4, weighted=False), **TOLERANCE)
    assert_equal(ours, theirs, **TOLERANCE)


@pytest.mark.parametrize("optimizer", OPTIMIZERS, ids=str)
def test_half_precision_tables(optimizer: EmbOptimType) -> None:
    """Within an fp16 rounding a step: sums are taken in another order."""
    ours, theirs = make_pair(
        MIXED, PoolingMode.SUM, SparseType.FP16, optimizer=optimizer, learning_rate=0.01, eps=1e-2
    )
    rng = random.Random(4)
    for _ in range(STEPS):
        step(ours, theirs, make_batch(rng, 4, weighted=False), rtol=2e-3, atol=4e-3)
    assert_equal(ours, theirs, rtol=2e-3, atol=4e-3)


@pytest.mark.parametrize("mode", [WeightDecayMode.L2, WeightDecayMode.DECOUPLE])
def test_row_wise_adagrad_decays_as_fbgemm_documents(mode: WeightDecayMode) -> None:
    """fbgemm's CPU kernel ignores the decay, so it is no reference here: the formula is."""
    ours, _ = make_pair(
        MIXED, PoolingMode.SUM, optimizer=EmbOptimType.EXACT_ROWWISE_ADAGRAD, learning_rate=0.1,
        eps=0.5, weight_decay=0.2, weight_decay_mode=mode,
    )  # fmt: skip
    weight = ours.split_embedding_weights()[0]
    wanted, total = weight.clone(), torch.zeros(ROWS[0])
    ids, offsets = torch.tensor([3, 5, 3]), torch.tensor([0, 3, 3, 3, 3, 3, 3])
    for _ in range(3):
        ours(ids, offsets, counts=[3, 0, 0, 0, 0, 0])[:, :8].sum().backward()
        for row, times in ((3, 2.0), (5, 1.0)):
            gradient = torch.full((8,), times)
            if mode == WeightDecayMode.L2:
                gradient += 0.2 * wanted[row]
            total[row] += gradient.square().mean()
            kept = 1 - 0.1 * 0.2 if mode == WeightDecayMode.DECOUPLE else 1
            wanted[row] = kept * wanted[row] - 0.1 / (total[row].sqrt() + 0.5) * gradient
    torch.testing.assert_close(weight, wanted, **TOLERANCE)


def adam_tables(**params: Any) -> FusedTables:
    read = FusedParams.read({"optimizer": EmbOptimType.ADAM, "learning_rate": 0.1, **params})
    tables = FusedTables(ROWS, MIXED, FEATURES, PoolingMode.SUM, torch.float32, CPU, read)
    for weight in tables.split_embedding_weights():
        weight.uniform_(-1, 1)
    return tables


def everything(tables: FusedTables) -> Batch:
    """One bag a feature, that holds every row of its table."""
    sizes = [ROWS[table] for table in FEATURES]
    ids = torch.cat([torch.arange(size) for size in sizes])
    return Batch(ids, torch.tensor([0, *accumulate(sizes)]), sizes, None)


@pytest.mark.parametrize("decay", [0.0, 0.1])
def test_adam_is_torchs_where_every_row_is_touched(decay: float) -> None:
    tables = adam_tables(eps=1e-3, beta1=0.8, beta2=0.9, weight_decay=decay)
    plain = [weight.clone().requires_grad_() for weight in tables.split_embedding_weights()]
    reference = torch.optim.AdamW(plain, lr=0.1, eps=1e-3, betas=(0.8, 0.9), weight_decay=decay)
    batch = everything(tables)
    for _ in range(STEPS):
        output = tables(batch.indices, batch.offsets, counts=batch.counts)
        expected = pooled(batch, plain, PoolingMode.SUM)
        torch.testing.assert_close(output, expected, rtol=1e-5, atol=1e-5)
        gradient = torch.randn_like(output)
        reference.zero_grad()
        for result in (output, expected):
            result.backward(gradient)
        reference.step()
    for weight, states, wanted in zip(
        tables.split_embedding_weights(), tables.get_optimizer_state(), plain, strict=True
    ):
        torch.testing.assert_close(weight, wanted.detach(), rtol=1e-5, atol=1e-5)
        for name, state in states.items():
            torch.testing.assert_close(state, reference.state[wanted][name], rtol=1e-5, atol=1e-6)


def test_adam_leaves_other_rows_and_counts_from_where_it_is_set() -> None:
    tables = adam_tables()
    tables.set_optimizer_step(9)
    before = [weight.clone() for weight in tables.split_embedding_weights()]
    ids, offsets = torch.tensor([3, 3]), torch.tensor([0, 2, 2, 2, 2, 2, 2])
    tables(ids, offsets, counts=[2, 0, 0, 0, 0, 0]).sum().backward()
    first, second = 0.1 * 2.0, 0.001 * 4.0  # beta 0.9 and 0.999; the gradient is 2
    change = 0.1 * (first / (1 - 0.9**10)) / ((second / (1 - 0.999**10)) ** 0.5 + 1e-8)
    before[0][3] -= change
    for weight, wanted in zip(tables.split_embedding_weights(), before, strict=True):
        torch.testing.assert_close(weight, wanted, **TOLERANCE)


def test_learning_rates_and_hyper_parameters_may_change() -> None:
    ours, theirs = make_pair(
        MIXED, PoolingMode.SUM, optimizer=EmbOptimType.EXACT_ROWWISE_ADAGRAD, eps=1e-3
    )
    rng = random.Random(5)
    for turn in range(6):
        for tables in (ours, theirs):
            tables.set_learning_rate(0.1 / (turn + 1))
            if turn == 2:
                tables.update_hyper_parameters({"lr": 0.3, "eps": 0.01})
        assert ours.get_learning_rate() == pytest.approx(theirs.get_learning_rate())
        step(ours, theirs, make_batch(rng, 3, weighted=False), **TOLERANCE)
    assert_equal(ours, theirs, **TOLERANCE)


def test_weights_of_samples_get_their_gradient() -> None:
    ours, theirs = make_pair(MIXED, PoolingMode.SUM, learning_rate=0.5)
    batch = make_batch(random.Random(6), 7, weighted=True)
    assert batch.weights is not None
    gradients = []
    for tables in (ours, theirs):
        weights = batch.weights.clone().requires_grad_()
        kwargs = {"counts": batch.counts} if tables is ours else {}
        output = tables(batch.indices, batch.offsets, weights, **kwargs)
        output.backward(torch.arange(output.numel()).view_as(output) / 100.0)
        assert weights.grad is not None
        gradients.append(weights.grad)
    torch.testing.assert_close(*gradients, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("dims", [MIXED, EQUAL], ids=["mixed", "equal"])
@pytest.mark.parametrize("ranks", [1, 2, 3])
def test_batch_sizes_by_feature_and_rank(dims: list[int], ranks: int) -> None:
    ours, theirs = make_pair(dims, PoolingMode.SUM, learning_rate=0.5)
    rng = random.Random(7)
    for _ in range(5):
        sizes = [[rng.randrange(4) for _ in range(ranks)] for _ in FEATURES]
        ids: list[int] = []
        offsets, counts = [0], []
        for table, by_rank in zip(FEATURES, sizes, strict=True):
            before = len(ids)
            for _ in range(sum(by_rank)):
                ids += [rng.randrange(ROWS[table]) for _ in range(rng.randrange(4))]
                offsets.append(len(ids))
            counts.append(len(ids) - before)
        args = torch.tensor(ids, dtype=torch.int64), torch.tensor(offsets)
        kwargs = {"batch_size_per_feature_per_rank": sizes}
        outputs = [ours(*args, counts=counts, **kwargs), theirs(*args, **kwargs)]
        torch.testing.assert_close(*outputs, **TOLERANCE)
        gradient = torch.randn_like(outputs[0])
        for output in outputs:
            output.backward(gradient)
    assert_equal(ours, theirs, **TOLERANCE)


@pytest.mark.parametrize("pooling", [PoolingMode.SUM, PoolingMode.MEAN, PoolingMode.NONE])
@pytest.mark.parametrize("batch", [0, 3])
def test_batches_without_an_id(pooling: PoolingMode, batch: int) -> None:
    ours, _ = make_pair(EQUAL, pooling)
    before = [weight.clone() for weight in ours.split_embedding_weights()]
    output = ours(torch.empty(0, dtype=torch.int64), torch.zeros(6 * batch + 1, dtype=torch.int64))
    assert output.shape == ((0, 8) if pooling == PoolingMode.NONE else (batch, 48))
    assert not output.any()
    output.sum().backward()
    for old, new in zip(before, ours.split_embedding_weights(), strict=True):
        assert old.equal(new)


def test_evaluation_counts_no_step_and_changes_nothing() -> None:
    tables = adam_tables()
    batch = everything(tables)
    tables(batch.indices, batch.offsets, counts=batch.counts).sum().backward()
    before = [weight.clone() for weight in tables.split_embedding_weights()]
    with torch.no_grad():
        assert not tables(batch.indices, batch.offsets, counts=batch.counts).requires_grad
    assert tables.step == 1
    for weight, old in zip(tables.split_embedding_weights(), before, strict=True):
        assert weight.equal(old)


def test_dense_tables_give_the_gradient_of_torch() -> None:
    for pooling in (PoolingMode.SUM, PoolingMode.MEAN):
        tables = DenseTables(ROWS, MIXED, FEATURES, pooling, torch.float32, torch.float32, CPU)
        with torch.no_grad():
            tables.weights.uniform_(-1, 1)
        plain = [weight.clone().requires_grad_() for weight in tables.split_embedding_weights()]
        batch = make_batch(random.Random(9), 6, weighted=False)
        output = tables(batch.indices, batch.offsets, counts=batch.counts)
        expected = pooled(batch, plain, pooling)
        torch.testing.assert_close(output, expected, **TOLERANCE)
        gradient = torch.randn_like(output)
        output.backward(gradient)
        expected.backward(gradient)
        assert tables.weights.grad is not None
        for run in tables.runs:
            begin = tables.weights_physical_offsets[run.tables.start]
            of_run = tables.weights.grad[begin : begin + run.weight.numel()].view(run.weight.shape)
            for view, weight in zip(
                tables.by_table(run, of_run), plain[run.tables.start :], strict=False
            ):
                torch.testing.assert_close(view, weight.grad, **TOLERANCE)
            assert not of_run[run.spare].any()


@pytest.mark.parametrize("count", [1, 2, 50, 1000])
def test_touched_rows_are_the_distinct_ones(count: int) -> None:
    ids = torch.randint(0, 100, (count,))
    touched = touched_rows(ids, 100)
    distinct, sizes = torch.unique(ids, return_counts=True)
    found = distinct.numel()
    assert touched.rows[:found].equal(distinct)
    assert (touched.rows[found:] == 100).all()
    assert touched.starts.diff()[:found].equal(sizes)
    assert (touched.starts[found:] == count).all()
    assert ids[touched.order].equal(ids.sort().values)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_stochastic_rounding_is_right_on_average(dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    low = torch.tensor(1.0, dtype=dtype)
    high = torch.nextafter(low, torch.tensor(2.0, dtype=dtype))
    values = torch.full((100_000,), float(low) + 0.3 * (float(high) - float(low)))
    result = rounded(values, dtype, stochastic=True)
    assert set(result.unique().tolist()) == {float(low), float(high)}
    assert (result == high).float().mean().item() == pytest.approx(0.3, abs=0.01)
    assert rounded(values, dtype, stochastic=False).eq(low).all()
    exact = torch.randn(1000).to(dtype)
    assert rounded(exact.float(), dtype, stochastic=True).equal(exact)


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"optimizer": EmbOptimType.LAMB}, "this lookup has"),
        ({"lr": 0.1}, "fused_params has \\['lr'\\], this lookup knows"),
        ({"max_norm": 1.0}, "max_norm"),
        ({"weight_decay_mode": WeightDecayMode.COUNTER}, "weight_decay_mode"),
    ],
)
def test_what_it_has_not_is_refused(params: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        FusedParams.read(params)


def test_a_decay_without_effect_is_announced() -> None:
    with pytest.warns(UserWarning, match="weight_decay"):
        FusedParams.read({"optimizer": EmbOptimType.EXACT_SGD, "weight_decay": 0.1})
