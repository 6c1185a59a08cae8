"""Products of numbers in registers: the number of operations is returned, on every device that has them."""

import pytest

from services.engine.decoder.native import Device
from tests.native.harness.devices import in_every_weight_format, is_cuda, make_device, on_cpus


@in_every_weight_format
def test_operations_are_counted_by_rounds_and_threads(device_name: str, weight_format: str) -> None:
    one, two = make_device(device_name, 1), make_device(device_name, 2)
    operations = one.multiply_registers(weight_format, 1)
    assert operations == 0 if is_cuda(device_name) else operations > 0
    assert one.multiply_registers(weight_format, 0) == 0
    assert two.multiply_registers(weight_format, 3) == 6 * operations


@on_cpus
def test_an_unknown_format_or_round_count_is_refused_by_name(device_name: str) -> None:
    device = Device.cpu(device_name, 1)
    assert device.multiply_registers("fp8", 1) == 0, "which no CPU holds"
    with pytest.raises(ValueError, match='weights is "int3"'):
        device.multiply_registers("int3", 1)
    with pytest.raises(ValueError, match="rounds is 1048577"):
        device.multiply_registers("bf16", 2**20 + 1)
