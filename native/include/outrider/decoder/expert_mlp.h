// ExpertMlp: a layer's mixture of experts (Shazeer et al., arXiv 1701.06538, section 2).
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "outrider/decoder/activation_buffer.h"
#include "outrider/decoder/decoder_config.h"
#include "outrider/decoder/expert_weights.h"
#include "outrider/device/device.h"
#include "outrider/device/device_buffer.h"
#include "outrider/device/ranks.h"

namespace outrider {

/// Gathers the rows of each expert, so that the expert's weights are read once for all of them.
class ExpertMlp {
  public:
    ExpertMlp(std::shared_ptr<Device> device, const DecoderConfig& config, Format format);

    /// Allocates memory for so many rows; returns whether any buffer has moved.
    bool reserve(int rows);

    /// delta = the weighted sum of the experts' outputs, plus the output of the MLP for all rows, by its gate if there
    /// is one. `delta` holds it before if `adds_to_delta`.  # delta: [rows, hidden]
    void run(const ExpertWeights& weights, const Activations& input, int rows, bool adds_to_delta,
             Ranks& ranks, float* delta);
    /// The same with norms: of the residual for the router and for the experts, and of what both MLPs give before it is
    /// added up.  # residual, delta: [rows, hidden]
    void run_normed(const ExpertWeights& weights, float* residual, int rows, Ranks& ranks, float* delta);

  private:
    void run(const ExpertWeights& weights, const Activations& router_input, const Activations& input,
             int rows, bool adds_to_delta, Ranks& ranks, float* delta);

    Routing routing();
    void route(const ExpertWeights& weights, const Activations& input, int rows);
    void multiply(const ExpertWeights& weights, FusedWeight Expert::* weight,
                  DeviceBuffer<float> Expert::* bias, const Activations& input, int rows, float* out);

    std::shared_ptr<Device> device_;
    Experts experts_;
    Activation activation_;
    int hidden_size_;
    Rank rank_;
    float norm_eps_;
    std::vector<ExpertMatrix> matrices_;  // the matrices of the products being enqueued
    DeviceBuffer<int32_t> choices_;       // [rows, per_token], the chosen experts
    DeviceBuffer<int32_t> places_;        // [rows, per_token]
    DeviceBuffer<int32_t> gathered_;      // [rows * per_token]
    DeviceBuffer<int32_t> first_rows_;    // [count + 1]
    DeviceBuffer<float> weights_;         // [rows, per_token]
    DeviceBuffer<float> logits_;          // [rows, count, and the gate if there is one]
    DeviceBuffer<float> gate_up_;         // [rows * per_token, 2 * the rank's part of size]
    DeviceBuffer<float> outputs_;         // [rows * per_token, the rank's part of hidden]
    ActivationBuffer inputs_;             // [rows * per_token, hidden]
    ActivationBuffer gated_;              // [rows * per_token, size]
    ActivationBuffer router_input_;       // [rows, hidden], if norms make it
    ActivationBuffer normed_;             // [rows, hidden], likewise
    DeviceBuffer<float> mixed_;           // [rows, hidden], likewise
};

}  // namespace outrider
