"""How close passes come to the machine's limits: `python -m benchmarks.roofline MODEL --json FILE`.

It prints the roofline fraction of passes by their number of rows, and of a prefill's last chunk, for each instruction
set, format of weights and length of context: the least time that reading and computing can take, at the rates measured
in the same run, over the time of the pass. The contents of the KV cache do not affect it, so long contexts are not
computed first.
"""

import argparse
import json
from collections.abc import Iterable, Iterator
from collections.abc import Sequence as Seq
from dataclasses import asdict, dataclass
from pathlib import Path

from services.bench.decoder_figures import DecoderFigures, measure_decoder
from services.engine.config import CPU_KV_FORMATS, EngineConfig, resolve_threads
from services.engine.decoder.native import isas
from services.engine.loaded_model import LoadedModel


@dataclass(frozen=True, slots=True)
class RooflineFigures:
    """The figures of one setting."""

    isa: str
    weights: str
    kv: str
    decoder: DecoderFigures

    def lines(self) -> Iterator[str]:
        """Yield the lines of a table for a person to read."""
        found = self.decoder
        rates = [found.read_rate, found.product_rate, found.attention_rate]
        read, product, attention = (f"{rate.median * 1e-9:.0f}" if rate else "?" for rate in rates)
        yield f"{self.isa}, weights {self.weights}, kv {self.kv}, context {found.context}"
        yield f"reads {read} GB/s, computes {product} (weights) and {attention} (attention) G operations/s"
        for rows, seconds in found.pass_seconds.items():
            yield f"{rows:>8} rows{seconds.text(scale=1e3, digits=2):>28} ms{found.roofline_fractions[rows]:>8.2f}"
        yield f"     prefill{found.prefill_rate.text():>28} /s{found.prefill_fraction:>8.2f}"


def main(arguments: Seq[str] | None = None) -> None:
    """Measure all settings; print and save each as soon as it is known."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path, help="a folder or a GGUF file")
    parser.add_argument("--isas", nargs="+", choices=isas(), default=isas()[:1], help="instruction sets (%(default)s)")
    parser.add_argument("--weights", nargs="+", default=["bf16", "int8", "int4"], help="formats (%(default)s)")
    parser.add_argument("--kv", choices=CPU_KV_FORMATS, default="bf16", help="format of keys and values")
    parser.add_argument("--contexts", nargs="+", type=int, default=[256, 4096, 16384], help="tokens (%(default)s)")
    parser.add_argument("--runs", type=int, default=15, help="timings of each pass (%(default)s)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also save the figures to this file")
    options = parser.parse_args(arguments)
    record = []
    for figures in measure(options):
        print("\n".join(figures.lines()), flush=True)
        record.append(asdict(figures))
        if options.json:
            options.json.write_text(json.dumps(record, indent=1) + "\n")


def measure(options: argparse.Namespace) -> Iterable[RooflineFigures]:
    """Yield the figures of each setting as soon as they are known."""
    for isa in options.isas:
        for weights in options.weights:
            config = EngineConfig(
                model=options.model,
                isa=isa,
                threads=resolve_threads(),
                weights=weights,
                kv=options.kv,
                max_sequences=1,
            )
            model = LoadedModel.load(config)
            for context in options.contexts:
                decoder = measure_decoder(model, context=context, runs=options.runs)
                yield RooflineFigures(isa, weights, options.kv, decoder)


if __name__ == "__main__":
    main()
