// Batch: the rows of one pass.
#pragma once

#include <cstdint>
#include <vector>

#include "outrider/decoder/decoder_config.h"

namespace outrider {

/// In place of an adapter's number.
constexpr int32_t kNoAdapter = -1;

/// Flat arrays in host memory, allocated once and refilled each step. The rows of one sequence are in the
/// order of their positions, without gaps; rows of several sequences may be mixed in any way.
struct Batch {
    /// Throws std::invalid_argument, naming the field, for sizes below 1 or beyond the limits.
    Batch(int max_rows, int max_sequences, int max_blocks);

    const int max_rows;
    const int max_sequences;
    const int max_blocks;
    std::vector<int32_t> token_ids;     // [max_rows]
    std::vector<int32_t> positions;     // [max_rows]
    std::vector<int32_t> sequences;     // [max_rows], row of block_tables
    std::vector<int32_t> block_tables;  // [max_sequences, max_blocks]
    std::vector<int32_t> logit_rows;    // [max_rows]
    std::vector<int32_t> adapters;      // [max_sequences], each one's number or kNoAdapter
    int num_rows = 0;
    int num_sequences = 0;
    int num_logits = 0;

    /// Begins a new pass.
    void clear();

    /// Adds a sequence's run of tokens that begins at `position`; the logits of its last `run_logits` rows
    /// are asked, and `adapter` changes the weights for it. Throws std::invalid_argument, naming the field,
    /// and adds nothing, for more than there is room for and for positions that no block table reaches.
    void append(const std::vector<int32_t>& run, int position, const std::vector<int32_t>& blocks,
                int run_logits, int adapter = kNoAdapter);

    /// A copy with room for nothing more, whose block tables have their first so many columns.
    Batch trimmed(int num_blocks) const;

    /// Throws std::invalid_argument, naming the field and the row, for anything that a pass would read out of
    /// bounds.
    void validate(const DecoderConfig& config, int num_blocks) const;

  private:
    void validate_rows(const DecoderConfig& config) const;
    void validate_blocks(const DecoderConfig& config, int num_blocks) const;
};

}  // namespace outrider
