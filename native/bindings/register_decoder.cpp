// Python bindings of DecoderConfig and Decoder.
#include <pybind11/stl.h>

#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "arrays.h"
#include "bindings.h"
#include "block_array.h"
#include "decoder/config_fields.h"
#include "mask_arrays.h"
#include "outrider/decoder/decoder.h"
#include "outrider/decoder/limits.h"
#include "outrider/sampling/run_ahead.h"
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

void register_config(py::module_& module) {
    py::class_<DecoderConfig>(module, "DecoderConfig", py::is_final())
        .def(py::init(&make_config), py::arg("config"))
        .def(
            "position_bytes",
            [](const DecoderConfig& config, const std::string& kv) {
                return config.position_bytes(parse("kv", kv, kKvFormats));
            },
            py::arg("kv"))
        .def(
            "state_bytes",
            [](const DecoderConfig& config, int ring_rows) {
                require_range("ring_rows", ring_rows, 1, kMostRows);
                return config.state_bytes(ring_rows);
            },
            py::arg("ring_rows"));
}

std::unique_ptr<Decoder> make_decoder(std::shared_ptr<Device> device, const DecoderConfig& config,
                                      const std::string& weights, const std::string& kv,
                                      std::optional<int> num_blocks,
                                      const std::unordered_map<std::string, std::string>& blocks,
                                      const Decoder* target) {
    WeightKinds weight_kinds{parse("weights", weights, kWeightFormats)};
    for (const auto& [name, type] : blocks) {
        weight_kinds.own[name] = find_block_type(type).kind;
    }
    const KvFormat kv_format = parse("kv", kv, kKvFormats);
    const py::gil_scoped_release release;
    auto decoder = std::make_unique<Decoder>(std::move(device), config, weight_kinds, kv_format, target);
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

void load_blocks(Decoder& decoder, const std::string& name, int64_t first_row, const std::string& type,
                 const py::array& rows) {
    const BlockArray blocks(type, rows);
    const py::gil_scoped_release release;
    decoder.weights().load_blocks(name, first_row, blocks.shape(), blocks.type(), blocks.data());
}

/// Returns numpy views of the weights that keep the decoder alive.
py::dict packed_weights(const py::object& self) {
    py::dict views;
    for (const auto& [name, memory] : self.cast<Decoder&>().weights().packed()) {
        views[py::str(name)] =
            py::array_t<uint8_t>(memory.size, static_cast<const uint8_t*>(memory.data), self);
    }
    return views;
}

using AdapterArrays = std::unordered_map<std::string, std::pair<py::array, py::array>>;

int add_adapter(Decoder& decoder, float scale, const AdapterArrays& updates) {
    std::vector<SourceArray> sources;  // own the values
    std::vector<AdapterUpdate> read;
    for (const auto& [name, arrays] : updates) {
        const SourceArray& down = sources.emplace_back(name, arrays.first);
        const SourceMatrix down_matrix{shape_of(down.values), down.values.data(), down.type};
        const SourceArray& up = sources.emplace_back(name, arrays.second);
        read.push_back({name, down_matrix, {shape_of(up.values), up.values.data(), up.type}});
    }
    const py::gil_scoped_release release;
    return decoder.adapters().add(scale, read);
}

void remove_adapter(Decoder& decoder, int number) {
    const py::gil_scoped_release release;
    decoder.adapters().remove(number);
}

void shorten_head(Decoder& decoder, const py::array_t<int32_t, py::array::c_style>& token_ids) {
    if (token_ids.ndim() != 1) {
        throw std::invalid_argument("token_ids: must have one dimension");
    }
    const std::vector<int32_t> ids(token_ids.data(), token_ids.data() + token_ids.size());
    const py::gil_scoped_release release;
    decoder.shorten_head(ids);
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
                                         const std::vector<int>& counts, const MaskArrays& masks,
                                         const std::vector<double>& least_chances) {
    require_one_per_state("chains", chains.size(), states.size());
    require_one_per_state("counts", counts.size(), states.size());
    require_one_per_state("masks", masks.empty() ? states.size() : masks.size(), states.size());
    require_one_per_state("least_chances", least_chances.empty() ? states.size() : least_chances.size(),
                          states.size());
    std::vector<RunAhead> runs;
    for (size_t i = 0; i < states.size(); ++i) {
        if (states[i] == nullptr) {
            throw std::invalid_argument("states: must not hold None");
        }
        const double least_chance = least_chances.empty() ? 0 : least_chances[i];
        runs.push_back({states[i], chains[i], counts[i], masks_of(masks, i, 1), least_chance});
    }
    const py::gil_scoped_release release;
    return run_ahead(decoder, batch, sampler, runs);
}

using Page = py::array_t<uint8_t, py::array::c_style>;

void require_page(const KvCache& memory, const Page& page) {
    const size_t expected = memory.block_bytes();
    if (page.ndim() != 1 || static_cast<size_t>(page.size()) != expected) {
        throw std::invalid_argument("page: must have one dimension, of " + std::to_string(expected) +
                                    " bytes");
    }
}

void read_page(const KvCache& memory, int block, Page page) {
    require_page(memory, page);
    char* const to = reinterpret_cast<char*>(page.mutable_data());
    const py::gil_scoped_release release;
    memory.read(block, to);
}

void write_page(KvCache& memory, int block, const Page& page) {
    require_page(memory, page);
    const char* const from = reinterpret_cast<const char*>(page.data());
    const py::gil_scoped_release release;
    memory.write(block, from);
}

KvCache& states_of(Decoder& decoder) {
    if (!decoder.states()) {
        throw std::runtime_error("there are no slots for states yet");
    }
    return *decoder.states();
}

}  // namespace

