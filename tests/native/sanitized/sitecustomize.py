"""Python imports this by itself from PYTHONPATH: the native modules are then those in the folders of SANITIZED_MODULES,
in place of the installed ones. What the process starts is sanitized too, unless SANITIZED_ALONE is set.
"""

import os
import sys
from collections.abc import Sequence as Seq
from importlib.machinery import ModuleSpec
from importlib.util import spec_from_file_location
from pathlib import Path
from types import ModuleType

_PACKAGE = "services.engine.decoder.native"
_MODULES = {
    f"{_PACKAGE}.{file.name.partition('.')[0]}": file
    for folder in os.environ["SANITIZED_MODULES"].split(os.pathsep)
    for file in Path(folder).glob("*.so")
}


class _Finder:
    @staticmethod
    def find_spec(name: str, path: Seq[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        return spec_from_file_location(name, _MODULES[name]) if name in _MODULES else None


sys.meta_path.insert(0, _Finder)
if "SANITIZED_ALONE" in os.environ:
    for name in ("LD_PRELOAD", "PYTHONPATH"):
        del os.environ[name]
