// Pass: the results of one pass of a decoder, in device memory.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "outrider/decoder/logits.h"

namespace outrider {

class Decoder;

/// A light handle, valid until the decoder's next pass or reservation of memory, which overwrites the results.
class Pass {
  public:
    /// `version` is that of the decoder's results.
    Pass(Decoder& decoder, Logits logits, int num_rows, int64_t version)
        : decoder_(&decoder), logits_(std::move(logits)), num_rows_(num_rows), version_(version) {}

    const Logits& logits() const { return logits_; }

    /// Returns the unrounded outputs of the final norm for some rows. Throws std::invalid_argument for rows that
    /// the pass did not have, std::logic_error if the results are gone.  # [num_rows, hidden_size]
    std::vector<float> hidden_states(int first_row, int num_rows) const;

  private:
    friend class Decoder;

    void require_fresh() const;

    Decoder* decoder_;
    Logits logits_;
    int num_rows_;
    int64_t version_;
};

}  // namespace outrider
