// Python bindings of the sampler.
#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <algorithm>
#include <iterator>
#include <memory>
#include <stdexcept>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "bindings.h"
#include "mask_arrays.h"
#include "outrider/sampling/noise.h"
#include "outrider/sampling/sampler.h"

namespace py = pybind11;

namespace outrider {
namespace {

using Ids = py::array_t<int32_t, py::array::c_style>;

template <typename Number>
Number take_number(const py::kwargs& numbers, const char* name) {
    if (!numbers.contains(name)) {
        throw py::type_error(std::string(name) + ": is missing");
    }
    try {
        return numbers[name].cast<Number>();
    } catch (const py::cast_error&) {
        throw py::type_error(std::string(name) + ": must be a number of its type");
    }
}

SamplingParams params_of(const py::kwargs& numbers) {
    SamplingParams params;
    size_t count = 0;
    for_each_number(params, [&](const char* name, auto& number, const NumberRange&) {
        number = take_number<std::decay_t<decltype(number)>>(numbers, name);
        ++count;
    });
    if (numbers.size() != count) {
        throw py::type_error("numbers: " + std::to_string(numbers.size()) + " are given; there are " +
                             std::to_string(count));
    }
    return params;
}

SamplerStep step_of(const std::string& name) {
    const auto* found = std::find(std::begin(kSamplerNames), std::end(kSamplerNames), name);
    if (found == std::end(kSamplerNames)) {
        throw std::invalid_argument("samplers: there is no " + name);
    }
    return static_cast<SamplerStep>(found - kSamplerNames);
}

std::unique_ptr<SamplingState> make_state(
    const Ids& prompt, uint64_t seed, const std::vector<std::string>& samplers,
    std::vector<std::pair<int32_t, float>> logit_bias, int64_t min_tokens, std::vector<int32_t> stop_ids,
    std::vector<int32_t> suppressed_ids, std::vector<int32_t> begin_suppressed_ids,
    std::vector<std::vector<int32_t>> bad_words, std::vector<int32_t> dry_breaker_ids, bool logprobs,
    int64_t num_candidates, bool rank, bool entropy, double guidance_scale, bool forced,
    const py::kwargs& numbers) {
    if (prompt.ndim() != 1) {
        throw std::invalid_argument("prompt: must have one dimension");
    }
    SamplingParams params = params_of(numbers);
    params.seed = seed;
    std::transform(samplers.begin(), samplers.end(), std::back_inserter(params.samplers), step_of);
    params.logit_bias = std::move(logit_bias);
    params.min_tokens = min_tokens;
    params.stop_ids = std::move(stop_ids);
    params.suppressed_ids = std::move(suppressed_ids);
    params.begin_suppressed_ids = std::move(begin_suppressed_ids);
    params.bad_words = std::move(bad_words);
    params.dry_breaker_ids = std::move(dry_breaker_ids);
    params.logprobs = logprobs;
    params.num_candidates = num_candidates;
    params.rank = rank;
    params.entropy = entropy;
    params.guidance_scale = guidance_scale;
    params.forced = forced;
    return std::make_unique<SamplingState>(std::move(params), prompt.data(),
                                           static_cast<size_t>(prompt.size()));
}

std::shared_ptr<NoiseIds> make_noise_ids(const Ids& ids) {
    if (ids.ndim() != 1) {
        throw std::invalid_argument("ids: must have one dimension");
    }
    const int32_t* end = ids.data() + ids.size();
    if (std::any_of(ids.data(), end, [](int32_t id) { return id < kNoPartner; })) {
        throw std::invalid_argument("ids: must not be below -1");
    }
    return std::make_shared<NoiseIds>(NoiseIds{{ids.data(), end}});
}

void register_state(py::module_& module) {
    py::class_<NoiseIds, std::shared_ptr<NoiseIds>>(module, "NoiseIds", py::is_final())
        .def(py::init(&make_noise_ids), py::arg("ids"));
    py::class_<SamplingState>(module, "SamplingState", py::is_final())
        .def(py::init(&make_state), py::kw_only(), py::arg("prompt"), py::arg("seed"), py::arg("samplers"),
             py::arg("logit_bias"), py::arg("min_tokens"), py::arg("stop_ids"), py::arg("suppressed_ids"),
             py::arg("begin_suppressed_ids"), py::arg("bad_words"), py::arg("dry_breaker_ids"),
             py::arg("logprobs"), py::arg("num_candidates"), py::arg("rank"), py::arg("entropy"),
             py::arg("guidance_scale"), py::arg("forced"))
        .def(
            "commit",
            [](SamplingState& state, const std::vector<int32_t>& ids, const std::vector<double>& levels) {
                if (!levels.empty() && levels.size() != ids.size()) {
                    throw std::invalid_argument("levels: must be one per token, or none");
                }
                state.commit(ids.data(), ids.size(), levels.empty() ? nullptr : levels.data());
            },
            py::arg("token_ids"), py::arg("levels") = std::vector<double>{})
        .def("truncate", &SamplingState::truncate, py::arg("num_generated"))
        .def(
            "forbid",
            [](SamplingState& state, const std::vector<int32_t>& ids) {
                state.forbid(ids.data(), ids.size());
            },
            py::arg("token_ids"))
        .def(
            "translate",
            [](SamplingState& state, std::shared_ptr<NoiseIds> noise_ids, int64_t position) {
                state.translate(std::move(noise_ids), position);
            },
            py::arg("noise_ids").none(false), py::arg("position"))
        .def_property_readonly("num_generated", &SamplingState::num_generated)
        .def_property_readonly("feeds_back", &SamplingState::feeds_back);
}

/// A numpy view of a member, which keeps the Samples that own it alive.
template <typename As, typename Value>
py::array_t<As> view(const py::object& owner, const std::vector<Value>& values) {
    static_assert(sizeof(As) == sizeof(Value), "a view cannot convert");
    return py::array_t<As>(static_cast<py::ssize_t>(values.size()),
                           reinterpret_cast<const As*>(values.data()), owner);
}

std::vector<std::tuple<int32_t, float, float>> candidates_of(const Samples& samples, int64_t row) {
    if (row < 0 || row >= static_cast<int64_t>(samples.candidates.size())) {
        throw py::index_error("row: must be in [0, " + std::to_string(samples.candidates.size()) + ")");
    }
    std::vector<std::tuple<int32_t, float, float>> result;
    for (const Candidate& candidate : samples.candidates[static_cast<size_t>(row)]) {
        result.emplace_back(candidate.token_id, candidate.raw_logprob, candidate.logprob);
    }
    return result;
}

void register_samples(py::module_& module) {
    const auto member = [](auto pointer, auto as) {
        return [pointer, as](const py::object& self) {
            return view<decltype(as)>(self, self.cast<const Samples&>().*pointer);
        };
    };
    py::class_<Samples>(module, "Samples", py::is_final())
        .def_property_readonly("token_ids", member(&Samples::token_ids, int32_t{}))
        .def_property_readonly("status", member(&Samples::status, uint8_t{}))
        .def_property_readonly("raw_logprobs", member(&Samples::raw_logprobs, float{}))
        .def_property_readonly("logprobs", member(&Samples::logprobs, float{}))
        .def_property_readonly("ranks", member(&Samples::ranks, int32_t{}))
        .def_property_readonly("entropies", member(&Samples::entropies, float{}))
        .def_property_readonly("levels", member(&Samples::levels, double{}))
        .def("candidates", &candidates_of, py::arg("row"));
}

Samples sample(Sampler& sampler, const Logits& logits, const std::vector<const SamplingState*>& states,
               const std::vector<std::vector<int32_t>>& predictions, const MaskArrays& masks) {
    if (states.size() != predictions.size()) {
        throw std::invalid_argument("predictions: must be one list per state");
    }
    if (!masks.empty() && masks.size() != states.size()) {
        throw std::invalid_argument("masks: must be one array, or None, per state");
    }
    std::vector<SequenceRows> sequences;
    for (size_t i = 0; i < states.size(); ++i) {
        if (states[i] == nullptr) {
            throw std::invalid_argument("states: must not hold None");
        }
        const int num_predictions = static_cast<int>(predictions[i].size());
        SequenceRows& sequence =
            sequences.emplace_back(SequenceRows{states[i], predictions[i].data(), num_predictions});
        sequence.masks = masks_of(masks, i, sequence.num_rows());
    }
    const py::gil_scoped_release release;
    return sampler.sample(logits, sequences);
}

void register_sampler(py::module_& module) {
    py::class_<Sampler>(module, "Sampler", py::is_final())
        .def(py::init<std::shared_ptr<Device>>(), py::arg("device"))
        .def("reserve", &Sampler::reserve, py::arg("vocab_size"))
        .def("sample", &sample, py::arg("logits"), py::arg("states"), py::arg("predictions"),
             py::arg("masks") = MaskArrays{});
}

}  // namespace

void register_sampling(py::module_& module) {
    module.attr("NOISE_VERSION") = kNoiseVersion;
    module.def("derive_seed", &derive_seed, py::arg("seed"), py::arg("sample"));
    register_state(module);
    register_samples(module);
    register_sampler(module);
}

}  // namespace outrider
