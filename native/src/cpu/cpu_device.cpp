// The CPU device: shares the tasks of each operation among the threads of its pool.
#include <algorithm>
#include <cstring>
#include <limits>
#include <mutex>
#include <numeric>
#include <span>
#include <stdexcept>
#include <vector>

#include "cpu/cpu_memory.h"
#include "cpu/cpu_weight.h"
#include "cpu/delta_work.h"
#include "cpu/gather_by_expert.h"
#include "cpu/kernels.h"
#include "cpu/low_rank/low_rank_part.h"
#include "cpu/many_rows.h"
#include "cpu/product_work.h"
#include "outrider/device/device.h"
#include "outrider/device/pass_recorder.h"
#include "require_range.h"
#include "sampling/row_sampler.h"

namespace outrider {
namespace cpu {
namespace {

constexpr int64_t kValuesPerTask = 4096;
/// The longest product: a sum of more int8 products, at most 255 * 127 each, could overflow int32.
constexpr int kMaxIntegerInputs = 1 << 16;

int64_t tasks_of(int64_t count, int64_t per_task) {
    return (count + per_task - 1) / per_task;
}

void require_length(const WeightKind& kind, int in_features) {
    const Grouping& groups = kind.groups;
    if (groups.size > 0 && in_features % groups.block != 0) {
        throw std::invalid_argument("a product over " + std::to_string(in_features) +
                                    " inputs does not divide into blocks of " + std::to_string(groups.block));
    }
    const bool is_integer = kind.format == WeightFormat::int8 || kind.format == WeightFormat::int4;
    if (is_integer && groups.size == 0 && in_features > kMaxIntegerInputs) {
        throw std::invalid_argument("a product over " + std::to_string(in_features) +
                                    " inputs is too long for int8 and int4 weights, which sum up at most " +
                                    std::to_string(kMaxIntegerInputs));
    }
}

class CpuDevice final : public Device {
  public:
    CpuDevice(const Kernels& kernels, int threads, std::optional<int> many_rows)
        : kernels_(kernels), pool_(threads), many_rows_(many_rows) {}

    std::string name() const override { return std::string("cpu-") + kernels_.name; }
    ThreadPool& pool() override { return pool_; }
    std::optional<DeviceMemory> memory() const override { return std::nullopt; }

    void* allocate(size_t bytes) override { return cpu::allocate(bytes); }
    void commit(void* memory, size_t bytes) override {
        cpu::commit(static_cast<char*>(memory), static_cast<int64_t>(bytes));
    }
    void release(void* memory) noexcept override { cpu::release(memory); }
    void upload(void* to, const void* from, size_t bytes) override { std::memcpy(to, from, bytes); }
    void download(void* to, const void* from, size_t bytes) override { std::memcpy(to, from, bytes); }
    void copy(void* to, const void* from, size_t bytes) override { std::memcpy(to, from, bytes); }
    void fill(void* to, uint8_t byte, size_t bytes) override { std::memset(to, byte, bytes); }
    void synchronize() override {}

    std::unique_ptr<PackedWeight> make_weight(const WeightKind& kind, int out_features,
                                              int in_features) override {
        const ProductKernel* kernel = kernels_.product(kind);
        if (!kernel) {
            throw std::invalid_argument(
                "weights: a CPU holds them as \"bf16\", \"f32\", \"int8\" or \"int4\" only, and as int8 or "
                "int4 "
                "in groups of certain sizes");
        }
        require_length(kind, in_features);
        return std::make_unique<CpuWeight>(*kernel, pool_, kind, out_features, in_features);
    }

    std::optional<int> measure_many_rows(const PackedWeight& weight) override {
        const std::lock_guard<std::mutex> guard(multiplying_);
        return many_rows_.measure(pool_, static_cast<const CpuWeight&>(weight));
    }

    Format activation_format(WeightFormat weight) const override {
        return weight == WeightFormat::bf16 ? Format::bf16 : Format::f32;
    }

    size_t kv_block_bytes(const KvLayer& layer) const override {
        if (layer.format == KvFormat::fp8) {
            throw std::invalid_argument(
                "kv: a CPU holds keys and values as \"bf16\", \"f32\" or \"int8\" only");
        }
        return kernels_.kv_block_bytes(layer);
    }

