"""Default < YAML < command line; every option does something, every mistake is named."""

from __future__ import annotations

import ast
import dataclasses
from pathlib import Path
from typing import Any

import pytest
import yaml

import torchrec_ascend.dlrm
from torchrec_ascend.dlrm.__main__ import main
from torchrec_ascend.dlrm.config import Config, ConfigError, load

MOVIELENS = Path(__file__).parents[2] / "configs" / "movielens.yaml"
OPTIONS = [field.name for field in dataclasses.fields(Config)]


def write(path: Path, **values: Any) -> str:
    path.write_text(yaml.safe_dump(values))
    return str(path)


def test_yaml_numbers_with_an_exponent_are_numbers(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text("learning_rate: 1e-3\neps: 1\n")  # text and int to YAML
    config = load(["--config", str(tmp_path / "a.yaml")])
    assert config.learning_rate == 1e-3
    assert config.eps == 1.0 and isinstance(config.eps, float)


def test_to_yaml_reads_back(tmp_path: Path) -> None:
    assert MOVIELENS.is_file()
    for argv in (
        [],
        ["--config", str(MOVIELENS)],
        ["--sharding", "a=row_wise", "--table_learning_rates", "a=1e-5", "--adagrad"],
    ):
        config = load(argv)
        (tmp_path / "a.yaml").write_text(config.to_yaml())
        assert load(["--config", str(tmp_path / "a.yaml")]) == config
        assert list(yaml.safe_load(config.to_yaml())) == OPTIONS


def test_every_option_is_used() -> None:
    """Some code reads it, other than to check it or to write it down."""
    used: set[str] = set()
    for path in Path(torchrec_ascend.dlrm.__file__).parent.glob("*.py"):
        tree = ast.parse(path.read_text())
        for node in ast.walk(tree):
            if not isinstance(node, ast.FunctionDef) or node.name == "_check":
                continue
            for inner in ast.walk(node):
                if isinstance(inner, ast.Attribute) and isinstance(inner.value, ast.Name):
                    owner = inner.value.id
                    if owner == "config" or (owner == "self" and path.name == "config.py"):
                        used.add(inner.attr)
    assert sorted(set(OPTIONS) - used) == []
    properties = {name for name, value in vars(Config).items() if isinstance(value, property)}
    assert sorted(properties - used) == []


BAD: list[tuple[str, Any, str]] = [  # option, value, what the message says beside these
    ("batch_size", 0, "at least 1"),
    ("epochs", -1, "at least 1"),
    ("history_length", 0, "at least 1"),
    ("limit_train_batches", 0, "at least 1"),
    ("limit_val_batches", 0, "at least 1"),
    ("limit_test_batches", -2, "at least 1"),
    ("test_batch_size", 0, "at least 1"),
    ("validation_freq_within_epoch", 0, "at least 1"),
    ("dcn_num_layers", 0, "at least 1"),
    ("dcn_low_rank_dim", 0, "at least 1"),
    ("seed", -1, "at least 0"),
    ("lr_warmup_steps", -1, "at least 0"),
    ("lr_decay_start", -1, "at least 0"),
    ("lr_decay_steps", -1, "at least 0"),
    ("learning_rate", 0.0, "positive"),
    ("learning_rate", float("nan"), "positive"),
    ("dense_learning_rate", float("inf"), "positive"),
    ("eps", 0.0, "positive"),
    ("embedding_init", -0.5, "positive"),
    ("embedding_dim", 66, "multiple of 4"),
    ("dense_arch_layer_sizes", (64, 32), "64"),
    ("dense_arch_layer_sizes", (), "one or more"),
    ("over_arch_layer_sizes", (64, 2), "the last of them 1"),
    ("over_arch_layer_sizes", (1,), "two sizes or more"),
    ("over_arch_layer_sizes", (0, 1), "positive"),
    ("table_learning_rates", {"user": -1.0}, "positive"),
    ("sharding", {"user": "data_parallel"}, "row_wise"),
    ("optimizer", "adam", "on cpu"),
    ("optimizer", "lamb", "rowwise_adagrad"),
    ("dense_optimizer", "rowwise_adagrad", "adagrad"),
    ("interaction_type", "cross", "original, dcn, projection"),
    ("device", "tpu", "cpu"),
    ("backend", "nccl", "gloo"),
    ("baseline", "svm", "logistic_regression"),
    ("target_auroc", 72.0, "from 0 to 1"),
    ("target_auroc", float("nan"), "from 0 to 1"),
]


@pytest.mark.parametrize(("name", "value", "limit"), BAD)
def test_a_bad_value_is_named_with_its_limit(name: str, value: Any, limit: str) -> None:
    with pytest.raises(ConfigError) as error:
        Config(**{name: value})
    message = str(error.value)
    assert message.startswith(f"{name} is {value!r}; expected") and limit in message, message


def test_options_that_exclude_each_other() -> None:
    with pytest.raises(ConfigError, match=r"optimizer is 'rowwise_adagrad'.*adagrad"):
        Config(adagrad=True, optimizer="rowwise_adagrad")
    with pytest.raises(ConfigError, match=r"interaction_branch1_layer_sizes is \(100,\).*64"):
        Config(interaction_type="projection", interaction_branch1_layer_sizes=(100,))


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("epochs", "two", "a whole number"),
        ("epochs", 1.5, "a whole number"),
        ("epochs", True, "a whole number"),
        ("epochs", None, "a whole number"),
        ("epochs", [1], "a whole number"),
        ("learning_rate", "fast", "a number"),
        ("print_lr", "yes please", "true or false"),
        ("print_lr", 1, "true or false"),
        ("run_name", 7, "text"),
        ("dense_arch_layer_sizes", 64, "whole numbers"),
        ("dense_arch_layer_sizes", [64, "x"], "whole numbers"),
        ("sharding", ["user"], "a mapping"),
        ("sharding", "user", "a mapping"),
        ("table_learning_rates", {"user": "x"}, "a mapping"),
    ],
)
def test_a_value_of_the_wrong_type_is_named_with_its_file(
    tmp_path: Path, name: str, value: Any, expected: str
) -> None:
    path = write(tmp_path / "a.yaml", **{name: value})
    with pytest.raises(ConfigError) as error:
        load(["--config", path])
    assert str(error.value).startswith(f"{name} in {path} is {value!r}; expected {expected}")


def test_main_says_what_is_wrong_in_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--batch_size", "0"]) == 2
    assert capsys.readouterr().err == "error: batch_size is 0; expected at least 1\n"
