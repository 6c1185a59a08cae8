// TensorCore: computes a bf16 mma_m16n8k16 to the bit, as measured on hardware (MMA-Sim, Xie et al., arXiv
// 2511.10909).
#pragma once

namespace outrider::cuda {

/// The products of `terms` neighbouring k are added to the sum at once: all are aligned to the largest
/// exponent among them, truncated `kept_bits` bits after its binary point, added exactly, and truncated to a
/// float32. Nothing is rounded up, except for infinities and NaN.
struct TensorCore {
    int kept_bits;
    int terms;

    static constexpr int kRows = 16;
    static constexpr int kColumns = 8;
    static constexpr int kInputs = 16;

    /// sums += left * right, whose values must be bf16.
    void multiply_add(const float (&left)[kRows][kInputs], const float (&right)[kInputs][kColumns],
                      float (&sums)[kRows][kColumns]) const;
};

constexpr TensorCore kAmpere{24, 8};   // and Ada
constexpr TensorCore kHopper{25, 16};  // and Blackwell; wgmma has the bits of mma

}  // namespace outrider::cuda
