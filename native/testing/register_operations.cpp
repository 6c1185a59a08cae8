// Python bindings of the operations that use neither weights nor a cache.
#include <pybind11/stl.h>

#include <algorithm>
#include <stdexcept>
#include <string>
#include <tuple>
#include <vector>

#include "outrider/decoder/limits.h"
#include "testing/device_arrays.h"
#include "testing/testing.h"
#include "testing/timed_passes.h"

namespace py = pybind11;

namespace outrider {
namespace {

/// The operations that use neither a weight nor a cache.
struct Operations {
    static std::tuple<FloatArray, FloatArray> residual_norm(
        const DevicePointer& device, const FloatArray& residual, const OptionalArray& delta,
        const OptionalArray& delta_norm, const OptionalArray& norm, float eps, const std::string& format,
        const std::string& kind, const OptionalArray& norm_bias) {
        require_dimensions("residual", residual, 2);
        const int rows = rows_of(residual);
        const int width = width_of(residual);
        require_shape("delta", delta, {rows, width});
        require_shape("delta_norm", delta_norm, {width});
        require_shape("norm", norm, {width});
        require_shape("norm_bias", norm_bias, {width});
        const DeviceBuffer<float> values = upload<float>(device, residual);
        const DeviceBuffer<float> addend = upload(device, delta);
        const DeviceBuffer<float> addend_weight = upload(device, delta_norm);
        const DeviceBuffer<float> weight = upload(device, norm);
        const DeviceBuffer<float> bias = upload(device, norm_bias);
        ActivationBuffer out(parse("format", format, kFormats), width);
        out.reserve(device, rows);
        device->residual_norm({.residual = values.data(),
                               .delta = addend.data(),
                               .delta_norm = addend_weight.data(),
                               .norm = weight.data(),
                               .norm_bias = bias.data(),
                               .kind = parse("kind", kind, kNormKinds),
                               .eps = eps,
                               .out = out.view(),
                               .rows = rows,
                               .width = width});
        return {download(device, values, {rows, width}), download(device, out.view(), rows, width)};
    }

    /// Times residual_norm repeated on the same rows, as between a layer's products.
    static std::vector<double> time_residual_norm(const DevicePointer& device, const FloatArray& residual,
                                                  const FloatArray& delta, const FloatArray& norm, int times,
                                                  int runs) {
        require_range("times", times, 0, kMostTimed);
        require_dimensions("residual", residual, 2);
        const int rows = rows_of(residual);
        const int width = width_of(residual);
        require_shape("delta", delta, {rows, width});
        require_shape("norm", norm, {width});
        const DeviceBuffer<float> values = upload<float>(device, residual);
        const DeviceBuffer<float> addend = upload<float>(device, delta);
        const DeviceBuffer<float> weight = upload<float>(device, norm);
        ActivationBuffer out(Format::bf16, width);
        out.reserve(device, rows);
        return time_passes(device, runs, [&] {
            for (int i = 0; i < times; ++i) {
                device->residual_norm({.residual = values.data(),
                                       .delta = addend.data(),
                                       .norm = weight.data(),
                                       .out = out.view(),
                                       .rows = rows,
                                       .width = width});
            }
        });
    }

    static std::vector<double> time_activate(const DevicePointer& device, const FloatArray& gate_up,
                                             int times, int runs) {
        require_range("times", times, 0, kMostTimed);
        require_dimensions("gate_up", gate_up, 2);
        const int rows = rows_of(gate_up);
        const int width = width_of(gate_up) / 2;
        require_shape("gate_up", gate_up, {rows, 2 * width});
        const DeviceBuffer<float> values = upload<float>(device, gate_up);
        ActivationBuffer out(Format::bf16, width);
        out.reserve(device, rows);
        return time_passes(device, runs, [&] {
            for (int i = 0; i < times; ++i) {
                device->activate({.gate_up = values.data(), .out = out.view(), .rows = rows, .width = width});
            }
        });
    }

    static FloatArray activate(const DevicePointer& device, const FloatArray& gate_up,
                               const std::string& activation, const std::string& format, bool is_gated) {
        require_dimensions("gate_up", gate_up, 2);
        const int rows = rows_of(gate_up);
        const int parts = is_gated ? 2 : 1;
        const int width = width_of(gate_up) / parts;
        require_shape("gate_up", gate_up, {rows, parts * width});
        const DeviceBuffer<float> values = upload<float>(device, gate_up);
        ActivationBuffer out(parse("format", format, kFormats), width);
        out.reserve(device, rows);
        device->activate({.gate_up = values.data(),
                          .activation = parse("activation", activation, kActivations),
                          .is_gated = is_gated,
                          .out = out.view(),
                          .rows = rows,
                          .width = width});
        return download(device, out.view(), rows, width);
    }