    int max_head_dim() const override { return kMaxHeadDim; }
    int max_latent_rank(int) const override { return kMaxHeadDim; }
    size_t attention_scratch(int, int, int, int) const override { return 0; }
    size_t product_scratch(int, int, int) const override { return 0; }
    size_t delta_scratch(const DeltaShape&, int, int, int) const override { return 0; }

    std::vector<std::unique_ptr<RankLink>> link(const std::vector<std::shared_ptr<Device>>&) override {
        throw std::invalid_argument("devices: only GPUs can hold a model together");
    }

    std::unique_ptr<PassRecorder> make_pass_recorder() override {
        return std::make_unique<UnrecordedPasses>();
    }

    std::unique_ptr<RowSampler> make_row_sampler() override { return make_host_row_sampler(pool_); }

    void embed(const Embed& op) override {
        const auto& table = static_cast<const CpuWeight&>(*op.table);
        pool_.parallel_for(op.rows, [&](int64_t row) {
            float* out = op.residual + row * table.in_features();
            table.kernel().load_row(table.view(), op.token_ids[row], op.scale, out);
        });
    }

    void rotary_angles(const RotaryAngles& op) override {
        pool_.parallel_for(op.rows, [&](int64_t row) { kernels_.rotary_angles(op, row); });
    }

    void residual_norm(const ResidualNorm& op) override {
        pool_.parallel_for(op.rows, [&](int64_t row) { kernels_.residual_norm(op, row); });
    }

    void product(const Product& op) override { multiply({&op, 1}); }

    void rotate_and_store(const RotateAndStore& op) override {
        pool_.parallel_for(op.places.rows, [&](int64_t row) { kernels_.rotate_and_store(op, row); });
    }

    void store_latents(const StoreLatents& op) override {
        pool_.parallel_for(op.places.rows, [&](int64_t row) { kernels_.store_latents(op, row); });
    }

    void attention(const Attention& op) override {
        const std::vector<AttentionPart> parts = attention_parts(op, pool_.size());
        pool_.parallel_for(static_cast<int64_t>(parts.size()),
                           [&](int64_t part) { kernels_.attention(op, parts[part]); });
    }

    /// A row reads inputs that other rows of the pass store, so all rows store first.
    void short_convolution(const ShortConvolution& op) override {
        for (const auto part : {kernels_.store_conv_input, kernels_.convolve}) {
            for_columns(op.places.rows, op.cache.width,
                        [&](int64_t row, int64_t first, int64_t end) { part(op, row, first, end); });
        }
    }

    void delta_rule(const DeltaRule& op) override { run_delta_rule(pool_, kernels_, op); }

    void gated_norm(const GatedNorm& op) override {
        pool_.parallel_for(op.rows, [&](int64_t row) { kernels_.gated_norm(op, row); });
    }

    void sigmoid_gate(const SigmoidGate& op) override {
        pool_.parallel_for(op.rows, [&](int64_t row) { kernels_.sigmoid_gate(op, row); });
    }

    void activate(const Activate& op) override {
        for_columns(op.rows, op.width,
                    [&](int64_t row, int64_t first, int64_t end) { kernels_.activate(op, row, first, end); });
    }

    void gather_rows(const GatherRows& op) override {
        const size_t element = size_of(op.in.format);
        const char* from = static_cast<const char*>(op.in.data);
        char* to = static_cast<char*>(op.out.data);
        pool_.parallel_for(op.rows, [&](int64_t row) {
            std::memcpy(to + row * op.out.stride * element, from + op.indices[row] * op.in.stride * element,
                        op.width * element);
        });
    }

    void spread_columns(const SpreadColumns& op) override {
        pool_.parallel_for(op.rows, [&](int64_t row) {
            float* out = op.out + row * op.width;
            std::fill(out, out + op.width, -std::numeric_limits<float>::infinity());
            for (int i = 0; i < op.count; ++i) {
                out[op.columns[i]] = op.in[row * op.count + i];
            }
        });
    }

    void soft_cap(const SoftCap& op) override {
        pool_.parallel_for(tasks_of(op.count, kValuesPerTask), [&](int64_t task) {
            const int64_t first = task * kValuesPerTask;
            kernels_.soft_cap(op, first, std::min(op.count, first + kValuesPerTask));
        });
    }

