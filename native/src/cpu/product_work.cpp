#include "cpu/product_work.h"

#include <algorithm>

namespace outrider::cpu {
namespace {

constexpr int64_t kInputBytesPerPass = int64_t{1} << 20;
constexpr int64_t kMinRowsPerPass = 16;

/// The part that a task belongs to: the last part whose first_task is not after it.
template <typename Part>
const Part& part_of(const std::vector<Part>& parts, int64_t task) {
    const auto is_before = [](int64_t index, const Part& part) { return index < part.first_task; };
    return *(std::upper_bound(parts.begin(), parts.end(), task, is_before) - 1);
}

const CpuWeight& weight_of(const Product& product) {
    return static_cast<const CpuWeight&>(*product.weight);
}

}  // namespace

void ProductWork::run(ThreadPool& pool, const ManyRows& many, std::span<const Product> products) {
    prepare(pool, products);
    passes_.clear();
    tasks_ = 0;
    auto prepared = preparations_.begin();
    for (const Product& product : products) {
        if (weight_of(product).kernel().prepare_row) {
            add_passes(product, prepared_.data() + prepared->first_byte, prepared->row_bytes, many,
                       pool.size());
            ++prepared;
        } else {
            const auto row_bytes = static_cast<int64_t>(product.input.stride * size_of(product.input.format));
            add_passes(product, product.input.data, row_bytes, many, pool.size());
        }
    }
    pool.parallel_for(tasks_, [&](int64_t task) {
        const Pass& pass = part_of(passes_, task);
        pass.multiply_panel(pass.weight->view(), pass.rows, task - pass.first_task);
    });
}

void ProductWork::prepare(ThreadPool& pool, std::span<const Product> products) {
    preparations_.clear();
    int64_t bytes = 0;
    int64_t tasks = 0;
    for (const Product& product : products) {
        const CpuWeight& weight = weight_of(product);
        if (weight.kernel().prepare_row) {
            const auto row_bytes = static_cast<int64_t>(weight.kernel().input_bytes(weight.in_features()));
            preparations_.push_back({&product, &weight, row_bytes, bytes, tasks});
            bytes += product.rows * row_bytes;
            tasks += product.rows;
        }
    }
    prepared_.resize(std::max(prepared_.size(), static_cast<size_t>(bytes)));
    pool.parallel_for(tasks, [&](int64_t task) {
        const Preparation& part = part_of(preparations_, task);
        const int64_t row = task - part.first_task;
        const Activations& input = part.product->input;
        part.weight->kernel().prepare_row(static_cast<const float*>(input.data) + row * input.stride,
                                          part.weight->in_features(),
                                          prepared_.data() + part.first_byte + row * part.row_bytes);
    });
}

void ProductWork::add_passes(const Product& product, const void* input, int64_t row_bytes,
                             const ManyRows& many, int panels_ahead) {
    const CpuWeight& weight = weight_of(product);
    const ProductKernel& kernel = weight.kernel();
    const int64_t fitting = kInputBytesPerPass / row_bytes / kMinRowsPerPass * kMinRowsPerPass;
    const int64_t rows_per_pass = std::max(kMinRowsPerPass, fitting);
    for (int64_t first = 0; first < product.rows; first += rows_per_pass) {
        const int64_t end = std::min<int64_t>(product.rows, first + rows_per_pass);
        passes_.push_back(
            {&weight,
             {.input = input,
              .input_stride = row_bytes,
              .bias = product.bias,
              .out = product.out,
              .out_stride = product.out_stride,
              .first_row = first,
              .end_row = end,
              .panels_ahead = panels_ahead},
             tasks_,
             many.are(end - first, kernel) ? kernel.multiply_panel_of_many : kernel.multiply_panel});
        tasks_ += weight.panels();
    }
}

}  // namespace outrider::cpu
