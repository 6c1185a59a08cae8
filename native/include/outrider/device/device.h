// Device: allocates tensors, and implements the coarse operations that the decoder is built from.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "outrider/device/expert_operations.h"
#include "outrider/device/format.h"
#include "outrider/device/low_rank.h"
#include "outrider/device/operations.h"
#include "outrider/device/packed_weight.h"
#include "outrider/device/rank_link.h"
#include "outrider/device/state_operations.h"
#include "outrider/device/thread_pool.h"

namespace outrider {

class PassRecorder;
class RowSampler;

/// The memory of a device that is separate from the host's, in bytes.
struct DeviceMemory {
    size_t free = 0;  // available to any process
    size_t total = 0;
};

/// Operations are enqueued in order and may be unfinished when they return; only `download` and `synchronize`
/// are guaranteed to wait for them. The source of `upload` may be changed as soon as it returns. Every output
/// row is computed by the same sequence of floating-point operations, independent of the other rows, their
/// number and the number of threads.
class Device {
  public:
    virtual ~Device() = default;

    virtual std::string name() const = 0;
    /// The host threads that work for this device.
    virtual ThreadPool& pool() = 0;

    virtual std::optional<DeviceMemory> memory() const = 0;
    /// Returns zeroed memory; the operating system may defer its allocation until it is written.
    virtual void* allocate(size_t bytes) = 0;
    /// Allocates, on the calling thread, the memory that `allocate` has deferred; other threads may use it
    /// meanwhile.
    virtual void commit(void* memory, size_t bytes) = 0;
    virtual void release(void* memory) noexcept = 0;
    virtual void upload(void* to, const void* from, size_t bytes) = 0;
    virtual void download(void* to, const void* from, size_t bytes) = 0;
    virtual void copy(void* to, const void* from, size_t bytes) = 0;  // both on this device
    virtual void fill(void* to, uint8_t byte, size_t bytes) = 0;
    virtual void synchronize() = 0;

    /// Throws std::invalid_argument for an unsupported kind.
    virtual std::unique_ptr<PackedWeight> make_weight(const WeightKind& kind, int out_features,
                                                      int in_features) = 0;
    /// Measures from how many rows on the other way to multiply weights of this kind is faster, and takes it from
    /// then on; both give the same bits. Returns nullopt if there is no other way, or nothing new to measure.
    virtual std::optional<int> measure_many_rows(const PackedWeight&) { return std::nullopt; }
    /// The format of the input rows of a product with such a weight; f32 if the product rounds them itself.
    virtual Format activation_format(WeightFormat weight) const = 0;
    /// The bytes of one block of such a layer, whose data may be null: keys and values of all heads.
    virtual size_t kv_block_bytes(const KvLayer& layer) const = 0;

    virtual int max_head_dim() const = 0;
    /// The largest supported rank of latent vectors beside so many numbers that turn; 0: none is.
    virtual int max_latent_rank(int turning) const = 0;

    /// The number of floats of scratch that attention needs for so many rows and columns of block tables; it
    /// does not decrease with either.
    virtual size_t attention_scratch(int rows, int max_blocks, int num_heads, int head_dim) const = 0;
    /// The number of floats of scratch that make a product of these sizes faster; it does not decrease with
    /// any of them. The scratch must be zeroed at first, and is used by one product at a time.
    virtual size_t product_scratch(int rows, int out_features, int in_features) const = 0;

    /// The number of floats of scratch that the delta rule needs for passes of so many rows and sequences; it does
    /// not decrease with any of them.
    virtual size_t delta_scratch(const DeltaShape& shape, int rows, int sequences, int ring_rows) const = 0;

    /// Links devices, this one the first, to hold a model together; returns the link of each. Throws
    /// std::invalid_argument if they cannot.
    virtual std::vector<std::unique_ptr<RankLink>> link(
        const std::vector<std::shared_ptr<Device>>& ranks) = 0;

    /// Creates the recorder of one decoder's passes; the device must outlive it.
    virtual std::unique_ptr<PassRecorder> make_pass_recorder() = 0;

    /// Creates a sampler of logits in this device's memory; the device must outlive it.
    virtual std::unique_ptr<RowSampler> make_row_sampler() = 0;

    virtual void embed(const Embed& op) = 0;
    virtual void rotary_angles(const RotaryAngles& op) = 0;
    virtual void residual_norm(const ResidualNorm& op) = 0;
    virtual void product(const Product& op) = 0;
    /// A product fused with the activation of its outputs. The contents of `op.out` are undefined afterwards.
    virtual void activated_product(const Product& op, const Activate& activation) {
        product(op);
        activate(activation);
    }
    virtual void rotate_and_store(const RotateAndStore& op) = 0;
    virtual void store_latents(const StoreLatents& op) = 0;
    virtual void attention(const Attention& op) = 0;
    virtual void short_convolution(const ShortConvolution& op) = 0;
    virtual void delta_rule(const DeltaRule& op) = 0;
    virtual void gated_norm(const GatedNorm& op) = 0;
    virtual void sigmoid_gate(const SigmoidGate& op) = 0;
    virtual void activate(const Activate& op) = 0;
    virtual void layer_input(const LayerInput& op) = 0;
    virtual void gather_rows(const GatherRows& op) = 0;
    virtual void spread_columns(const SpreadColumns& op) = 0;
    virtual void soft_cap(const SoftCap& op) = 0;
    virtual void read(const Read& op) = 0;
    virtual void route(const Route& op) = 0;
    virtual void expert_products(const ExpertProducts& op) = 0;
    virtual void mix_experts(const MixExperts& op) = 0;
    virtual void low_rank(const LowRank& op) = 0;

    /// Multiplies numbers in registers on all threads, `rounds` times, with the instructions of a product
    /// with such weights; returns the number of operations, 0 if unsupported.
    virtual int64_t multiply_registers(WeightFormat weight, int64_t rounds) = 0;
};

/// Instruction sets supported by this machine and this build, best first.
std::vector<std::string> cpu_isas();

/// `many_rows` takes the place of what measure_many_rows finds. Throws std::invalid_argument for an instruction set
/// that is not supported here, threads < 1, and many_rows < 1.
std::shared_ptr<Device> make_cpu_device(const std::string& isa, int threads,
                                        std::optional<int> many_rows = {});

/// The names of the CUDA devices that this process can use, in the order of their indices, e.g. "cuda-sm_90".
std::vector<std::string> cuda_devices();

/// Why no CUDA device can be used; empty if one can.
std::string cuda_problem();

/// Throws DeviceError if there is no such device or this build lacks CUDA, std::invalid_argument for threads
/// < 1.
std::shared_ptr<Device> make_cuda_device(int index, int threads);

}  // namespace outrider
