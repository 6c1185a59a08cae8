// One instruction set's kernels: this file is compiled once for each, with OUTRIDER_ISA as the name of its
// namespace.
#include "cpu/kernels.h"

#include "cpu/attention.h"
#include "cpu/elementwise.h"
#include "cpu/float_dots.h"
#include "cpu/int4_strip.h"
#include "cpu/int8_strip.h"
#include "cpu/integer_product.h"
#include "cpu/kv_block.h"
#include "cpu/normalise.h"
#include "cpu/read.h"
#include "cpu/rotary.h"
#include "cpu/step_product.h"

#if defined(__AMX_BF16__)
#include "cpu/amx_product.h"
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
