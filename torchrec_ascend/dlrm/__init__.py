"""Train TorchRec's DLRM models: ``torchrun -m torchrec_ascend.dlrm --config FILE``.

`config` (default < YAML < command line) describes a run, `movielens` and `features` make a
`batch.Dataset`, `model` shards a DLRM over the ranks, `trainer` trains and evaluates it,
`baseline` is what it has to beat and `results` writes down what happened.
"""
