// ExpertWeights: a layer's experts, and the router that chooses among them.
#pragma once

#include <cstdint>
#include <vector>

#include "outrider/device/device_buffer.h"
#include "outrider/weights/fused_weight.h"

namespace outrider {

/// The weights of one expert; biases are null if it has none.
struct Expert {
    FusedWeight gate_up;
    FusedWeight down;
    DeviceBuffer<float> gate_up_bias;
    DeviceBuffer<float> down_bias;
};

struct ExpertWeights {
    FusedWeight router;  // a logit for each expert, then the gate of the MLP for all rows, if there is one
    DeviceBuffer<float> router_bias;  // null: none
    DeviceBuffer<float> choice_bias;  // [count] or null
    DeviceBuffer<float> scales;       // [count] or null
    DeviceBuffer<float> router_norm;  // [hidden] or null: its input is that of the experts
    DeviceBuffer<float> input_norm;   // [hidden] or null
    DeviceBuffer<float> mlp_norm;     // [hidden] or null, of what the MLP for all rows gives
    DeviceBuffer<float> output_norm;  // [hidden] or null, of what the experts give
    std::vector<Expert> each;
    int per_token = 0;

    /// The number of bytes that one row reads: the router and `per_token` experts of average size.
    int64_t bytes() const {
        int64_t all = 0;
        for (const Expert& expert : each) {
            all += expert.gate_up.bytes() + expert.down.bytes();
        }
        return router.bytes() + (each.empty() ? 0 : all * per_token / static_cast<int64_t>(each.size()));
    }
};

}  // namespace outrider
