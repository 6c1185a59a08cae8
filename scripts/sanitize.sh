#!/usr/bin/env bash
# Runs the native code under the compiler's sanitizers, built in build/sanitize beside the module that is installed.
#   sanitize.sh pool                         the thread pool alone, under TSan; some seconds
#   sanitize.sh address [PYTEST ARGUMENT…]   the native tests on CPUs, or those given, under ASan and UBSan
#   sanitize.sh thread [PYTEST ARGUMENT…]    services whose engine threads are handed work, or the tests given, under TSan
# The last two need CMake.
set -euo pipefail
cd "$(dirname "$0")/.."

# Tests that limit or measure a process's memory are left out, because ASan takes much of it.
NATIVE=(tests/native --ignore tests/native/weights/test_load_memory.py
    --deselect tests/native/device/test_extreme_numbers.py::test_extreme_numbers_end_no_process)
HAND_OVER=(tests/native/device/test_decoder_threads.py tests/rpc/drafts/test_run_ahead.py)

build() { # FOLDER SANITIZERS
    cmake -S native -B "$1" -DCMAKE_BUILD_TYPE=Release \
        -DOUTRIDER_CUDA=OFF -DOUTRIDER_TESTING=ON -DOUTRIDER_SANITIZE="$2" \
        -DPython_EXECUTABLE="$PWD/.venv/bin/python" -Dpybind11_DIR="$(.venv/bin/python -m pybind11 --cmakedir)" >/dev/null
    cmake --build "$1" --target _native _native_testing --parallel "$(nproc)"
}

run_pytest() { # FOLDER LIBRARY ARGUMENT…: Python is not instrumented, so the sanitizer's library is loaded before it
    local libraries
    libraries="$(g++ -print-file-name="$2") $(g++ -print-file-name=libstdc++.so)"
    env LD_PRELOAD="$libraries" PYTHONMALLOC=malloc \
        SANITIZED_MODULES="$PWD/$1:$PWD/$1/testing" PYTHONPATH=tests/native/sanitized \
        setarch -R .venv/bin/python -m pytest -q --capture=sys -p no:cacheprovider -k "not cuda-emulated" "${@:3}"
}

check=${1:-}
shift || true
folder=build/sanitize/$check
case $check in
pool)
    mkdir -p "$folder"
    g++ -std=c++20 -g -O1 -fsanitize=thread -Inative/include -Inative/src -o "$folder/races" \
        tests/native/device/thread_pool_races.cpp native/src/thread_pool.cpp native/src/cores.cpp
    TSAN_OPTIONS=halt_on_error=1 setarch -R "$folder/races"
    ;;
address)
    build "$folder" address,undefined
    export ASAN_OPTIONS=detect_leaks=0:allocator_may_return_null=1 UBSAN_OPTIONS=print_stacktrace=1
    [ $# -gt 0 ] || set -- "${NATIVE[@]}"
    run_pytest "$folder" libasan.so "$@"
    ;;
thread)
    build "$folder" thread
    export TSAN_OPTIONS=ignore_noninstrumented_modules=1:die_after_fork=0 SANITIZED_ALONE=1
    [ $# -gt 0 ] || set -- "${HAND_OVER[@]}"
    run_pytest "$folder" libtsan.so "$@"
    ;;
*)
    sed -n '2,6s/^# \{0,1\}//p' "$0" >&2
    exit 2
    ;;
esac
