"""Questions: how a peer's own process is asked, in lines of JSON on its standard streams.

This module is all that such a process has of ours: its interpreter may be one that knows nothing else.
"""

import json
import os
import sys
from collections.abc import Callable
from typing import Any

READY = "ready for questions"
Answering = Callable[[list[list[int]], Any, int], list[dict[str, object]]]


def serve(answer: Answering) -> None:
    """Answer each line of the standard input until it ends: `answer` takes prompts and numbers.

    They are all asked at once. The numbers are of predictions, None where it is left to the engine, and of tokens.

    What libraries print from here on goes to the standard error; what they have printed goes before a line READY.
    """
    sys.stdout.flush()
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "w")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    print(READY, file=answers, flush=True)
    for line in sys.stdin:
        question = json.loads(line)
        reply = answer(question["prompts"], question["num_predictions"], question["num_tokens"])
        print(json.dumps(reply), file=answers, flush=True)
