// WeightSlots: the destination of each weight, by its canonical name, and the list of weights still missing.
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

/// The rows of a packed matrix that hold one weight.
struct MatrixRows {
    const PackedWeight* matrix;
    int first_row;
    int rows;
};

class WeightSlots {
  public:
    explicit WeightSlots(std::shared_ptr<Device> device) : device_(std::move(device)) {}

    /// Registers a weight stored in some rows of a matrix, which the caller owns.
    void add_rows(const std::string& name, PackedWeight& matrix, int first_row, int rows);
    /// Registers a float32 vector in device memory, whose values are multiplied by `factor` when they are
    /// loaded.
    void add_vector(const std::string& name, float* to, int size, float factor = 1.0f);

    /// Packs one weight; `values` is host memory of that shape. Throws std::invalid_argument for an unknown
    /// name or a shape that is not the configuration's.
    void load(const std::string& name, const std::vector<int64_t>& shape, const void* values,
              SourceType type);

    /// Packs some rows of one weight, so that its source need not be in memory all at once; rows must come in
    /// order, and first_row 0 starts over.
    void load_rows(const std::string& name, int64_t first_row, const std::vector<int64_t>& shape,
                   const void* values, SourceType type);

    /// Packs rows of quantised blocks likewise.  # shape: [rows, bytes of a row]
    void load_blocks(const std::string& name, int64_t first_row, const std::vector<int64_t>& shape,
                     const BlockType& type, const uint8_t* blocks);

    /// Returns the packed memory of all weights in the order of the pass; a fused weight has the name of its
    /// first part. Throws std::invalid_argument if the device keeps them in its own memory.
    std::vector<std::pair<std::string, PackedBytes>> packed();
    /// Marks all weights as loaded, after the memory of `packed` has been filled.
    void mark_loaded();

    /// The canonical names of weights not loaded yet, in the order of the pass.
    std::vector<std::string> missing() const;
    /// The bytes of all vectors.
    int64_t vector_bytes() const;
    /// Throws std::invalid_argument if the name is not a matrix.
    const PackedWeight& matrix(const std::string& name);
    /// Returns the rows that hold a matrix; throws std::invalid_argument likewise.
    MatrixRows rows_of(const std::string& name);

  private:
    /// The destination of a weight: rows of a packed matrix, or a float32 vector.
    struct Slot {
        std::string name;
        std::vector<int64_t> shape;
        PackedWeight* matrix = nullptr;
        int first_row = 0;
        float* vector = nullptr;
        int64_t loaded_rows = 0;
        float factor = 1.0f;  // multiplies the values of a vector
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
