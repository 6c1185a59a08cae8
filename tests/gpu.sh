#!/usr/bin/env bash
# Builds, tests and measures on this machine's GPU, in one command, within ten minutes and without a network.
#   gpu.sh --prepare DIR              on a connected machine: fill DIR with the wheels that the other one may lack
#   gpu.sh [--wheels DIR] [--out DIR] [STEP…]
# Steps, by default all in this order: build native pairs decoder services memcheck racecheck matrix. One that fails or
# runs out of time does not keep the others from running; the exit code says whether one did. DIR of --out (build/gpu)
# gets steps.json, decoder.json, services.json and log. PYTHON names an interpreter that has torch, cmake, ninja and pip
# (python3); what is installed goes into a virtual environment on top of it. MODELS is where the pairs go, about 20 GB
# (/dev/shm/outrider, or build/outrider where that is too small). Where a command is ended after ten minutes, give the
# last three steps a call of their own.
set -uo pipefail
cd "$(dirname "$0")/.."

PYTHON=${PYTHON:-python3}
shared_gib=$(df --output=size -BG /dev/shm 2>/dev/null | tail -n 1 | tr -dc 0-9)
MODELS=${MODELS:-$([ "${shared_gib:-0}" -ge 24 ] && echo /dev/shm || echo build)/outrider}
VENV=build/gpu-venv
TOTAL_SECONDS=585
declare -A LIMITS=([build]=240 [native]=150 [matrix]=480 [memcheck]=90 [racecheck]=90 [pairs]=90 [decoder]=150 [services]=300)
ORDER=(build native pairs decoder services memcheck racecheck matrix)
CARRIED=(grpcio grpcio-health-checking grpcio-reflection grpcio-status googleapis-common-protos protobuf llguidance
    pytest pytest-asyncio pytest-timeout hypothesis mpmath pybind11 scikit-build-core pathspec packaging
    iniconfig pluggy pygments sortedcontainers typing-extensions)

prepare() { # the versions of constraints.txt for Python 3.12; torch and numpy are the other machine's own
    local constraints platforms=()
    constraints=$(tr '_' '-' <constraints.txt | tr '[:upper:]' '[:lower:]')
    for version in 39 35 34 31 28 27 24 17; do platforms+=(--platform "manylinux_2_${version}_x86_64"); done
    for name in "${CARRIED[@]}"; do
        grep -m1 "^$name==" <<<"$constraints" || { echo "$0: constraints.txt has no $name" >&2 && return 1; }
    done | xargs env -u PIP_CONSTRAINT "$PYTHON" -m pip download --quiet --no-deps --only-binary=:all: \
        --python-version 3.12 --implementation cp "${platforms[@]}" --platform manylinux2014_x86_64 --dest "$1" &&
        du -sh "$1"
}

