"""Small models for a checker of memory to watch: `compute-sanitizer python -m tests.native.harness.small_model DEVICE`.

DEVICE is one of tests.native.harness.devices, by default the GPU.

A pass over two sequences' prompts, one that verifies predictions, three times, so that it is recorded and replayed, and
draws from it with every step of the sampler.
"""

import sys

from services.engine.config import WEIGHT_FORMATS
from services.engine.decoder.native import Sampler
from services.engine.decoder.native.testing import make_logits
from tests.native.harness.devices import GPU, make_device
from tests.native.harness.random_models import MODELS, PLAIN, PagedDecoder, random_tokens
from tests.native.harness.sampling_reference import EVERY_STEP

_LENGTH, _PREDICTIONS = 36, 3  # tokens; the second block of a sequence is begun


def main(device_name: str = GPU) -> None:
    """Run all models in bf16, and one of them in every format; the draws are printed."""
    for name, config in MODELS.items():
        for weight_format in WEIGHT_FORMATS if config is PLAIN else ("bf16",):
            device = make_device(device_name, threads=1)
            tokens = random_tokens(config, 2, _LENGTH + _PREDICTIONS)
            paged = PagedDecoder(config, device, weight_format, tokens=tokens)
            paged.forward([(sequence, position) for sequence in range(2) for position in range(_LENGTH)])
            verified = range(_LENGTH - 1, _LENGTH + _PREDICTIONS)
            for _ in range(3):
                logits = paged.forward([(sequence, position) for sequence in range(2) for position in verified])
            states = [EVERY_STEP.state(prompt=each[:_LENGTH].tolist()) for each in tokens]
            predictions = [each[_LENGTH:].tolist() for each in tokens]
            samples = Sampler(device).sample(make_logits(device, logits), states, predictions)
            print(f"{name}, {weight_format}: {samples.token_ids.tolist()}")


if __name__ == "__main__":
    main(*sys.argv[1:])