    static FloatArray rotary_angles(const DevicePointer& device, const IntArray& positions,
                                    const FloatArray& frequencies, float scale) {
        const int rows = rows_of(positions);
        const int half_dim = rows_of(frequencies);
        const DeviceBuffer<int32_t> places = upload<int32_t>(device, positions);
        const DeviceBuffer<float> values = upload<float>(device, frequencies);
        const DeviceBuffer<float> out(device, static_cast<size_t>(rows) * 2 * half_dim);
        device->rotary_angles({.positions = places.data(),
                               .frequencies = values.data(),
                               .scale = scale,
                               .half_dim = half_dim,
                               .out = out.data(),
                               .rows = rows});
        return download(device, out, {rows, 2, half_dim});
    }

    static std::tuple<IntArray, FloatArray> route(const DevicePointer& device, const FloatArray& logits,
                                                  int per_token, bool are_normalised,
                                                  const std::string& scores, const OptionalArray& choice_bias,
                                                  float sum_offset, float weight_scale, int groups,
                                                  int groups_per_token) {
        require_dimensions("logits", logits, 2);
        const int rows = rows_of(logits);
        const int count = width_of(logits);
        require_range("per_token", per_token, 1, count);
        const size_t choices = static_cast<size_t>(rows) * per_token;
        require_range("the number of experts", count, 1, kMostExperts);
        require_range("groups", groups, 1, std::max(1, count / 2));
        if (count % groups != 0) {
            throw std::invalid_argument("groups must divide the number of experts");
        }
        require_range("groups_per_token", groups_per_token, 1, groups);
        require_shape("choice_bias", choice_bias, {count});
        const DeviceBuffer<float> values = upload<float>(device, logits);
        const DeviceBuffer<float> biases = upload(device, choice_bias);
        const DeviceBuffer<float> weights(device, choices);
        const DeviceBuffer<int32_t> experts(device, choices);
        const DeviceBuffer<int32_t> places(device, choices);
        const DeviceBuffer<int32_t> gathered(device, choices);
        const DeviceBuffer<int32_t> first_rows(device, static_cast<size_t>(count) + 1);
        device->route({.logits = values.data(),
                       .stride = count,
                       .choice_bias = biases.data(),
                       .rule = {.scores = parse("scores", scores, kExpertScores),
                                .are_normalised = are_normalised,
                                .sum_offset = sum_offset,
                                .weight_scale = weight_scale,
                                .groups = groups,
                                .groups_per_token = groups_per_token},
                       .out = {.experts = experts.data(),
                               .weights = weights.data(),
                               .places = places.data(),
                               .gathered = gathered.data(),
                               .first_rows = first_rows.data(),
                               .count = count,
                               .per_token = per_token},
                       .rows = rows});
        IntArray chosen({rows, per_token});
        device->download(chosen.mutable_data(), experts.data(), chosen.nbytes());
        return {chosen, download(device, weights, {rows, per_token})};
    }

    static FloatArray soft_cap(const DevicePointer& device, const FloatArray& values, float cap) {
        const DeviceBuffer<float> buffer = upload<float>(device, values);
        device->soft_cap({.values = buffer.data(), .cap = cap, .count = values.size()});
        return download(device, buffer,
                        std::vector<py::ssize_t>(values.shape(), values.shape() + values.ndim()));
    }
};

}  // namespace

void register_operations(py::module_& module) {
    py::class_<Operations>(module, "Operations", py::is_final())
        .def_static("residual_norm", &Operations::residual_norm, py::arg("device"), py::arg("residual"),
                    py::arg("delta"), py::arg("delta_norm"), py::arg("norm"), py::kw_only(), py::arg("eps"),
                    py::arg("format"), py::arg("kind") = "rms", py::arg("norm_bias") = py::none())
        .def_static("time_residual_norm", &Operations::time_residual_norm, py::arg("device"),
                    py::arg("residual"), py::arg("delta"), py::arg("norm"), py::arg("times"), py::arg("runs"))
        .def_static("time_activate", &Operations::time_activate, py::arg("device"), py::arg("gate_up"),
                    py::arg("times"), py::arg("runs"))
        .def_static("activate", &Operations::activate, py::arg("device"), py::arg("gate_up"),
                    py::arg("activation"), py::kw_only(), py::arg("format"), py::arg("is_gated") = true)
        .def_static("rotary_angles", &Operations::rotary_angles, py::arg("device"), py::arg("positions"),
                    py::arg("frequencies"), py::arg("scale"))
        .def_static("route", &Operations::route, py::arg("device"), py::arg("logits"), py::arg("per_token"),
                    py::kw_only(), py::arg("are_normalised"), py::arg("scores") = "softmax",
                    py::arg("choice_bias") = py::none(), py::arg("sum_offset") = 0.0f,
                    py::arg("weight_scale") = 1.0f, py::arg("groups") = 1, py::arg("groups_per_token") = 1)
        .def_static("soft_cap", &Operations::soft_cap, py::arg("device"), py::arg("values"), py::arg("cap"));
}

}  // namespace outrider
