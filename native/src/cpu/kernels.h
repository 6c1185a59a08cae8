// Kernels: the functions of one instruction set. Each function does one task of an operation; the device
// distributes the tasks among its threads.
#pragma once

#include <cstddef>
#include <cstdint>

#include "cpu/attention/attention_part.h"
#include "cpu/low_rank/low_rank_part.h"
#include "cpu/product/product_kernel.h"
#include "outrider/device/expert_operations.h"
#include "outrider/device/operations.h"
#include "outrider/device/state_operations.h"

namespace outrider::cpu {

/// The number of columns of an element-wise operation per task.
constexpr int kColumnsPerTask = 1024;

/// The product of one kind of grouped weights.
struct GroupedKernel {
    WeightKind kind;
    ProductKernel product;
};
constexpr int kGroupedKernels = 10;

struct Kernels {
    const char* name;
    ProductKernel product_f32;
    ProductKernel product_bf16;
    ProductKernel product_int8;
    ProductKernel product_int4;
    GroupedKernel grouped[kGroupedKernels];
    /// The bytes of one block: keys and values of all heads.
    int64_t (*kv_block_bytes)(const KvLayer& layer);
    void (*rotary_angles)(const RotaryAngles& op, int64_t row);
    void (*residual_norm)(const ResidualNorm& op, int64_t row);
    void (*rotate_and_store)(const RotateAndStore& op, int64_t row);
    void (*store_latents)(const StoreLatents& op, int64_t row);
    void (*attention)(const Attention& op, const AttentionPart& part);
    /// Stores one row's input; all rows of a pass must store before any is convolved.
    void (*store_conv_input)(const ShortConvolution& op, int64_t row, int64_t first_column,
                             int64_t end_column);
    void (*convolve)(const ShortConvolution& op, int64_t row, int64_t first_column, int64_t end_column);
    /// Computes one value head of a sequence.
    void (*delta_rule)(const DeltaRule& op, const StatePlace& place, int head);
    void (*gated_norm)(const GatedNorm& op, int64_t row);
    void (*sigmoid_gate)(const SigmoidGate& op, int64_t row);
    void (*activate)(const Activate& op, int64_t row, int64_t first_column, int64_t end_column);
    void (*low_rank_down)(const LowRank& op, const LowRankPart& part);
    void (*low_rank_up)(const LowRank& op, const LowRankPart& part);
    void (*layer_input)(const LayerInput& op, int64_t index);
    void (*route)(const Route& op, int64_t row);
    void (*mix_experts)(const MixExperts& op, int64_t row);
    void (*soft_cap)(const SoftCap& op, int64_t first, int64_t end);
    /// Loads each byte once.  # bytes: a multiple of kReadUnit
    void (*read)(const char* from, int64_t bytes);

    /// Returns null for an unsupported kind.
    const ProductKernel* product(const WeightKind& kind) const {
        for (const GroupedKernel& candidate : grouped) {
            if (candidate.kind == kind) {
                return &candidate.product;
            }
        }
        if (kind.groups != Grouping{}) {
            return nullptr;
        }
        switch (kind.format) {
            case WeightFormat::f32:
                return &product_f32;
            case WeightFormat::bf16:
                return &product_bf16;
            case WeightFormat::int8:
                return &product_int8;
            case WeightFormat::int4:
                return &product_int4;
            default:
                return nullptr;
        }
    }
};

/// Returns null if this machine cannot run the instruction set.
const Kernels* find_kernels(const char* isa);

}  // namespace outrider::cpu
