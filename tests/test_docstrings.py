"""Every public function says what it is and what each of its arguments is."""

import ast
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src" / "taskspace"
# The help of a command's options is beside the options, for `--help`.
MODULES = [p for p in sorted(SOURCE.rglob("*.py")) if "cli" not in p.parts]


def public_functions(tree: ast.Module):
    """Functions and methods that users may call, with the class they are in."""
    for node in tree.body:
        if isinstance(node, ast.FunctionDef) and not node.name.startswith("_"):
            yield node, None
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
            for item in node.body:
                if isinstance(item, ast.FunctionDef) and not item.name.startswith("_"):
                    yield item, node


def missing(path: Path) -> list[str]:
    """Arguments that no docstring mentions."""
    found = []
    for function, owner in public_functions(ast.parse(path.read_text())):
        decorators = [ast.unparse(d) for d in function.decorator_list]
        if any("njit" in d or "overload" in d or "setter" in d for d in decorators):
            continue
        text = ast.get_docstring(function) or ""
        name = f"{owner.name}.{function.name}" if owner else function.name
        if not text:
            found.append(f"{path.name}: {name} has no docstring")
            continue
        given = function.args
        names = [a.arg for a in (*given.posonlyargs, *given.args, *given.kwonlyargs)]
        if owner and names and names[0] in ("self", "cls"):
            names = names[1:]
        # A method that fulfils an interface is documented there.
        inherits = owner is not None and owner.bases and "Args:" not in text
        if inherits or not names:
            continue
        found += [
            f"{path.name}: {name}({argument})"
            for argument in names
            if f"{argument}:" not in text
        ]
    return found


@pytest.mark.parametrize("path", MODULES, ids=lambda p: str(p.relative_to(SOURCE)))
def test_arguments_are_documented(path):
    assert not missing(path)


def test_the_check_can_fail(tmp_path):
    file = tmp_path / "bad.py"
    doc = '"""Half.\n\n    Args:\n        x: one.\n    """'
    file.write_text(f"def f(x, y):\n    {doc}\n")
    assert missing(file) == ["bad.py: f(y)"]
