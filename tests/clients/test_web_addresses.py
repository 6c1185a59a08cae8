"""A page sends a token only to servers that its reader has chosen, and never so that others can read it."""

import json
import shutil
import subprocess

import pytest

from tests.e2e.harness.models import ROOT

MODULE = (ROOT / "clients/web/address.js").as_uri()
HOST = "page.example"
# whether a token may go there, and whether a link may name it
ADDRESSES = {
    "https://localhost:8443": (True, True),
    "https://page.example": (True, True),
    "https://other.example": (True, False),
    "https://page.example.other.example": (True, False),
    "https://page.example@other.example": (True, False),
    "http://localhost:8000": (True, True),
    "http://127.0.0.1:8000": (True, True),
    "http://[::1]:8000": (True, True),
    "http://page.example": (False, True),
    "http://other.example": (False, False),
    "http://localhost.other.example": (False, False),
    "http://127.0.0.1.other.example": (False, False),
    "http://localhost@other.example": (False, False),
    "ftp://localhost": (False, False),
}


@pytest.mark.skipif(shutil.which("node") is None, reason="NOT RUN: there is no node")
def test_where_a_token_may_go():
    script = (
        f"import {{ isGuarded, mayBeLinked }} from {json.dumps(MODULE)};\n"
        f"const told = {json.dumps([*ADDRESSES])}.map((each) => [isGuarded(each), mayBeLinked(each, '{HOST}')]);\n"
        "console.log(JSON.stringify([...told, mayBeLinked('elsewhere', 'page.example')]));"
    )
    command = ["node", "--input-type=module", "-e", script]
    *told, is_linked = json.loads(subprocess.run(command, capture_output=True, check=True, timeout=60).stdout)
    assert dict(zip(ADDRESSES, map(tuple, told), strict=True)) == ADDRESSES
    assert is_linked is False
