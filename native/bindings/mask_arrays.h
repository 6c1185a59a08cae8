// Token masks as arguments: numpy arrays of words, or None if every token may be drawn.
#pragma once

#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>

#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "outrider/sampling/sampler.h"

namespace outrider {

using MaskArray = pybind11::array_t<uint32_t, pybind11::array::c_style>;  // [rows, words]
using MaskArrays = std::vector<std::optional<MaskArray>>;                 // empty, or one for each state

/// The masks of a state; the arrays own the memory.
inline TokenMasks masks_of(const MaskArrays& arrays, size_t index, int num_rows) {
    if (arrays.empty() || !arrays[index]) {
        return {};
    }
    const MaskArray& array = *arrays[index];
    if (array.ndim() != 2 || array.shape(0) != num_rows) {
        throw std::invalid_argument("masks[" + std::to_string(index) + "]: must have two dimensions and " +
                                    std::to_string(num_rows) + " rows");
    }
    return {array.data(), array.shape(1)};
}

}  // namespace outrider
