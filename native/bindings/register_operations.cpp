// Python bindings of the single operations, in the submodule `ops`: what the tests compare bit by bit.
#include <pybind11/stl.h>

#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "arrays.h"
#include "bindings.h"
#include "outrider/device.h"
#include "outrider/device_buffer.h"
#include "outrider/workspace.h"
#include "source_values.h"

namespace py = pybind11;

namespace outrider {
namespace {

using DevicePointer = std::shared_ptr<Device>;

DeviceBuffer<float> upload(const DevicePointer& device, const FloatArray& values) {
    DeviceBuffer<float> buffer(device, values.size());
    device->upload(buffer.data(), values.data(), values.nbytes());
    return buffer;
}

DeviceBuffer<float> upload(const DevicePointer& device, const std::optional<FloatArray>& values) {
    return values ? upload(device, *values) : DeviceBuffer<float>();
}

DeviceBuffer<int32_t> upload(const DevicePointer& device, const IntArray& values) {
    DeviceBuffer<int32_t> buffer(device, values.size());
    device->upload(buffer.data(), values.data(), values.nbytes());
    return buffer;
}

FloatArray download(const DevicePointer& device, const float* from, const std::vector<py::ssize_t>& shape) {
    FloatArray values(shape);
    device->download(values.mutable_data(), from, values.nbytes());
    return values;
}

FloatArray download(const DevicePointer& device, const Activations& from, int rows, int width) {
    FloatArray values({rows, width});
    std::vector<char> stored(rows * from.stride * size_of(from.format));
    device->download(stored.data(), from.data, stored.size());
    const SourceType type = from.format == Format::f32 ? SourceType::f32 : SourceType::bf16;
    for (int row = 0; row < rows; ++row) {
        const std::vector<float> converted = to_float32(stored.data(), type, row * from.stride, width);
        std::copy(converted.begin(), converted.end(), values.mutable_data(row));
    }
    return values;
}

int rows_of(const py::array& values) { return static_cast<int>(values.shape(0)); }
int width_of(const py::array& values) { return static_cast<int>(values.shape(1)); }

/// A packed matrix together with its device.
class Weight {
  public:
    Weight(DevicePointer device, const std::string& format, int out_features, int in_features)
        : device_(std::move(device)),
          matrix_(device_->make_weight(parse_format("format", format), out_features, in_features)) {}

    void store(int first_row, const py::array& values) {
        require_dimensions("values", values, 2);
        const SourceArray source("values", values);
        if (first_row < 0 || first_row + values.shape(0) > matrix_->out_features() ||
            values.shape(1) != matrix_->in_features()) {
            throw std::invalid_argument("values do not fit into the weight");
        }
        matrix_->store(first_row, rows_of(values), source.values.data(), source.type);
    }

    FloatArray embed(const IntArray& token_ids, float scale) const {
        const int rows = rows_of(token_ids);
        const DeviceBuffer<int32_t> ids = upload(device_, token_ids);
        const DeviceBuffer<float> residual(device_, static_cast<size_t>(rows) * matrix_->in_features());
        device_->embed({matrix_.get(), ids.data(), scale, residual.data(), rows});
        return download(device_, residual.data(), {rows, matrix_->in_features()});
    }

    FloatArray matmul(const FloatArray& input, const std::optional<FloatArray>& bias) const {
        require_dimensions("input", input, 2);
        const int rows = rows_of(input);
        ActivationBuffer rounded(matrix_->format(), matrix_->in_features());
        rounded.reserve(device_, rows);
        const DeviceBuffer<float> values = upload(device_, input);
        device_->residual_norm(
            {values.data(), nullptr, nullptr, nullptr, 0.0f, rounded.view(), rows, matrix_->in_features()});
        const DeviceBuffer<float> addend = upload(device_, bias);
        const DeviceBuffer<float> out(device_, static_cast<size_t>(rows) * matrix_->out_features());
        device_->product({rounded.view(), matrix_.get(), addend.data(), out.data(), rows});
        return download(device_, out.data(), {rows, matrix_->out_features()});
    }

