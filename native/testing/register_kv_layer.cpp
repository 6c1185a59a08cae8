// Python bindings of KvLayer: one layer's cache and attention.
#include <pybind11/stl.h>

#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "outrider/decoder/limits.h"
#include "testing/device_arrays.h"
#include "testing/testing.h"
#include "testing/timed_passes.h"

namespace py = pybind11;

namespace outrider {
namespace {

/// The rows of an operation on a cache, with their sequences' block tables.
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
        places_ = {.positions = positions_.data(),
                   .sequences = sequences_.data(),
                   .block_tables = block_tables_.data(),
                   .max_blocks = width_of(block_tables),
                   .rows = rows_of(positions)};
    }

    const RowPlaces& places() const { return places_; }

  private:
    DeviceBuffer<int32_t> positions_;
    DeviceBuffer<int32_t> sequences_;
    DeviceBuffer<int32_t> block_tables_;
    RowPlaces places_;
};

/// One layer's keys and values together with their device; NaN until stored.
class BoundCache {
  public:
    BoundCache(DevicePointer device, const std::string& format, int num_blocks, int num_kv_heads,
               int head_dim, int latent_rank)
        : device_(std::move(device)),
          format_(parse("format", format, kKvFormats)),
          num_blocks_(num_blocks),
          num_kv_heads_(num_kv_heads),
          head_dim_(head_dim),
          latent_rank_(latent_rank),
          bytes_(device_, checked_bytes()) {
        device_->fill(bytes_.data(), 0xFF, bytes_.size());
    }

    FloatArray rotate_and_store(const FloatArray& qkv, const IntArray& positions, const IntArray& sequences,
                                const IntArray& block_tables, const FloatArray& angles,
                                const std::string& qk_norm, const OptionalArray& q_norm,
                                const OptionalArray& k_norm, float eps, float query_scale,
                                const std::string& norm_kind) {
        StoreArrays arrays(*this, qkv, positions, sequences, block_tables, angles,
                           parse("qk_norm", qk_norm, kQkNorms), q_norm, k_norm, eps, query_scale);
        arrays.op.norm_kind = parse("norm_kind", norm_kind, kNormKinds);
        device_->rotate_and_store(arrays.op);
        return download(device_, arrays.values, {rows_of(qkv), width_of(qkv)});
    }

    /// Times the operation on the same rows, repeated; heads are normalised if weights for it are given.
    std::vector<double> time_rotate_and_store(const FloatArray& qkv, const IntArray& positions,
                                              const IntArray& sequences, const IntArray& block_tables,
                                              const FloatArray& angles, const OptionalArray& q_norm,
                                              const OptionalArray& k_norm, int times, int runs) {
        require_range("times", times, 0, kMostTimed);
        const StoreArrays arrays(*this, qkv, positions, sequences, block_tables, angles,
                                 q_norm ? QkNorm::head : QkNorm::none, q_norm, k_norm, 1e-6f, 1.0f);
        return time_passes(device_, runs, [&] {
            for (int i = 0; i < times; ++i) {
                device_->rotate_and_store(arrays.op);
            }
        });
    }

    FloatArray attention(const FloatArray& qkv, const IntArray& positions, const IntArray& sequences,
                         const IntArray& block_tables, int window, float softcap, const std::string& format,
                         const OptionalArray& sinks, const std::optional<IntArray>& ends) {
        AttentionArrays arrays(*this, qkv, positions, sequences, block_tables, window, softcap, format);
        DeviceBuffer<int32_t> last;
        if (ends) {
            require_shape("ends", *ends, shape_of(positions));
            require_range("ends", *ends, int64_t{width_of(block_tables)} * kBlockSize);
            last = upload<int32_t>(device_, *ends);
            arrays.op.places.ends = last.data();
        }
        require_shape("sinks", sinks, {arrays.op.num_heads});
        const DeviceBuffer<float> scores = upload(device_, sinks);
        arrays.op.sinks = scores.data();
        device_->attention(arrays.op);
        return download(device_, arrays.op.out, rows_of(qkv), arrays.op.num_heads * layer().value_dim());
    }

