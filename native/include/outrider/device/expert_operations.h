// The arguments of the operations of experts.
#pragma once

#include <cstdint>

#include "outrider/device/operations.h"

namespace outrider {

/// Which experts each row goes to, and for each expert its rows next to one another. Device memory.
struct Routing {
    int32_t* experts = nullptr;     // [rows, per_token], the ids ascending
    float* weights = nullptr;       // [rows, per_token]
    int32_t* places = nullptr;      // [rows, per_token], where the row is among those gathered for the expert
    int32_t* gathered = nullptr;    // [rows * per_token], the rows by ascending ids of their experts
    int32_t* first_rows = nullptr;  // [count + 1], where each expert's begin in `gathered`
    int count = 0;                  // of experts
    int per_token = 0;
};

/// Each row goes to the experts of the greatest logits, among equal ones to those of the lowest ids; the
/// weights are the softmax over all logits, or over the chosen ones.
struct Route {
    const float* logits = nullptr;  // [rows, stride]
    int64_t stride = 0;
    bool are_normalised = false;
    Routing out;
    int rows = 0;
};

/// One of an expert's matrices, and the column of the output where its products begin.
struct ExpertMatrix {
    const PackedWeight* weight = nullptr;
    const float* bias = nullptr;  // [out_features] or null
    int expert = 0;
    int first_column = 0;
};

/// out = input * weight^T + bias, for each matrix the rows that are gathered for its expert.
struct ExpertProducts {
    Activations input;                       // [rows, in_features], as they are gathered
    const ExpertMatrix* matrices = nullptr;  // [count], in the host's memory
    int count = 0;
    const int32_t* first_rows = nullptr;  // [experts + 1]
    float* out = nullptr;                 // [rows, out_stride]
    int64_t out_stride = 0;
    int rows = 0;
};

/// out = share(gates) * out + the sum of each expert's weight * outputs, in the order of their ids, where
/// share is the logistic function, and 0 where there are no gates.
struct MixExperts {
    Routing routing;
    const float* outputs = nullptr;  // [rows * per_token, width], as they were gathered
    const float* gates = nullptr;    // [rows, gate_stride] or null
    int64_t gate_stride = 0;
    float* out = nullptr;  // [rows, width]
    int rows = 0;
    int width = 0;
};

}  // namespace outrider
