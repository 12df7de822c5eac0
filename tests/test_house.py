"""The house's own rules: imports go one way, the public names are these, documents name files that exist."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

import unlit

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "unlit"

ORDER = [
    "color", "holding", "processes", "image_io", "video_io", "masks", "data", "worlds", "prepare", "pairwise", "model",
    "losses", "sequence", "baselines", "quadratic", "config", "recipes", "train", "video_writing", "predict",
    "evaluate", "commands", "cli", "__main__",
]  # fmt: skip
"""A module imports from itself and from those before it. `__init__` stands outside: it imports nothing until asked."""

PUBLIC = {
    "Decomposition",
    "EnergySettings",
    "PairwiseSettings",
    "PermutohedralLattice",
    "Predictor",
    "Sequence",
    "UNet",
    "all_pairs_sq_distance",
    "build_pairwise",
    "decompose",
    "decompose_sequence",
    "energy",
    "load_sequence",
    "read_image",
    "save_sequence",
    "write_image",
}

MODULES = sorted(path for path in SOURCE.rglob("*.py") if path != SOURCE / "__init__.py")


def imported(tree: ast.AST) -> set[str]:
    """The first name under `unlit` of every import, at whatever depth of the file."""
    names = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports are absolute"
            names.add(node.module or "")
        elif isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
    return {name.split(".")[1] for name in names if name.startswith("unlit.")}


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_imports_go_one_way(path: Path) -> None:
    own = path.relative_to(SOURCE).parts[0].removesuffix(".py")
    assert own in ORDER, f"give {own} a place in ORDER"
    for name in imported(ast.parse(path.read_text())):
        assert ORDER.index(name) <= ORDER.index(own), f"{own} must not import {name}"


def test_the_public_names_are_these_and_all_can_be_had() -> None:
    assert set(unlit.__all__) == PUBLIC
    for name in unlit.__all__:
        assert getattr(unlit, name).__name__ == name
    assert set(unlit.__all__) <= set(dir(unlit))
    second_word = "albedo"
    with pytest.raises(AttributeError, match=second_word):
        getattr(unlit, second_word)


@pytest.mark.parametrize(
    "statement", ["import unlit", "import unlit.cli", "import unlit.image_io", "import unlit.recipes"]
)
def test_torch_is_not_imported_for_nothing(statement: str) -> None:
    code = f"import sys; {statement}; assert 'torch' not in sys.modules and 'scipy' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


DOCUMENTS = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/*.md")])


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_documents_name_files_that_exist(document: Path) -> None:
    for name in re.findall(r"`((?:src|tests|docs|benchmarks|examples)/[\w./-]*)`", document.read_text()):
        assert (ROOT / name).exists(), f"{document.name} names {name}, which does not exist"


def test_no_word_for_reflectance_but_reflectance() -> None:
    for path in [*MODULES, *ROOT.glob("examples/*.py")]:
        assert "albedo" not in path.read_text().lower(), f"{path} says albedo"
