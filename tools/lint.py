"""Rules of the package that no linter knows; each breach is one line, and any breach fails.

No module over 400 lines, none without a docstring, and no upper-case constant defined in two modules.
"""

import ast
import re
import sys
from collections import defaultdict
from pathlib import Path

MAX_LINES = 400
PACKAGE = Path(__file__).parent.parent / "src" / "ideaw"


def constants(tree: ast.Module) -> set[str]:
    """The upper-case names that a module assigns at its top level."""
    targets: list[ast.expr] = []
    for node in tree.body:
        targets += node.targets if isinstance(node, ast.Assign) else []
        targets += [node.target] if isinstance(node, ast.AnnAssign) else []
    names = (name for target in targets for name in ast.walk(target) if isinstance(name, ast.Name))
    return {name.id.lstrip("_") for name in names if re.fullmatch(r"_*[A-Z][A-Z0-9_]+", name.id)}


def breaches(package: Path) -> list[str]:
    """What breaks the rules in a package, one line each."""
    lines: list[str] = []
    modules_of: defaultdict[str, list[str]] = defaultdict(list)
    for path in sorted(package.rglob("*.py")):
        name, text = path.relative_to(package.parent).as_posix(), path.read_text(encoding="utf-8")
        tree, length = ast.parse(text), text.count("\n")
        if length > MAX_LINES:
            lines.append(f"{name}: {length} lines; at most {MAX_LINES}")
        if not ast.get_docstring(tree):
            lines.append(f"{name}: no module docstring")
        for constant in constants(tree):
            modules_of[constant].append(name)
    shared = {constant: modules for constant, modules in modules_of.items() if len(modules) > 1}
    return lines + [f"{constant} is defined in {', '.join(modules)}" for constant, modules in sorted(shared.items())]


if __name__ == "__main__":
    broken = breaches(PACKAGE)
    print("\n".join(broken) or "Rules of the package kept.")
    sys.exit(bool(broken))
