// The CUDA device: enqueues each operation's kernels on its stream.
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "cuda/attention/attention.h"
#include "cuda/elementwise/elementwise.h"
#include "cuda/elementwise/embed.h"
#include "cuda/elementwise/residual_norm.h"
#include "cuda/elementwise/short_convolution.h"
#include "cuda/experts/experts.h"
#include "cuda/low_rank/low_rank.h"
#include "cuda/product/product.h"
#include "cuda/ranks/rank_group.h"
#include "cuda/recurrence/delta_rule.h"
#include "cuda/rotary/rotary.h"
#include "cuda/runtime/cuda_pass_recorder.h"
#include "cuda/runtime/stream.h"
#include "cuda/sampling/cuda_row_sampler.h"
#include "cuda/weights/cuda_weight.h"
#include "outrider/device/device.h"

namespace outrider {
namespace cuda {
namespace {

const WeightView& view_of(const PackedWeight* weight) {
    return static_cast<const CudaWeight*>(weight)->view();
}

class CudaDevice final : public Device {
  public:
    CudaDevice(int index, int threads) : stream_(index), pool_(threads) {}

    std::string name() const override { return stream_.device_name(); }
    ThreadPool& pool() override { return pool_; }

    std::optional<DeviceMemory> memory() const override { return stream_.memory(); }
    void* allocate(size_t bytes) override { return stream_.allocate(bytes); }
    void commit(void*, size_t) override {}  // nothing was deferred
    void release(void* memory) noexcept override { stream_.release(memory); }
    void upload(void* to, const void* from, size_t bytes) override { stream_.upload(to, from, bytes); }
    void download(void* to, const void* from, size_t bytes) override { stream_.download(to, from, bytes); }
    void copy(void* to, const void* from, size_t bytes) override { stream_.copy(to, from, bytes); }
    void fill(void* to, uint8_t byte, size_t bytes) override { stream_.fill(to, byte, bytes); }
    void synchronize() override { stream_.synchronize(); }

    std::unique_ptr<PackedWeight> make_weight(const WeightKind& kind, int out_features,
                                              int in_features) override {
        if (kind.groups != Grouping{}) {
            throw std::invalid_argument("a GPU holds no weights in groups that were given to it");
        }
        return std::make_unique<CudaWeight>(stream_, kind.format, out_features, in_features);
    }

    Format activation_format(WeightFormat weight) const override {
        return weight == WeightFormat::f32 ? Format::f32 : Format::bf16;
    }

    size_t kv_block_bytes(const KvLayer& layer) const override { return cuda::kv_block_bytes(layer); }

    int max_head_dim() const override { return cuda::max_head_dim(stream_); }
    int max_latent_rank(int turning) const override { return cuda::max_latent_rank(stream_, turning); }
    size_t attention_scratch(int rows, int max_blocks, int num_heads, int head_dim) const override {
        return cuda::attention_scratch(rows, max_blocks, num_heads, head_dim);
    }
    size_t product_scratch(int rows, int out_features, int in_features) const override {
        return cuda::product_scratch(stream_, rows, out_features, in_features);
    }

    size_t delta_scratch(const DeltaShape& shape, int rows, int sequences, int ring_rows) const override {
        return cuda::delta_scratch(shape, rows, sequences, ring_rows);
    }

    std::vector<std::unique_ptr<RankLink>> link(const std::vector<std::shared_ptr<Device>>& ranks) override {
        std::vector<RankDevice> devices;
        for (const std::shared_ptr<Device>& rank : ranks) {
            auto* const device = dynamic_cast<CudaDevice*>(rank.get());
            if (!device) {
                throw std::invalid_argument("devices: only GPUs can hold a model together");
            }
            devices.push_back({rank, &device->stream_});
        }
        return link_ranks(std::move(devices));
    }

    std::unique_ptr<PassRecorder> make_pass_recorder() override {
        return std::make_unique<CudaPassRecorder>(stream_);
    }

    std::unique_ptr<RowSampler> make_row_sampler() override {
        return std::make_unique<CudaRowSampler>(stream_);
    }

    void embed(const Embed& op) override { cuda::embed(stream_, op, view_of(op.table)); }
    void rotary_angles(const RotaryAngles& op) override { cuda::rotary_angles(stream_, op); }
    void residual_norm(const ResidualNorm& op) override { cuda::residual_norm(stream_, op); }
    void product(const Product& op) override { cuda::product(stream_, op, view_of(op.weight)); }
    void activated_product(const Product& op, const Activate& activate) override {
        cuda::activated_product(stream_, op, view_of(op.weight), activate);
    }
    void rotate_and_store(const RotateAndStore& op) override { cuda::rotate_and_store(stream_, op); }
    void store_latents(const StoreLatents& op) override { cuda::store_latents(stream_, op); }
    void attention(const Attention& op) override { cuda::attention(stream_, op); }
    void short_convolution(const ShortConvolution& op) override { cuda::short_convolution(stream_, op); }
    void delta_rule(const DeltaRule& op) override { cuda::delta_rule(stream_, op); }
    void gated_norm(const GatedNorm& op) override { cuda::gated_norm(stream_, op); }
    void sigmoid_gate(const SigmoidGate& op) override { cuda::sigmoid_gate(stream_, op); }
    void activate(const Activate& op) override { cuda::activate(stream_, op); }
    void layer_input(const LayerInput& op) override { cuda::layer_input(stream_, op); }
    void gather_rows(const GatherRows& op) override { cuda::gather_rows(stream_, op); }
    void spread_columns(const SpreadColumns& op) override { cuda::spread_columns(stream_, op); }
    void soft_cap(const SoftCap& op) override { cuda::soft_cap(stream_, op); }
    void read(const Read& op) override { cuda::read(stream_, op); }
    void route(const Route& op) override { cuda::route(stream_, op); }
    void expert_products(const ExpertProducts& op) override { cuda::expert_products(stream_, op); }
    void mix_experts(const MixExperts& op) override { cuda::mix_experts(stream_, op); }
    void low_rank(const LowRank& op) override { cuda::low_rank(stream_, op); }
    int64_t multiply_registers(WeightFormat, int64_t) override { return 0; }

  private:
    Stream stream_;
    ThreadPool pool_;
};

}  // namespace
}  // namespace cuda

std::vector<std::string> cuda_devices() {
    return cuda::device_names();
}

std::string cuda_problem() {
    return cuda::device_problem();
}

std::shared_ptr<Device> make_cuda_device(int index, int threads) {
    return std::make_shared<cuda::CudaDevice>(index, threads);
}

}  // namespace outrider