    /// Returns the completed queries.
    FloatArray store_latents(const FloatArray& compressed, const FloatArray& queries,
                             const FloatArray& latent_queries, const IntArray& positions,
                             const IntArray& sequences, const IntArray& block_tables,
                             const FloatArray& angles, const FloatArray& norm, float eps, float query_scale) {
        const BoundRows rows(device_, positions, sequences, block_tables, num_blocks_);
        const int turning = head_dim_ - latent_rank_;
        require_range("latent_rank", latent_rank_, 1, device_->max_latent_rank(turning));
        require_shape("compressed", compressed, {positions.size(), head_dim_});
        require_dimensions("queries", queries, 3);
        const auto heads = static_cast<int>(queries.shape(1));
        require_range("query_dim", queries.shape(2), turning, kMostFeatures);
        require_shape("queries", queries, {positions.size(), heads, queries.shape(2)});
        require_shape("latent_queries", latent_queries, {positions.size(), heads * head_dim_});
        require_shape("angles", angles, {positions.size(), 2, turning / 2});
        require_shape("norm", norm, {latent_rank_});
        const auto values = upload<float>(device_, compressed);
        const auto asking = upload<float>(device_, queries);
        const auto completed = upload<float>(device_, latent_queries);
        const auto turns = upload<float>(device_, angles);
        const auto weights = upload<float>(device_, norm);
        device_->store_latents({.compressed = values.data(),
                                .norm = weights.data(),
                                .eps = eps,
                                .queries = asking.data(),
                                .query_dim = static_cast<int>(queries.shape(2)),
                                .latent_queries = completed.data(),
                                .query_scale = query_scale,
                                .num_heads = heads,
                                .places = rows.places(),
                                .angles = turns.data(),
                                .half_dim = turning / 2,
                                .cache = layer()});
        return download(device_, completed, {positions.size(), heads * head_dim_});
    }

    /// Times attention over several layers of the same shape, one after another.
    static std::vector<double> time_attention(const std::vector<const BoundCache*>& layers,
                                              const FloatArray& qkv, const IntArray& positions,
                                              const IntArray& sequences, const IntArray& block_tables,
                                              int runs) {
        if (layers.empty()) {
            throw std::invalid_argument("layers are none");
        }
        const BoundCache& first = *layers[0];
        const AttentionArrays arrays(first, qkv, positions, sequences, block_tables, 0, 0.0f, "bf16");
        for (const BoundCache* layer : layers) {
            if (layer->bytes_.size() != first.bytes_.size() || layer->format_ != first.format_ ||
                layer->head_dim_ != first.head_dim_ || layer->latent_rank_ != first.latent_rank_) {
                throw std::invalid_argument("layers differ in shape or format");
            }
        }
        return time_passes(first.device_, runs, [&] {
            for (const BoundCache* layer : layers) {
                Attention op = arrays.op;
                op.cache = layer->layer();
                first.device_->attention(op);
            }
        });
    }

  private:
    /// The arrays that rotate_and_store reads and writes.
    struct StoreArrays {
        BoundRows rows;
        DeviceBuffer<float> values;
        DeviceBuffer<float> turns;
        DeviceBuffer<float> q_weight;
        DeviceBuffer<float> k_weight;
        RotateAndStore op;

        StoreArrays(const BoundCache& cache, const FloatArray& qkv, const IntArray& positions,
                    const IntArray& sequences, const IntArray& block_tables, const FloatArray& angles,
                    QkNorm norm, const OptionalArray& q_norm, const OptionalArray& k_norm, float eps,
                    float query_scale)
            : rows(cache.device_, positions, sequences, block_tables, cache.num_blocks_),
              values(upload<float>(cache.device_, qkv)),
              turns(upload<float>(cache.device_, angles)),
              q_weight(upload(cache.device_, q_norm)),
              k_weight(upload(cache.device_, k_norm)) {
            if (cache.latent_rank_ > 0) {
                throw std::invalid_argument("latent_rank must be 0 where keys and values are stored");
            }
            const int heads = cache.num_heads(qkv, positions);
            const int head_dim = cache.head_dim_;
            require_dimensions("angles", angles, 3);
            require_shape("angles", angles,
                          {rows_of(qkv), 2, std::min<int64_t>(angles.shape(2), head_dim / 2)});
            const bool shared = norm == QkNorm::head;
            require_shape("q_norm", q_norm, {shared ? head_dim : heads * head_dim});
            require_shape("k_norm", k_norm, {shared ? head_dim : cache.num_kv_heads_ * head_dim});
            op = {.qkv = values.data(),
                  .places = rows.places(),
                  .angles = turns.data(),
                  .half_dim = static_cast<int>(angles.shape(2)),
                  .qk_norm = norm,
                  .q_norm = q_weight.data(),
                  .k_norm = k_weight.data(),
                  .eps = eps,
                  .query_scale = query_scale,
                  .num_heads = heads,
                  .cache = cache.layer()};
        }
    };

    /// The arrays that attention reads and writes, without the cache.
    struct AttentionArrays {
        BoundRows rows;
        DeviceBuffer<float> values;
        ActivationBuffer out;
        DeviceBuffer<float> scratch;
        Attention op;

