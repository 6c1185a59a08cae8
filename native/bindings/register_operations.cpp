// Python bindings of the single operations, which the tests compare bit by bit.
#include <pybind11/stl.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
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
using OptionalArray = std::optional<FloatArray>;

template <typename T>
DeviceBuffer<T> upload(const DevicePointer& device,
                       const py::array_t<T, FloatArray::c_style | FloatArray::forcecast>& values) {
    DeviceBuffer<T> buffer(device, values.size());
    device->upload(buffer.data(), values.data(), values.nbytes());
    return buffer;
}

DeviceBuffer<float> upload(const DevicePointer& device, const OptionalArray& values) {
    return values ? upload<float>(device, *values) : DeviceBuffer<float>();
}

FloatArray download(const DevicePointer& device, const DeviceBuffer<float>& from,
                    std::vector<py::ssize_t> shape) {
    FloatArray values(std::move(shape));
    device->download(values.mutable_data(), from.data(), values.nbytes());
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

int rows_of(const py::array& values) {
    return static_cast<int>(values.shape(0));
}
int width_of(const py::array& values) {
    return static_cast<int>(values.shape(1));
}

void require_shape(const char* name, const py::array& values, const std::vector<int64_t>& shape) {
    if (shape_of(values) != shape) {
        throw std::invalid_argument(std::string(name) + " has the wrong shape");
    }
}

void require_shape(const char* name, const OptionalArray& values, const std::vector<int64_t>& shape) {
    if (values) {
        require_shape(name, *values, shape);
    }
}

void require_range(const char* name, const IntArray& values, int end) {
    const int32_t* first = values.data();
    if (std::any_of(first, first + values.size(),
                    [end](int32_t value) { return value < 0 || value >= end; })) {
        throw std::invalid_argument(std::string(name) + " must be in 0 ... " + std::to_string(end - 1));
    }
}

/// A packed matrix together with its device.
class BoundWeight {
  public:
    BoundWeight(DevicePointer device, const std::string& format, int out_features, int in_features)
        : device_(std::move(device)),
          matrix_(device_->make_weight(parse_format("format", format), out_features, in_features)) {}

    void store(int first_row, const py::array& values) {
        require_dimensions("values", values, 2);
        require_shape("values", values, {rows_of(values), matrix_->in_features()});
        if (first_row < 0 || first_row + values.shape(0) > matrix_->out_features()) {
            throw std::invalid_argument("values reach beyond the weight");
        }
        const SourceArray source("values", values);
        matrix_->store(first_row, rows_of(values), source.values.data(), source.type);
    }

    FloatArray embed(const IntArray& token_ids, float scale) const {
        require_dimensions("token_ids", token_ids, 1);
        require_range("token_ids", token_ids, matrix_->out_features());
        const int rows = rows_of(token_ids);
        const DeviceBuffer<int32_t> ids = upload<int32_t>(device_, token_ids);
        const DeviceBuffer<float> residual(device_, static_cast<size_t>(rows) * matrix_->in_features());
        device_->embed({matrix_.get(), ids.data(), scale, residual.data(), rows});
        return download(device_, residual, {rows, matrix_->in_features()});
    }

    FloatArray multiply(const FloatArray& input, const OptionalArray& bias) const {
        require_dimensions("input", input, 2);
        const int rows = rows_of(input);
        const int width = matrix_->in_features();
        require_shape("input", input, {rows, width});
        require_shape("bias", bias, {matrix_->out_features()});
        ActivationBuffer rounded(matrix_->format(), width);
        rounded.reserve(device_, rows);
        const DeviceBuffer<float> values = upload<float>(device_, input);
        device_->residual_norm({values.data(), nullptr, nullptr, nullptr, 0.0f, rounded.view(), rows, width});
        const DeviceBuffer<float> addend = upload(device_, bias);
        const DeviceBuffer<float> out(device_, static_cast<size_t>(rows) * matrix_->out_features());
        device_->product({rounded.view(), matrix_.get(), addend.data(), out.data(), rows});
        return download(device_, out, {rows, matrix_->out_features()});
    }

  private:
    DevicePointer device_;
    std::unique_ptr<PackedWeight> matrix_;
};

/// The rows of an operation on a cache, and where their sequences' blocks are.
class BoundRows {
  public:
    BoundRows(const DevicePointer& device, const IntArray& positions, const IntArray& sequences,
              const IntArray& block_tables, int num_blocks)
        : positions_(upload<int32_t>(device, positions)),
          sequences_(upload<int32_t>(device, sequences)),
          block_tables_(upload<int32_t>(device, block_tables)) {
        require_dimensions("block_tables", block_tables, 2);
        require_shape("sequences", sequences, shape_of(positions));
        require_range("positions", positions, width_of(block_tables) * kBlockSize);
        require_range("sequences", sequences, rows_of(block_tables));
        require_range("block_tables", block_tables, num_blocks);
        places_ = {positions_.data(), sequences_.data(), block_tables_.data(), width_of(block_tables),
                   rows_of(positions)};
    }

    const RowPlaces& places() const { return places_; }

  private:
    DeviceBuffer<int32_t> positions_;
    DeviceBuffer<int32_t> sequences_;
    DeviceBuffer<int32_t> block_tables_;
    RowPlaces places_;
};

/// One layer's keys and values together with their device; NaN wherever nothing has been stored.
class BoundCache {
  public:
    BoundCache(DevicePointer device, const std::string& format, int num_blocks, int num_kv_heads,
               int head_dim)
        : device_(std::move(device)),
          format_(parse_format("format", format)),
          num_blocks_(num_blocks),
          num_kv_heads_(num_kv_heads),
          head_dim_(head_dim),
          bytes_(device_, num_blocks * device_->kv_block_bytes(format_, num_kv_heads, head_dim)) {
        device_->fill(bytes_.data(), 0xFF, bytes_.size());
    }

    FloatArray rotate_and_store(const FloatArray& qkv, const IntArray& positions, const IntArray& sequences,
                                const IntArray& block_tables, const FloatArray& angles,
                                const std::string& qk_norm, const OptionalArray& q_norm,
                                const OptionalArray& k_norm, float eps, float query_scale) {
        const int heads = num_heads(qkv, positions);
        require_dimensions("angles", angles, 3);
        require_shape("angles", angles, {rows_of(qkv), 2, std::min<int64_t>(angles.shape(2), head_dim_ / 2)});
        const QkNorm norm = parse_qk_norm(qk_norm);
        const bool full = norm == QkNorm::full;
        require_shape("q_norm", q_norm, {full ? heads * head_dim_ : head_dim_});
        require_shape("k_norm", k_norm, {full ? num_kv_heads_ * head_dim_ : head_dim_});
        const BoundRows rows(device_, positions, sequences, block_tables, num_blocks_);
        const DeviceBuffer<float> values = upload<float>(device_, qkv);
        const DeviceBuffer<float> turns = upload<float>(device_, angles);
        const DeviceBuffer<float> q_weight = upload(device_, q_norm);
        const DeviceBuffer<float> k_weight = upload(device_, k_norm);
        device_->rotate_and_store({values.data(), rows.places(), turns.data(),
                                   static_cast<int>(angles.shape(2)), norm, q_weight.data(), k_weight.data(),
                                   eps, query_scale, heads, layer()});
        return download(device_, values, {rows_of(qkv), width_of(qkv)});
    }

    FloatArray attention(const FloatArray& qkv, const IntArray& positions, const IntArray& sequences,
                         const IntArray& block_tables, int window, float softcap, const std::string& format) {
        const int heads = num_heads(qkv, positions);
        const BoundRows rows(device_, positions, sequences, block_tables, num_blocks_);
        const DeviceBuffer<float> values = upload<float>(device_, qkv);
        ActivationBuffer out(parse_format("format", format), heads * head_dim_);
        out.reserve(device_, rows_of(qkv));
        device_->attention({values.data(), rows.places(), heads, window, softcap, layer(), out.view()});
        return download(device_, out.view(), rows_of(qkv), heads * head_dim_);
    }

  private:
    int num_heads(const FloatArray& qkv, const IntArray& positions) const {
        require_dimensions("qkv", qkv, 2);
        const int heads = width_of(qkv) / head_dim_ - 2 * num_kv_heads_;
        require_shape("qkv", qkv, {positions.size(), (heads + 2 * num_kv_heads_) * head_dim_});
        if (heads < 1 || heads % num_kv_heads_ != 0) {
            throw std::invalid_argument(
                "qkv must hold a multiple of num_kv_heads queries, and as many keys and values");
        }
        return heads;
    }
    KvLayer layer() const { return {bytes_.data(), format_, num_kv_heads_, head_dim_}; }

    DevicePointer device_;
    Format format_;
    int num_blocks_;
    int num_kv_heads_;
    int head_dim_;
    DeviceBuffer<char> bytes_;
};

/// The operations that need neither a weight nor a cache.
struct Operations {
    static std::tuple<FloatArray, FloatArray> residual_norm(
        const DevicePointer& device, const FloatArray& residual, const OptionalArray& delta,
        const OptionalArray& delta_norm, const OptionalArray& norm, float eps, const std::string& format) {
        require_dimensions("residual", residual, 2);
        const int rows = rows_of(residual);
        const int width = width_of(residual);
        require_shape("delta", delta, {rows, width});
        require_shape("delta_norm", delta_norm, {width});
        require_shape("norm", norm, {width});
        const DeviceBuffer<float> values = upload<float>(device, residual);
        const DeviceBuffer<float> addend = upload(device, delta);
        const DeviceBuffer<float> addend_weight = upload(device, delta_norm);
        const DeviceBuffer<float> weight = upload(device, norm);
        ActivationBuffer out(parse_format("format", format), width);
        out.reserve(device, rows);
        device->residual_norm({values.data(), addend.data(), addend_weight.data(), weight.data(), eps,
                               out.view(), rows, width});
        return {download(device, values, {rows, width}), download(device, out.view(), rows, width)};
    }

    static FloatArray gated_activation(const DevicePointer& device, const FloatArray& gate_up,
                                       const std::string& activation, const std::string& format) {
        require_dimensions("gate_up", gate_up, 2);
        const int rows = rows_of(gate_up);
        const int width = width_of(gate_up) / 2;
        require_shape("gate_up", gate_up, {rows, 2 * width});
        const DeviceBuffer<float> values = upload<float>(device, gate_up);
        ActivationBuffer out(parse_format("format", format), width);
        out.reserve(device, rows);
        device->gated_activation({values.data(), parse_activation(activation), out.view(), rows, width});
        return download(device, out.view(), rows, width);
    }

    static FloatArray rotary_angles(const DevicePointer& device, const IntArray& positions,
                                    const FloatArray& frequencies, float scale) {
        const int rows = rows_of(positions);
        const int half_dim = rows_of(frequencies);
        const DeviceBuffer<int32_t> places = upload<int32_t>(device, positions);
        const DeviceBuffer<float> values = upload<float>(device, frequencies);
        const DeviceBuffer<float> out(device, static_cast<size_t>(rows) * 2 * half_dim);
        device->rotary_angles({places.data(), values.data(), scale, half_dim, out.data(), rows});
        return download(device, out, {rows, 2, half_dim});
    }

    static FloatArray soft_cap(const DevicePointer& device, const FloatArray& values, float cap) {
        const DeviceBuffer<float> buffer = upload<float>(device, values);
        device->soft_cap({buffer.data(), cap, values.size()});
        return download(device, buffer,
                        std::vector<py::ssize_t>(values.shape(), values.shape() + values.ndim()));
    }
};

void register_weight(py::module_& module) {
    py::class_<BoundWeight>(module, "PackedWeight", py::is_final())
        .def(py::init<DevicePointer, const std::string&, int, int>(), py::arg("device"), py::arg("format"),
             py::arg("out_features"), py::arg("in_features"))
        .def("store", &BoundWeight::store, py::arg("first_row"), py::arg("values"))
        .def("embed", &BoundWeight::embed, py::arg("token_ids"), py::arg("scale"))
        .def("multiply", &BoundWeight::multiply, py::arg("input"), py::arg("bias") = py::none());
}

void register_cache(py::module_& module) {
    py::class_<BoundCache>(module, "KvLayer", py::is_final())
        .def(py::init<DevicePointer, const std::string&, int, int, int>(), py::arg("device"),
             py::arg("format"), py::kw_only(), py::arg("num_blocks"), py::arg("num_kv_heads"),
             py::arg("head_dim"))
        .def("rotate_and_store", &BoundCache::rotate_and_store, py::arg("qkv"), py::arg("positions"),
             py::arg("sequences"), py::arg("block_tables"), py::kw_only(), py::arg("angles"),
             py::arg("qk_norm"), py::arg("q_norm"), py::arg("k_norm"), py::arg("eps"), py::arg("query_scale"))
        .def("attention", &BoundCache::attention, py::arg("qkv"), py::arg("positions"), py::arg("sequences"),
             py::arg("block_tables"), py::kw_only(), py::arg("window"), py::arg("softcap"),
             py::arg("format"));
}

}  // namespace

void register_operations(py::module_& module) {
    register_weight(module);
    register_cache(module);
    py::class_<Operations>(module, "Operations", py::is_final())
        .def_static("residual_norm", &Operations::residual_norm, py::arg("device"), py::arg("residual"),
                    py::arg("delta"), py::arg("delta_norm"), py::arg("norm"), py::kw_only(), py::arg("eps"),
                    py::arg("format"))
        .def_static("gated_activation", &Operations::gated_activation, py::arg("device"), py::arg("gate_up"),
                    py::arg("activation"), py::kw_only(), py::arg("format"))
        .def_static("rotary_angles", &Operations::rotary_angles, py::arg("device"), py::arg("positions"),
                    py::arg("frequencies"), py::arg("scale"))
        .def_static("soft_cap", &Operations::soft_cap, py::arg("device"), py::arg("values"), py::arg("cap"));
}

}  // namespace outrider
