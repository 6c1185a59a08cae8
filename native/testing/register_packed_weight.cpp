// Python bindings of PackedWeight: one matrix and its products.
#include <pybind11/stl.h>

#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "bindings/block_array.h"
#include "outrider/decoder/limits.h"
#include "testing/device_arrays.h"
#include "testing/grouped_arrays.h"
#include "testing/testing.h"
#include "testing/timed_passes.h"

namespace py = pybind11;

namespace outrider {
namespace {

/// A packed matrix together with its device.
class BoundWeight {
  public:
    BoundWeight(DevicePointer device, const std::string& format, int out_features, int in_features,
                const std::optional<std::tuple<int, int, bool>>& groups)
        : device_(std::move(device)) {
        require_range("out_features", out_features, 1, kMostFeatures);
        require_range("in_features", in_features, 1, kMostFeatures);
        const auto [size, block, has_offsets] = groups.value_or(std::tuple{0, 0, false});
        matrix_ =
            device_->make_weight(kind_of({format, size, block, has_offsets}), out_features, in_features);
    }

    void store(int first_row, const py::array& values) {
        require_dimensions("values", values, 2);
        require_shape("values", values, {rows_of(values), matrix_->in_features()});
        require_rows(first_row, values);
        const SourceArray source("values", values);
        matrix_->store(first_row, rows_of(values), source.values.data(), source.type);
    }

    void store_groups(int first_row, const py::array& numbers, const py::array& scales,
                      const GroupedArrays::Optional& offsets, const GroupedArrays::Optional& steps,
                      const GroupedArrays::Optional& offset_steps) {
        const GroupedArrays arrays(matrix_->kind(), numbers, scales, offsets, steps, offset_steps);
        require_shape("numbers", numbers, {rows_of(numbers), matrix_->in_features()});
        require_rows(first_row, numbers);
        matrix_->store_groups(first_row, rows_of(numbers), arrays.rows());
    }

    void store_blocks(int first_row, const std::string& type, const py::array& rows) {
        const BlockArray blocks(type, rows);
        require_shape("rows", rows, {rows_of(rows), blocks.type().row_bytes(matrix_->in_features())});
        require_rows(first_row, rows);
        matrix_->store_blocks(first_row, rows_of(rows), blocks.type(), blocks.data());
    }

    FloatArray embed(const IntArray& token_ids, float scale) const {
        require_dimensions("token_ids", token_ids, 1);
        require_range("token_ids", token_ids, matrix_->out_features());
        const int rows = rows_of(token_ids);
        const DeviceBuffer<int32_t> ids = upload<int32_t>(device_, token_ids);
        const DeviceBuffer<float> residual(device_, static_cast<size_t>(rows) * matrix_->in_features());
        device_->embed({.table = matrix_.get(),
                        .token_ids = ids.data(),
                        .scale = scale,
                        .residual = residual.data(),
                        .rows = rows});
        return download(device_, residual, {rows, matrix_->in_features()});
    }

    FloatArray multiply(const FloatArray& input, const OptionalArray& bias) const {
        require_shape("bias", bias, {matrix_->out_features()});
        const Arrays arrays(*this, input);
        const DeviceBuffer<float> addend = upload(device_, bias);
        enqueue(arrays, addend.data());
        return download(device_, arrays.out, {arrays.rows, matrix_->out_features()});
    }

    /// The activation of an MLP's gate and up products.
    FloatArray multiply_gated(const FloatArray& input, const std::string& activation,
                              const OptionalArray& bias) const {
        require_range("out_features / 2", matrix_->out_features() % 2, 0, 0);
        require_shape("bias", bias, {matrix_->out_features()});
        const Arrays arrays(*this, input);
        const DeviceBuffer<float> addend = upload(device_, bias);
        const int width = matrix_->out_features() / 2;
        ActivationBuffer gated(device_->activation_format(matrix_->format()), width);
        gated.reserve(device_, arrays.rows);
        device_->activated_product(product_of(arrays, addend.data()),
                                   {.gate_up = arrays.out.data(),
                                    .activation = parse("activation", activation, kActivations),
                                    .out = gated.view(),
                                    .rows = arrays.rows,
                                    .width = width});
        return download(device_, gated.view(), arrays.rows, width);
    }

    /// The products of experts, whose weights all have the same shape.
    static FloatArray multiply_experts(const std::vector<const BoundWeight*>& weights,
                                       const FloatArray& input, const IntArray& first_rows,
                                       const OptionalArray& biases) {
        require_alike(weights);
        const auto count = static_cast<int>(weights.size());
        const BoundWeight& first = *weights[0];
        const Arrays arrays(first, input);
        require_shape("first_rows", first_rows, {count + 1});
        require_range("first_rows", first_rows, int64_t{arrays.rows} + 1);
        require_shape("biases", biases, {count, first.matrix_->out_features()});
        const DeviceBuffer<int32_t> spans = upload<int32_t>(first.device_, first_rows);
        const DeviceBuffer<float> addends = upload(first.device_, biases);
        std::vector<ExpertMatrix> matrices;
        for (int expert = 0; expert < count; ++expert) {
            const float* bias =
                biases ? addends.data() + int64_t{expert} * first.matrix_->out_features() : nullptr;
            matrices.push_back({.weight = weights[expert]->matrix_.get(), .bias = bias, .expert = expert});
        }
        first.device_->expert_products({.input = arrays.input.view(),
                                        .matrices = matrices.data(),
                                        .count = count,
                                        .first_rows = spans.data(),
                                        .out = arrays.out.data(),
                                        .out_stride = first.matrix_->out_features(),
                                        .rows = arrays.rows});
        return download(first.device_, arrays.out, {arrays.rows, first.matrix_->out_features()});
    }

