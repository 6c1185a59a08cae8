// Numpy arrays at the border: checked once, then raw pointers.
#pragma once

#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>

#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

#include "outrider/format.h"
#include "outrider/operations.h"

namespace outrider {

using FloatArray = pybind11::array_t<float, pybind11::array::c_style | pybind11::array::forcecast>;
using IntArray = pybind11::array_t<int32_t, pybind11::array::c_style | pybind11::array::forcecast>;

inline std::vector<int64_t> shape_of(const pybind11::array& array) {
    return std::vector<int64_t>(array.shape(), array.shape() + array.ndim());
}

inline void require_dimensions(const char* name, const pybind11::array& array, int dimensions) {
    if (array.ndim() != dimensions) {
        throw std::invalid_argument(std::string(name) + " has " + std::to_string(array.ndim()) +
                                    " dimensions; it must have " + std::to_string(dimensions));
    }
}

/// A weight's values in one of the types that can be packed.
struct SourceArray {
    pybind11::array values;  // C-contiguous
    SourceType type;

    /// Throws std::invalid_argument, naming the weight, for any other dtype.
    SourceArray(const std::string& name, const pybind11::array& array)
        : values(pybind11::array::ensure(array, pybind11::array::c_style)),
          type(type_of(name, array.dtype())) {}

  private:
    static SourceType type_of(const std::string& name, const pybind11::dtype& dtype) {
        if (dtype.kind() == 'f' && dtype.itemsize() == 4) {
            return SourceType::f32;
        }
        if (dtype.kind() == 'f' && dtype.itemsize() == 2) {
            return SourceType::f16;
        }
        if (dtype.kind() == 'u' && dtype.itemsize() == 2) {
            return SourceType::bf16;
        }
        throw std::invalid_argument("weight \"" + name + "\" has dtype " +
                                    pybind11::str(dtype).cast<std::string>() +
                                    "; it must be float32, float16, or uint16 (the bits of bfloat16)");
    }
};

/// "f32" or "bf16"; throws std::invalid_argument, naming the field, for anything else.
inline Format parse_format(const char* field, const std::string& text) {
    if (text == "f32") {
        return Format::f32;
    }
    if (text == "bf16") {
        return Format::bf16;
    }
    throw std::invalid_argument(std::string(field) + " is \"" + text + "\"; it must be \"bf16\" or \"f32\"");
}

inline Activation parse_activation(const std::string& text) {
    if (text == "silu") {
        return Activation::silu;
    }
    if (text == "gelu_tanh") {
        return Activation::gelu_tanh;
    }
    throw std::invalid_argument("activation is \"" + text + "\"; it must be \"silu\" or \"gelu_tanh\"");
}

inline QkNorm parse_qk_norm(const std::string& text) {
    if (text == "none") {
        return QkNorm::none;
    }
    if (text == "head") {
        return QkNorm::head;
    }
    if (text == "full") {
        return QkNorm::full;
    }
    throw std::invalid_argument("qk_norm is \"" + text + "\"; it must be \"none\", \"head\" or \"full\"");
}

}  // namespace outrider
