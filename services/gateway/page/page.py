"""Page: serves the page and its files, with a policy that allows no other scripts and no other servers."""

import hashlib
from dataclasses import dataclass
from pathlib import Path

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

_FOLDER = Path(__file__).parent / "files"
_INDEX = "index.html"
_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"
)
_HEADERS = {
    "cache-control": "no-cache",
    "content-security-policy": _POLICY,
    "cross-origin-opener-policy": "same-origin",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
}


@dataclass(frozen=True, slots=True)
class _File:
    content: bytes
    type: str
    tag: str


class Page:
    """All files are read once; only these can be requested, so no path can reach another file."""

    def __init__(self, *, has_demo_controls: bool) -> None:
        self._files = {
            path.relative_to(_FOLDER).as_posix(): _read(path) for path in _FOLDER.rglob("*") if path.suffix in _TYPES
        }
        self._settings = {"demo_controls": has_demo_controls}

    async def index(self, http: Request) -> Response:
        """Answer GET /, the page itself."""
        return self._answer(http, _INDEX)

    async def file(self, http: Request) -> Response:
        """Answer GET /page/NAME, a file of the page; raises HTTPException for an unknown name."""
        return self._answer(http, http.path_params["name"])

    async def settings(self, _: Request) -> Response:
        """Answer GET /page/settings.json: the features that the page may show."""
        return JSONResponse(self._settings, headers=_HEADERS)

    def _answer(self, http: Request, name: str) -> Response:
        if (file := self._files.get(name)) is None:
            raise HTTPException(404)
        headers = {**_HEADERS, "etag": file.tag}
        if http.headers.get("if-none-match") == file.tag:
            return Response(status_code=304, headers=headers)
        return Response(file.content, headers=headers, media_type=file.type)


def _read(path: Path) -> _File:
    content = path.read_bytes()
    return _File(content, _TYPES[path.suffix], f'"{hashlib.blake2s(content, digest_size=8).hexdigest()}"')
