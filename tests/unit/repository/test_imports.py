"""The shape of the source: who may import whom, and how long a module or a function may be."""

import ast
import functools
import statistics
import subprocess
from collections import Counter
from collections.abc import Collection, Mapping
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

from scripts.picture.imported import imported

ROOT = Path(__file__).parents[3]
GENERATED = ROOT / "clients/python/outrider/v1"
SOURCES = [
    path.relative_to(ROOT)
    for folder in ("services", "clients", "benchmarks", "models", "tests")
    for path in sorted((ROOT / folder).rglob("*.py"))
    if not path.is_relative_to(GENERATED) and "node_modules" not in path.parts
]
MOST_LINES_OF_A_MODULE = 400
MOST_LINES_OF_A_FUNCTION = 50
MOST_LINES_OF_A_TEST = 50
MOST_FILES_OF_A_FOLDER = 24

# Packages that may use the messages on the wire, apart from the client, which is made of them.
_LINK = "services/target/speculation/link/"
_DRAFT = "services/draft/"
MESSAGE_USERS = (
    "services/target/api/",
    "services/target/contracts/",
    "services/target/openengine/",
    "services/target/vllm_contract/",
    "services/service/admin/",
    "services/cli/admin.py",
    "services/cli/top/command.py",
    "services/gateway/draft_control.py",
    "services/target/server.py",
    f"{_LINK}draft_client.py",
    f"{_LINK}draft_reader.py",
    "services/draft_protocol/",
    f"{_DRAFT}draft_admin.py",
    f"{_DRAFT}message_check.py",
    f"{_DRAFT}servicer.py",
    f"{_DRAFT}server.py",
    "services/bench/link_probe.py",
)
# Packages that may use gRPC itself: those and the plumbing around them.
_GATEWAY = ("services/gateway/gateway.py", "services/gateway/generation/clients.py")
GRPC_USERS = (
    *(*MESSAGE_USERS, f"{_LINK}draft_address.py", *_GATEWAY),
    *("services/service/", "services/cli/", "services/target/fronts/"),
)


@functools.cache
def parse(path: Path) -> ast.Module:
    return ast.parse((ROOT / path).read_text(), filename=str(path))


@functools.cache
def imports(path: Path) -> set[str]:
    """The full names of all that a module imports."""
    return {*imported(parse(path), path.parts[:-1])}


def module_of(name: str, modules: Collection[str]) -> str | None:
    """The module that an imported name is, or is in."""
    return next((module for module in (name, name.rpartition(".")[0]) if module in modules), None)


def circle(graph: Mapping[str, set[str]]) -> list[str]:
    """A circle of modules, each imported by the one before it; empty if there is none."""
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return error.args[1][::-1]
    return []


def is_in(name: str, *packages: str) -> bool:
    return any(f"{name}.".startswith(f"{package}.") for package in packages)


def importers(*packages: str, within: str) -> set[str]:
    """The modules below a folder that import something of one of the packages."""
    return {
        path.as_posix()
        for path in SOURCES
        if path.as_posix().startswith(within) and any(is_in(name, *packages) for name in imports(path))
    }


def strangers(users: set[str], allowed: tuple[str, ...]) -> set[str]:
    return {user for user in users if not user.startswith(allowed)}


def test_the_sources_are_found():
    names = {path.as_posix() for path in SOURCES}
    assert {
        "services/target/scheduling/scheduler.py",
        "tests/unit/repository/test_imports.py",
        "clients/python/outrider/client.py",
    } <= names


def test_the_engine_knows_nothing_of_the_wire():
    packages = ("grpc", "grpc_health", "grpc_reflection", "grpc_status", "google", "outrider")
    assert importers(*packages, within="services/engine/") == set()


def test_the_engine_knows_nothing_of_the_services_around_it():
    packages = ("services.service", "services.draft_protocol", "services.target", "services.draft")
    packages += ("services.cli", "services.bench")
    assert importers(*packages, within="services/engine/") == set()


