// ProductWork: several products that share one loop over their panels, so that no thread idles at the end of
// each.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "cpu/cpu_weight.h"
#include "cpu/many_rows.h"
#include "outrider/device/operations.h"
#include "outrider/device/thread_pool.h"

namespace outrider::cpu {

/// Keeps its memory from call to call.
class ProductWork {
  public:
    /// Prepares the rows of all products, and then multiplies them.
    void run(ThreadPool& pool, const ManyRows& many, std::span<const Product> products);

  private:
    /// A product's rows to be converted into the form that its kernel reads.
    struct Preparation {
        const Product* product;
        const CpuWeight* weight;
        int64_t row_bytes;
        int64_t first_byte;  // in prepared_
        int64_t first_task;
    };
    /// Some rows of a product, few enough to stay in the L2 cache while they are multiplied with all panels.
    struct Pass {
        const CpuWeight* weight;
        ProductRows rows;
        int64_t first_task;
        decltype(ProductKernel::multiply_panel) multiply_panel;
    };

    void prepare(ThreadPool& pool, std::span<const Product> products);
    void add_passes(const Product& product, const void* input, int64_t row_bytes, const ManyRows& many,
                    int panels_ahead);

    std::vector<Preparation> preparations_;
    std::vector<char> prepared_;  // for each preparation: [rows, row_bytes]
    std::vector<Pass> passes_;
    int64_t tasks_ = 0;  // panels of all passes
};

}  // namespace outrider::cpu
