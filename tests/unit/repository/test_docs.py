"""The pages for people: names on them exist, their links lead somewhere, and the map is that of the code."""

import ast
import re
import subprocess
from collections.abc import Iterator
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path

import pytest

from scripts.picture.drawing import draw
from scripts.picture.table import with_table

ROOT = Path(__file__).parents[3]
PAGES = [
    page
    for pattern in ("*.md", "docs/**/*.md")
    for page in sorted(ROOT.glob(pattern))
    if page.name not in {"api.md", "http-fields.md", "http-reference.md"}  # which are generated
]
_OF_OTHERS = "docs/use/migration"  # whose names test_documented_names.py checks
MOST_LINES = 120
LONG = {"README.md", "tested.md"}  # the second is a table
_SOURCES = ("services", "benchmarks", "clients", "examples", "models", "scripts", "native", "protos")
# Names that look like ours but are of other projects, or of a model folder.
FOREIGN = {
    *("config.json", "generation_config.json", "tokenizer.json", "tokenizer_config.json", "special_tokens_map.json"),
    *(
        "chat_template.jinja",
        "model_type",
        "stop_grace_period",
        "start_interval",
        "start_period",
        "num_draft_tokens",
        "num_accepted_draft_tokens",
    ),
    *("ggml-cpu/amx/mmq.cpp", "org/name"),
    *("gen_ai.server.request.duration", "gen_ai.server.time_to_first_token", "gen_ai.server.time_per_output_token"),
    "OrcaLoadReport",
    *("vllm.grpc.engine.VllmEngine", "original_text", "truncate_prompt_tokens"),
    *("mm_inputs", "extra_mm_inputs", "media_refs", "kv_transfer_params", "kv_transfer_params_json"),
}

_FENCED = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
_INDENTED = re.compile(r"^ {4}.*$", re.MULTILINE)
_QUOTED = re.compile(r"`([^`]+)`")
_LINK = re.compile(r"\]\(([^)\s]+)\)")
_PATH = re.compile(r"[\w.-]+(?:/[\w.*-]*)+")
_FILE = re.compile(r"\w+\.(?:py|h|cuh|cu|cpp|md|sh|toml|yaml|proto|json|svg|jinja)")
_NAME = re.compile(r"\w+(?:\.\w+)*(?:\(\))?")
_CLASS, _FUNCTION = re.compile(r"[A-Z][A-Z0-9]*[a-z]\w*"), re.compile(r"[a-z]\w*_\w*")
_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)


def prose(page: Path) -> str:
    """A page without its examples."""
    return _INDENTED.sub("", _FENCED.sub("", page.read_text()))


@cache
def files() -> list[str]:
    listed = subprocess.run(["git", "ls-files", "-co", "--exclude-standard"], cwd=ROOT, capture_output=True, check=True)
    return [name for name in listed.stdout.decode().splitlines() if (ROOT / name).exists()]


@cache
def paths() -> set[str]:
    """All files, and the folders that they are in."""
    return {*files(), *(folder.as_posix() for name in files() for folder in Path(name).parents)}


@cache
def names() -> set[str]:
    """What the sources call anything, comments and docstrings aside."""
    found: set[str] = set()
    for name in files():
        path = ROOT / name
        if name.startswith(_SOURCES):
            found.update(path.with_suffix("").parts)
            if path.suffix == ".py":
                found.update(_names_of(ast.parse(path.read_text())))
            elif path.suffix in {".h", ".cpp", ".cu", ".cuh", ".proto", ".cmake"} or path.name == "CMakeLists.txt":
                found.update(re.findall(r"\w+", _COMMENT.sub("", path.read_text())))
    return found


def _names_of(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        for field in ("name", "id", "attr", "arg"):
            if isinstance(name := getattr(node, field, None), str):
                yield name
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value.isidentifier():
            yield node.value


def missing(text: str) -> list[str]:
    """What a text has in backticks that looks like a path, class, module or function of ours, and is none."""
    quoted = [" ".join(each.split()) for each in _QUOTED.findall(text)]
    return [each for each in quoted if each not in FOREIGN and not _exists(each)]


def _exists(quoted: str) -> bool:
    if _PATH.fullmatch(quoted):
        return any(fnmatchcase(f"/{path}", f"*/{quoted.removeprefix('./').rstrip('/')}") for path in paths())
    if _FILE.fullmatch(quoted):
        return any(path.endswith(f"/{quoted}") or path == quoted for path in files())
    if not _NAME.fullmatch(quoted):
        return True
    parts = quoted.removesuffix("()").split(".")
    ours = [part for part in parts if _CLASS.fullmatch(part) or _FUNCTION.fullmatch(part)]
    return all(part in names() for part in ours)


def anchors(page: Path) -> set[str]:
    """The places in a page that a link can name, as GitHub makes them of headings."""
    headings = re.findall(r"^#+ (.+)$", _FENCED.sub("", page.read_text()), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize(
    "page",
    [page for page in PAGES if not page.is_relative_to(ROOT / _OF_OTHERS)],
    ids=lambda page: page.relative_to(ROOT).as_posix(),
)
def test_names_on_a_page_exist(page: Path):
    assert missing(prose(page)) == []


@pytest.mark.parametrize(
    "gone",
    [
        "`SchedulerOfOld`",
        "`Scheduler.schedule_of_old`",
        "`services/engine/gone.py`",
        "`target/gone`",
        "`gone.cuh`",
        "`gone_function()`",
    ],
)
def test_missing_names_are_found(gone: str):
    assert missing(f"Named are `Scheduler.schedule`, `services/target`, `target/api` and {gone}.") == [gone.strip("`")]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_links_lead_somewhere(page: Path):
    links = [link for link in _LINK.findall(prose(page)) if "://" not in link]
    lost = []
    for link in links:
        name, _, anchor = link.partition("#")
        to = (page.parent / name) if name else page
        if not to.exists() or (anchor and anchor not in anchors(to)):
            lost.append(link)
    assert lost == []


def test_paths_of_the_glossary_exist_where_it_says():
    """Those with a folder below `services`, or from the root; those without one once, in `native` or `protos`."""
    rows = re.findall(r"^\|.*\|([^|]*)\|$", (ROOT / "docs/inside/glossary.md").read_text(), re.MULTILINE)
    named = [path for row in rows for path in _QUOTED.findall(row)]
    assert len(named) > 60
    for path in named:
        if "/" in path:
            assert {path.rstrip("/"), f"services/{path.rstrip('/')}"} & paths(), path
        else:
            assert len([file for file in files() if re.fullmatch(rf"(?:native|protos)/.*\b{path}", file)]) == 1, path


def test_a_page_is_short():
    lengths = {page.name: len(page.read_text().splitlines()) for page in PAGES if page.name not in LONG}
    assert {name: length for name, length in lengths.items() if length > MOST_LINES} == {}


def test_the_package_map_has_the_packages_docstrings():
    page = (ROOT / "docs/inside/packages.md").read_text()
    assert page == with_table(page, ROOT), "run `make picture`"
    packages = {path.parent for path in (ROOT / "services").rglob("__init__.py")} - {ROOT / "services"}
    said = re.findall(r"^\| \[`([\w/]+)`\]\(\S+\) \| \S.+\. \|$", page, re.MULTILINE)
    assert sorted(said) == sorted(package.relative_to(ROOT / "services").as_posix() for package in packages)


def test_the_picture_is_up_to_date():
    assert (ROOT / "docs/pictures/architecture.svg").read_text() == draw(ROOT), "run `make picture`"
