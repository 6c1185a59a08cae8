#include "outrider/decoder/decoder.h"

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "outrider/decoder/limits.h"
#include "require_range.h"

namespace outrider {
namespace {

constexpr size_t kLogitsAtOnce = 16;  // rows, of an exchange between devices

DecoderConfig validated(DecoderConfig config, const Device& device, const DecoderConfig* target,
                        const Device* of_target) {
    if (of_target && of_target != &device) {
        throw std::invalid_argument("device: must be that of the target, or the first one");
    }
    config.validate(device);
    if (config.features.has_value() != (target != nullptr)) {
        throw std::invalid_argument(
            "target: must be given for an attached drafter, and for no other decoder");
    }
    if (target) {
        config.validate_target(*target);
    }
    return config;
}

}  // namespace

Decoder::Decoder(std::shared_ptr<Device> device, DecoderConfig config, const WeightKinds& weights,
                 KvFormat kv, const Decoder* target, std::unique_ptr<RankLink> link)
    : device_(std::move(device)),
      config_(validated(std::move(config), *device_, target ? &target->config_ : nullptr,
                        target ? target->device_.get() : nullptr)),
      kv_(kv),
      target_(target),
      weights_(device_, config_, weights, target ? &target->weights_ : nullptr),
      adapters_(device_, weights_, weights.format == WeightFormat::f32 ? Format::f32 : Format::bf16),
      ranks_(config_.rank, std::move(link)),
      linear_(device_, adapters_, ranks_),
      attention_(device_, config_, device_->activation_format(weights.format), kv),
      convolution_(device_, config_, device_->activation_format(weights.format), kv),
      delta_(device_, config_, device_->activation_format(weights.format)),
      latent_(device_, config_, device_->activation_format(weights.format), kv),
      cache_(device_, block_bytes()),
      workspace_(config_, device_->activation_format(weights.format)),
      experts_(config_.experts
                   ? std::make_unique<ExpertMlp>(device_, config_, device_->activation_format(weights.format))
                   : nullptr),
      layer_inputs_(
          config_.layer_input_size > 0
              ? std::make_unique<LayerInputs>(device_, config_, device_->activation_format(weights.format))
              : nullptr),
      feature_input_(config_.features ? std::make_unique<FeatureInput>(
                                            device_, config_, device_->activation_format(weights.format))
                                      : nullptr),
      passes_(device_->make_pass_recorder()) {
    if (config_.reads_target() && kv_ != target_->kv_) {
        throw std::invalid_argument("kv: must be the target's for a drafter that reads its keys and values");
    }
    if (config_.block() && config_.block()->markov_rank > 0) {
        markov_ = std::make_unique<MarkovHead>(device_, weights_.markov(), config_.hidden_size,
                                               device_->activation_format(weights.format));
    }
    if (const int size = config_.features ? config_.features->head_size : 0;
        size > 0 && size < config_.vocab_size) {
        columns_ = std::make_unique<TokenColumns>(device_, size, config_.vocab_size);
    }
}

/// The bytes of each layer in one cache block.
std::vector<size_t> Decoder::block_bytes() const {
    std::vector<size_t> each;
    for (const LayerConfig& layer : config_.layers) {
        each.push_back(layer.kind == LayerKind::attention           ? attention_.block_bytes(layer)
                       : layer.kind == LayerKind::short_convolution ? convolution_.block_bytes()
                       : layer.kind == LayerKind::latent_attention  ? latent_.block_bytes()
                                                                    : 0);
    }
    return each;
}

Pass Decoder::forward(const Batch& batch) {
    place(batch, used_blocks(batch));
    pass(batch.num_rows, batch.num_logits);
    return results(batch.num_rows);
}

Pass Decoder::results(int num_rows) {
    const Logits logits(device_, workspace_.logits, num_logits_, config_.vocab_size);
    return Pass(*this, logits, num_rows, results_version_);
}

NextRows Decoder::place(const Batch& batch, int num_blocks) {
    require_complete();
    batch.validate(config_, cache_.num_blocks());
    if (states_) {
        batch.validate_states(config_, states_->num_blocks(), ring_rows_);
    }
    adapters_.select(batch);
    const PassShape shape = passes_->padded({batch.num_rows, batch.num_logits, num_blocks});
    reserve(shape.rows, shape.logits, batch.num_sequences, shape.blocks);
    require_features(batch);
    workspace_.rows.upload(device_, batch, shape);
    return workspace_.rows.next();
}

void Decoder::pass(int num_rows, int num_logits) {
    ++results_version_;
    PassShape shape = passes_->padded({num_rows, num_logits, 1});
    shape.blocks = workspace_.rows.places().max_blocks;
    workspace_.rows.narrow(shape.rows);
    adapters_.narrow(num_rows);
    if (adapters_.are_selected()) {  // a recording does not know which rows have which adapter
        enqueue(shape.logits);
    } else {
        passes_->run(shape, [&] { enqueue(shape.logits); });
    }
    num_logits_ = num_logits;
    if (config_.carries_hidden()) {
        feature_input_->note_carried(num_logits);
    }
}

std::vector<PassShape> Decoder::begin_recording(int max_rows, int max_blocks) {
    require_loaded();
    require_states();
    reserve(max_rows, max_rows, 1, max_blocks);
    return passes_->usual({max_rows, max_rows, max_blocks});
}

void Decoder::record(const PassShape& shape) {
    const Batch of_no_sequence(1, 1, 1);
    adapters_.select(of_no_sequence);
    workspace_.rows.upload(device_, of_no_sequence, shape);
    if (shape.rows > recorded_rows_) {
        enqueue(shape.logits);
        recorded_rows_ = shape.rows;
    }
    passes_->prepare(shape, [&] { enqueue(shape.logits); });
}

void Decoder::reserve(int num_rows, int num_logits, int num_sequences, int num_blocks) {
    require_range("max_rows", num_rows, 1, kMostRows);
    require_range("max_logits", num_logits, 0, kMostRows);
    require_range("max_sequences", num_sequences, 1, kMostRows);
    require_range("max_blocks", num_blocks, 1, kMostBlocks);
    ++results_version_;
    PassShape shape = passes_->padded({num_rows, num_logits, num_blocks});
    const PassShape of_few_rows = passes_->padded({1, num_logits, num_blocks});  // which may be larger
    shape.logits = std::max(shape.logits, of_few_rows.logits);
    shape.blocks = of_few_rows.blocks;
    try {
        const int capacity = std::max(shape.rows, shape.logits);  // logit rows may repeat
        const int num_states = states_ ? std::min(num_sequences, states_->num_blocks()) : 0;
        const bool rows_moved =
            workspace_.rows.reserve(device_, capacity, num_sequences, shape.blocks, num_states);
        bool head_moved = columns() && columns()->reserve(shape.logits);
        head_moved |= markov_ && markov_->reserve(shape.logits, std::min(num_sequences, shape.logits));
        const bool layers_moved = reserve_layers(shape, num_states);
        if (workspace_.reserve(device_, config_, shape) || rows_moved || head_moved || layers_moved) {
            passes_->forget();
        }
    } catch (...) {  // some of the buffers may have moved
        passes_->forget();
        throw;
    }
}

/// Allocates memory for the mixers, the MLP's products and the experts; returns whether any has moved.
bool Decoder::reserve_layers(const PassShape& shape, int num_states) {
    bool moved = linear_.reserve(shape.rows, config_.gate_up_size(), config_.hidden_size);
    moved |= linear_.reserve(shape.rows, config_.hidden_size, config_.largest_mlp_size());
    if (config_.has(LayerKind::attention)) {
        moved |= attention_.reserve(shape, linear_);
    }
    if (config_.has(LayerKind::short_convolution)) {
        moved |= convolution_.reserve(shape.rows, linear_);
    }
    if (config_.has(LayerKind::latent_attention)) {
        moved |= latent_.reserve(shape, linear_);
    }
    if (config_.has(LayerKind::gated_delta)) {
        moved |= delta_.reserve(shape.rows, num_states, ring_rows_, linear_);
    }
    if (experts_) {
        moved |= experts_->reserve(shape.rows);
    }
    moved |= ranks_.reserve(exchanged_bytes(shape));
    if (layer_inputs_) {
        moved |= layer_inputs_->reserve(shape.rows, linear_);
    }
    if (feature_input_) {
        moved |= feature_input_->reserve(std::max(shape.rows, shape.logits), linear_);
    }
    moved |= features_.reserve(device_, shape.rows * boundaries_.size() * config_.hidden_size);
    return moved;
}

/// The bytes of the largest exchange of a pass; of logits some rows are exchanged at a time.
size_t Decoder::exchanged_bytes(const PassShape& shape) const {
    const int experts = config_.experts ? config_.experts->per_token * config_.experts->size : 0;
    int width = std::max(
        {config_.hidden_size, config_.largest_mlp_size(), experts, config_.delta_shape().value_size()});
    for (const LayerConfig& layer : config_.layers) {
        width = std::max(width, config_.attended_size(layer));
    }
    const size_t logits = std::min(size_t(shape.logits), kLogitsAtOnce) * config_.vocab_size;
    return std::max(size_t(shape.rows) * width, logits) * sizeof(float);
}

void Decoder::keep_features(const std::vector<int>& boundaries) {
    require_range("the number of boundaries", static_cast<int64_t>(boundaries.size()), 0, kMostStreams);
    for (const int boundary : boundaries) {
        require_range("boundaries", boundary, 0, config_.num_layers());
    }
    passes_->forget();
    ++results_version_;
    boundaries_ = boundaries;
}

void Decoder::set_head_tokens(const std::vector<int32_t>& token_ids) {
    const int size = columns_ ? config_.features->head_size : 0;
    require_range("the number of token_ids", static_cast<int64_t>(token_ids.size()), size, size);
    for (const int32_t id : token_ids) {
        require_range("token_ids", id, 0, config_.vocab_size - 1);
    }
    if (columns_) {
        columns_->set(token_ids);
    }
}

void Decoder::read_features(const Pass& pass, const std::vector<int32_t>& rows) {
    const Decoder& target = *pass.decoder_;
    const auto num_streams = static_cast<int64_t>(target.boundaries_.size());
    if (!feature_input_) {
        throw std::invalid_argument("features: the decoder is no attached drafter");
    }
    if (&target != target_) {
        throw std::invalid_argument("results: are another model's");
    }
    pass.require_fresh();
    require_range("the features of the pass", num_streams, config_.features->count, config_.features->count);
    require_range("the number of rows", static_cast<int64_t>(rows.size()), 1, kMostRows);
    for (const int32_t row : rows) {
        require_range("rows", row, 0, pass.num_rows_ - 1);
    }
    require_complete();
    const auto count = static_cast<int>(rows.size());
    reserve(count, 0, 1, 1);  // so that no pass over these rows moves their vectors
    feature_input_->read(weights_.features(), target.features_.data(), rows, linear_);
}

void Decoder::add_masks(int first_row, int count) {
    if (!config_.block() || !config_.block()->continues_rows) {
        throw std::invalid_argument("features.block: the decoder is no drafter whose masks continue rows");
    }
    require_range("first_row", first_row, 0, feature_input_->num_rows());
    require_range("count", count, 1, kMostRows - first_row);
    reserve(first_row + count, 0, 1, 1);  // so that no pass over these rows moves their vectors
    feature_input_->add_masks(weights_.features(), first_row, count, linear_);
}

void Decoder::take_logits(int first, int rows, const int32_t* before) {
    require_range("first", first, 0, num_logits_);
    require_range("rows", rows, 1, num_logits_ - first);
    const auto width = static_cast<int64_t>(config_.vocab_size);
    float* const logits = workspace_.logits->data();
    if (markov_) {
        const int head_width = short_head_ ? short_head_->num_tokens() : weights_.lm_head().out_features();
        float* const unspread = columns() ? columns()->logits() : logits;
        markov_->add(before, rows, unspread + int64_t{first} * head_width, head_width);
    }
    if (markov_ && columns()) {
        columns()->spread(logits, rows, first);
    } else if (first > 0) {
        device_->copy(logits, logits + first * width, rows * width * sizeof(float));
    }
}

std::vector<float> Decoder::confidences(const std::vector<int32_t>& before) {
    if (!markov_ || !config_.block()->has_confidence) {
        throw std::invalid_argument("features.block: the decoder is no drafter with a confidence");
    }
    require_range("the number of tokens before", static_cast<int64_t>(before.size()), num_logits_,
                  num_logits_);
    return markov_->confidences(workspace_.lm_head_input.view(), before);
}

void Decoder::allocate_cache(int num_blocks) {
    passes_->forget();
    cache_.allocate(num_blocks);
}

void Decoder::allocate_states(int num_slots, int ring_rows) {
    const DeltaShape shape = config_.own_delta_shape();
    if (!config_.has(LayerKind::gated_delta)) {
        throw std::invalid_argument("no layer of this model carries a state");
    }
    require_range("num_slots", num_slots, 1, kMostBlocks);
    require_range("ring_rows", ring_rows, shape.taps, kMostRows);
    std::vector<size_t> each;
    for (const LayerConfig& layer : config_.layers) {
        const bool has_state = layer.kind == LayerKind::gated_delta;
        each.push_back(has_state ? shape.slot_size(ring_rows) * sizeof(float) : 0);
    }
    auto states = std::make_unique<KvCache>(device_, each);
    states->allocate(num_slots);
    passes_->forget();
    states_ = std::move(states);
    ring_rows_ = ring_rows;
}

void Decoder::shorten_head(const std::vector<int32_t>& token_ids) {
    require_range("the number of token_ids", static_cast<int64_t>(token_ids.size()), 0, config_.vocab_size);
    for (const int32_t id : token_ids) {
        require_range("token_ids", id, 0, config_.vocab_size - 1);
    }
    require_loaded();
    if (columns_) {
        throw std::invalid_argument(
            "token_ids: the lm_head has rows for some tokens only, and cannot be shortened");
    }
    const auto num_tokens = static_cast<int>(token_ids.size());
    if (markov_) {
        markov_->shorten(token_ids);
    }
    if ((short_head_ ? short_head_->num_tokens() : 0) != num_tokens) {
        passes_->forget();
        short_head_.reset();
    }
    if (num_tokens == 0) {
        return;
    }
    if (!short_head_) {
        auto head = std::make_unique<ShortHead>(device_, weights_.lm_head(), num_tokens);
        head->columns().reserve(
            workspace_.logits ? static_cast<int>(workspace_.logits->size() / config_.vocab_size) : 0);
        short_head_ = std::move(head);
    }
    short_head_->choose(token_ids);
}

void Decoder::require_loaded() const {
    const std::vector<std::string> missing = weights_.slots().missing();
    if (!missing.empty()) {
        throw std::runtime_error("weight \"" + missing.front() + "\" is not loaded (" +
                                 std::to_string(missing.size()) + " missing in all)");
    }
}

void Decoder::require_complete() {
    if (complete_) {
        return;
    }
    require_loaded();
    if (cache_.num_blocks() == 0) {
        throw std::runtime_error("the KV cache has no blocks yet");
    }
    require_states();
    if (columns_ && !columns_->are_set()) {
        throw std::runtime_error("the tokens of the lm_head are not set yet");
    }
    complete_ = true;
}

void Decoder::require_features(const Batch& batch) const {
    if (config_.has_hidden_rows()) {
        require_range("num_rows", batch.num_rows, 1, feature_input_->num_rows());
    }
    for (int row = 0; config_.reads_target() && row < batch.num_rows; ++row) {  // else it attends to nothing
        require_range("positions", batch.positions[row], 1, config_.max_position - 1);
    }
}

void Decoder::require_states() const {
    if (config_.has(LayerKind::gated_delta) && !states_) {
        throw std::runtime_error("there are no slots for states yet");
    }
}

int64_t Decoder::weight_bytes() const {
    return weights_.bytes() + (short_head_ ? short_head_->matrix().bytes() - weights_.lm_head().bytes() : 0) +
           (markov_ ? markov_->saved_bytes() : 0);
}

}  // namespace outrider
