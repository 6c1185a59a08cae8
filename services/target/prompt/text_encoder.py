"""The worker process that encodes long texts."""

import array
import base64
import os
from collections.abc import Callable
from typing import Any

from services.engine.text.tokenizer import Tokenizer
from services.engine.worker_process import serve
from services.target.prompt.infill_text import InfillText

_NICENESS = 10  # the engine's threads, which serve the streams, have priority on shared cores


def main() -> None:
    """Encode the texts that standard input sends."""
    os.nice(_NICENESS)
    serve(make_encoder)


def make_encoder(setup: dict[str, Any]) -> Callable[[dict[str, Any]], dict[str, Any]]:
    """A function that encodes with one tokenizer, whose `description` is in `setup`."""
    tokenizer = Tokenizer(setup["description"])

    def encode(question: dict[str, Any]) -> dict[str, Any]:
        """The number of ids, and the ids if they are not more than `most`, 4 bytes each, in base64."""
        special = question["add_special_tokens"]
        if "pieces" in question:
            ids = InfillText(tuple(question["pieces"]), special).encode(tokenizer)
        else:
            ids = tokenizer.encode(question["text"], add_special_tokens=special)
        data = array.array("I", ids if len(ids) <= question["most"] else ())
        return {"num_tokens": len(ids), "ids": base64.b64encode(data).decode()}

    return encode