void register_decoder(py::module_& module) {
    module.def("block_types", &block_type_names);
    register_config(module);
    py::class_<Decoder>(module, "Decoder", py::is_final())
        .def(py::init(&make_decoder), py::arg("device"), py::arg("config"), py::kw_only(), py::arg("weights"),
             py::arg("kv"), py::arg("num_blocks") = std::nullopt,
             py::arg("blocks") = std::unordered_map<std::string, std::string>{}, py::arg("target") = nullptr,
             py::keep_alive<1, 8>())
        .def("reserve", &Decoder::reserve, py::kw_only(), py::arg("max_rows"), py::arg("max_logits"),
             py::arg("max_sequences"), py::arg("max_blocks"), py::call_guard<py::gil_scoped_release>())
        .def("record_passes", &Decoder::record_passes, py::kw_only(), py::arg("max_rows"),
             py::arg("max_blocks"), py::arg("seconds"), py::call_guard<py::gil_scoped_release>())
        .def("allocate_cache", &Decoder::allocate_cache, py::arg("num_blocks"),
             py::call_guard<py::gil_scoped_release>())
        .def(
            "commit_cache",
            [](Decoder& decoder, int first_block, int num_blocks) {
                decoder.cache().commit(first_block, num_blocks);
            },
            py::arg("first_block"), py::arg("num_blocks"), py::call_guard<py::gil_scoped_release>())
        .def("allocate_states", &Decoder::allocate_states, py::kw_only(), py::arg("num_slots"),
             py::arg("ring_rows"), py::call_guard<py::gil_scoped_release>())
        .def("load", &load, py::arg("name"), py::arg("values"))
        .def("load_rows", &load_rows, py::arg("name"), py::arg("first_row"), py::arg("values"))
        .def("load_blocks", &load_blocks, py::arg("name"), py::arg("first_row"), py::arg("type"),
             py::arg("rows"))
        .def("packed_weights", &packed_weights)
        .def("mark_loaded", [](Decoder& decoder) { decoder.weights().mark_loaded(); })
        .def("missing_weights", [](const Decoder& decoder) { return decoder.weights().missing(); })
        .def("add_adapter", &add_adapter, py::arg("scale"), py::arg("updates"))
        .def("remove_adapter", &remove_adapter, py::arg("number"))
        .def("shorten_head", &shorten_head, py::arg("token_ids"))
        .def("forward", &Decoder::forward, py::arg("batch"), py::keep_alive<0, 1>(),
             py::call_guard<py::gil_scoped_release>())
        .def("keep_features", &Decoder::keep_features, py::arg("boundaries"),
             py::call_guard<py::gil_scoped_release>())
        .def("set_head_tokens", &Decoder::set_head_tokens, py::arg("token_ids"),
             py::call_guard<py::gil_scoped_release>())
        .def("read_features", &Decoder::read_features, py::arg("results"), py::arg("rows"),
             py::call_guard<py::gil_scoped_release>())
        .def("store_context", &Decoder::store_context, py::arg("batch"),
             py::call_guard<py::gil_scoped_release>())
        .def("padded_rows", &Decoder::padded_rows, py::arg("num_rows"))
        .def("extend", &extend, py::arg("batch"), py::arg("sampler"), py::arg("states"), py::arg("chains"),
             py::arg("counts"), py::arg("masks") = MaskArrays{},
             py::arg("least_chances") = std::vector<double>{})
        .def(
            "copy_block", [](Decoder& decoder, int from, int to) { decoder.cache().copy(from, to); },
            py::arg("source"), py::arg("target"))
        .def(
            "read_block",
            [](Decoder& decoder, int block, Page page) { read_page(decoder.cache(), block, page); },
            py::arg("block"), py::arg("page").noconvert())
        .def(
            "write_block",
            [](Decoder& decoder, int block, const Page& page) { write_page(decoder.cache(), block, page); },
            py::arg("block"), py::arg("page").noconvert())
        .def(
            "copy_state", [](Decoder& decoder, int from, int to) { states_of(decoder).copy(from, to); },
            py::arg("source"), py::arg("target"))
        .def(
            "read_state",
            [](Decoder& decoder, int slot, Page page) { read_page(states_of(decoder), slot, page); },
            py::arg("slot"), py::arg("page").noconvert())
        .def(
            "write_state",
            [](Decoder& decoder, int slot, const Page& page) { write_page(states_of(decoder), slot, page); },
            py::arg("slot"), py::arg("page").noconvert())
        .def_property_readonly("block_bytes", [](Decoder& decoder) { return decoder.cache().block_bytes(); })
        .def_property_readonly("num_blocks", [](Decoder& decoder) { return decoder.cache().num_blocks(); })
        .def_property_readonly("weight_bytes", &Decoder::weight_bytes)
        .def_property_readonly("kv_bytes_per_token", &Decoder::kv_bytes_per_token);
}

}  // namespace outrider
