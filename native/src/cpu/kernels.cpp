// One instruction set's kernels: this file is compiled once for each, with OUTRIDER_ISA as the name of its
// namespace.
#include "cpu/kernels.h"

#include "cpu/attention/attention.h"
#include "cpu/attention/kv_block.h"
#include "cpu/attention/rotary.h"
#include "cpu/elementwise/elementwise.h"
#include "cpu/elementwise/normalise.h"
#include "cpu/elementwise/read.h"
#include "cpu/product/float_dots.h"
#include "cpu/product/int4_strip.h"
#include "cpu/product/int8_strip.h"
#include "cpu/product/integer_product.h"
#include "cpu/product/step_product.h"

#if defined(__AMX_BF16__)
#include "cpu/product/amx_product.h"
#endif

#define OUTRIDER_TEXT_OF(name) #name
#define OUTRIDER_TEXT(name) OUTRIDER_TEXT_OF(name)

namespace outrider::cpu::OUTRIDER_ISA {

#if defined(__AMX_BF16__)
using ProductBf16 = AmxProduct;
#else
using ProductBf16 = StepProduct<PairDot>;
#endif

const Kernels& kernels() {
    static constexpr Kernels table{
        OUTRIDER_TEXT(OUTRIDER_ISA),
        StepProduct<FloatDot>::kernel(),
        ProductBf16::kernel(),
        IntegerProduct<Int8Strip>::kernel(),
        IntegerProduct<Int4Strip>::kernel(),
        kv_block_bytes,
        rotary_angles,
        residual_norm,
        rotate_and_store,
        attention,
        gated_activation,
        soft_cap,
        read,
    };
    return table;
}

}  // namespace outrider::cpu::OUTRIDER_ISA
