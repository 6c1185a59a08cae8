// BlockType: a GGUF quantisation type, which stores neighbouring values of a row in one block of bytes.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "outrider/device/format.h"

namespace outrider {

/// The destinations of one block's parts, as in GroupedRows; null for parts that its type lacks.
struct BlockParts {
    int8_t* numbers;
    uint16_t* scale;
    uint16_t* offset;
    int8_t* steps;
    int8_t* offset_steps;
};

/// A block of the file becomes one block (`Grouping::block` inputs) of a grouped weight of this kind, without
/// loss.
struct BlockType {
    const char* name;  // as in llama.cpp
    int size;          // bytes of a block
    WeightKind kind;
    void (*split)(const uint8_t* block, const BlockParts& to);

    /// Throws std::invalid_argument if a row is not a whole number of blocks.
    int64_t row_bytes(int64_t in_features) const;
};

std::vector<std::string> block_type_names();

/// Throws std::invalid_argument for an unknown name.
const BlockType& find_block_type(const std::string& name);

/// One row of blocks, split into numbers, scales and offsets.
class SplitRow {
  public:
    SplitRow(const BlockType& type, int64_t in_features, const uint8_t* row);

    GroupedRows groups() const;
    /// The dequantised values.  # [in_features]
    std::vector<float> values() const;

  private:
    WeightKind kind_;
    std::vector<int8_t> numbers_;
    std::vector<uint16_t> scales_;
    std::vector<uint16_t> offsets_;
    std::vector<int8_t> steps_;
    std::vector<int8_t> offset_steps_;
};

}  // namespace outrider
