// Device: where tensors live and the coarse operations that the decoder is written over.
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
#include "outrider/device/thread_pool.h"

namespace outrider {

class PassRecorder;
class RowSampler;

/// Bytes of a device that has memory of its own.
struct DeviceMemory {
    size_t free = 0;  // of anybody's use
    size_t total = 0;
};

/// Operations are enqueued in order and need not be finished when they return; only `download` and
/// `synchronize` are sure to wait for them. What `upload` reads may be changed when it returns. Every output
/// row is computed by the same sequence of floating-point operations whatever the other rows are, however
/// many there are, and however many threads run.
class Device {
  public:
    virtual ~Device() = default;

    virtual std::string name() const = 0;
    /// Host threads for work on this device's behalf.
    virtual ThreadPool& pool() = 0;

    virtual std::optional<DeviceMemory> memory() const = 0;
    /// Returns zeroed memory, which the host's system may put off giving until it is written.
    virtual void* allocate(size_t bytes) = 0;
    /// Takes what `allocate` has put off, on the calling thread; others may use the memory meanwhile.
    virtual void commit(void* memory, size_t bytes) = 0;
    virtual void release(void* memory) noexcept = 0;
    virtual void upload(void* to, const void* from, size_t bytes) = 0;
    virtual void download(void* to, const void* from, size_t bytes) = 0;
    virtual void copy(void* to, const void* from, size_t bytes) = 0;  // both on this device
    virtual void fill(void* to, uint8_t byte, size_t bytes) = 0;
    virtual void synchronize() = 0;

    /// Throws std::invalid_argument for a kind that it does not hold.
    virtual std::unique_ptr<PackedWeight> make_weight(const WeightKind& kind, int out_features,
                                                      int in_features) = 0;
    /// The format of the rows that a product with such a weight reads: where it rounds them itself, they come
    /// unrounded.
    virtual Format activation_format(WeightFormat weight) const = 0;
    /// Bytes of one block of one layer, keys and values of all heads.
    virtual size_t kv_block_bytes(KvFormat format, int num_kv_heads, int head_dim) const = 0;

    virtual int max_head_dim() const = 0;

    /// Values that attention over so many rows and columns of block tables needs beside its output; as many
    /// or more for more of either.
    virtual size_t attention_scratch(int rows, int max_blocks, int num_heads, int head_dim) const = 0;
    /// Values that a product of so many rows, output and input features is faster with; as many or more for more
    /// of any. They are zeros at first, and for one product at a time.
    virtual size_t product_scratch(int rows, int out_features, int in_features) const = 0;

    /// What runs the passes of one decoder; the device must outlive it.
    virtual std::unique_ptr<PassRecorder> make_pass_recorder() = 0;

    /// What draws from logits in this device's memory; the device must outlive it.
    virtual std::unique_ptr<RowSampler> make_row_sampler() = 0;

    virtual void embed(const Embed& op) = 0;
    virtual void rotary_angles(const RotaryAngles& op) = 0;
    virtual void residual_norm(const ResidualNorm& op) = 0;
    virtual void product(const Product& op) = 0;
    /// A product and the activation of its outputs, as one. `op.out` holds anything afterwards.
    virtual void activated_product(const Product& op, const Activate& activation) {
        product(op);
        activate(activation);
    }
    virtual void rotate_and_store(const RotateAndStore& op) = 0;
    virtual void attention(const Attention& op) = 0;
    virtual void short_convolution(const ShortConvolution& op) = 0;
    virtual void activate(const Activate& op) = 0;
    virtual void gather_rows(const GatherRows& op) = 0;
    virtual void spread_columns(const SpreadColumns& op) = 0;
    virtual void soft_cap(const SoftCap& op) = 0;
    virtual void read(const Read& op) = 0;
    virtual void route(const Route& op) = 0;
    virtual void expert_products(const ExpertProducts& op) = 0;
    virtual void mix_experts(const MixExperts& op) = 0;
    virtual void low_rank(const LowRank& op) = 0;

    /// Multiplies numbers in registers on all threads, `rounds` times over, as products with such weights do;
    /// returns how many operations that were, 0 where the device cannot.
    virtual int64_t multiply_registers(WeightFormat weight, int64_t rounds) = 0;
};

/// Instruction sets that this machine and this build can run, best first.
std::vector<std::string> cpu_isas();

/// Throws std::invalid_argument for an ISA that cannot run here, or threads < 1.
std::shared_ptr<Device> make_cpu_device(const std::string& isa, int threads);

/// The names of the CUDA devices that this process can use, in the order of their indices, e.g. "cuda-sm_90".
std::vector<std::string> cuda_devices();

/// Why there are none; empty where there are.
std::string cuda_problem();

/// Throws DeviceError where there is no such device or this build has no CUDA, std::invalid_argument
/// for threads < 1.
std::shared_ptr<Device> make_cuda_device(int index, int threads);

}  // namespace outrider
