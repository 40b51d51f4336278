"""default < YAML < command line; every error names the argument, its value and the limit."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
import yaml

from torchrec_ascend.dlrm.config import Config, ConfigError, load

SHIPPED = sorted((Path(__file__).parents[2] / "configs").glob("movielens*.yaml"))


def write(folder: Path, text: str) -> list[str]:
    path = folder / "run.yaml"
    path.write_text(text)
    return ["--config", str(path)]


def test_default_yaml_command_line(tmp_path: Path) -> None:
    yaml_only = write(tmp_path, "epochs: 3\nbatch_size: 7\nprint_lr: true\n")
    assert load([]) == Config()
    assert load(yaml_only) == dataclasses.replace(Config(), epochs=3, batch_size=7, print_lr=True)
    config = load([*yaml_only, "--epochs", "5", "--no-print_lr"])
    assert (config.epochs, config.batch_size, config.print_lr) == (5, 7, False)


@pytest.mark.parametrize("field", dataclasses.fields(Config), ids=lambda f: f.name)
def test_every_field_is_a_flag(
    field: dataclasses.Field[object], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as stopped:
        load(["--help"])
    assert stopped.value.code == 0
    assert f"--{field.name} " in capsys.readouterr().out.replace(",", " ")


def test_lists_and_mappings_from_both_sources(tmp_path: Path) -> None:
    text = "over_arch_layer_sizes: [8, 4, 1]\nsharding: {item: row_wise}\n"
    assert load(write(tmp_path, text)) == load(
        ["--over_arch_layer_sizes", "8,4,1", "--sharding", "item=row_wise"]
    )
    rates = load(["--table_learning_rates", "user=1e-3,item=2"]).table_learning_rates
    assert rates == {"user": 0.001, "item": 2.0}


def test_adagrad_is_an_alias() -> None:
    config = load(["--adagrad"])
    assert (config.table_optimizer, config.layers_optimizer) == ("adagrad", "adagrad")


def test_the_saved_configuration_reads_back(tmp_path: Path) -> None:
    config = load(["--sharding", "item=row_wise", "--learning_rate", "1e-5", "--run_name", "x"])
    assert load(write(tmp_path, config.to_yaml())) == config


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.name)
def test_shipped_configurations_load(path: Path) -> None:
    config = load(["--config", str(path)])
    assert config != Config()
    assert set(yaml.safe_load(path.read_text())) <= {f.name for f in dataclasses.fields(Config)}


def test_movielens_is_shipped() -> None:
    assert [path.name for path in SHIPPED] == ["movielens.yaml"]


def test_an_unknown_key_names_key_and_file(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"'epoch' in .*run\.yaml"):
        load(write(tmp_path, "epoch: 3\n"))


@pytest.mark.parametrize(
    "text",
    ["epochs: three", "epochs: 2.5", "epochs: true", "epochs:", "print_lr: 1", "sharding: 3"],
)
def test_a_wrong_type_in_yaml_names_key_and_file(tmp_path: Path, text: str) -> None:
    with pytest.raises(ConfigError, match=rf"{text.split(':')[0]} in .*run\.yaml is .*expected"):
        load(write(tmp_path, text + "\n"))


@pytest.mark.parametrize("text", ["- a\n- b\n", "a: [", "just text"])
def test_a_file_that_is_no_mapping(tmp_path: Path, text: str) -> None:
    with pytest.raises(ConfigError, match=r"run\.yaml"):
        load(write(tmp_path, text))
    with pytest.raises(ConfigError, match="nowhere"):
        load(["--config", str(tmp_path / "nowhere")])


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ("--epochs 0", "epochs is 0; expected at least 1"),
        ("--epochs x", "--epochs is 'x'; expected a whole number"),
        ("--batch_size -4", "batch_size is -4; expected at least 1"),
        ("--limit_val_batches 0", "limit_val_batches is 0; expected at least 1"),
        ("--learning_rate 0", "learning_rate is 0.0; expected a positive"),
        ("--learning_rate nan", "learning_rate is nan; expected a positive"),
        ("--embedding_dim 6", "embedding_dim is 6; expected a multiple of 4"),
        ("--embedding_dim 8", "dense_arch_layer_sizes is .* embedding_dim, 8"),
        ("--over_arch_layer_sizes 1", "over_arch_layer_sizes is .* two sizes or more"),
        ("--over_arch_layer_sizes 8,2", "over_arch_layer_sizes is .* the last of them 1"),
        ("--optimizer adam", "optimizer is 'adam'; .* no fused adam"),
        ("--optimizer rowwise_adagrad --adagrad", "next to adagrad"),
        ("--backend nccl", "backend is 'nccl'; expected gloo on device cpu"),
        ("--sharding item=diagonal", "sharding is .*diagonal.* table_wise"),
        ("--sharding item", "--sharding is 'item'; expected a mapping"),
        ("--target_auroc 72", "target_auroc is 72.0; expected a number from 0 to 1"),
    ],
)
def test_a_bad_value_names_argument_value_and_limit(flags: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        load(flags.split())


@pytest.mark.parametrize("flags", ["--epoch 3", "--unknown 1", "--interaction_type cubic"])
def test_unknown_flags_and_choices_end_the_process(flags: str) -> None:
    with pytest.raises(SystemExit) as stopped:
        load(flags.split())
    assert stopped.value.code == 2
