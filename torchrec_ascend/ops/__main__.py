"""`python -m torchrec_ascend.ops`: which backend serves which operator, and why."""

from torchrec_ascend.ops.backends import table

if __name__ == "__main__":
    print(table())
