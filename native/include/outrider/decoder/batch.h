// Batch: the rows of one pass.
#pragma once

#include <cstdint>
#include <vector>

#include "outrider/decoder/decoder_config.h"

namespace outrider {

/// The adapter number of a sequence without an adapter.
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
    std::vector<int32_t> adapters;      // [max_sequences], the adapter's number or kNoAdapter
    std::vector<StatePlace> states;     // [max_sequences], where layers carry states
    int num_rows = 0;
    int num_sequences = 0;
    int num_logits = 0;

    /// Empties the batch for a new pass.
    void clear();

    /// Appends consecutive tokens of one sequence, the first at `position`. Logits are computed for the last
    /// `run_logits` of them, `adapter` changes the weights for all of them, and `state` is the place of the
    /// sequence's state. Throws std::invalid_argument, naming the field, and appends nothing, if there is too
    /// little room or a position is beyond the block table.
    void append(const std::vector<int32_t>& run, int position, const std::vector<int32_t>& blocks,
                int run_logits, int adapter = kNoAdapter, const StatePlace& state = {});

    /// Returns a copy with room for `spare_rows` more rows; its block tables keep only their first `num_blocks` columns.
    Batch trimmed(int num_blocks, int spare_rows = 0) const;

    /// Throws std::invalid_argument, naming the field and the row, for anything that a pass would read out of
    /// bounds.
    void validate(const DecoderConfig& config, int num_blocks) const;
    /// Throws likewise for states that a pass cannot continue, or could not continue afterwards.
    void validate_states(const DecoderConfig& config, int num_slots, int ring_rows) const;

  private:
    void validate_rows(const DecoderConfig& config) const;
    void validate_blocks(const DecoderConfig& config, int num_blocks) const;
};

}  // namespace outrider
