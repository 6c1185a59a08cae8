// The functions that add each file's bindings to the module.
#pragma once

#include <pybind11/pybind11.h>

namespace outrider {

void register_device(pybind11::module_& module);
void register_batch(pybind11::module_& module);
void register_pass(pybind11::module_& module);
void register_decoder(pybind11::module_& module);
void register_decoder_config(pybind11::module_& module);
void register_read_probe(pybind11::module_& module);
void register_sampling(pybind11::module_& module);

}  // namespace outrider