build() { # as `make build` does, for this GPU's architecture alone
    local capability base
    capability=$(nvidia-smi --query-gpu=compute_cap --format=csv,noheader | head -n 1 | tr -d .) || return 1
    "$PYTHON" -m venv --without-pip "$VENV" || return 1
    base=$("$PYTHON" -c 'import site; print("\n".join(site.getsitepackages()))')
    echo "$base" >"$("$VENV/bin/python" -c 'import site; print(site.getsitepackages()[0])')/base.pth"
    local pip=("$PYTHON" -m pip --python "$VENV/bin/python" install --no-index --no-deps --no-build-isolation)
    [ -z "$WHEELS" ] || "${pip[@]}" --upgrade "$WHEELS"/*.whl || return 1
    CMAKE_BUILD_PARALLEL_LEVEL=$(nproc) "${pip[@]}" --editable clients/python --editable . \
        -C cmake.define.OUTRIDER_CUDA=ON -C cmake.define.OUTRIDER_TESTING=ON \
        -C "cmake.define.CMAKE_CUDA_ARCHITECTURES=${capability/90/90a}" &&
        "$VENV/bin/python" -c 'import sys, torch
from services.engine.decoder.native import BUILD_ID, cuda_devices, cuda_problem
print(sys.version, torch.__version__, BUILD_ID, cuda_devices())
sys.exit(cuda_problem() or 0)'
}

native() { # what runs on the GPU, each test's like on the CPU having run elsewhere
    local workers=()
    ! "$VENV/bin/python" -c 'import xdist' || workers=(-n "$(($(nproc) / 2))")
    OMP_NUM_THREADS=1 run_pytest "${workers[@]}" tests/native -k "(cuda or gpu) and not cuda-emulated"
}

matrix() { # every pair of circumstances of the matrix of equality, both services on the one GPU
    "$VENV/bin/python" -m tests.e2e.matrix --isa cuda --covering --workers "$(($(nproc) / 2))"
}

memcheck() { sanitise memcheck; }
racecheck() { sanitise racecheck; }

sanitise() {
    command -v compute-sanitizer || { echo "compute-sanitizer is not installed: not run" && return 77; }
    compute-sanitizer --tool "$1" --error-exitcode 1 --target-processes all \
        "$VENV/bin/python" -m tests.native.small_model
}

pairs() {
    mkdir -p "$MODELS"
    for shape in 1b 8b; do
        "$VENV/bin/python" -m services.bench.experiments.make_pair --shape "$shape" --device cuda "$MODELS/$shape" || return 1
    done
}

decoder() { # passes beside the memory's speed and the rate of matrix products
    "$VENV/bin/python" -m services.bench.experiments.gpu --models "$MODELS" --json "$OUT/decoder.json"
}

services() { # speculation with both models on the one GPU, beside transformers
    "$VENV/bin/python" -m services.bench.experiments.figures --models "$MODELS/8b" --device cuda:0 --formats bf16 --draft-weights bf16 \
        --placements shared --context 1024 --new-tokens 256 --draft-lengths 4 8 --json "$OUT/services.json"
}

run_pytest() {
    "$VENV/bin/python" -m pytest -q -W default -p no:cacheprovider "$@"
}

run_step() { # and note its outcome; 77 says that it could not be run here
    local began=$SECONDS left=$((TOTAL_SECONDS - SECONDS)) code=124
    local limit=$((LIMITS[$1] < left ? LIMITS[$1] : left))
    echo "== $1, at most $limit s"
    if [ "$limit" -gt 0 ]; then
        timeout --kill-after=5 "$limit" env STEP="$1" "$BASH" "$0" --wheels "$WHEELS" --out "$OUT"
        code=$?
    fi
    local outcomes=([0]=passed [77]=absent [124]="out of time" [137]="out of time")
    OUTCOMES+=("{\"step\": \"$1\", \"outcome\": \"${outcomes[$code]:-failed with $code}\", \"seconds\": $((SECONDS - began))}")
    [ "$code" -eq 0 ] || [ "$code" -eq 77 ] || FAILED=1
    printf '%s\n' "${OUTCOMES[@]}" | paste -sd, | sed 's/^/[/; s/$/]/' >"$OUT/steps.json"
}

WHEELS="" OUT=build/gpu STEPS=() OUTCOMES=() FAILED=0
while [ $# -gt 0 ]; do
    case $1 in
    --prepare) prepare "$2" && exit ;;
    --wheels) WHEELS=$2 && shift ;;
    --out) OUT=$2 && shift ;;
    -*) sed -n '2,10s/^# \{0,1\}//p' "$0" >&2 && exit 2 ;;
    *) [ -n "${LIMITS[$1]:-}" ] || { echo "$0: $1 is none of ${ORDER[*]}" >&2 && exit 2; } && STEPS+=("$1") ;;
    esac
    shift
done
PATH=$PATH:/usr/local/cuda/bin # where CMake does not look by itself
export PATH PYTHON MODELS PYTHONUNBUFFERED=1 HF_HUB_OFFLINE=1
mkdir -p "$OUT"
if [ -n "${STEP:-}" ]; then
    "$STEP"
    exit
fi
[ ${#STEPS[@]} -gt 0 ] || STEPS=("${ORDER[@]}")
for step in "${STEPS[@]}"; do
    run_step "$step"
done > >(tee "$OUT/log") 2>&1
cat "$OUT/steps.json"
exit $FAILED
