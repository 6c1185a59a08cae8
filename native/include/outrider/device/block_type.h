// BlockType: a way in which GGUF files store a matrix: neighbouring values of a row in one block of bytes.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "outrider/device/format.h"

namespace outrider {

/// Where the parts of one block go, as in GroupedRows; null is what its type has none of.
struct BlockParts {
    int8_t* numbers;
    uint16_t* scale;
    uint16_t* offset;
    int8_t* steps;
    int8_t* offset_steps;
};

/// A block of the file is a block of its kind, as which nothing of it is lost.
struct BlockType {
    const char* name;  // as llama.cpp has it
    int size;          // bytes of a block
    WeightKind kind;
    void (*split)(const uint8_t* block, const BlockParts& to);

    /// Throws std::invalid_argument for rows that are no whole blocks.
    int64_t row_bytes(int64_t in_features) const;
};

std::vector<std::string> block_type_names();

/// Throws std::invalid_argument for a name that no type has.
const BlockType& find_block_type(const std::string& name);

/// One row of blocks, split.
class SplitRow {
  public:
    SplitRow(const BlockType& type, int64_t in_features, const uint8_t* row);

    GroupedRows groups() const;
    /// What they stand for.  # [in_features]
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
