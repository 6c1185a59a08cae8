#include "outrider/decoder/token_columns.h"

#include <utility>

namespace outrider {

TokenColumns::TokenColumns(std::shared_ptr<Device> device, int num_tokens, int vocab_size)
    : device_(std::move(device)), vocab_size_(vocab_size), token_ids_(device_, num_tokens) {}

void TokenColumns::set(const std::vector<int32_t>& token_ids) {
    device_->upload(token_ids_.data(), token_ids.data(), token_ids.size() * sizeof(int32_t));
    are_set_ = true;
}

bool TokenColumns::reserve(int rows) {
    return logits_.reserve(device_, rows * token_ids_.size());
}

void TokenColumns::spread(float* out, int rows, int first_row) {
    device_->spread_columns({.in = logits_.data() + first_row * token_ids_.size(),
                             .columns = token_ids_.data(),
                             .count = static_cast<int>(token_ids_.size()),
                             .out = out,
                             .rows = rows,
                             .width = vocab_size_});
}

}  // namespace outrider
