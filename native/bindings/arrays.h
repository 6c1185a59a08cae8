// Numpy arrays as arguments: checked once, then used as raw pointers.
#pragma once

#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>

#include <cstdint>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "outrider/device/format.h"
#include "outrider/device/operations.h"

namespace outrider {

inline std::vector<int64_t> shape_of(const pybind11::array& array) {
    return std::vector<int64_t>(array.shape(), array.shape() + array.ndim());
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

template <typename T>
using Names = std::vector<std::pair<const char*, T>>;

inline const Names<WeightFormat> kWeightFormats{{"bf16", WeightFormat::bf16},
                                                {"f32", WeightFormat::f32},
                                                {"int8", WeightFormat::int8},
                                                {"int4", WeightFormat::int4},
                                                {"fp8", WeightFormat::fp8}};
inline const Names<KvFormat> kKvFormats{
    {"bf16", KvFormat::bf16}, {"f32", KvFormat::f32}, {"int8", KvFormat::int8}, {"fp8", KvFormat::fp8}};

/// Throws std::invalid_argument, naming the field and the allowed names, for an unknown name.
template <typename T>
T parse(const char* field, const std::string& text, const Names<T>& names) {
    std::string allowed;
    for (const auto& [name, value] : names) {
        if (text == name) {
            return value;
        }
        allowed += (allowed.empty() ? "\"" : ", \"") + std::string(name) + "\"";
    }
    throw std::invalid_argument(std::string(field) + " is \"" + text + "\"; it must be one of " + allowed);
}

inline const Names<Activation> kActivations{{"silu", Activation::silu},
                                            {"gelu", Activation::gelu},
                                            {"gelu_tanh", Activation::gelu_tanh},
                                            {"clamped_swiglu", Activation::clamped_swiglu}};
inline const Names<NormKind> kNormKinds{{"rms", NormKind::rms}, {"layer", NormKind::layer}};
inline const Names<ExpertScores> kExpertScores{{"softmax", ExpertScores::softmax},
                                               {"sigmoid", ExpertScores::sigmoid}};
inline const Names<QkNorm> kQkNorms{
    {"none", QkNorm::none}, {"head", QkNorm::head}, {"each", QkNorm::each}, {"full", QkNorm::full}};
inline const Names<FeatureNorm> kFeatureNorms{
    {"none", FeatureNorm::none}, {"all", FeatureNorm::all}, {"each", FeatureNorm::each}};

}  // namespace outrider
