// TensorCore: what an mma_m16n8k16 in bf16 computes, to the bit, as it was measured on hardware (MMA-Sim,
// Xie et al., arXiv 2511.10909).
#pragma once

namespace outrider::cuda {

/// Products of so many k at a time meet the sum so far: all are aligned to the largest exponent among them,
/// cut off so many bits after its binary point, added up exactly, and cut to a float32. Nothing is rounded
/// up, infinities and NaN aside.
struct TensorCore {
    int kept_bits;
    int terms;

    static constexpr int kRows = 16;
    static constexpr int kColumns = 8;
    static constexpr int kInputs = 16;

    /// sums += left * right, whose values are bf16.
    void multiply_add(const float (&left)[kRows][kInputs], const float (&right)[kInputs][kColumns],
                      float (&sums)[kRows][kColumns]) const;
};

constexpr TensorCore kAmpere{24, 8};   // and Ada
constexpr TensorCore kHopper{25, 16};  // and Blackwell; wgmma has the bits of mma

}  // namespace outrider::cuda
