#include "outrider/weights/weight_builder.h"

#include <algorithm>
#include <numeric>

namespace outrider {
namespace {

template <typename Iterator>
int total_size(Iterator first, Iterator end) {
    return std::accumulate(first, end, 0, [](int sum, const NamedPart& part) { return sum + part.size; });
}

}  // namespace

WeightKind WeightBuilder::kind_of(const std::string& name, WeightFormat format) const {
    const auto found = kinds_.own.find(name);
    return found == kinds_.own.end() ? WeightKind{format} : found->second;
}

void WeightBuilder::add_fused(FusedWeight& weight, int in_features, const std::vector<NamedPart>& parts,
                              WeightFormat format) {
    for (auto first = parts.begin(); first != parts.end();) {
        const WeightKind kind = kind_of(first->name, format);
        const auto end = std::find_if(
            first, parts.end(), [&](const NamedPart& part) { return kind_of(part.name, format) != kind; });
        PackedWeight& matrix = weight.add(device_->make_weight(kind, total_size(first, end), in_features));
        for (int row = 0; first != end; row += first->size, ++first) {
            slots_.add_rows(*first, matrix, row);
        }
    }
}

std::unique_ptr<PackedWeight> WeightBuilder::add_table(const NamedPart& table, int in_features,
                                                       WeightFormat format) {
    auto matrix = device_->make_weight(kind_of(table.name, format), table.size, in_features);
    slots_.add_rows(table, *matrix, 0);
    return matrix;
}

void WeightBuilder::add_vectors(DeviceBuffer<float>& buffer, const std::vector<NamedPart>& parts,
                                float factor) {
    buffer.reserve(device_, total_size(parts.begin(), parts.end()));
    float* to = buffer.data();
    for (const NamedPart& part : parts) {
        slots_.add_vector(part, to, factor);
        to += part.size;
    }
}

}  // namespace outrider
