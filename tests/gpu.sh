#!/usr/bin/env bash
# Builds, tests and measures on this machine's GPU without a network, in calls of less than ten minutes each.
#   gpu.sh --prepare DIR              on a connected machine: fill DIR/1 and DIR/2 with the wheels that the other one may
#                                     lack: a call takes one half of them, so that the first is `gpu.sh --wheels DIR/1 wheels`
#   gpu.sh [--wheels DIR] [--out DIR] device     what needs no model: build probe native kernels states profile memcheck racecheck
#   gpu.sh [--wheels DIR] [--out DIR] models     build pairs passes services matrix
#   gpu.sh [--wheels DIR] [--out DIR] build heads  what a head of known quality costs and brings
#   gpu.sh [--wheels DIR] [--out DIR] build cpu  its processor's AMX and AVX-512, which few machines without a GPU have
#   gpu.sh … STEP…                               some of these
#   gpu.sh --built DIR …                         with what DIR has for this Python's site-packages, its native modules
#                                                among it, so that nothing is compiled
#   gpu.sh --dry-run …                           all that can be without a GPU, small, its kernels emulated, to see that it runs
# A step that fails or runs out of time does not keep the others from running; the exit code says whether one did. DIR
# of --out (build/gpu) gets steps.json, log, and a file or more of each step. PYTHON names an interpreter that has torch,
# cmake, ninja and pip (python3); what is installed goes into a virtual environment on top of it. MODELS is where the
# pairs go, about 20 GB (/dev/shm/outrider, or build/outrider where that is too small). PLAN is one of tests.gpu.shapes.
set -uo pipefail
cd "$(dirname "$0")/.."

TOTAL_SECONDS=${TOTAL_SECONDS:-585}
# Each step may have so many seconds, and what those before it have left over.
declare -A DEVICE_LIMITS=([build]=150 [probe]=25 [native]=100 [kernels]=110 [states]=20 [profile]=60 [memcheck]=60 [racecheck]=60)
declare -A MODEL_LIMITS=([build]=150 [pairs]=75 [passes]=100 [services]=130 [matrix]=130)
declare -A OTHER_LIMITS=([cpu]=300 [heads]=300 [wheels]=60)
DEVICE_STEPS=(build probe native kernels states profile memcheck racecheck)
MODEL_STEPS=(build pairs passes services matrix)

# What a dry run does differently.
choose() {
    if [ -z "$DRY_RUN" ]; then
        DEVICE=cuda PROCESSOR=cuda ENGINE_DEVICE=cuda:0 TORCH_DEVICE=cuda SHAPES=(1b 8b) PLAN=${PLAN:-whole} PASSES=()
        STATES=(--shapes 4b flash --context 1024 --prompt 1024 --sequences 64)
        NATIVE=(tests/native --tb short --timeout 100 --durations 15 -k "(cuda or gpu) and not cuda-emulated") CELLS=(--covering) PAIR=8b VENV=build/gpu-venv
        SERVICES=(--no-peers --context 1024 --runs 5 --rounds 1 --new-tokens 256 --draft-lengths 4 8)
        HEAD=8b MTP=4b HEADS=(--weights bf16 int8 int4)
        ISAS=(amx avx512) ISA_TESTS=tests/native ROOFLINE=(--contexts 256 --runs 7)
        WORKERS=$(($(nproc) > 3 ? $(nproc) - 2 : 1))
        local gib
        gib=$(df --output=size -BG /dev/shm 2>/dev/null | tail -n 1 | tr -dc 0-9)
        MODELS=${MODELS:-$([ "${gib:-0}" -ge 24 ] && echo /dev/shm || echo build)/outrider}
    else
        DEVICE=cuda-emulated PROCESSOR=portable ENGINE_DEVICE=cpu TORCH_DEVICE=cpu SHAPES=(smallest) PLAN=smallest
        PASSES=(--smallest) STATES=(--shapes smallest tiny --context 32 --prompt 32 --sequences 2 --runs 1)
        CELLS=(--only demo-portable-whole-1-plenty-script-bf16-bf16-greedy-alone-spared-none-cold)
        NATIVE=(tests/native/device/test_replay.py -k cuda-emulated) PAIR=smallest VENV=$OUT/venv MODELS=$OUT/models WORKERS=1
        SERVICES=(--no-peers --context 16 --runs 1 --rounds 1 --prompt-tokens 8 --new-tokens 4 --draft-lengths 3)
        HEAD=smallest MTP=smallest HEADS=(--weights bf16 --tokens 48 --rounds 1)
        ISAS=(portable) ISA_TESTS=tests/native/decoder/test_row_invariance.py ROOFLINE=(--contexts 16 --runs 1)
    fi
}

