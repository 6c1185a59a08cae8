"""Python imports this by itself from PYTHONPATH: the native module is then that of SANITIZED_MODULE, in place of the
installed one. What the process starts is sanitized too, unless SANITIZED_ALONE is set.
"""

import os
import sys
from collections.abc import Sequence as Seq
from importlib.machinery import ModuleSpec
from importlib.util import spec_from_file_location
from types import ModuleType

_NAME = "services.engine.decoder.native._native"
_MODULE = os.environ["SANITIZED_MODULE"]


class _Finder:
    @staticmethod
    def find_spec(name: str, path: Seq[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        return spec_from_file_location(name, _MODULE) if name == _NAME else None


sys.meta_path.insert(0, _Finder)
if "SANITIZED_ALONE" in os.environ:
    for name in ("LD_PRELOAD", "PYTHONPATH"):
        del os.environ[name]
