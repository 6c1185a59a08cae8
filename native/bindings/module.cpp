// The Python module `_native`; its interface is in services/engine/decoder/native/_native.pyi.
#include "bindings.h"
#include "outrider/device/operations.h"

PYBIND11_MODULE(_native, module) {
    module.doc() = "Devices, the decoder and the sampler.";
    module.attr("BUILD_ID") = OUTRIDER_BUILD_ID;
    module.attr("BLOCK_SIZE") = outrider::kBlockSize;
    outrider::register_device(module);
    outrider::register_batch(module);
    outrider::register_pass(module);
    outrider::register_sampling(module);
    outrider::register_decoder_config(module);
    outrider::register_decoder(module);
    outrider::register_read_probe(module);
}
