#include "emulation/groups.cuh"

#include "cuda/values/values.cuh"

namespace outrider::cuda {
namespace {

using Lanes = PendingMultiplication[kWarp];

float value_at(const char* place) {
    uint16_t bits;
    std::memcpy(&bits, place, sizeof(bits));
    return bfloat16_value(bits);
}

/// Reads the left operand from the lanes' registers, laid out as in mma_m16n8k16.
void read_left(const Lanes& lanes, float (&left)[TensorCore::kRows][TensorCore::kInputs]) {
    for (int lane = 0; lane < kWarp; ++lane) {
        for (int i = 0; i < 4; ++i) {
            for (int which = 0; which < 2; ++which) {
                left[lane / 4 + i % 2 * 8][lane % 4 * 2 + i / 2 * 8 + which] =
                    bfloat16_value(static_cast<uint16_t>(lanes[lane].a[i] >> 16 * which));
            }
        }
    }
}

void read_right(const char* cores, int along_k, float (&right)[TensorCore::kInputs][TensorCore::kColumns]) {
    for (int k = 0; k < TensorCore::kInputs; ++k) {
        for (int column = 0; column < TensorCore::kColumns; ++column) {
            right[k][column] = value_at(cores + k / 8 * along_k + column * 16 + k % 8 * 2);
        }
    }
}

/// The place of a lane's sum in the sums of eight columns.
float& sum_of(float (&sums)[TensorCore::kRows][TensorCore::kColumns], int lane, int i) {
    return sums[lane / 4 + i / 2 * 8][lane % 4 * 2 + i % 2];
}

void multiply(const Lanes& lanes) {
    float left[TensorCore::kRows][TensorCore::kInputs];
    float right[TensorCore::kInputs][TensorCore::kColumns];
    float sums[TensorCore::kRows][TensorCore::kColumns];
    read_left(lanes, left);
    for (int eight = 0; eight < lanes[0].columns / TensorCore::kColumns; ++eight) {
        read_right(lanes[0].b + eight * lanes[0].along_columns, lanes[0].along_k, right);
        for (int lane = 0; lane < kWarp; ++lane) {
            for (int i = 0; i < 4; ++i) {
                sum_of(sums, lane, i) = lanes[lane].sums[4 * eight + i];
            }
        }
        ThreadBlock::current().tensor_core().multiply_add(left, right, sums);
        for (int lane = 0; lane < kWarp; ++lane) {
            for (int i = 0; i < 4; ++i) {
                lanes[lane].sums[4 * eight + i] = sum_of(sums, lane, i);
            }
        }
    }
}

}  // namespace

void make_multiplications(PendingMultiplications* const (&lanes)[kWarp], size_t kept) {
    while (lanes[0]->sets.size() > kept) {
        for (size_t index = 0; index < lanes[0]->sets.front().size(); ++index) {
            Lanes own;
            for (int lane = 0; lane < kWarp; ++lane) {
                own[lane] = lanes[lane]->sets.front()[index];
            }
            multiply(own);
        }
        for (PendingMultiplications* lane : lanes) {
            lane->sets.pop_front();
        }
    }
}

}  // namespace outrider::cuda
