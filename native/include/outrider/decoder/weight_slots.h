// WeightSlots: where the values of each weight go, by its canonical name, and which are still missing.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "outrider/device/block_type.h"
#include "outrider/device/device.h"

namespace outrider {

/// Rows of a packed matrix that hold one weight.
struct MatrixRows {
    const PackedWeight* matrix;
    int first_row;
    int rows;
};

class WeightSlots {
  public:
    explicit WeightSlots(std::shared_ptr<Device> device) : device_(std::move(device)) {}

    /// Some rows of a matrix, which stays the caller's.
    void add_rows(const std::string& name, PackedWeight& matrix, int first_row, int rows);
    /// A float32 vector in the device's memory, whose values are multiplied by `factor` as they come.
    void add_vector(const std::string& name, float* to, int size, float factor = 1.0f);

    /// Packs one weight; `values` is host memory of that shape. Throws std::invalid_argument for an unknown
    /// name or another shape than the configuration's.
    void load(const std::string& name, const std::vector<int64_t>& shape, const void* values,
              SourceType type);

    /// Packs a part of one weight, so that its source need not be in memory all at once; parts come in order,
    /// and first_row 0 begins anew.
    void load_rows(const std::string& name, int64_t first_row, const std::vector<int64_t>& shape,
                   const void* values, SourceType type);

    /// The same of rows of blocks.  # shape: [rows, bytes of a row]
    void load_blocks(const std::string& name, int64_t first_row, const std::vector<int64_t>& shape,
                     const BlockType& type, const uint8_t* blocks);

    /// The memory of all weights in the order of the pass, a fused one's under the name of its first part.
    /// Throws std::invalid_argument where the device holds them in memory of its own.
    std::vector<std::pair<std::string, PackedBytes>> packed();
    /// Says that all of `packed` has been filled.
    void mark_loaded();

    /// Canonical names not loaded yet, in the order of the pass.
    std::vector<std::string> missing() const;
    /// Bytes of all vectors.
    int64_t vector_bytes() const;
    /// Throws std::invalid_argument for a name that is no matrix.
    const PackedWeight& matrix(const std::string& name);
    /// Where a matrix's rows are; throws likewise.
    MatrixRows rows_of(const std::string& name);

  private:
    /// Where a weight goes: rows of a packed matrix, or part of a float32 vector.
    struct Slot {
        std::string name;
        std::vector<int64_t> shape;
        PackedWeight* matrix = nullptr;
        int first_row = 0;
        float* vector = nullptr;
        int64_t loaded_rows = 0;
        float factor = 1.0f;  // on the values of a vector
    };

    void add(Slot slot);
    Slot& find(const std::string& name);
    Slot& find_matrix(const std::string& name);
    Slot& find_next(const std::string& name, int64_t first_row, const std::vector<int64_t>& shape);
    void store(Slot& slot, int64_t first_row, int64_t rows, const void* values, SourceType type);

    std::shared_ptr<Device> device_;
    std::vector<Slot> slots_;
    std::unordered_map<std::string, size_t> slot_of_name_;
};

}  // namespace outrider
