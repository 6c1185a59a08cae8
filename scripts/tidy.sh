#!/usr/bin/env bash
# Checks the C++ that is compiled for the host with clang-tidy, by the checks of .clang-tidy.
#   tidy.sh [PATTERN…]   the files of native/src, bindings and testing, or those whose paths match
# It cannot read the kernels, which are written in GCC's vectors or in CUDA.
# It needs CMake, which tells how each file is compiled.
set -euo pipefail
cd "$(dirname "$0")/.."

cmake -S native -B build/tidy -DCMAKE_EXPORT_COMPILE_COMMANDS=ON -DOUTRIDER_CUDA=OFF -DOUTRIDER_TESTING=ON \
    -DPython_EXECUTABLE="$PWD/.venv/bin/python" -Dpybind11_DIR="$(.venv/bin/python -m pybind11 --cmakedir)" >/dev/null
.venv/bin/python .venv/bin/run-clang-tidy.py -clang-tidy-binary .venv/bin/clang-tidy -p build/tidy -quiet \
    "${@:-/native/(src/(?!cpu/kernels|cuda/)|bindings/|testing/)}"
