#!/bin/sh
# Works on the protos. Run from anywhere.
#   protos.sh stubs [DIR]   write the Python stubs under DIR (default: into the client package and the target)
#   protos.sh docs [FILE]   write the page on the API (default: docs/use/api.md)
#   protos.sh lint          buf lint, buf format, and buf breaking against protos/baseline.binpb (needs npm)
#   protos.sh baseline      accept the protos as the new baseline, unless they break the old one (needs npm)
# PYTHON names the interpreter that has grpcio-tools and mypy-protobuf (default: .venv/bin/python, else python3).
set -eu
cd "$(dirname "$0")/.."
: "${PYTHON:=$([ -x .venv/bin/python ] && echo .venv/bin/python || echo python3)}"
PROTOS=$(echo protos/outrider/v1/*.proto)
OPENENGINE=protos/openengine/v1/openengine.proto
BASELINE=protos/baseline.binpb

compile() { # protoc's plugins are console scripts that live beside the interpreter
    PATH="$(dirname "$(command -v "$PYTHON")"):$PATH" "$PYTHON" -m grpc_tools.protoc -I protos "$@"
}

buf() {
    if [ ! node_modules/.package-lock.json -nt package.json ]; then
        command -v npm >/dev/null || { echo "$0: buf comes with npm, which is not installed" >&2; exit 1; }
        npm install --no-package-lock --no-audit --no-fund >&2
    fi
    node_modules/.bin/buf "$@"
}

case "${1:-}" in
stubs)
    out="${2:-clients/python}"
    own="${2:-services/target}"
    mkdir -p "$out"
    compile --python_out="$out" --mypy_out="quiet:$out" $PROTOS
    compile --grpc_python_out="$out" --mypy_grpc_out="quiet:$out" $(grep -l '^service ' $PROTOS)
    compile --python_out="$own" --mypy_out="quiet:$own" $OPENENGINE # no grpc stubs: they would import a top-level package
    ;;
docs)
    "$PYTHON" scripts/api_docs.py "${2:-docs/use/api.md}"
    ;;
lint)
    buf lint
    buf format --diff --exit-code
    buf breaking --against "$BASELINE"
    ;;
baseline)
    [ ! -e "$BASELINE" ] || buf breaking --against "$BASELINE"
    compile --include_imports --descriptor_set_out="$BASELINE" $PROTOS $OPENENGINE
    ;;
*)
    sed -n '2,7s/^# \{0,1\}//p' "$0" >&2
    exit 2
    ;;
esac