  private:
    DevicePointer device_;
    std::unique_ptr<PackedWeight> matrix_;
};

/// Where the rows of a test are.
class Rows {
  public:
    Rows(const DevicePointer& device, const IntArray& positions, const IntArray& sequences, const IntArray& tables)
        : positions_(upload(device, positions)),
          sequences_(upload(device, sequences)),
          tables_(upload(device, tables)),
          places_{positions_.data(), sequences_.data(), tables_.data(), width_of(tables), rows_of(positions)} {}

    const RowPlaces& places() const { return places_; }

  private:
    DeviceBuffer<int32_t> positions_;
    DeviceBuffer<int32_t> sequences_;
    DeviceBuffer<int32_t> tables_;
    RowPlaces places_;
};

/// One layer's keys and values together with their device.
class Cache {
  public:
    Cache(DevicePointer device, const std::string& format, int num_blocks, int num_kv_heads, int head_dim)
        : device_(std::move(device)),
          format_(parse_format("format", format)),
          num_kv_heads_(num_kv_heads),
          head_dim_(head_dim),
          block_bytes_(device_->kv_block_bytes(format_, num_kv_heads, head_dim)),
          bytes_(device_, num_blocks * block_bytes_) {
        device_->fill(bytes_.data(), 0xFF, bytes_.size());  // NaN wherever nothing has been stored
    }

    FloatArray rotate_and_store(const FloatArray& qkv, const IntArray& positions, const IntArray& sequences,
                                const IntArray& block_tables, const FloatArray& angles, const std::string& qk_norm,
                                const std::optional<FloatArray>& q_norm, const std::optional<FloatArray>& k_norm,
                                float eps, float query_scale) {
        const Rows rows(device_, positions, sequences, block_tables);
        const DeviceBuffer<float> values = upload(device_, qkv);
        const DeviceBuffer<float> turns = upload(device_, angles);
        const DeviceBuffer<float> q_weight = upload(device_, q_norm);
        const DeviceBuffer<float> k_weight = upload(device_, k_norm);
        device_->rotate_and_store({values.data(), rows.places(), turns.data(), static_cast<int>(angles.shape(2)),
                                   parse_qk_norm(qk_norm), q_weight.data(), k_weight.data(), eps, query_scale,
                                   num_heads(qkv), layer()});
        return download(device_, values.data(), {rows_of(qkv), width_of(qkv)});
    }

    FloatArray attention(const FloatArray& qkv, const IntArray& positions, const IntArray& sequences,
                         const IntArray& block_tables, int window, float softcap, const std::string& format) {
        const Rows rows(device_, positions, sequences, block_tables);
        const DeviceBuffer<float> values = upload(device_, qkv);
        const int width = num_heads(qkv) * head_dim_;
        ActivationBuffer out(parse_format("format", format), width);
        out.reserve(device_, rows_of(qkv));
        device_->attention(
            {values.data(), rows.places(), num_heads(qkv), window, softcap, layer(), out.view()});
        return download(device_, out.view(), rows_of(qkv), width);
    }

  private:
    int num_heads(const FloatArray& qkv) const { return width_of(qkv) / head_dim_ - 2 * num_kv_heads_; }
    KvLayer layer() const { return {bytes_.data(), format_, num_kv_heads_, head_dim_}; }

