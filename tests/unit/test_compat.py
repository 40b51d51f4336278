"""A TorchRec that was not tested is announced once."""

from __future__ import annotations

import warnings
from importlib.metadata import PackageNotFoundError

import pytest

from torchrec_ascend import compat


@pytest.fixture
def fresh(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    monkeypatch.setattr(compat, "_warned", False)
    return monkeypatch


@pytest.mark.parametrize("found", ["1.8.0", "1.9.2", "1.8.0+cpu"])
def test_silent_for_what_is_tested(fresh: pytest.MonkeyPatch, found: str) -> None:
    fresh.setattr(compat, "version", lambda _: found)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        compat.warn_if_untested()


@pytest.mark.parametrize("found", ["1.7.1", "2.0.0", "1.10.0"])
def test_one_warning_for_another(fresh: pytest.MonkeyPatch, found: str) -> None:
    fresh.setattr(compat, "version", lambda _: found)
    with pytest.warns(UserWarning, match=rf"torchrec {found} is installed; .* 1\.8 and 1\.9"):
        compat.warn_if_untested()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        compat.warn_if_untested()


def test_silent_without_metadata(fresh: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> str:
        raise PackageNotFoundError(name)

    fresh.setattr(compat, "version", missing)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        compat.warn_if_untested()
