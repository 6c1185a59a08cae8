// LentNoise: NoiseIds in device memory.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <vector>

#include "cuda/runtime/memory.h"
#include "cuda/runtime/stream.h"
#include "outrider/sampling/noise_ids.h"

namespace outrider::cuda {

/// Each NoiseIds is uploaded once, and evicted after all others have released it; there is one for each
/// vocabulary of a draft's targets.
class LentNoise {
  public:
    explicit LentNoise(Stream& stream) : stream_(stream) {}

    /// Returns null for null.  # [vocab_size]
    const int32_t* on_device(const std::shared_ptr<const NoiseIds>& noise_ids) {
        if (noise_ids == nullptr) {
            return nullptr;
        }
        const auto found = std::find_if(entries_.begin(), entries_.end(),
                                        [&](const Entry& entry) { return entry.ids == noise_ids; });
        return found == entries_.end() ? add(noise_ids) : found->data;
    }

  private:
    struct Entry {
        std::shared_ptr<const NoiseIds> ids;
        std::unique_ptr<Memory<int32_t>> memory;
        const int32_t* data;
    };

    const int32_t* add(const std::shared_ptr<const NoiseIds>& noise_ids) {
        std::erase_if(entries_, [](const Entry& entry) { return entry.ids.use_count() == 1; });
        auto memory = std::make_unique<Memory<int32_t>>(stream_);
        const int32_t* data = memory->upload(noise_ids->ids);
        entries_.push_back({noise_ids, std::move(memory), data});
        return data;
    }

    Stream& stream_;
    std::vector<Entry> entries_;
};

}  // namespace outrider::cuda