def test_target_and_draft_meet_on_the_wire_only():
    assert importers("services.draft", within="services/target/") == set()
    assert importers("services.target", within="services/draft/") == set()


def test_generated_messages_appear_where_the_wire_is():
    users = importers("outrider.v1", within="services/")
    assert "services/target/api/servicer.py" in users
    assert strangers(users, MESSAGE_USERS) == set()


def test_grpc_appears_where_the_wire_is():
    users = importers("grpc", "grpc_health", "grpc_reflection", "grpc_status", "google", within="services/")
    assert "services/target/api/servicer.py" in users
    assert strangers(users, GRPC_USERS) == set()


def test_the_client_needs_nothing_of_ours():
    assert importers("services", "tests", "models", within="clients/") == set()


def test_installed_packages_import_nothing_of_the_checkout():
    assert importers("tests", "models", "benchmarks", "scripts", within="services/") == set()


def test_benchmarks_stand_on_the_services_and_not_on_the_tests():
    assert "benchmarks/figures.py" in importers("services.bench", within="benchmarks/")
    assert importers("tests", within="benchmarks/") == set()


def test_no_modules_import_each_other_in_a_circle():
    """Imports in functions, and those for types only, count as well."""
    assert circle({"a": {"b"}, "b": {"c"}, "c": {"b"}}) in (["b", "c", "b"], ["c", "b", "c"])
    paths = [path for path in SOURCES if path.parts[0] == "services"]
    modules = {".".join(path.with_suffix("").parts).removesuffix(".__init__"): path for path in paths}
    graph = {
        module: {used for name in imports(path) if (used := module_of(name, modules)) not in {None, module}}
        for module, path in modules.items()
    }
    assert "services.engine.hub.download" in graph["services.engine.hub.fetch"]
    assert circle(graph) == []


def test_only_the_native_package_imports_the_compiled_modules():
    package = "services.engine.decoder.native"
    assert importers(f"{package}._native", within="") == {"services/engine/decoder/native/__init__.py"}
    assert importers(f"{package}._native_testing", within="") == {"services/engine/decoder/native/testing.py"}
    assert importers(f"{package}.testing", within="services/") == set()


def test_only_the_configuration_reads_the_environment():
    readers = {
        path.as_posix()
        for path in SOURCES
        if path.parts[0] in {"services", "clients", "benchmarks", "models"}
        for node in ast.walk(parse(path))
        if isinstance(node, ast.Attribute) and node.attr in {"environ", "environb", "getenv"}
    }
    readers |= importers("os.environ", "os.environb", "os.getenv", within="services/")
    assert readers == {"services/engine/config.py"}


def test_a_module_fits_the_head():
    lengths = {path.as_posix(): len((ROOT / path).read_text().splitlines()) for path in SOURCES}
    assert {name: length for name, length in lengths.items() if length >= MOST_LINES_OF_A_MODULE} == {}


def function_lengths(*, of_tests: bool) -> dict[str, int]:
    return {
        f"{path.as_posix()}:{node.lineno} {node.name}": node.end_lineno - node.lineno + 1
        for path in SOURCES
        if (path.parts[0] == "tests") == of_tests
        for node in ast.walk(parse(path))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    }


def test_a_function_fits_the_screen():
    lengths = function_lengths(of_tests=False)
    assert {name: length for name, length in lengths.items() if length > MOST_LINES_OF_A_FUNCTION} == {}
    tests = function_lengths(of_tests=True)
    assert {name: length for name, length in tests.items() if length >= MOST_LINES_OF_A_TEST} == {}


def test_most_functions_are_read_at_a_glance():
    lengths = sorted(function_lengths(of_tests=False).values())
    assert statistics.median(lengths) <= 6
    assert lengths[len(lengths) * 9 // 10] <= 18


def test_a_folder_fits_the_eye():
    files = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()
    counts = Counter(Path(file).parent.as_posix() for file in files)
    assert {folder: count for folder, count in counts.items() if count > MOST_FILES_OF_A_FOLDER} == {}
