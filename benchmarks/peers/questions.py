"""Questions: the protocol of a peer's process, lines of JSON on its standard streams.

Such a process imports no other module of ours: its interpreter may have none of our dependencies.
"""

import json
import os
import sys
from collections.abc import Callable
from typing import Any

READY = "ready for questions"
Answering = Callable[[list[list[int]], Any, int], list[dict[str, object]]]


def serve(answer: Answering) -> None:
    """Answer each line of the standard input until it ends.

    `answer` is given the prompts, which it answers concurrently, the number of predictions (None: the engine decides)
    and the number of tokens.

    From now on, what libraries print goes to the standard error. What they printed before precedes the line READY.
    """
    sys.stdout.flush()
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "w")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    print(READY, file=answers, flush=True)
    for line in sys.stdin:
        question = json.loads(line)
        reply = answer(question["prompts"], question["num_predictions"], question["num_tokens"])
        print(json.dumps(reply), file=answers, flush=True)