    void read(const Read& op) override {
        const auto units = static_cast<int64_t>(op.bytes / kReadUnit);
        const int64_t tasks = op.in_stripes ? units : std::min<int64_t>(pool_.size(), units);
        pool_.parallel_for(tasks, [&](int64_t task) {
            const int64_t first = units * task / tasks;
            const int64_t end = units * (task + 1) / tasks;
            kernels_.read(op.from + first * kReadUnit, (end - first) * kReadUnit);
        });
    }

    void layer_input(const LayerInput& op) override {
        pool_.parallel_for(int64_t{op.rows} * op.layers,
                           [&](int64_t index) { kernels_.layer_input(op, index); });
    }
    void route(const Route& op) override {
        pool_.parallel_for(op.rows, [&](int64_t row) { kernels_.route(op, row); });
        gather_by_expert(op.out, op.rows);
    }

    void expert_products(const ExpertProducts& op) override {
        const auto bytes = static_cast<int64_t>(size_of(op.input.format));
        std::vector<Product> products;
        for (const ExpertMatrix& matrix : std::span(op.matrices, op.count)) {
            const auto [first, rows] = op.rows_of(matrix.expert);
            if (rows > 0) {
                const int64_t from = first * op.input.stride + matrix.expert * op.in_step;
                const int64_t to = first * op.out_stride + matrix.expert * op.out_step;
                char* const input = static_cast<char*>(op.input.data) + from * bytes;
                products.push_back({.input = {input, op.input.format, op.input.stride},
                                    .weight = matrix.weight,
                                    .bias = matrix.bias,
                                    .out = op.out + to + matrix.first_column,
                                    .out_stride = op.out_stride,
                                    .rows = static_cast<int>(rows)});
            }
        }
        multiply(products);
    }

    void mix_experts(const MixExperts& op) override {
        pool_.parallel_for(op.rows, [&](int64_t row) { kernels_.mix_experts(op, row); });
    }

    void low_rank(const LowRank& op) override {
        const std::vector<LowRankPart> down = down_parts(op);
        pool_.parallel_for(static_cast<int64_t>(down.size()),
                           [&](int64_t part) { kernels_.low_rank_down(op, down[part]); });
        const std::vector<LowRankPart> up = up_parts(op);
        pool_.parallel_for(static_cast<int64_t>(up.size()),
                           [&](int64_t part) { kernels_.low_rank_up(op, up[part]); });
    }

    int64_t multiply_registers(WeightFormat weight, int64_t rounds) override {
        const ProductKernel* kernel = kernels_.product({weight});
        if (!kernel) {
            return 0;
        }
        std::vector<int64_t> operations(pool_.size());
        pool_.parallel_for(pool_.size(),
                           [&](int64_t task) { operations[task] = kernel->multiply_registers(rounds); });
        return std::reduce(operations.begin(), operations.end());
    }

  private:
    /// Calls task(row, first column, end) for ranges of columns of all rows.
    template <typename Task>
    void for_columns(int64_t rows, int64_t width, const Task& task) {
        const int64_t tasks_per_row = tasks_of(width, kColumnsPerTask);
        pool_.parallel_for(tasks_per_row * rows, [&](int64_t index) {
            const int64_t first = index % tasks_per_row * kColumnsPerTask;
            task(index / tasks_per_row, first, std::min(width, first + kColumnsPerTask));
        });
    }

    void multiply(std::span<const Product> products) {
        const std::lock_guard<std::mutex> guard(multiplying_);
        work_.run(pool_, many_rows_, products);
    }

    const Kernels& kernels_;
    ThreadPool pool_;
    std::mutex multiplying_;  // guards what follows
    ManyRows many_rows_;
    ProductWork work_;
};

std::string joined(const std::vector<std::string>& names) {
    std::string text;
    for (const std::string& name : names) {
        text += (text.empty() ? "\"" : ", \"") + name + "\"";
    }
    return text;
}

}  // namespace
}  // namespace cpu

std::shared_ptr<Device> make_cpu_device(const std::string& isa, int threads, std::optional<int> many_rows) {
    const cpu::Kernels* kernels = cpu::find_kernels(isa.c_str());
    if (!kernels) {
        throw std::invalid_argument("isa \"" + isa + "\" cannot run on this machine; it can run " +
                                    cpu::joined(cpu_isas()));
    }
    if (many_rows) {
        require_range("many_rows", *many_rows, 1, std::numeric_limits<int>::max());
    }
    return std::make_shared<cpu::CpuDevice>(*kernels, threads, many_rows);
}

}  // namespace outrider
