// GroupedArrays: rows of a grouped weight, in numpy arrays.
#pragma once

#include <algorithm>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "bindings/arrays.h"

namespace outrider {

/// A format's name and the fields of Grouping: size, block, has_offsets.
using KindTuple = std::tuple<std::string, int, int, bool>;

/// Throws std::invalid_argument for an unknown format.
inline WeightKind kind_of(const KindTuple& kind) {
    const auto& [format, size, block, has_offsets] = kind;
    return {parse("format", format, kWeightFormats), {size, block, has_offsets}};
}

/// The arrays of GroupedRows, with the types, shapes and ranges of this weight kind; throws
/// std::invalid_argument, naming the array, if they do not match.
class GroupedArrays {
  public:
    using Optional = std::optional<pybind11::array>;

    GroupedArrays(const WeightKind& kind, const pybind11::array& numbers, const pybind11::array& scales,
                  const Optional& offsets, const Optional& steps, const Optional& offset_steps) {
        const Grouping& groups = kind.groups;
        if (groups.size == 0) {
            throw std::invalid_argument("a weight without groups comes as values, not as numbers and scales");
        }
        if (numbers.ndim() != 2) {
            throw std::invalid_argument("numbers has " + std::to_string(numbers.ndim()) +
                                        " dimensions; it must have 2");
        }
        shape_ = shape_of(numbers);
        rows_.numbers = take<int8_t>("numbers", numbers, 'i', 1);
        rows_.scales = take<uint16_t>("scales", scales, 'f', groups.block);
        rows_.offsets = take<uint16_t>("offsets", offsets, groups.has_offsets, 'f', groups.block);
        rows_.steps = take<int8_t>("steps", steps, groups.has_steps(), 'i', groups.size);
        rows_.offset_steps = take<int8_t>("offset_steps", offset_steps,
                                          groups.has_steps() && groups.has_offsets, 'i', groups.size);
        require_numbers(stored_range(kind));
    }

    const std::vector<int64_t>& shape() const { return shape_; }
    const GroupedRows& rows() const { return rows_; }

  private:
    template <typename T>
    const T* take(const char* name, const pybind11::array& array, char kind, int inputs) {
        if (array.dtype().kind() != kind || array.itemsize() != static_cast<pybind11::ssize_t>(sizeof(T))) {
            throw std::invalid_argument(std::string(name) + " has dtype " +
                                        pybind11::str(array.dtype()).cast<std::string>() + "; it must be " +
                                        (kind == 'i' ? "int8" : "float16"));
        }
        if (shape_of(array) != std::vector<int64_t>{shape_[0], shape_[1] / inputs}) {
            throw std::invalid_argument(std::string(name) + " has the wrong shape; it must have " +
                                        std::to_string(shape_[0]) + " rows of " +
                                        std::to_string(shape_[1] / inputs));
        }
        kept_.push_back(pybind11::array::ensure(array, pybind11::array::c_style));
        return static_cast<const T*>(kept_.back().data());
    }

    template <typename T>
    const T* take(const char* name, const Optional& array, bool is_needed, char kind, int inputs) {
        if (array.has_value() != is_needed) {
            throw std::invalid_argument(std::string(name) + " must " + (is_needed ? "" : "not ") +
                                        "be there with a weight of this kind");
        }
        return is_needed ? take<T>(name, *array, kind, inputs) : nullptr;
    }

    void require_numbers(StoredRange range) const {
        int least = 0, most = 0;
        const int64_t count = shape_[0] * shape_[1];
        for (int64_t index = 0; index < count; ++index) {
            least = std::min<int>(least, rows_.numbers[index]);
            most = std::max<int>(most, rows_.numbers[index]);
        }
        if (least < range.least || most > range.most) {
            throw std::invalid_argument("numbers must be in " + std::to_string(range.least) + " ... " +
                                        std::to_string(range.most));
        }
    }

    std::vector<pybind11::array> kept_;  // C-contiguous
    std::vector<int64_t> shape_;         // [rows, in_features]
    GroupedRows rows_;
};

}  // namespace outrider
