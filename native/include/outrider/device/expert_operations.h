// The arguments of the operations of experts.
#pragma once

#include <cstdint>

#include "outrider/device/operations.h"

namespace outrider {

/// The experts of each row, and for each expert its rows next to one another. Device memory.
struct Routing {
    int32_t* experts = nullptr;     // [rows, per_token], the ids ascending
    float* weights = nullptr;       // [rows, per_token]
    int32_t* places = nullptr;      // [rows, per_token], the index in `gathered` of each choice
    int32_t* gathered = nullptr;    // [rows * per_token], the rows, ordered by expert id
    int32_t* first_rows = nullptr;  // [count + 1], the index of each expert's first row in `gathered`
    int count = 0;                  // number of experts
    int per_token = 0;
};

/// Chooses each row's experts by the greatest logits, ties by lowest id; the weights are the softmax over all
/// logits, or over those of the chosen experts if `are_normalised`.
struct Route {
    const float* logits = nullptr;  // [rows, stride]
    int64_t stride = 0;
    bool are_normalised = false;
    Routing out;
    int rows = 0;
};

/// One of an expert's matrices, and the output column where its product begins.
struct ExpertMatrix {
    const PackedWeight* weight = nullptr;
    const float* bias = nullptr;  // [out_features] or null
    int expert = 0;
    int first_column = 0;
};

/// out = input * weight^T + bias, where each matrix multiplies the rows gathered for its expert.
struct ExpertProducts {
    Activations input;                       // [rows, in_features], in gathered order
    const ExpertMatrix* matrices = nullptr;  // [count], in the host's memory
    int count = 0;
    const int32_t* first_rows = nullptr;  // [experts + 1]
    float* out = nullptr;                 // [rows, out_stride]
    int64_t out_stride = 0;
    int rows = 0;
};

/// out = share(gates) * out + the sum of weight * output over the row's experts, in the order of their ids.
/// share is the logistic function, or 0 if there are no gates.
struct MixExperts {
    Routing routing;
    const float* outputs = nullptr;  // [rows * per_token, width], in gathered order
    const float* gates = nullptr;    // [rows, gate_stride] or null
    int64_t gate_stride = 0;
    float* out = nullptr;  // [rows, width]
    int rows = 0;
    int width = 0;
};

}  // namespace outrider
