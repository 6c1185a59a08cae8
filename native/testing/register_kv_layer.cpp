// Python bindings of KvLayer: one layer's cache and attention.
#include <pybind11/stl.h>

#include <limits>
#include <string>
#include <utility>

#include "outrider/decoder/limits.h"
#include "testing/device_arrays.h"
#include "testing/testing.h"

namespace py = pybind11;

namespace outrider {
namespace {

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
        require_range("positions", positions, int64_t{width_of(block_tables)} * kBlockSize);
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
          format_(parse("format", format, kKvFormats)),
          num_blocks_(num_blocks),
          num_kv_heads_(num_kv_heads),
          head_dim_(head_dim),
          bytes_(device_, checked_bytes()) {
        device_->fill(bytes_.data(), 0xFF, bytes_.size());
    }

    FloatArray rotate_and_store(const FloatArray& qkv, const IntArray& positions, const IntArray& sequences,
                                const IntArray& block_tables, const FloatArray& angles,
                                const std::string& qk_norm, const OptionalArray& q_norm,
                                const OptionalArray& k_norm, float eps, float query_scale) {
        const int heads = num_heads(qkv, positions);
        require_dimensions("angles", angles, 3);
        require_shape("angles", angles, {rows_of(qkv), 2, std::min<int64_t>(angles.shape(2), head_dim_ / 2)});
        const QkNorm norm = parse("qk_norm", qk_norm, kQkNorms);
        const bool full = norm == QkNorm::full;
        require_shape("q_norm", q_norm, {full ? heads * head_dim_ : head_dim_});
        require_shape("k_norm", k_norm, {full ? num_kv_heads_ * head_dim_ : head_dim_});
        const BoundRows rows(device_, positions, sequences, block_tables, num_blocks_);
        const DeviceBuffer<float> values = upload<float>(device_, qkv);
        const DeviceBuffer<float> turns = upload<float>(device_, angles);
        const DeviceBuffer<float> q_weight = upload(device_, q_norm);
        const DeviceBuffer<float> k_weight = upload(device_, k_norm);
        device_->rotate_and_store({.qkv = values.data(),
                                   .places = rows.places(),
                                   .angles = turns.data(),
                                   .half_dim = static_cast<int>(angles.shape(2)),
                                   .qk_norm = norm,
                                   .q_norm = q_weight.data(),
                                   .k_norm = k_weight.data(),
                                   .eps = eps,
                                   .query_scale = query_scale,
                                   .num_heads = heads,
                                   .cache = layer()});
        return download(device_, values, {rows_of(qkv), width_of(qkv)});
    }

    FloatArray attention(const FloatArray& qkv, const IntArray& positions, const IntArray& sequences,
                         const IntArray& block_tables, int window, float softcap, const std::string& format) {
        const int heads = num_heads(qkv, positions);
        require_range("window", window, 0, std::numeric_limits<int>::max());
        const BoundRows rows(device_, positions, sequences, block_tables, num_blocks_);
        const DeviceBuffer<float> values = upload<float>(device_, qkv);
        ActivationBuffer out(parse("format", format, kFormats), heads * head_dim_);
        out.reserve(device_, rows_of(qkv));
        const DeviceBuffer<float> scratch(
            device_, device_->attention_scratch(rows_of(qkv), width_of(block_tables), heads, head_dim_));
        device_->attention({.qkv = values.data(),
                            .places = rows.places(),
                            .num_heads = heads,
                            .window = window,
                            .softcap = softcap,
                            .cache = layer(),
                            .out = out.view(),
                            .scratch = scratch.data()});
        return download(device_, out.view(), rows_of(qkv), heads * head_dim_);
    }

  private:
    size_t checked_bytes() const {
        require_range("num_blocks", num_blocks_, 1, kMostBlocks);
        require_range("head_dim", head_dim_, 1, device_->max_head_dim());
        require_range("num_kv_heads", num_kv_heads_, 1, kMostFeatures / head_dim_);
        return num_blocks_ * device_->kv_block_bytes(format_, num_kv_heads_, head_dim_);
    }

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
    KvFormat format_;
    int num_blocks_;
    int num_kv_heads_;
    int head_dim_;
    DeviceBuffer<char> bytes_;
};

}  // namespace

void register_kv_layer(py::module_& module) {
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

}  // namespace outrider
