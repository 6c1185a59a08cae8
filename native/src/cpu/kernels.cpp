// The kernels of one instruction set. This file is compiled once for each, with OUTRIDER_ISA as the name of
// its namespace, OUTRIDER_VEC_HEADER as its vec_<isa>.h, OUTRIDER_BF16_PRODUCT and OUTRIDER_INT8_SUMS as the
// headers of its products, and OUTRIDER_TILES as the header of its tiles, if it has any.
#include "cpu/kernels.h"

#include "cpu/attention/attention.h"
#include "cpu/attention/kv_block.h"
#include "cpu/attention/rotary.h"
#include "cpu/elementwise/elementwise.h"
#include "cpu/elementwise/experts.h"
#include "cpu/elementwise/normalise.h"
#include "cpu/elementwise/read.h"
#include "cpu/elementwise/short_convolution.h"
#include "cpu/low_rank/low_rank_product.h"
#include "cpu/product/float_dot.h"
#include "cpu/product/grouped_micro_panel.h"
#include "cpu/product/grouped_product.h"
#include "cpu/product/int4/int4_micro_panel.h"
#include "cpu/product/int8_micro_panel.h"
#include "cpu/product/integer_product.h"
#include "cpu/product/step_product.h"
#include "cpu/recurrence/delta_rule.h"

#include OUTRIDER_BF16_PRODUCT  // Bf16Product

#define OUTRIDER_TEXT_OF(name) #name
#define OUTRIDER_TEXT(name) OUTRIDER_TEXT_OF(name)

namespace outrider::cpu::OUTRIDER_ISA {

namespace {

template <WeightFormat kFormat, int kSize, int kBlock, bool kHasOffsets>
constexpr GroupedKernel grouped() {
    constexpr WeightKind kKind{kFormat, {kSize, kBlock, kHasOffsets}};
    return {kKind, GroupedProduct<GroupedMicroPanel<kKind>>::kernel()};
}

}  // namespace

const Kernels& kernels() {
    static constexpr Kernels table{
        .name = OUTRIDER_TEXT(OUTRIDER_ISA),
        .product_f32 = StepProduct<FloatDot>::kernel(),
        .product_bf16 = Bf16Product::kernel(),
        .product_int8 = IntegerProduct<Int8MicroPanel>::kernel(),
        .product_int4 = IntegerProduct<Int4MicroPanel>::kernel(),
        .grouped = {grouped<WeightFormat::int8, 32, 32, false>(), grouped<WeightFormat::int8, 32, 32, true>(),
                    grouped<WeightFormat::int8, 32, 256, false>(),
                    grouped<WeightFormat::int8, 32, 256, true>(),
                    grouped<WeightFormat::int8, 16, 256, false>(),
                    grouped<WeightFormat::int4, 32, 32, false>(), grouped<WeightFormat::int4, 32, 32, true>(),
                    grouped<WeightFormat::int4, 32, 256, true>(),
                    grouped<WeightFormat::int4, 16, 256, false>(),
                    grouped<WeightFormat::int4, 16, 256, true>()},
        .kv_block_bytes = kv_block_bytes,
        .rotary_angles = rotary_angles,
        .residual_norm = residual_norm,
        .rotate_and_store = rotate_and_store,
        .store_latents = store_latents,
        .attention = attention,
        .store_conv_input = store_conv_input,
        .convolve = convolve,
        .delta_rule = delta_rule,
        .gated_norm = gated_norm,
        .sigmoid_gate = sigmoid_gate,
        .activate = activate,
        .low_rank_down = low_rank_down,
        .low_rank_up = low_rank_up,
        .layer_input = layer_input,
        .route = route,
        .mix_experts = mix_experts,
        .soft_cap = soft_cap,
        .read = read,
    };
    return table;
}

}  // namespace outrider::cpu::OUTRIDER_ISA
