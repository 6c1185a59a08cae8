#include "outrider/decoder/linear.h"

namespace outrider {

void Linear::multiply(const Activations& input, int rows, const FusedWeight& weight, const float* bias,
                      float* out, int first_column, int out_stride) {
    const int stride = out_stride > 0 ? out_stride : weight.out_features();
    for (const FusedWeight::Part& part : weight.parts()) {
        if (part.first_column < first_column) {
            continue;
        }
        device_->product(product_of(input, rows, part, bias, out, stride));
        adapters_.apply(input, *part.matrix, out + part.first_column, stride);
    }
}

void Linear::multiply_own(const Activations& input, int rows, const FusedWeight& weight, const float* bias,
                          float* out, int width) {
    multiply(input, rows, weight, bias, out + ranks_.own().first(width), 0, width);
}

void Linear::multiply_all(const Activations& input, int rows, const FusedWeight& weight, const float* bias,
                          float* out, int width) {
    multiply_own(input, rows, weight, bias, out, width);
    ranks_.exchange(out, width, rows);
}

void Linear::multiply_and_activate(const Activations& input, const FusedWeight& weight, const float* bias,
                                   float* out, Activate activation) {
    activation.gate_up = out;
    const auto& parts = weight.parts();
    if (parts.size() == 1 && !adapters_.change(*parts.front().matrix)) {
        const Product product =
            product_of(input, activation.rows, parts.front(), bias, out, weight.out_features());
        device_->activated_product(product, activation);
    } else {
        multiply(input, activation.rows, weight, bias, out);
        device_->activate(activation);
    }
}

Product Linear::product_of(const Activations& input, int rows, const FusedWeight::Part& part,
                           const float* bias, float* out, int out_stride) {
    return {.input = input,
            .weight = part.matrix.get(),
            .bias = bias ? bias + part.first_column : nullptr,
            .out = out + part.first_column,
            .out_stride = out_stride,
            .rows = rows,
            .scratch = scratch_.data()};
}

}  // namespace outrider
