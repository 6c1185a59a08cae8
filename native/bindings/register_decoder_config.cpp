// Python bindings of DecoderConfig.
#include <pybind11/stl.h>

#include <optional>
#include <string>
#include <vector>

#include "arrays.h"
#include "bindings.h"
#include "decoder/config_fields.h"
#include "outrider/decoder/limits.h"
#include "require_range.h"

namespace py = pybind11;

namespace outrider {
namespace {

const Names<LayerKind> kLayerKinds{{"attention", LayerKind::attention},
                                   {"short_convolution", LayerKind::short_convolution},
                                   {"gated_delta", LayerKind::gated_delta},
                                   {"latent_attention", LayerKind::latent_attention}};

template <typename T>
void read(const char*, const py::handle& from, T& to) {
    to = from.cast<T>();
}

void read(const char* name, const py::handle& from, Activation& to) {
    to = parse(name, from.cast<std::string>(), kActivations);
}

void read(const char* name, const py::handle& from, NormKind& to) {
    to = parse(name, from.cast<std::string>(), kNormKinds);
}

void read(const char* name, const py::handle& from, QkNorm& to) {
    to = parse(name, from.cast<std::string>(), kQkNorms);
}

void read(const char*, const py::handle& from, std::vector<Rope>& to) {
    for (const py::object& rope : from.cast<std::vector<py::object>>()) {
        to.push_back({.frequencies = rope.attr("frequencies").cast<std::vector<float>>(),
                      .scale = rope.attr("scale").cast<float>()});
    }
}

void read(const char* name, const py::handle& from, std::vector<LayerConfig>& to) {
    for (const py::object& source : from.cast<std::vector<py::object>>()) {
        LayerConfig& layer = to.emplace_back();
        layer.kind = parse(name, source.attr("kind").cast<std::string>(), kLayerKinds);
        layer.mlp_size = source.attr("mlp_size").cast<std::optional<int>>();
        layer.has_experts = source.attr("has_experts").cast<bool>();
        switch (layer.kind) {
            case LayerKind::attention:
                layer.window = source.attr("window").cast<int>();
                layer.rope = source.attr("rope").cast<int>();
                layer.looks_ahead = source.attr("looks_ahead").cast<bool>();
                layer.head_dim = source.attr("head_dim").cast<std::optional<int>>();
                layer.num_kv_heads = source.attr("num_kv_heads").cast<std::optional<int>>();
                layer.values_are_keys = source.attr("values_are_keys").cast<bool>();
                layer.kv_layer = source.attr("kv_layer").cast<std::optional<int>>();
                layer.target_layer = source.attr("target_layer").cast<std::optional<int>>();
                break;
            case LayerKind::short_convolution:
                layer.taps = source.attr("taps").cast<int>();
                break;
            case LayerKind::gated_delta:
                layer.delta = {.key_heads = source.attr("key_heads").cast<int>(),
                               .value_heads = source.attr("value_heads").cast<int>(),
                               .key_dim = source.attr("key_dim").cast<int>(),
                               .value_dim = source.attr("value_dim").cast<int>(),
                               .taps = source.attr("taps").cast<int>()};
                break;
            case LayerKind::latent_attention:
                layer.latent = {.query_rank = source.attr("query_rank").cast<int>(),
                                .rank = source.attr("rank").cast<int>(),
                                .turning = source.attr("turning").cast<int>(),
                                .key_dim = source.attr("key_dim").cast<int>(),
                                .value_dim = source.attr("value_dim").cast<int>(),
                                .norm_eps = source.attr("norm_eps").cast<float>()};
                break;
        }
    }
}

void read(const char*, const py::handle& from, std::optional<Experts>& to) {
    if (from.is_none()) {
        return;
    }
    if (!py::hasattr(from, "count")) {
        throw py::cast_error("no experts");
    }
    to = Experts{
        .count = from.attr("count").cast<int>(),
        .per_token = from.attr("per_token").cast<int>(),
        .size = from.attr("size").cast<int>(),
        .rule = {.scores = parse("experts.scores", from.attr("scores").cast<std::string>(), kExpertScores),
                 .are_normalised = from.attr("are_normalised").cast<bool>(),
                 .sum_offset = from.attr("sum_offset").cast<float>(),
                 .weight_scale = from.attr("weight_scale").cast<float>(),
                 .groups = from.attr("groups").cast<int>(),
                 .groups_per_token = from.attr("groups_per_token").cast<int>()},
        .have_biases = from.attr("have_biases").cast<bool>(),
        .has_choice_bias = from.attr("has_choice_bias").cast<bool>(),
        .has_shared_gate = from.attr("has_shared_gate").cast<bool>(),
        .have_scales = from.attr("have_scales").cast<bool>(),
        .have_norms = from.attr("have_norms").cast<bool>()};
}

void read(const char*, const py::handle& from, std::optional<Features>& to) {
    if (from.is_none()) {
        return;
    }
    if (!py::hasattr(from, "norm_carried")) {
        throw py::cast_error("no features");
    }
    to = Features{.count = from.attr("count").cast<int>(),
                  .width = from.attr("width").cast<int>(),
                  .norm = parse("features.norm", from.attr("norm").cast<std::string>(), kFeatureNorms),
                  .fc_reads_both = from.attr("fc_reads_both").cast<bool>(),
                  .norm_residual = from.attr("norm_residual").cast<bool>(),
                  .norm_carried = from.attr("norm_carried").cast<bool>(),
                  .own_embedding = from.attr("own_embedding").cast<bool>(),
                  .head_size = from.attr("head_size").cast<int>()};
    if (const py::object block = from.attr("block"); !block.is_none()) {
        to->block = FeatureBlock{.size = block.attr("size").cast<int>(),
                                 .mask_token = block.attr("mask_token").cast<int>(),
                                 .continues_rows = block.attr("continues_rows").cast<bool>(),
                                 .first_predicts = block.attr("first_predicts").cast<bool>(),
                                 .markov_rank = block.attr("markov_rank").cast<int>(),
                                 .has_confidence = block.attr("has_confidence").cast<bool>()};
    }
}

/// Reads each field from the attribute of the same name.
DecoderConfig make_config(const py::object& source) {
    DecoderConfig config;
    for_each_field([&](const auto& field) {
        const py::object value = source.attr(field.name);
        try {
            read(field.name, value, config.*field.member);
        } catch (const py::cast_error&) {
            throw py::type_error(std::string(field.name) + " is " + py::repr(value).cast<std::string>() +
                                 ", which the decoder cannot have");
        }
    });
    config.validate();
    return config;
}

}  // namespace

void register_decoder_config(py::module_& module) {
    py::class_<DecoderConfig>(module, "DecoderConfig", py::is_final())
        .def(py::init(&make_config), py::arg("config"))
        .def(
            "position_bytes",
            [](DecoderConfig config, const std::string& kv, int ranks) {
                require_range("ranks", ranks, 1, kMostRanks);
                config.rank = {0, ranks};
                return config.position_bytes(parse("kv", kv, kKvFormats));
            },
            py::arg("kv"), py::arg("ranks") = 1)
        .def(
            "state_bytes",
            [](DecoderConfig config, int ring_rows, int ranks) {
                require_range("ring_rows", ring_rows, 1, kMostRows);
                require_range("ranks", ranks, 1, kMostRanks);
                config.rank = {0, ranks};
                return config.state_bytes(ring_rows);
            },
            py::arg("ring_rows"), py::arg("ranks") = 1);
}

}  // namespace outrider
