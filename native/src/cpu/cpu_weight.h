// CpuWeight: a matrix packed for one instruction set's product.
#pragma once

#include "cpu/kernels.h"
#include "outrider/device/packed_weight.h"
#include "outrider/device/thread_pool.h"

namespace outrider::cpu {

class CpuWeight final : public PackedWeight {
  public:
    CpuWeight(const ProductKernel& kernel, ThreadPool& pool, const WeightKind& kind, int out_features,
              int in_features);
    ~CpuWeight() override;

    void store(int first_row, int rows, const void* values, SourceType type) override;
    void store_groups(int first_row, int rows, const GroupedRows& values) override;
    void store_blocks(int first_row, int rows, const BlockType& type, const uint8_t* blocks) override;
    PackedBytes packed() override;

    const ProductKernel& kernel() const { return kernel_; }
    const WeightView& view() const { return view_; }
    int64_t panels() const { return (int64_t{out_features()} + kPanelColumns - 1) / kPanelColumns; }

  private:
    size_t packed_size() const;
    template <typename StoreRow>
    void for_each_row(int rows, const StoreRow& store_row);

    const ProductKernel& kernel_;
    ThreadPool& pool_;
    WeightView view_;
};

}  // namespace outrider::cpu
