// Python bindings of Decoder.
#include <pybind11/stl.h>

#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <unordered_map>
#include <variant>
#include <vector>

#include "arrays.h"
#include "bindings.h"
#include "block_array.h"
#include "mask_arrays.h"
#include "outrider/decoder/limits.h"
#include "outrider/decoder/sharded_decoder.h"
#include "outrider/sampling/run_ahead.h"
#include "require_range.h"

namespace py = pybind11;

namespace outrider {
namespace {

using Devices = std::vector<std::shared_ptr<Device>>;

std::unique_ptr<ShardedDecoder> make_decoder(const std::variant<std::shared_ptr<Device>, Devices>& device,
                                             const DecoderConfig& config, const std::string& weights,
                                             const std::string& kv, std::optional<int> num_blocks,
                                             const std::unordered_map<std::string, std::string>& blocks,
                                             const ShardedDecoder* target) {
    const auto* const one = std::get_if<std::shared_ptr<Device>>(&device);
    const Devices devices = one ? Devices{*one} : std::get<Devices>(device);
    WeightKinds weight_kinds{parse("weights", weights, kWeightFormats)};
    for (const auto& [name, type] : blocks) {
        weight_kinds.own[name] = find_block_type(type).kind;
    }
    const KvFormat kv_format = parse("kv", kv, kKvFormats);
    const py::gil_scoped_release release;
    auto decoder = std::make_unique<ShardedDecoder>(devices, config, weight_kinds, kv_format, target);
    if (num_blocks) {
        decoder->each([&](Decoder& rank) { rank.allocate_cache(*num_blocks); });
    }
    return decoder;
}

void load(ShardedDecoder& decoder, const std::string& name, const py::array& values) {
    const SourceArray source(name, values);
    const std::vector<int64_t> shape = shape_of(source.values);
    const void* data = source.values.data();
    const py::gil_scoped_release release;
    decoder.each([&](Decoder& rank) { rank.weights().load(name, shape, data, source.type); });
}

void load_rows(ShardedDecoder& decoder, const std::string& name, int64_t first_row, const py::array& values) {
    const SourceArray source(name, values);
    const std::vector<int64_t> shape = shape_of(source.values);
    const void* data = source.values.data();
    const py::gil_scoped_release release;
    decoder.each([&](Decoder& rank) { rank.weights().load_rows(name, first_row, shape, data, source.type); });
}

void load_blocks(ShardedDecoder& decoder, const std::string& name, int64_t first_row, const std::string& type,
                 const py::array& rows) {
    const BlockArray blocks(type, rows);
    const py::gil_scoped_release release;
    decoder.each([&](Decoder& rank) {
        rank.weights().load_blocks(name, first_row, blocks.shape(), blocks.type(), blocks.data());
    });
}

/// Returns numpy views of the weights that keep the decoder alive.
py::dict packed_weights(const py::object& self) {
    py::dict views;
    for (const auto& [name, memory] : self.cast<ShardedDecoder&>().first().weights().packed()) {
        views[py::str(name)] =
            py::array_t<uint8_t>(memory.size, static_cast<const uint8_t*>(memory.data), self);
    }
    return views;
}

std::string name_of(const WeightKind& kind) {
    const auto found =
        std::ranges::find(kWeightFormats, kind.format, &std::pair<const char*, WeightFormat>::second);
    const std::string format = found->first;
    return kind.groups.size == 0 ? format : format + " in groups of " + std::to_string(kind.groups.size);
}

/// The last one counts where several kinds have the same name.
std::unordered_map<std::string, int> measure_many_rows(ShardedDecoder& decoder) {
    std::unordered_map<std::string, int> measured;
    for (const auto& [kind, rows] : decoder.first().weights().measure_many_rows()) {
        measured[name_of(kind)] = rows;
    }
    return measured;
}

using AdapterArrays = std::unordered_map<std::string, std::pair<py::array, py::array>>;

int add_adapter(ShardedDecoder& decoder, float scale, const AdapterArrays& updates) {
    std::vector<SourceArray> sources;  // own the values
    std::vector<AdapterUpdate> read;
    for (const auto& [name, arrays] : updates) {
        const SourceArray& down = sources.emplace_back(name, arrays.first);
        const SourceMatrix down_matrix{shape_of(down.values), down.values.data(), down.type};
        const SourceArray& up = sources.emplace_back(name, arrays.second);
        read.push_back({name, down_matrix, {shape_of(up.values), up.values.data(), up.type}});
    }
    const py::gil_scoped_release release;
    return decoder.add_adapter(scale, read);
}

void remove_adapter(ShardedDecoder& decoder, int number) {
    const py::gil_scoped_release release;
    decoder.remove_adapter(number);
}

void shorten_head(ShardedDecoder& decoder, const py::array_t<int32_t, py::array::c_style>& token_ids) {
    if (token_ids.ndim() != 1) {
        throw std::invalid_argument("token_ids: must have one dimension");
    }
    const std::vector<int32_t> ids(token_ids.data(), token_ids.data() + token_ids.size());
    const py::gil_scoped_release release;
    decoder.only().shorten_head(ids);
}

void require_one_per_state(const char* field, size_t size, size_t num_states) {
    if (size != num_states) {
        throw std::invalid_argument(std::string(field) + " has " + std::to_string(size) +
                                    " entries; it must have one for each of the " +
                                    std::to_string(num_states) + " states");
    }
}

std::vector<std::vector<int32_t>> extend(ShardedDecoder& decoder, const Batch& batch, Sampler& sampler,
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
    return run_ahead(decoder.only(), batch, sampler, runs);
}

using Page = py::array_t<uint8_t, py::array::c_style>;

void require_page(const Page& page, size_t expected) {
    if (page.ndim() != 1 || static_cast<size_t>(page.size()) != expected) {
        throw std::invalid_argument("page: must have one dimension, of " + std::to_string(expected) +
                                    " bytes");
    }
}

void read_block(const ShardedDecoder& decoder, int block, Page page) {
    require_page(page, decoder.block_bytes());
    char* const to = reinterpret_cast<char*>(page.mutable_data());
    const py::gil_scoped_release release;
    decoder.read_block(block, to);
}

void write_block(ShardedDecoder& decoder, int block, const Page& page) {
    require_page(page, decoder.block_bytes());
    const char* const from = reinterpret_cast<const char*>(page.data());
    const py::gil_scoped_release release;
    decoder.write_block(block, from);
}

void read_state(const ShardedDecoder& decoder, int slot, Page page) {
    require_page(page, decoder.state_bytes());
    char* const to = reinterpret_cast<char*>(page.mutable_data());
    const py::gil_scoped_release release;
    decoder.read_state(slot, to);
}

void write_state(ShardedDecoder& decoder, int slot, const Page& page) {
    require_page(page, decoder.state_bytes());
    const char* const from = reinterpret_cast<const char*>(page.data());
    const py::gil_scoped_release release;
    decoder.write_state(slot, from);
}

/// A method that every rank carries out.
template <typename... Arguments>
auto on_each(void (Decoder::*method)(Arguments...)) {
    return [method](ShardedDecoder& decoder, const std::remove_cvref_t<Arguments>&... arguments) {
        const py::gil_scoped_release release;
        decoder.each([&](Decoder& rank) { (rank.*method)(arguments...); });
    };
}

}  // namespace

void register_decoder(py::module_& module) {
    module.def("block_types", &block_type_names);
    py::class_<ShardedDecoder>(module, "Decoder", py::is_final())
        .def(py::init(&make_decoder), py::arg("device"), py::arg("config"), py::kw_only(), py::arg("weights"),
             py::arg("kv"), py::arg("num_blocks") = std::nullopt,
             py::arg("blocks") = std::unordered_map<std::string, std::string>{}, py::arg("target") = nullptr,
             py::keep_alive<1, 8>())
        .def("reserve", on_each(&Decoder::reserve), py::kw_only(), py::arg("max_rows"), py::arg("max_logits"),
             py::arg("max_sequences"), py::arg("max_blocks"))
        .def("record_passes", &ShardedDecoder::record_passes, py::kw_only(), py::arg("max_rows"),
             py::arg("max_blocks"), py::arg("seconds"), py::call_guard<py::gil_scoped_release>())
        .def("allocate_cache", on_each(&Decoder::allocate_cache), py::arg("num_blocks"))
        .def(
            "commit_cache",
            [](ShardedDecoder& decoder, int first_block, int num_blocks) {
                decoder.each([&](Decoder& rank) { rank.cache().commit(first_block, num_blocks); });
            },
            py::arg("first_block"), py::arg("num_blocks"), py::call_guard<py::gil_scoped_release>())
        .def("allocate_states", on_each(&Decoder::allocate_states), py::kw_only(), py::arg("num_slots"),
             py::arg("ring_rows"))
        .def("load", &load, py::arg("name"), py::arg("values"))
        .def("load_rows", &load_rows, py::arg("name"), py::arg("first_row"), py::arg("values"))
        .def("load_blocks", &load_blocks, py::arg("name"), py::arg("first_row"), py::arg("type"),
             py::arg("rows"))
        .def("packed_weights", &packed_weights)
        .def("mark_loaded",
             [](ShardedDecoder& decoder) {
                 decoder.each([](Decoder& rank) { rank.weights().mark_loaded(); });
             })
        .def("measure_many_rows", &measure_many_rows, py::call_guard<py::gil_scoped_release>())
        .def("missing_weights",
             [](const ShardedDecoder& decoder) { return decoder.first().weights().missing(); })
        .def("add_adapter", &add_adapter, py::arg("scale"), py::arg("updates"))
        .def("remove_adapter", &remove_adapter, py::arg("number"))
        .def("shorten_head", &shorten_head, py::arg("token_ids"))
        .def("forward", &ShardedDecoder::forward, py::arg("batch"), py::keep_alive<0, 1>(),
             py::call_guard<py::gil_scoped_release>())
        .def(
            "keep_features",
            [](ShardedDecoder& decoder, const std::vector<int>& boundaries) {
                decoder.first().keep_features(boundaries);
            },
            py::arg("boundaries"), py::call_guard<py::gil_scoped_release>())
        .def(
            "set_head_tokens",
            [](ShardedDecoder& decoder, const std::vector<int32_t>& token_ids) {
                decoder.only().set_head_tokens(token_ids);
            },
            py::arg("token_ids"), py::call_guard<py::gil_scoped_release>())
        .def(
            "read_features",
            [](ShardedDecoder& decoder, const Pass& results, const std::vector<int32_t>& rows) {
                decoder.only().read_features(results, rows);
            },
            py::arg("results"), py::arg("rows"), py::call_guard<py::gil_scoped_release>())
        .def(
            "store_context",
            [](ShardedDecoder& decoder, const Batch& batch) { decoder.only().store_context(batch); },
            py::arg("batch"), py::call_guard<py::gil_scoped_release>())
        .def(
            "padded_rows",
            [](const ShardedDecoder& decoder, int num_rows) { return decoder.first().padded_rows(num_rows); },
            py::arg("num_rows"))
        .def("extend", &extend, py::arg("batch"), py::arg("sampler"), py::arg("states"), py::arg("chains"),
             py::arg("counts"), py::arg("masks") = MaskArrays{},
             py::arg("least_chances") = std::vector<double>{})
        .def(
            "copy_block",
            [](ShardedDecoder& decoder, int from, int to) {
                decoder.each([&](Decoder& rank) { rank.cache().copy(from, to); });
            },
            py::arg("source"), py::arg("target"))
        .def("read_block", &read_block, py::arg("block"), py::arg("page").noconvert())
        .def("write_block", &write_block, py::arg("block"), py::arg("page").noconvert())
        .def(
            "copy_state", [](ShardedDecoder& decoder, int from, int to) { decoder.copy_state(from, to); },
            py::arg("source"), py::arg("target"))
        .def("read_state", &read_state, py::arg("slot"), py::arg("page").noconvert())
        .def("write_state", &write_state, py::arg("slot"), py::arg("page").noconvert())
        .def_property_readonly("block_bytes", &ShardedDecoder::block_bytes)
        .def_property_readonly("num_ranks",
                               [](const ShardedDecoder& decoder) { return decoder.ranks().size(); })
        .def_property_readonly(
            "num_blocks", [](const ShardedDecoder& decoder) { return decoder.first().cache().num_blocks(); })
        .def_property_readonly("weight_bytes",
                               [](const ShardedDecoder& decoder) { return decoder.first().weight_bytes(); })
        .def_property_readonly("kv_bytes_per_token", [](const ShardedDecoder& decoder) {
            return decoder.first().kv_bytes_per_token();
        });
}

}  // namespace outrider
