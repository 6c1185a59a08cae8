// The Python module `_native_testing`: code of `_native` that only tests call. Its interface is in
// services/engine/decoder/native/_native_testing.pyi.
#include "testing/testing.h"

PYBIND11_MODULE(_native_testing, module) {
    pybind11::module_::import("services.engine.decoder.native");  // registers Device, Decoder and Logits
    outrider::register_packed_weight(module);
    outrider::register_kv_layer(module);
    outrider::register_operations(module);
    outrider::register_noise(module);
    outrider::register_fixtures(module);
}
