#include "cpu/many_rows.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <vector>

namespace outrider::cpu {
namespace {

constexpr int64_t kLeastBytes = int64_t{1} << 20;  // smaller products are over too soon to be timed
constexpr int64_t kMostBytes = int64_t{4} << 20;   // of a larger matrix a part is enough
constexpr std::array kTriedRows = {2, 3, 4, 6, 8, 12, 16};
constexpr int kRounds = 8;

using Way = decltype(ProductKernel::multiply_panel);
using Seconds = std::chrono::duration<double>;

int64_t panel_bytes(const CpuWeight& weight) {
    return static_cast<int64_t>(weight.kernel().panel_bytes(weight.in_features()));
}

/// Products of rows of zeros, which take as long as others.
class TimedProduct {
  public:
    TimedProduct(ThreadPool& pool, const CpuWeight& weight)
        : pool_(pool),
          weight_(weight),
          panels_(std::min(weight.panels(), (kMostBytes + panel_bytes(weight) - 1) / panel_bytes(weight))),
          row_bytes_(static_cast<int64_t>(weight.kernel().input_bytes(weight.in_features()))),
          input_(kTriedRows.back() * row_bytes_),
          out_(static_cast<size_t>(kTriedRows.back()) * weight.out_features()) {
        const std::vector<float> zeros(weight.in_features() + kActivationAlignment);
        for (int64_t row = 0; row < kTriedRows.back(); ++row) {
            weight.kernel().prepare_row(zeros.data(), weight.in_features(), input_.data() + row * row_bytes_);
        }
    }

    /// The time that the way for many rows saves, each in its fastest round.
    Seconds saved_by_many(int64_t rows) {
        Seconds few = Seconds::max();
        Seconds many = Seconds::max();
        for (int round = 0; round < kRounds; ++round) {
            few = std::min(few, time(weight_.kernel().multiply_panel, rows));
            many = std::min(many, time(weight_.kernel().multiply_panel_of_many, rows));
        }
        return few - many;
    }

  private:
    Seconds time(Way multiply, int64_t rows) {
        const ProductRows some{.input = input_.data(),
                               .input_stride = row_bytes_,
                               .out = out_.data(),
                               .out_stride = weight_.out_features(),
                               .end_row = rows,
                               .panels_ahead = pool_.size()};
        const auto begin = std::chrono::steady_clock::now();
        pool_.parallel_for(panels_, [&](int64_t panel) { multiply(weight_.view(), some, panel); });
        return std::chrono::steady_clock::now() - begin;
    }

    ThreadPool& pool_;
    const CpuWeight& weight_;
    int64_t panels_;
    int64_t row_bytes_;
    std::vector<char> input_;
    std::vector<float> out_;
};

}  // namespace

bool ManyRows::are(int64_t rows, const ProductKernel& kernel) const {
    if (!kernel.multiply_panel_of_many) {
        return false;
    }
    const auto found = measured_.find(&kernel);
    return rows >= fixed_.value_or(found == measured_.end() ? kernel.many_rows : found->second);
}

std::optional<int> ManyRows::measure(ThreadPool& pool, const CpuWeight& weight) {
    const ProductKernel& kernel = weight.kernel();
    if (fixed_ || !kernel.multiply_panel_of_many || measured_.contains(&kernel) ||
        weight.panels() * panel_bytes(weight) < kLeastBytes) {
        return std::nullopt;
    }
    TimedProduct product(pool, weight);
    int fewest = kTriedRows.back() + 1;
    Seconds saved{0};
    Seconds most_saved{0};
    for (auto rows = kTriedRows.rbegin(); rows != kTriedRows.rend(); ++rows) {
        saved += product.saved_by_many(*rows);
        if (saved > most_saved) {
            most_saved = saved;
            fewest = *rows;
        }
    }
    measured_[&kernel] = fewest;
    return fewest;
}

}  // namespace outrider::cpu
