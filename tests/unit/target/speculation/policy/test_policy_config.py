"""PolicyConfig: it has every constant of the policy, with its origin."""

import ast
from dataclasses import fields
from pathlib import Path

import pytest

from services.target.speculation.policy import policy_config
from services.target.speculation.policy.policy_config import PolicyConfig

POLICY = Path(policy_config.__file__).parent
WAITS = [POLICY.parent / "link" / name for name in ("draft_latency.py", "draft_prefill_rate.py", "wait_limit.py")]
MODULES = [*sorted(POLICY.glob("*.py")), *WAITS]
ORIGINS = ("Chosen", "Derived", "Measured", "Promised")


def explanations() -> dict[str, str]:
    """The text under each field."""
    found = {}
    for each in ast.parse(Path(policy_config.__file__).read_text()).body:
        if isinstance(each, ast.ClassDef):
            for field, after in zip(each.body, [*each.body[1:], None], strict=True):
                if isinstance(field, ast.AnnAssign):
                    is_text = isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant)
                    found[ast.unparse(field.target)] = str(after.value.value) if is_text else ""
    return found


@pytest.mark.parametrize(("name", "text"), explanations().items())
def test_each_constant_states_its_origin(name: str, text: str) -> None:
    assert any(origin in text for origin in ORIGINS), name


@pytest.mark.parametrize("path", MODULES, ids=lambda path: path.stem)
def test_no_other_module_of_the_policy_has_numbers_of_its_own(path: Path) -> None:
    tree = ast.parse(path.read_text())
    bodies = [tree.body, *(each.body for each in ast.walk(tree) if isinstance(each, ast.ClassDef))]
    assigned = [each for body in bodies for each in body if isinstance(each, ast.Assign)]
    assert not [
        ast.unparse(each)
        for each in assigned
        if ast.unparse(each.targets[0]).isupper() and any(map(is_number, ast.walk(each.value)))
    ]


def is_number(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, int | float)


def test_the_constants_are_few_and_frozen() -> None:
    names = [field.name for field in fields(PolicyConfig)]
    assert len(names) <= 25
    with pytest.raises(AttributeError):
        setattr(PolicyConfig(), names[0], None)