        AttentionArrays(const BoundCache& cache, const FloatArray& qkv, const IntArray& positions,
                        const IntArray& sequences, const IntArray& block_tables, int window, float softcap,
                        const std::string& format)
            : rows(cache.device_, positions, sequences, block_tables, cache.num_blocks_),
              values(upload<float>(cache.device_, qkv)),
              out(parse("format", format, kFormats),
                  cache.num_heads(qkv, positions) * cache.layer().value_dim()) {
            require_range("window", window, 0, std::numeric_limits<int>::max());
            const int heads = cache.num_heads(qkv, positions);
            out.reserve(cache.device_, rows_of(qkv));
            scratch = DeviceBuffer<float>(
                cache.device_, cache.device_->attention_scratch(rows_of(qkv), width_of(block_tables), heads,
                                                                cache.head_dim_));
            op = {.qkv = values.data(),
                  .qkv_stride = width_of(qkv),
                  .places = rows.places(),
                  .num_heads = heads,
                  .window = window,
                  .softcap = softcap,
                  .cache = cache.layer(),
                  .out = out.view(),
                  .scratch = scratch.data()};
        }
    };

    size_t checked_bytes() const {
        require_range("num_blocks", num_blocks_, 1, kMostBlocks);
        if (latent_rank_ == 0) {
            require_range("head_dim", head_dim_, 1, device_->max_head_dim());
            require_range("num_kv_heads", num_kv_heads_, 1, kMostFeatures / head_dim_);
        } else {
            require_range("latent_rank", latent_rank_, 1, kMostFeatures);
            require_range("head_dim", head_dim_, latent_rank_ + 2, latent_rank_ + kMostTurning);
            require_range("latent_rank", latent_rank_, 1, device_->max_latent_rank(head_dim_ - latent_rank_));
            require_range("num_kv_heads", num_kv_heads_, 1, 1);
            if (latent_rank_ % kActivationAlignment != 0 || head_dim_ % kActivationAlignment != 0) {
                throw std::invalid_argument("latent_rank and head_dim must be multiples of 32");
            }
        }
        return num_blocks_ * device_->kv_block_bytes(layer_at(nullptr));
    }

    int num_heads(const FloatArray& qkv, const IntArray& positions) const {
        require_dimensions("qkv", qkv, 2);
        const int others = latent_rank_ > 0 ? 0 : 2 * num_kv_heads_;
        const int heads = width_of(qkv) / head_dim_ - others;
        require_shape("qkv", qkv, {positions.size(), (heads + others) * head_dim_});
        if (heads < 1 || heads % num_kv_heads_ != 0) {
            throw std::invalid_argument(
                "qkv must hold a multiple of num_kv_heads queries, and as many keys and values");
        }
        return heads;
    }
    KvLayer layer() const { return layer_at(bytes_.data()); }
    KvLayer layer_at(char* data) const { return {data, format_, num_kv_heads_, head_dim_, latent_rank_}; }

    DevicePointer device_;
    KvFormat format_;
    int num_blocks_;
    int num_kv_heads_;
    int head_dim_;
    int latent_rank_;
    DeviceBuffer<char> bytes_;
};

}  // namespace

void register_kv_layer(py::module_& module) {
    py::class_<BoundCache>(module, "KvLayer", py::is_final())
        .def(py::init<DevicePointer, const std::string&, int, int, int, int>(), py::arg("device"),
             py::arg("format"), py::kw_only(), py::arg("num_blocks"), py::arg("num_kv_heads"),
             py::arg("head_dim"), py::arg("latent_rank") = 0)
        .def("rotate_and_store", &BoundCache::rotate_and_store, py::arg("qkv"), py::arg("positions"),
             py::arg("sequences"), py::arg("block_tables"), py::kw_only(), py::arg("angles"),
             py::arg("qk_norm"), py::arg("q_norm"), py::arg("k_norm"), py::arg("eps"), py::arg("query_scale"),
             py::arg("norm_kind") = "rms")
        .def("attention", &BoundCache::attention, py::arg("qkv"), py::arg("positions"), py::arg("sequences"),
             py::arg("block_tables"), py::kw_only(), py::arg("window"), py::arg("softcap"), py::arg("format"),
             py::arg("sinks") = py::none(), py::arg("ends") = py::none())
        .def("store_latents", &BoundCache::store_latents, py::arg("compressed"), py::arg("queries"),
             py::arg("latent_queries"), py::arg("positions"), py::arg("sequences"), py::arg("block_tables"),
             py::kw_only(), py::arg("angles"), py::arg("norm"), py::arg("eps"), py::arg("query_scale"))
        .def("time_rotate_and_store", &BoundCache::time_rotate_and_store, py::arg("qkv"),
             py::arg("positions"), py::arg("sequences"), py::arg("block_tables"), py::kw_only(),
             py::arg("angles"), py::arg("q_norm"), py::arg("k_norm"), py::arg("times"), py::arg("runs"))
        .def_static("time_attention", &BoundCache::time_attention, py::arg("layers"), py::arg("qkv"),
                    py::arg("positions"), py::arg("sequences"), py::arg("block_tables"), py::arg("runs"));
}

}  // namespace outrider