    /// Times products with several weights of the same shape, one after another.
    static std::vector<double> time_products(const std::vector<const BoundWeight*>& weights,
                                             const FloatArray& input, int runs) {
        require_alike(weights);
        const Arrays arrays(*weights[0], input);
        return time_passes(weights[0]->device_, runs, [&] {
            for (const BoundWeight* weight : weights) {
                weight->enqueue(arrays, nullptr);
            }
        });
    }

  private:
    /// A product's input rows, rounded to the weight's format, and its output.
    struct Arrays {
        int rows;
        ActivationBuffer input;
        DeviceBuffer<float> out;
        DeviceBuffer<float> scratch;

        Arrays(const BoundWeight& weight, const FloatArray& values)
            : rows(checked_rows(weight, values)),
              input(weight.device_->activation_format(weight.matrix_->format()),
                    weight.matrix_->in_features()),
              out(weight.device_, static_cast<size_t>(rows) * weight.matrix_->out_features()) {
            scratch.reserve(weight.device_,
                            weight.device_->product_scratch(rows, weight.matrix_->out_features(),
                                                            weight.matrix_->in_features()));
            input.reserve(weight.device_, rows);
            const DeviceBuffer<float> unrounded = upload<float>(weight.device_, values);
            weight.device_->residual_norm({.residual = unrounded.data(),
                                           .out = input.view(),
                                           .rows = rows,
                                           .width = weight.matrix_->in_features()});
        }

        static int checked_rows(const BoundWeight& weight, const FloatArray& values) {
            require_dimensions("input", values, 2);
            require_shape("input", values, {rows_of(values), weight.matrix_->in_features()});
            return rows_of(values);
        }
    };

    Product product_of(const Arrays& arrays, const float* bias) const {
        return {.input = arrays.input.view(),
                .weight = matrix_.get(),
                .bias = bias,
                .out = arrays.out.data(),
                .out_stride = matrix_->out_features(),
                .rows = arrays.rows,
                .scratch = arrays.scratch.data()};
    }

    void enqueue(const Arrays& arrays, const float* bias) const {
        device_->product(product_of(arrays, bias));
    }

    static void require_alike(const std::vector<const BoundWeight*>& weights) {
        if (weights.empty()) {
            throw std::invalid_argument("weights are none");
        }
        for (const BoundWeight* weight : weights) {
            if (weight->matrix_->in_features() != weights[0]->matrix_->in_features() ||
                weight->matrix_->out_features() != weights[0]->matrix_->out_features() ||
                weight->matrix_->format() != weights[0]->matrix_->format()) {
                throw std::invalid_argument("weights differ in shape or format");
            }
        }
    }

    void require_rows(int first_row, const py::array& values) const {
        if (first_row < 0 || first_row + values.shape(0) > matrix_->out_features()) {
            throw std::invalid_argument("values reach beyond the weight");
        }
    }

    DevicePointer device_;
    std::unique_ptr<PackedWeight> matrix_;
};

}  // namespace

void register_packed_weight(py::module_& module) {
    py::class_<BoundWeight>(module, "PackedWeight", py::is_final())
        .def(py::init<DevicePointer, const std::string&, int, int,
                      const std::optional<std::tuple<int, int, bool>>&>(),
             py::arg("device"), py::arg("format"), py::arg("out_features"), py::arg("in_features"),
             py::arg("groups") = py::none())
        .def("store", &BoundWeight::store, py::arg("first_row"), py::arg("values"))
        .def("store_groups", &BoundWeight::store_groups, py::arg("first_row"), py::kw_only(),
             py::arg("numbers"), py::arg("scales"), py::arg("offsets") = py::none(),
             py::arg("steps") = py::none(), py::arg("offset_steps") = py::none())
        .def("store_blocks", &BoundWeight::store_blocks, py::arg("first_row"), py::arg("type"),
             py::arg("rows"))
        .def("embed", &BoundWeight::embed, py::arg("token_ids"), py::arg("scale"))
        .def("multiply", &BoundWeight::multiply, py::arg("input"), py::arg("bias") = py::none())
        .def("multiply_gated", &BoundWeight::multiply_gated, py::arg("input"), py::arg("activation"),
             py::arg("bias") = py::none())
        .def_static("multiply_experts", &BoundWeight::multiply_experts, py::arg("weights"), py::arg("input"),
                    py::arg("first_rows"), py::arg("biases") = py::none())
        .def_static("time_products", &BoundWeight::time_products, py::arg("weights"), py::arg("input"),
                    py::arg("runs"));
}

}  // namespace outrider
