"""The logistic regression is scikit-learn's, on all features, chosen on validation."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score

from torchrec_ascend.dlrm import baseline
from torchrec_ascend.dlrm.batch import Dataset, Jagged, Table
from torchrec_ascend.dlrm.features import split_by_time

IDS, BAGS = 6, 4


@pytest.fixture(scope="module")
def toy() -> tuple[Dataset, np.ndarray]:
    """A data set whose label is mostly the parity of an id, and its features as one matrix."""
    random = np.random.default_rng(0)
    count = 600
    ids = random.integers(0, IDS, count)
    lists = [random.integers(0, BAGS, random.integers(0, 4)).tolist() for _ in range(count)]
    dense = random.normal(5, 3, (count, 2)).astype(np.float32)
    labels = ((ids + (random.random(count) < 0.1)) % 2).astype(np.float32)
    dataset = Dataset(
        dense=dense,
        dense_names=("a", "b"),
        sparse={"id": Jagged.of_ids(ids), "bag": Jagged.of_lists(lists)},
        labels=labels,
        tables=(Table("bags", BAGS, ("bag",)), Table("ids", IDS, ("id",))),
        splits=split_by_time(count),
    )
    matrix = np.zeros((count, IDS + BAGS + 2))
    for n in range(count):
        matrix[n, ids[n]] = 1
        for i in lists[n]:
            matrix[n, IDS + i] += 1 / len(lists[n])
    train = dense[dataset.splits["train"]].astype(np.float64)
    matrix[:, IDS + BAGS :] = (dense - train.mean(axis=0)) / train.std(axis=0)
    return dataset, matrix


def test_design_matrix_has_a_column_an_id_and_a_dense_feature(
    toy: tuple[Dataset, np.ndarray],
) -> None:
    dataset, matrix = toy
    np.testing.assert_allclose(baseline.design_matrix(dataset).toarray(), matrix, atol=1e-9)


def test_features_of_one_table_have_columns_of_their_own() -> None:
    one, two = Jagged.of_ids(np.array([0, 1])), Jagged.of_ids(np.array([1, 1]))
    dataset = Dataset(
        dense=np.zeros((2, 1), np.float32),
        dense_names=("a",),
        sparse={"one": one, "two": two},
        labels=np.array([0, 1], np.float32),
        tables=(Table("both", 2, ("one", "two")),),
        splits={"train": np.arange(2), "val": np.arange(0), "test": np.arange(0)},
    )
    assert baseline.design_matrix(dataset).toarray().tolist() == [[1, 0, 0, 1, 0], [0, 1, 0, 1, 0]]


def test_fit_is_the_regression_that_is_best_on_validation(toy: tuple[Dataset, np.ndarray]) -> None:
    dataset, matrix = toy
    train, val, test = (dataset.splits[name] for name in ("train", "val", "test"))
    scores = {}
    for C in baseline.INVERSE_PENALTIES:
        model = LogisticRegression(C=C, max_iter=5000).fit(matrix[train], dataset.labels[train])
        scores[C] = [
            roc_auc_score(dataset.labels[rows], model.decision_function(matrix[rows]))
            for rows in (val, test)
        ]
    fitted = baseline.fit(dataset)
    best = max(scores, key=lambda C: scores[C][0])
    assert best == fitted.C
    assert [fitted.auroc_val, fitted.auroc_test] == pytest.approx(scores[best], abs=1e-4)
    assert fitted.auroc_test > 0.85


def test_no_convergence_raises(
    toy: tuple[Dataset, np.ndarray], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(baseline, "MAX_ITERATIONS", 1)
    with pytest.raises(RuntimeError, match=r"C=0\.003: no convergence in 1"):
        baseline.fit(toy[0])
