// BlockArray: rows of quantised blocks as in a GGUF file, in a numpy array.
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

#include "arrays.h"
#include "outrider/device/block_type.h"

namespace outrider {

/// Throws std::invalid_argument for an unknown type, or if the array is not a matrix of bytes.
class BlockArray {
  public:
    BlockArray(const std::string& type, const pybind11::array& rows)
        : type_(find_block_type(type)), rows_(pybind11::array::ensure(rows, pybind11::array::c_style)) {
        if (rows.dtype().kind() != 'u' || rows.itemsize() != 1 || rows.ndim() != 2) {
            throw std::invalid_argument("rows has dtype " + pybind11::str(rows.dtype()).cast<std::string>() +
                                        " and " + std::to_string(rows.ndim()) +
                                        " dimensions; it must be uint8, and have 2");
        }
    }

    const BlockType& type() const { return type_; }
    std::vector<int64_t> shape() const { return shape_of(rows_); }  // [rows, bytes of a row]
    const uint8_t* data() const { return static_cast<const uint8_t*>(rows_.data()); }

  private:
    const BlockType& type_;
    pybind11::array rows_;
};

}  // namespace outrider
