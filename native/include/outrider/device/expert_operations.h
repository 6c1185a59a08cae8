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

/// The scores of experts by their logits: the softmax over all, or the logistic function of each.
enum class ExpertScores { softmax, sigmoid };

/// How the weights of a row's experts come from its logits.
struct RoutingRule {
    ExpertScores scores = ExpertScores::softmax;
    bool are_normalised = false;  // the weights are the chosen experts' scores, divided by their sum
    float sum_offset = 0.0f;      // added to that sum
    float weight_scale = 1.0f;
    int groups = 1;  // of neighbouring experts, equally many
    int groups_per_token = 1;
};

/// Chooses each row's experts by the greatest logits, or by the greatest sums of a sigmoid and the expert's bias, ties
/// by lowest id. Of several groups those are considered whose best expert has the greatest logit (DeepSeek-V2,
/// arXiv 2405.04434, section 2.2.2), or whose best two have the greatest sums (DeepSeek-V3, arXiv 2412.19437, section
/// 2.1.2). The weights are scores without the bias.
struct Route {
    const float* logits = nullptr;  // [rows, stride]
    int64_t stride = 0;
    const float* choice_bias = nullptr;  // [count] or null
    const float* scales = nullptr;       // [count] of each expert's weight, or null; only with softmax
    RoutingRule rule = {};
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

/// out = input * weight^T + bias, where each matrix multiplies the rows gathered for its expert. Without `first_rows` it
/// multiplies all rows instead: their columns from expert * in_step on, to the columns from expert * out_step on.
struct ExpertProducts {
    Activations input;                       // [rows, in_features], in gathered order
    const ExpertMatrix* matrices = nullptr;  // [count], in the host's memory
    int count = 0;
    const int32_t* first_rows = nullptr;  // [experts + 1] or null
    int64_t in_step = 0;
    int64_t out_step = 0;
    float* out = nullptr;  // [rows, out_stride]
    int64_t out_stride = 0;
    int rows = 0;

    struct Rows {
        int64_t first;
        int64_t count;
    };
    /// The rows that an expert's matrices multiply; reads device memory.
    constexpr Rows rows_of(int expert) const {
        return first_rows ? Rows{first_rows[expert], first_rows[expert + 1] - first_rows[expert]}
                          : Rows{0, rows};
    }
};

/// out = share(gates) * out + the sum of weight * output over the row's experts, in the order of their ids.
/// share is the logistic function, or 1 if there are no gates; without `adds_to_out` the first term is 0.
struct MixExperts {
    Routing routing;
    const float* outputs = nullptr;  // [rows * per_token, width], in gathered order
    const float* gates = nullptr;    // [rows, gate_stride] or null
    int64_t gate_stride = 0;
    bool adds_to_out = false;
    float* out = nullptr;  // [rows, out_stride]
    int64_t out_stride = 0;
    int rows = 0;
    int width = 0;
};

}  // namespace outrider
