// Python bindings of DecoderConfig and Decoder.
#include <pybind11/stl.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "arrays.h"
#include "bindings.h"
#include "mask_arrays.h"
#include "outrider/decoder/decoder.h"
#include "outrider/decoder/run_ahead.h"

namespace py = pybind11;

namespace outrider {
namespace {

std::vector<RotaryTable> rotary_tables(const std::vector<FloatArray>& frequencies,
                                       const std::vector<float>& scales) {
    if (frequencies.size() != scales.size()) {
        throw std::invalid_argument("rope_scales has " + std::to_string(scales.size()) +
                                    " entries; it must have one for each of the " +
                                    std::to_string(frequencies.size()) + " tables of rope_frequencies");
    }
    std::vector<RotaryTable> tables;
    for (size_t index = 0; index < scales.size(); ++index) {
        const float* first = frequencies[index].data();
        tables.push_back({std::vector<float>(first, first + frequencies[index].size()), scales[index]});
    }
    return tables;
}

DecoderConfig make_config(int num_layers, int hidden_size, int intermediate_size, int num_heads,
                          int num_kv_heads, int head_dim, int vocab_size, int max_position, float norm_eps,
                          const std::string& activation, float query_scale, float attention_softcap,
                          float logit_softcap, float embedding_scale, std::vector<int> windows,
                          const std::vector<FloatArray>& rope_frequencies,
                          const std::vector<float>& rope_scales, std::vector<int> rope_of_layer,
                          const std::string& qk_norm, bool pre_norm, bool post_norm, bool attention_bias,
                          bool tied_embeddings) {
    DecoderConfig config;
    config.num_layers = num_layers;
    config.hidden_size = hidden_size;
    config.intermediate_size = intermediate_size;
    config.num_heads = num_heads;
    config.num_kv_heads = num_kv_heads;
    config.head_dim = head_dim;
    config.vocab_size = vocab_size;
    config.max_position = max_position;
    config.norm_eps = norm_eps;
    config.activation = parse("activation", activation, kActivations);
    config.query_scale = query_scale;
    config.attention_softcap = attention_softcap;
    config.logit_softcap = logit_softcap;
    config.embedding_scale = embedding_scale;
    config.windows = std::move(windows);
    config.rotary_tables = rotary_tables(rope_frequencies, rope_scales);
    config.rope_of_layer = std::move(rope_of_layer);
    config.qk_norm = parse("qk_norm", qk_norm, kQkNorms);
    config.pre_norm = pre_norm;
    config.post_norm = post_norm;
    config.attention_bias = attention_bias;
    config.tied_embeddings = tied_embeddings;
    config.validate();
    return config;
}

void register_config(py::module_& module) {
    py::class_<DecoderConfig>(module, "DecoderConfig", py::is_final())
        .def(py::init(&make_config), py::kw_only(), py::arg("num_layers"), py::arg("hidden_size"),
             py::arg("intermediate_size"), py::arg("num_heads"), py::arg("num_kv_heads"), py::arg("head_dim"),
             py::arg("vocab_size"), py::arg("max_position"), py::arg("norm_eps"), py::arg("activation"),
             py::arg("query_scale"), py::arg("attention_softcap"), py::arg("logit_softcap"),
             py::arg("embedding_scale"), py::arg("windows"), py::arg("rope_frequencies"),
             py::arg("rope_scales"), py::arg("rope_of_layer"), py::arg("qk_norm"), py::arg("pre_norm"),
             py::arg("post_norm"), py::arg("attention_bias"), py::arg("tied_embeddings"));
}

std::unique_ptr<Decoder> make_decoder(std::shared_ptr<Device> device, const DecoderConfig& config,
                                      const std::string& weights, const std::string& kv,
                                      std::optional<int> num_blocks) {
    const WeightFormat weight_format = parse("weights", weights, kWeightFormats);
    const KvFormat kv_format = parse("kv", kv, kKvFormats);
    const py::gil_scoped_release release;
    auto decoder = std::make_unique<Decoder>(std::move(device), config, weight_format, kv_format);
    if (num_blocks) {
        decoder->allocate_cache(*num_blocks);
    }
    return decoder;
}

void load(Decoder& decoder, const std::string& name, const py::array& values) {
    const SourceArray source(name, values);
    const std::vector<int64_t> shape = shape_of(source.values);
    const void* data = source.values.data();
    const py::gil_scoped_release release;
    decoder.weights().load(name, shape, data, source.type);
}

void load_rows(Decoder& decoder, const std::string& name, int64_t first_row, const py::array& values) {
    const SourceArray source(name, values);
    const std::vector<int64_t> shape = shape_of(source.values);
    const void* data = source.values.data();
    const py::gil_scoped_release release;
    decoder.weights().load_rows(name, first_row, shape, data, source.type);
}

/// Views that keep the decoder alive.
py::dict packed_weights(const py::object& self) {
    py::dict views;
    for (const auto& [name, memory] : self.cast<Decoder&>().weights().packed()) {
        views[py::str(name)] =
            py::array_t<uint8_t>(memory.size, static_cast<const uint8_t*>(memory.data), self);
    }
    return views;
}

void require_one_per_state(const char* field, size_t size, size_t num_states) {
    if (size != num_states) {
        throw std::invalid_argument(std::string(field) + " has " + std::to_string(size) +
                                    " entries; it must have one for each of the " +
                                    std::to_string(num_states) + " states");
    }
}

std::vector<std::vector<int32_t>> extend(Decoder& decoder, const Batch& batch, Sampler& sampler,
                                         const std::vector<const SamplingState*>& states,
                                         const std::vector<std::vector<int32_t>>& chains,
                                         const std::vector<int>& counts, const MaskArrays& masks) {
    require_one_per_state("chains", chains.size(), states.size());
    require_one_per_state("counts", counts.size(), states.size());
    require_one_per_state("masks", masks.empty() ? states.size() : masks.size(), states.size());
    std::vector<RunAhead> runs;
    for (size_t i = 0; i < states.size(); ++i) {
        if (states[i] == nullptr) {
            throw std::invalid_argument("states: must not hold None");
        }
        runs.push_back({states[i], chains[i], counts[i], masks_of(masks, i, 1)});
    }
    const py::gil_scoped_release release;
    return run_ahead(decoder, batch, sampler, runs);
}

}  // namespace

void register_decoder(py::module_& module) {
    register_config(module);
    py::class_<Decoder>(module, "Decoder", py::is_final())
        .def(py::init(&make_decoder), py::arg("device"), py::arg("config"), py::kw_only(), py::arg("weights"),
             py::arg("kv"), py::arg("num_blocks") = std::nullopt)
        .def("reserve", &Decoder::reserve, py::kw_only(), py::arg("max_rows"), py::arg("max_logits"),
             py::arg("max_sequences"), py::arg("max_blocks"), py::call_guard<py::gil_scoped_release>())
        .def("allocate_cache", &Decoder::allocate_cache, py::arg("num_blocks"),
             py::call_guard<py::gil_scoped_release>())
        .def("load", &load, py::arg("name"), py::arg("values"))
        .def("load_rows", &load_rows, py::arg("name"), py::arg("first_row"), py::arg("values"))
        .def("packed_weights", &packed_weights)
        .def("mark_loaded", [](Decoder& decoder) { decoder.weights().mark_loaded(); })
        .def("missing_weights", [](const Decoder& decoder) { return decoder.weights().missing(); })
        .def("forward", &Decoder::forward, py::arg("batch"), py::call_guard<py::gil_scoped_release>())
        .def("extend", &extend, py::arg("batch"), py::arg("sampler"), py::arg("states"), py::arg("chains"),
             py::arg("counts"), py::arg("masks") = MaskArrays{})
        .def(
            "copy_block", [](Decoder& decoder, int from, int to) { decoder.cache().copy(from, to); },
            py::arg("source"), py::arg("target"))
        .def(
            "poison",
            [](Decoder& decoder, const std::vector<int>& blocks) {
                for (const int block : blocks) {
                    decoder.cache().poison(block);
                }
            },
            py::arg("blocks"))
        .def_property_readonly("num_blocks", [](Decoder& decoder) { return decoder.cache().num_blocks(); })
        .def_property_readonly("weight_bytes",
                               [](const Decoder& decoder) { return decoder.weights().bytes(); })
        .def_property_readonly("kv_bytes_per_token", &Decoder::kv_bytes_per_token);
}

}  // namespace outrider