    DevicePointer device_;
    Format format_;
    int num_kv_heads_;
    int head_dim_;
    size_t block_bytes_;
    DeviceBuffer<char> bytes_;
};

std::tuple<FloatArray, FloatArray> residual_norm(const DevicePointer& device, const FloatArray& residual,
                                                 const std::optional<FloatArray>& delta,
                                                 const std::optional<FloatArray>& delta_norm,
                                                 const std::optional<FloatArray>& norm, float eps,
                                                 const std::string& format) {
    const int rows = rows_of(residual);
    const int width = width_of(residual);
    const DeviceBuffer<float> values = upload(device, residual);
    const DeviceBuffer<float> addend = upload(device, delta);
    const DeviceBuffer<float> addend_weight = upload(device, delta_norm);
    const DeviceBuffer<float> weight = upload(device, norm);
    ActivationBuffer out(parse_format("format", format), width);
    out.reserve(device, rows);
    device->residual_norm(
        {values.data(), addend.data(), addend_weight.data(), weight.data(), eps, out.view(), rows, width});
    return {download(device, values.data(), {rows, width}), download(device, out.view(), rows, width)};
}

FloatArray gated_activation(const DevicePointer& device, const FloatArray& gate_up, const std::string& activation,
                            const std::string& format) {
    const int rows = rows_of(gate_up);
    const int width = width_of(gate_up) / 2;
    const DeviceBuffer<float> values = upload(device, gate_up);
    ActivationBuffer out(parse_format("format", format), width);
    out.reserve(device, rows);
    device->gated_activation({values.data(), parse_activation(activation), out.view(), rows, width});
    return download(device, out.view(), rows, width);
}

FloatArray rotary_angles(const DevicePointer& device, const IntArray& positions, const FloatArray& frequencies,
                         float scale) {
    const int rows = rows_of(positions);
    const int half_dim = rows_of(frequencies);
    const DeviceBuffer<int32_t> places = upload(device, positions);
    const DeviceBuffer<float> values = upload(device, frequencies);
    const DeviceBuffer<float> out(device, static_cast<size_t>(rows) * 2 * half_dim);
    device->rotary_angles({places.data(), values.data(), scale, half_dim, out.data(), rows});
    return download(device, out.data(), {rows, 2, half_dim});
}

FloatArray soft_cap(const DevicePointer& device, const FloatArray& values, float cap) {
    const DeviceBuffer<float> buffer = upload(device, values);
    device->soft_cap({buffer.data(), cap, values.size()});
    return download(device, buffer.data(), std::vector<py::ssize_t>(values.shape(), values.shape() + values.ndim()));
}

void register_classes(py::module_& ops) {
    py::class_<Weight>(ops, "Weight", py::is_final())
        .def(py::init<DevicePointer, const std::string&, int, int>(), py::arg("device"), py::arg("format"),
             py::arg("out_features"), py::arg("in_features"))
        .def("store", &Weight::store, py::arg("first_row"), py::arg("values"))
        .def("embed", &Weight::embed, py::arg("token_ids"), py::arg("scale"))
        .def("matmul", &Weight::matmul, py::arg("input"), py::arg("bias") = py::none());
    py::class_<Cache>(ops, "Cache", py::is_final())
        .def(py::init<DevicePointer, const std::string&, int, int, int>(), py::arg("device"), py::arg("format"),
             py::arg("num_blocks"), py::arg("num_kv_heads"), py::arg("head_dim"))
        .def("rotate_and_store", &Cache::rotate_and_store, py::arg("qkv"), py::arg("positions"),
             py::arg("sequences"), py::arg("block_tables"), py::arg("angles"), py::arg("qk_norm"), py::arg("q_norm"),
             py::arg("k_norm"), py::arg("eps"), py::arg("query_scale"))
        .def("attention", &Cache::attention, py::arg("qkv"), py::arg("positions"), py::arg("sequences"),
             py::arg("block_tables"), py::arg("window"), py::arg("softcap"), py::arg("format"));
}

}  // namespace

void register_operations(py::module_& module) {
    py::module_ ops = module.def_submodule("ops", "Single operations of the decoder, for tests.");
    register_classes(ops);
    ops.def("residual_norm", &residual_norm, py::arg("device"), py::arg("residual"), py::arg("delta"),
            py::arg("delta_norm"), py::arg("norm"), py::arg("eps"), py::arg("format"));
    ops.def("gated_activation", &gated_activation, py::arg("device"), py::arg("gate_up"), py::arg("activation"),
            py::arg("format"));
    ops.def("rotary_angles", &rotary_angles, py::arg("device"), py::arg("positions"), py::arg("frequencies"),
            py::arg("scale"));
    ops.def("soft_cap", &soft_cap, py::arg("device"), py::arg("values"), py::arg("cap"));
}

}  // namespace outrider
