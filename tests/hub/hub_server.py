"""HubServer: a small hub of its own, which speaks to the real client library over HTTP as the public one does."""

import hashlib
import json
import re
import threading
from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import unquote, urlsplit

TOKEN = "hf_a-token-of-the-tests"
_LARGE = (".safetensors", ".gguf", ".bin")  # stored apart, and reached by a redirect to another host


@dataclass
class Repository:
    """A model as it is published, at one commit, which is its main branch's."""

    files: dict[str, bytes]
    gated: bool = False
    sizes: dict[str, int] = field(default_factory=dict)  # as reported, where they differ from the real ones
    tags: set[str] = field(default_factory=set)

    @classmethod
    def of_folder(cls, folder: Path) -> "Repository":
        """What a folder has."""
        return cls({path.name: path.read_bytes() for path in folder.iterdir()})

    @property
    def commit(self) -> str:
        """The only one there is, by what it holds."""
        return hashlib.sha1(repr(sorted((name, _blob(data)) for name, data in self.files.items())).encode()).hexdigest()


def _blob(data: bytes) -> str:
    return hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest()


class HubServer(ThreadingHTTPServer):
    """Serves repositories until the `with` block ends; faults are set between requests."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.repositories: dict[str, Repository] = {}
        self.requests: list[tuple[str, str, Mapping[str, str]]] = []  # method, path, headers
        self.breaks: dict[str, list[int]] = defaultdict(list)  # by file: bytes after which transfers break, in turn
        self.statuses: dict[str, list[int]] = defaultdict(list)  # by file: answers instead of it, in turn
        self.stalls: dict[str, int] = {}  # by file: bytes after which its transfer waits for `go_on`
        self.stalled, self._goes_on = threading.Event(), threading.Event()

    @property
    def endpoint(self) -> str:
        """The address of the hub."""
        return f"http://127.0.0.1:{self.server_port}"

    def settings(self, cache: Path, **more: str) -> dict[str, str]:
        """The environment of a process that uses this hub and no other, with a cache of its own."""
        return {"HF_ENDPOINT": self.endpoint, "HF_HOME": str(cache), "HF_HUB_DISABLE_XET": "1", "NO_PROXY": "*"} | more

    def stall(self) -> None:
        """Wait until the test has seen it."""
        goes_on = self._goes_on
        self.stalled.set()
        goes_on.wait(60)

    def go_on(self) -> None:
        """Let what stalls go on, and nothing stall any more."""
        self.stalls.clear()
        self.stalled.clear()
        self._goes_on.set()
        self._goes_on = threading.Event()

    def paths(self, method: str) -> list[str]:
        """What was asked by one method."""
        return [path for each, path, _ in self.requests if each == method]


@contextmanager
def hub_server() -> Iterator[HubServer]:
    """A running hub without repositories."""
    with HubServer() as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


class _RefusalError(Exception):
    def __init__(self, status: int, code: str | None = None) -> None:
        self.status, self.code = status, code


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: HubServer
    routes: ClassVar[dict[str, str]] = {
        "_info": r"/api/models/(?P<name>[^/]+/[^/]+)(?:/revision/(?P<revision>[^/]+))?",
        "_tree": r"/api/models/(?P<name>[^/]+/[^/]+)/tree/(?P<revision>[^/]+)",
        "_resolve": r"/(?P<name>[^/]+/[^/]+)/resolve/(?P<revision>[^/]+)/(?P<file>.+)",
        "_large": r"/stored/(?P<name>[^/]+/[^/]+)/(?P<file>.+)",
    }

    def do_GET(self) -> None:
        path = urlsplit(self.path).path
        self.server.requests.append(
            (self.command, unquote(path), {name.title(): text for name, text in self.headers.items()})
        )
        try:
            for method, pattern in self.routes.items():
                if match := re.fullmatch(pattern, path):
                    getattr(self, method)(**{key: unquote(text) for key, text in match.groupdict("main").items()})
                    return
            raise _RefusalError(404)
        except _RefusalError as refusal:
            self._answer(refusal.status, b"{}", {"X-Error-Code": refusal.code} if refusal.code else {})

    do_HEAD = do_GET  # noqa: N815 - http.server's

    def log_message(self, format: str, *args: Any) -> None:
        """Log no request at all."""

    def _info(self, name: str, revision: str) -> None:
        repository = self._find(name, revision, opens=False)
        siblings = [{"rfilename": file} for file in repository.files]
        self._answer_json({"id": name, "sha": repository.commit, "siblings": siblings, "private": False})

    def _tree(self, name: str, revision: str) -> None:
        repository = self._find(name, revision, opens=False)
        entries = [{"type": "directory", "oid": "0" * 40, "size": 0, "path": "original"}]
        for file, data in repository.files.items():
            size = repository.sizes.get(file, len(data))
            entry: dict[str, object] = {"type": "file", "oid": _blob(data), "size": size, "path": file}
            if file.endswith(_LARGE):
                entry["lfs"] = {"oid": hashlib.sha256(data).hexdigest(), "size": size, "pointerSize": 130}
            entries.append(entry)
        self._answer_json(entries)

    def _resolve(self, name: str, revision: str, file: str) -> None:
        repository = self._find(name, revision)
        if file not in repository.files:
            raise _RefusalError(404, "EntryNotFound")
        data, headers = repository.files[file], {"X-Repo-Commit": repository.commit}
        if not file.endswith(_LARGE):
            self._send_file(file, data, {**headers, "ETag": f'"{_blob(data)}"'})
            return
        if self.server.statuses[file]:
            raise _RefusalError(self.server.statuses[file].pop(0))
        stored = f"http://localhost:{self.server.server_port}/stored/{name}/{file}"
        etag = f'"{hashlib.sha256(data).hexdigest()}"'
        linked = {"X-Linked-Size": str(len(data)), "X-Linked-ETag": etag, "ETag": etag, "Location": stored}
        self._answer(302, b"", headers | linked)

    def _large(self, name: str, file: str) -> None:
        assert "Authorization" not in self.headers, "the token is the hub's, and nobody else's"
        self._send_file(file, self.server.repositories[name].files[file], {})

    def _find(self, name: str, revision: str, *, opens: bool = True) -> Repository:
        token = self.headers.get("Authorization")
        if token not in (None, f"Bearer {TOKEN}"):
            raise _RefusalError(401, "InvalidToken")
        if (repository := self.server.repositories.get(name)) is None:
            raise _RefusalError(404 if token else 401, "RepoNotFound")
        if repository.gated and opens and token is None:
            raise _RefusalError(401, "GatedRepo")
        if revision not in ("main", repository.commit, *repository.tags):
            raise _RefusalError(404, "RevisionNotFound")
        return repository

    def _send_file(self, file: str, data: bytes, headers: dict[str, str]) -> None:
        begin = 0
        if wanted := re.fullmatch(r"bytes=(\d+)-", self.headers.get("Range") or ""):
            begin = int(wanted[1])
            headers = {**headers, "Content-Range": f"bytes {begin}-{len(data) - 1}/{len(data)}"}
        shown = {"Content-Disposition": f'inline; filename="{Path(file).name}";'}
        self._begin(206 if wanted else 200, len(data) - begin, headers | shown)
        if self.command == "HEAD":
            return
        breaks = self.server.breaks[file]
        end = breaks.pop(0) if breaks else len(data)
        if (stall := self.server.stalls.get(file)) is not None:
            self.wfile.write(data[begin:stall])
            self.server.stall()
            begin = stall
        with suppress(ConnectionError):  # of a client that was killed meanwhile
            self.wfile.write(data[begin:end])
        if end < len(data):
            self.close_connection = True

    def _answer_json(self, values: object) -> None:
        self._answer(200, json.dumps(values).encode(), {"Content-Type": "application/json"})

    def _answer(self, status: int, body: bytes, headers: Mapping[str, str]) -> None:
        self._begin(status, len(body), headers)
        if self.command != "HEAD":
            self.wfile.write(body)

    def _begin(self, status: int, length: int, headers: Mapping[str, str]) -> None:
        self.send_response(status)
        for name, value in {"Content-Length": str(length), **headers}.items():
            self.send_header(name, value)
        self.end_headers()
