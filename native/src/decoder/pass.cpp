#include "outrider/decoder/pass.h"

#include <stdexcept>

#include "outrider/decoder/decoder.h"
#include "require_range.h"

namespace outrider {

void Pass::require_fresh() const {
    if (decoder_->results_version_ != version_) {
        throw std::logic_error("the results are gone: the decoder has run another pass, or reserved memory");
    }
}

std::vector<float> Pass::hidden_states(int first_row, int num_rows) const {
    require_fresh();
    require_range("num_rows", num_rows, 1, num_rows_);
    require_range("first_row", first_row, 0, num_rows_ - num_rows);
    return decoder_->normed_states(first_row, num_rows);
}

/// Computes the final norm again: a pass leaves the sum of all layers in the residual, and no longer needs
/// `delta`.
std::vector<float> Decoder::normed_states(int first_row, int num_rows) {
    const int width = config_.hidden_size;
    float* const normed = workspace_.delta.data();
    device_->residual_norm({.residual = workspace_.residual.data() + int64_t{first_row} * width,
                            .norm = weights_.final_norm().weight.data(),
                            .norm_bias = weights_.final_norm().bias.data(),
                            .kind = config_.norm,
                            .eps = config_.norm_eps,
                            .out = {.data = normed, .format = Format::f32, .stride = width},
                            .rows = num_rows,
                            .width = width});
    std::vector<float> values(static_cast<size_t>(num_rows) * width);
    device_->download(values.data(), normed, values.size() * sizeof(float));
    for (float& value : values) {
        value /= config_.logit_scale;  // the norm's weights and biases include this factor
    }
    return values;
}

}  // namespace outrider
