// The layouts of quantised blocks, as in llama.cpp's ggml-common.h.
#include "outrider/device/block_type.h"

#include <algorithm>
#include <cstring>
#include <stdexcept>

namespace outrider {
namespace {

constexpr int kSuperBlock = 256;
constexpr int8_t kNonLinear[16] = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};

uint16_t read_half(const uint8_t* bytes) {
    uint16_t bits;
    std::memcpy(&bits, bytes, sizeof(bits));
    return bits;
}

uint16_t negated(uint16_t half) {
    return half ^ 0x8000;
}

/// Unpacks numbers of kBits: the lowest of each of `run` bytes, then the next higher of each, and so on, run
/// after run.
template <int kBits>
void unpack(const uint8_t* bytes, int count, int run, int8_t* to) {
    for (int first = 0; first < count; first += run) {
        for (int shift = 0; shift < 8; shift += kBits) {
            for (int i = 0; i < run; ++i) {
                *to++ = static_cast<int8_t>(bytes[first + i] >> shift & ((1 << kBits) - 1));
            }
        }
    }
}

/// number = (number | high << shift) - zero
template <int kCount>
void join(int8_t* numbers, const int8_t* high, int shift, int zero) {
    for (int i = 0; i < kCount; ++i) {
        numbers[i] = static_cast<int8_t>((numbers[i] | high[i] << shift) - zero);
    }
}

/// Unpacks 32 one-bit numbers, in order.
void unpack_bits(const uint8_t* bytes, int8_t* to) {
    for (int i = 0; i < 32; ++i) {
        to[i] = static_cast<int8_t>(bytes[i / 8] >> i % 8 & 1);
    }
}

void look_up(int8_t* numbers, int count) {
    for (int i = 0; i < count; ++i) {
        numbers[i] = kNonLinear[numbers[i]];
    }
}

void split_q4_0(const uint8_t* block, const BlockParts& to) {
    *to.scale = read_half(block);
    unpack<4>(block + 2, 16, 16, to.numbers);
    for (int i = 0; i < 32; ++i) {
        to.numbers[i] = static_cast<int8_t>(to.numbers[i] - 8);
    }
}

void split_q4_1(const uint8_t* block, const BlockParts& to) {
    *to.scale = read_half(block);
    *to.offset = read_half(block + 2);
    unpack<4>(block + 4, 16, 16, to.numbers);
}

void split_q5_0(const uint8_t* block, const BlockParts& to) {
    int8_t high[32];
    *to.scale = read_half(block);
    unpack_bits(block + 2, high);
    unpack<4>(block + 6, 16, 16, to.numbers);
    join<32>(to.numbers, high, 4, 16);
}

void split_q5_1(const uint8_t* block, const BlockParts& to) {
    int8_t high[32];
    *to.scale = read_half(block);
    *to.offset = read_half(block + 2);
    unpack_bits(block + 4, high);
    unpack<4>(block + 8, 16, 16, to.numbers);
    join<32>(to.numbers, high, 4, 0);
}

void split_q8_0(const uint8_t* block, const BlockParts& to) {
    *to.scale = read_half(block);
    std::memcpy(to.numbers, block + 2, 32);
}

void split_iq4_nl(const uint8_t* block, const BlockParts& to) {
    *to.scale = read_half(block);
    unpack<4>(block + 2, 16, 16, to.numbers);
    look_up(to.numbers, 32);
}

void split_q2_k(const uint8_t* block, const BlockParts& to) {
    for (int group = 0; group < 16; ++group) {
        to.steps[group] = static_cast<int8_t>(block[group] & 15);
        to.offset_steps[group] = static_cast<int8_t>(block[group] >> 4);
    }
    unpack<2>(block + 16, 64, 32, to.numbers);
    *to.scale = read_half(block + 80);
    *to.offset = negated(read_half(block + 82));
}

void split_q3_k(const uint8_t* block, const BlockParts& to) {
    int8_t high[kSuperBlock];
    unpack<1>(block, 32, 32, high);  // a clear bit subtracts 4
    unpack<2>(block + 32, 64, 32, to.numbers);
    join<kSuperBlock>(to.numbers, high, 2, 4);
    unpack<4>(block + 96, 8, 8, to.steps);
    unpack<2>(block + 104, 4, 4, high);
    join<16>(to.steps, high, 4, 32);
    *to.scale = read_half(block + 108);
}

/// Q4_K and Q5_K: scales and minima of eight groups, six bits each, in twelve bytes.
void split_six_bit_steps(const uint8_t* block, const BlockParts& to) {
    *to.scale = read_half(block);
    *to.offset = negated(read_half(block + 2));
    const uint8_t* scales = block + 4;
    const uint8_t* minima = block + 8;
    const uint8_t* rest = block + 12;
    for (int i = 0; i < 4; ++i) {
        to.steps[i] = static_cast<int8_t>(scales[i] & 63);
        to.steps[i + 4] = static_cast<int8_t>((rest[i] & 15) | (scales[i] >> 2 & 48));
        to.offset_steps[i] = static_cast<int8_t>(minima[i] & 63);
        to.offset_steps[i + 4] = static_cast<int8_t>(rest[i] >> 4 | (minima[i] >> 2 & 48));
    }
}

void split_q4_k(const uint8_t* block, const BlockParts& to) {
    split_six_bit_steps(block, to);
    unpack<4>(block + 16, 128, 32, to.numbers);
}

void split_q5_k(const uint8_t* block, const BlockParts& to) {
    int8_t high[kSuperBlock];
    split_six_bit_steps(block, to);
    unpack<1>(block + 16, 32, 32, high);
    unpack<4>(block + 48, 128, 32, to.numbers);
    join<kSuperBlock>(to.numbers, high, 4, 0);
}

void split_q6_k(const uint8_t* block, const BlockParts& to) {
    int8_t high[kSuperBlock];
    unpack<4>(block, 128, 64, to.numbers);
    unpack<2>(block + 128, 64, 32, high);
    join<kSuperBlock>(to.numbers, high, 4, 32);
    std::memcpy(to.steps, block + 192, 16);
    *to.scale = read_half(block + 208);
}

void split_iq4_xs(const uint8_t* block, const BlockParts& to) {
    *to.scale = read_half(block);
    const uint16_t high = read_half(block + 2);
    for (int group = 0; group < 8; ++group) {
        const int low = block[4 + group / 2] >> group % 2 * 4 & 15;
        to.steps[group] = static_cast<int8_t>((low | (high >> 2 * group & 3) << 4) - 32);
    }
    unpack<4>(block + 8, 128, 16, to.numbers);
    look_up(to.numbers, kSuperBlock);
}

constexpr WeightFormat kByte = WeightFormat::int8, kHalfByte = WeightFormat::int4;
constexpr BlockType kBlockTypes[] = {
    {"Q4_0", 18, {kHalfByte, {32, 32, false}}, split_q4_0},
    {"Q4_1", 20, {kHalfByte, {32, 32, true}}, split_q4_1},
    {"Q5_0", 22, {kByte, {32, 32, false}}, split_q5_0},
    {"Q5_1", 24, {kByte, {32, 32, true}}, split_q5_1},
    {"Q8_0", 34, {kByte, {32, 32, false}}, split_q8_0},
    {"Q2_K", 84, {kHalfByte, {16, kSuperBlock, true}}, split_q2_k},
    {"Q3_K", 110, {kHalfByte, {16, kSuperBlock, false}}, split_q3_k},
    {"Q4_K", 144, {kHalfByte, {32, kSuperBlock, true}}, split_q4_k},
    {"Q5_K", 176, {kByte, {32, kSuperBlock, true}}, split_q5_k},
    {"Q6_K", 210, {kByte, {16, kSuperBlock, false}}, split_q6_k},
    {"IQ4_NL", 18, {kByte, {32, 32, false}}, split_iq4_nl},
    {"IQ4_XS", 136, {kByte, {32, kSuperBlock, false}}, split_iq4_xs},
};

}  // namespace

int64_t BlockType::row_bytes(int64_t in_features) const {
    if (in_features % kind.groups.block != 0) {
        throw std::invalid_argument("rows of " + std::to_string(in_features) +
                                    " values are no whole blocks of " + name + ", which have " +
                                    std::to_string(kind.groups.block));
    }
    return in_features / kind.groups.block * size;
}

std::vector<std::string> block_type_names() {
    std::vector<std::string> names;
    for (const BlockType& type : kBlockTypes) {
        names.emplace_back(type.name);
    }
    return names;
}

const BlockType& find_block_type(const std::string& name) {
    const auto* found = std::find_if(std::begin(kBlockTypes), std::end(kBlockTypes),
                                     [&](const BlockType& type) { return type.name == name; });
    if (found == std::end(kBlockTypes)) {
        throw std::invalid_argument("there is no type of blocks named \"" + name + "\"");
    }
    return *found;
}

}  // namespace outrider
