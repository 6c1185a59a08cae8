"""PolicyConfig: every constant of the policy is there, and says where it comes from."""

import ast
from dataclasses import fields, is_dataclass, replace
from pathlib import Path

import pytest

from services.target.speculation.policy import policy_config
from services.target.speculation.policy.policy_config import PolicyConfig

POLICY = Path(policy_config.__file__).parent
WAITS = [POLICY.parent / "link" / name for name in ("draft_latency.py", "draft_prefill_rate.py", "wait_limit.py")]
MODULES = [*sorted(POLICY.glob("*.py")), *WAITS]
ORIGINS = ("Chosen", "Derived", "Measured", "Promised")


def explanations() -> dict[str, str]:
    """The text under each field of the file, but for those that are configurations themselves."""
    found = {}
    for each in ast.parse(Path(policy_config.__file__).read_text()).body:
        if isinstance(each, ast.ClassDef) and each.name not in {"PolicyConfig", "SpeedupThreshold"}:
            for field, after in zip(each.body, [*each.body[1:], None], strict=True):
                if isinstance(field, ast.AnnAssign):
                    is_text = isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant)
                    found[f"{each.name}.{ast.unparse(field.target)}"] = str(after.value.value) if is_text else ""
    return found


@pytest.mark.parametrize(("name", "text"), explanations().items())
def test_a_constant_says_where_it_comes_from(name: str, text: str) -> None:
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


def test_no_part_of_it_can_be_changed() -> None:
    config = PolicyConfig()
    parts = [getattr(config, field.name) for field in fields(config)]
    assert all(is_dataclass(part) for part in parts)
    for part in (config, *parts):
        with pytest.raises(AttributeError):
            setattr(part, fields(part)[0].name, None)
    assert replace(config) == config