wheels() { # those of WHEELS, into an environment on top of PYTHON's, which other calls add to
    local base
    pip=("$PYTHON" -m pip --python "$VENV/bin/python" install --no-index --no-deps --no-build-isolation)
    "$PYTHON" -m venv --without-pip "$VENV" || return 1
    base=$("$PYTHON" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
    echo "import site; site.addsitedir('$base')" >"$("$VENV/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/base.pth"
    [ -z "$WHEELS" ] || "${pip[@]}" --quiet --no-compile --ignore-installed "$WHEELS"/*.whl
}

build() { # as `make build` does, for this GPU's architecture alone; in a dry run what is built is on top of it
    local pip
    wheels || return 1
    [ -n "$DRY_RUN" ] || compile || return 1
    "$VENV/bin/python" -c 'import sys, torch
from services.engine.decoder.native import BUILD_ID, cuda_devices, cuda_problem
print(sys.version, torch.__version__, BUILD_ID, cuda_devices())
sys.exit(not sys.argv[1] and cuda_problem() or 0)' "$DRY_RUN"
}

compile() {
    local capability
    capability=$(nvidia-smi --query-gpu=compute_cap --format=csv,noheader | head -n 1 | tr -d .) || return 1
    [ -z "$BUILT" ] || { place_built; return; }
    CMAKE_BUILD_PARALLEL_LEVEL=$(nproc) "${pip[@]}" --editable clients/python --editable . \
        -C cmake.define.OUTRIDER_CUDA=ON -C cmake.define.OUTRIDER_TESTING=ON \
        -C "cmake.define.CMAKE_CUDA_ARCHITECTURES=${capability/90/90a}" \
        -C "cmake.define.pybind11_DIR=$("$VENV/bin/python" -m pybind11 --cmakedir)" # not the machine's own
}

place_built() {
    local site
    site=$("$VENV/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
    cp "$BUILT"/*.so services/engine/decoder/native/ && cp -r "$BUILT"/*.dist-info "$site" || return 1
    printf '%s\n' "$PWD" "$PWD/clients/python" >"$site/outrider.pth"
}

probe() { # what is taken for granted of the GPU, and what it can do at best
    command -v nvcc || { echo "nvcc is not installed: not run" && return 77; }
    local capability=90
    [ -n "$DRY_RUN" ] || capability=$(nvidia-smi --query-gpu=compute_cap --format=csv,noheader | head -n 1 | tr -d .)
    capability=${capability/90/90a}
    nvcc -std=c++20 -O3 -gencode="arch=compute_$capability,code=sm_$capability" -I native/include -I native/src \
        -o "$OUT/probe" tests/gpu/probe.cu || return 1
    [ -n "$DRY_RUN" ] || "$OUT/probe" | tee "$OUT/probe.json"
}

native() { # what runs on the GPU, several ranks on one too, each test's like on the CPU having run elsewhere
    # Eager: a kernel that is loaded when it is first launched would wait for a rank that waits for it.
    CUDA_MODULE_LOADING=EAGER CUDA_DEVICE_MAX_CONNECTIONS=32 OMP_NUM_THREADS=1 "$VENV/bin/python" -m pytest -q -W default -p no:cacheprovider -n "$WORKERS" "${NATIVE[@]}"
}

kernels() { # the time of each, on random weights in shapes of real models
    "$VENV/bin/python" -m tests.gpu.kernels --device "$DEVICE" --plan "$PLAN" --json "$OUT/kernels.json"
    local code=$?
    figures
    return $code
}

figures() { # what has been measured so far, beside the run before
    "$VENV/bin/python" -m tests.gpu.figures "$OUT"
}

states() { # passes of layers with states, beside those of layers that attend
    "$VENV/bin/python" -m benchmarks.states --device "${ENGINE_DEVICE%%:*}" "${STATES[@]}"
}

profile() { # what the hardware counts in each; the clocks are left as they are
    command -v ncu || { echo "ncu is not installed: not run" && return 77; }
    ncu --clock-control none --target-processes all --kernel-name regex:run_block --csv --page details \
        --section SpeedOfLight --section MemoryWorkloadAnalysis --section LaunchStats --section Occupancy \
        --section WarpStateStats --section SourceCounters \
        --log-file "$OUT/profile.csv" \
        "$VENV/bin/python" -m tests.gpu.kernels --device "$DEVICE" --plan once --json "$OUT/profiled.json"
}

memcheck() { sanitise memcheck; }
racecheck() { sanitise racecheck; }

sanitise() {
    local tool=(compute-sanitizer --tool "$1" --error-exitcode 1 --target-processes all)
    [ -z "$DRY_RUN" ] || tool=()
    [ -n "$DRY_RUN" ] || command -v compute-sanitizer || { echo "compute-sanitizer is not installed: not run" && return 77; }
    "${tool[@]}" "$VENV/bin/python" -m tests.native.harness.small_model "$DEVICE"
}

pairs() {
    for shape in "${SHAPES[@]}"; do
        make_pair "$shape" || return 1
    done
}

make_pair() {
    mkdir -p "$MODELS"
    "$VENV/bin/python" -m benchmarks.make_pair --shape "$1" --device "$TORCH_DEVICE" "$MODELS/$1"
}

passes() { # beside the memory's speed and the rate of matrix products; of one GPU, and of two, if there are
    local code
    "$VENV/bin/python" -m benchmarks.gpu --models "$MODELS" --device "$ENGINE_DEVICE" "${PASSES[@]}" --json "$OUT/passes.json"
    code=$?
    figures
    if [ -z "$DRY_RUN" ] && [ "$(nvidia-smi --list-gpus | wc -l)" -gt 1 ]; then
        CUDA_MODULE_LOADING=EAGER "$VENV/bin/python" -m benchmarks.gpu --models "$MODELS" --device cuda:0,cuda:1 "${PASSES[@]}" --json "$OUT/two.json" || code=1
    fi
    return $code
}

services() { # speculation with both models on the one GPU, beside transformers
    "$VENV/bin/python" -m benchmarks.figures --models "$MODELS/$PAIR" --device "$ENGINE_DEVICE" \
        --formats bf16 --draft-weights bf16 --placements shared "${SERVICES[@]}" --json "$OUT/services.json"
}

heads() { # what heads and a model's own layer that are right 72 % of the time cost, and what AUTO makes of them
    local kind shape
    for kind in head block mtp; do
        shape=$([ $kind = mtp ] && echo "$MTP" || echo "$HEAD")
        "$VENV/bin/python" -m "benchmarks.heads.make_$kind" --shape "$shape" --device "$TORCH_DEVICE" "$MODELS/$kind" &&
            cost "$MODELS/$kind" || return 1
        rm -rf "${MODELS:?}/$kind" # there is no room for all of them
    done
}

cost() { # of a head: the model's folder, or one with the folders of both
    local models=("$1")
    [ -d "$1/head" ] && models=("$1/target" "$1/head")
    "$VENV/bin/python" -m benchmarks.heads.cost "${models[@]}" --device "$ENGINE_DEVICE" "${HEADS[@]}"
}

matrix() { # every pair of circumstances of the matrix of equality, both services on the one GPU
    "$VENV/bin/python" -m tests.e2e.matrix --isa "$PROCESSOR" "${CELLS[@]}" --workers "$WORKERS"
}

cpu() { # the bits of those of ISAS that the processor has, then the times of their passes on two of its cores
    local isas cores
    isas=$("$VENV/bin/python" -c 'import sys; from services.engine.decoder.native import isas
print(*(isa for isa in sys.argv[1:] if isa in isas()))' "${ISAS[@]}") || return 1
    [ -n "$isas" ] || { echo "the processor has none of ${ISAS[*]}: not run" && return 77; }
    lscpu | grep -E '^(Model name|Flags|Thread|Core|L[123])'
    OMP_NUM_THREADS=1 "$VENV/bin/python" -m pytest -q -W default -p no:cacheprovider -n "$WORKERS" --tb short \
        --timeout 100 "$ISA_TESTS" -k "(${isas// / or }) and not emulated and not cuda and not gpu"
    local code=$?
    [ -e "$MODELS/${SHAPES[0]}/draft/tokenizer.json" ] || make_pair "${SHAPES[0]}" || return 1
    cores=$("$VENV/bin/python" -c 'import os
cpus = sorted(os.sched_getaffinity(0))
cores = {open(f"/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list").read(): cpu for cpu in cpus}
print(*list(cores.values())[:2], sep=",")') || return 1
    # shellcheck disable=SC2086 # one word for each instruction set
    taskset --cpu-list "$cores" "$VENV/bin/python" -m benchmarks.roofline "$MODELS/${SHAPES[0]}/target" \
        --isas $isas "${ROOFLINE[@]}" --json "$OUT/roofline.json" && return $code
}

limit_of() {
    echo "${DEVICE_LIMITS[$1]:-${MODEL_LIMITS[$1]:-${OTHER_LIMITS[$1]:-}}}"
}

run_step() { # and note its outcome; 77 says that it could not be run here
    local began=$SECONDS later=0 code=124 left=$((TOTAL_SECONDS - SECONDS)) limit
    for step in "${@:2}"; do later=$((later + $(limit_of "$step"))); done
    limit=$(limit_of "$1")
    limit=$((left - later > limit ? left - later : limit < left ? limit : left))
    echo "== $1, at most $limit s"
    if [ "$limit" -gt 0 ]; then
        timeout --kill-after=5 "$limit" env STEP="$1" "$BASH" "$0" ${DRY_RUN:+--dry-run} --wheels "$WHEELS" --built "$BUILT" --out "$OUT"
        code=$?
    fi
    local outcomes=([0]=passed [77]=absent [124]="out of time" [137]="out of time")
    OUTCOMES+=("{\"step\": \"$1\", \"outcome\": \"${outcomes[$code]:-failed with $code}\", \"seconds\": $((SECONDS - began))}")
    [ "$code" -eq 0 ] || [ "$code" -eq 77 ] || FAILED=1
    printf '%s\n' "${OUTCOMES[@]}" | paste -sd, | sed 's/^/[/; s/$/]/' >"$OUT/steps.json"
}

PYTHON=${PYTHON:-python3} DRY_RUN="" WHEELS="" BUILT="" OUT=build/gpu STEPS=() OUTCOMES=() FAILED=0
while [ $# -gt 0 ]; do
    case $1 in
    --prepare) "$PYTHON" -m tests.gpu.wheels "$2"; exit ;;
    --dry-run) DRY_RUN=yes ;;
    --wheels) WHEELS=$2 && shift ;;
    --built) BUILT=$2 && shift ;;
    --out) OUT=$2 && shift ;;
    -*) sed -n '2,17s/^# \{0,1\}//p' "$0" >&2 && exit 2 ;;
    device) STEPS+=("${DEVICE_STEPS[@]}") ;;
    models) STEPS+=("${MODEL_STEPS[@]}") ;;
    *)
        [ -n "$(limit_of "$1")" ] || { echo "$0: $1 is none of device models ${DEVICE_STEPS[*]} ${MODEL_STEPS[*]:1} ${!OTHER_LIMITS[*]}" >&2 && exit 2; }
        STEPS+=("$1")
        ;;
    esac
    shift
done
choose
PATH=$PATH:/usr/local/cuda/bin # where CMake does not look by itself
export PATH PYTHON MODELS PYTHONUNBUFFERED=1 HF_HUB_OFFLINE=1
export TQDM_DISABLE=1 HF_HUB_DISABLE_PROGRESS_BARS=1 # only the end of what is printed may come back
mkdir -p "$OUT"
if [ -n "${STEP:-}" ]; then
    "$STEP"
    exit
fi
[ ${#STEPS[@]} -gt 0 ] || { echo "$0: say device or models, or steps" >&2 && exit 2; }
while [ ${#STEPS[@]} -gt 0 ]; do
    run_step "${STEPS[@]}"
    STEPS=("${STEPS[@]:1}")
done > >(tee "$OUT/log") 2>&1
cat "$OUT/steps.json"
exit $FAILED
