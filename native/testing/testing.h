// The functions that add each file's bindings to the test module.
#pragma once

#include <pybind11/pybind11.h>

namespace outrider {

void register_packed_weight(pybind11::module_& module);
void register_kv_layer(pybind11::module_& module);
void register_operations(pybind11::module_& module);
void register_noise(pybind11::module_& module);
void register_fixtures(pybind11::module_& module);

}  // namespace outrider
