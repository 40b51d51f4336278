"""Logistic regression on the very features and rows of the DLRM: what it has to beat."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler

from torchrec_ascend.dlrm.batch import Dataset
from torchrec_ascend.dlrm.metrics import auroc

INVERSE_PENALTIES = (0.003, 0.01, 0.03, 0.1, 0.3, 1.0)
MAX_ITERATIONS = 2000


@dataclass(frozen=True)
class Baseline:
    """The regression that scored best on validation. C: its inverse L2 penalty."""

    auroc_val: float
    auroc_test: float
    C: float
    iterations: int


def design_matrix(dataset: Dataset) -> sp.csr_matrix:
    """All features of all rows, float64 [N, columns].

    A sparse feature is one column an id, and a bag is the mean of its ids (a bag as a plain
    multi-hot row scores lower on validation). Features that share a table keep columns of their
    own. Dense features are standardised with the training rows.
    """
    size = {name: table.num_embeddings for table in dataset.tables for name in table.features}
    blocks = []
    for name, feature in dataset.sparse.items():
        lengths = np.diff(feature.offsets)
        weights = np.repeat(1.0 / np.maximum(lengths, 1), lengths)
        blocks.append(
            sp.csr_matrix(
                (weights, feature.values, feature.offsets), shape=(len(lengths), size[name])
            )
        )
    dense = dataset.dense.astype(np.float64)
    scaler = StandardScaler().fit(dense[dataset.splits["train"]])
    return sp.hstack([*blocks, sp.csr_matrix(scaler.transform(dense))], format="csr")


def fit(dataset: Dataset) -> Baseline:
    """Fits one regression for each of INVERSE_PENALTIES, to convergence; the test rows are scored
    once, with the one that is best on validation.

    Raises RuntimeError if it needs more than MAX_ITERATIONS.
    """
    features, labels = design_matrix(dataset), dataset.labels
    train, val, test = (dataset.splits[name] for name in ("train", "val", "test"))
    best: tuple[float, LogisticRegression] | None = None
    for C in INVERSE_PENALTIES:
        model = LogisticRegression(C=C, max_iter=MAX_ITERATIONS)
        model.fit(features[train], labels[train])
        if model.n_iter_[0] >= MAX_ITERATIONS:
            raise RuntimeError(f"logistic regression, C={C}: no convergence in {MAX_ITERATIONS}")
        score = auroc(labels[val], model.decision_function(features[val]))
        if best is None or score > best[0]:
            best = score, model
    assert best is not None
    score, model = best
    return Baseline(
        auroc_val=score,
        auroc_test=auroc(labels[test], model.decision_function(features[test])),
        C=model.C,
        iterations=int(model.n_iter_[0]),
    )
