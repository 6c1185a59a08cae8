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

/// A weight's canonical name, and its rows, or values of a vector, that are held.
struct NamedPart {
    std::string name;
    int size;
    int first = 0;  // of all that the weight has
    int whole = 0;  // the number that it has; 0: `size`

    int source_size() const { return whole > 0 ? whole : size; }
};

/// The rows of a packed matrix that hold one weight, or some rows of it.
struct MatrixRows {
    const PackedWeight* matrix;
    int first_row;
    int rows;
    int first_of_weight;  // the first of the weight's rows
    int all;              // rows of the weight
};

class WeightSlots {
  public:
    explicit WeightSlots(std::shared_ptr<Device> device) : device_(std::move(device)) {}

    /// Registers a weight stored in the rows of a matrix from `first_row` on, which the caller owns. A weight may be
    /// stored in several places.
    void add_rows(const NamedPart& part, PackedWeight& matrix, int first_row);
    /// Registers a float32 vector in device memory, whose values are multiplied by `factor` when they are
    /// loaded.
    void add_vector(const NamedPart& part, float* to, float factor = 1.0f);

    /// Packs one weight, as far as it is held; `values` is host memory of that shape. Throws std::invalid_argument for
    /// an unknown name or a shape that is not the configuration's.
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
    /// Measures, for each kind of the matrices, from how many rows on a product is better done in the way for many.
    std::vector<std::pair<WeightKind, int>> measure_many_rows();
    /// Marks all weights as loaded, after the memory of `packed` has been filled.
    void mark_loaded();

    /// The canonical names of weights not loaded yet, in the order of the pass.
    std::vector<std::string> missing() const;
    /// The bytes of all vectors.
    int64_t vector_bytes() const;
    /// Throws std::invalid_argument if the name is not a matrix.
    const PackedWeight& matrix(const std::string& name);
    /// Returns the runs of rows that hold a matrix; throws std::invalid_argument likewise.
    std::vector<MatrixRows> rows_of(const std::string& name);

  private:
    /// The destination of a weight: rows of a packed matrix, or a float32 vector.
    struct Slot {
        NamedPart part;
        std::vector<int64_t> shape;  // of the whole weight
        PackedWeight* matrix = nullptr;
        int first_row = 0;
        float* vector = nullptr;
        int64_t loaded_rows = 0;  // of the whole weight
        float factor = 1.0f;      // multiplies the values of a vector
    };
    /// Rows of a weight that come together, and those of them that a slot holds.
    struct Held {
        int64_t skipped;  // of the rows that come
        int64_t place;    // in the slot
        int64_t rows;
    };

    void add(Slot slot);
    std::vector<Slot*> find(const std::string& name);
    Slot& find_matrix(const std::string& name);
    std::vector<Slot*> find_next(const std::string& name, int64_t first_row,
                                 const std::vector<int64_t>& shape);
    static Held held_of(const Slot& slot, int64_t first_row, int64_t rows);
    void store(Slot& slot, int64_t first_row, int64_t rows, const void* values, SourceType type);

    std::shared_ptr<Device> device_;
    std::vector<Slot> slots_;
    std::unordered_map<std::string, std::vector<size_t>> slots_of_name_;
};

}  // namespace outrider
