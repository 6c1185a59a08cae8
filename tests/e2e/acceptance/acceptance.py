"""How often the demo draft is right: offline, along the target's own text, and online, over gRPC.

`python -m tests.e2e.acceptance` prints both for the beginnings of held-out documents. A position is *judged* online
where a prediction for it was verified and all before it in its pass were right. The draft sees there what it sees
offline, so the verdict must be the same at every such position. The shares need not be: positions after a pass whose
predictions were all right, and those for which none came in time, are not judged.

The demo head is measured online only: models/train_demo.py measures it offline.
"""

import asyncio
import itertools
import json
import tempfile
from collections.abc import Iterator
from collections.abc import Sequence as Seq
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from outrider import AsyncClient
from services.engine.checkpoint.checkpoint import load_checkpoint
from services.engine.decoder.model_loader import load_decoder
from services.engine.decoder.native import BLOCK_SIZE, Batch, Device, Sampler, isas
from services.engine.sampling_params import SamplingParams
from services.engine.sampling_state import new_sampling_state
from services.engine.text.tokenizer import Tokenizer
from tests.e2e.harness.draft_rig import Service
from tests.e2e.harness.models import DEMO_DRAFT, DEMO_HEAD, DEMO_TARGET
from tests.e2e.harness.pass_log import Pass, PassLog
from tests.harness.servers.server import RunningTarget, target_server

PROMPT_TOKENS, NEW_TOKENS = 16, 120
TEMPERATURES = (0.0, 0.7)
NUM_PREDICTIONS = (3, 5, 8)
LEAST_OF_HEAD = {0.0: (0.85, 3.0), 0.7: (0.78, 2.7)}
"""By temperature: the share of passes whose first prediction is right, and the tokens per pass with the fewest."""
LEAST_ACCEPTANCE = 0.75  # greedy: of the verdicts online, and of all positions offline
_BLOCKS = -(-256 // BLOCK_SIZE)  # of the longest prompt and answer used with it


@dataclass(frozen=True, slots=True)
class Stream:
    """One answer, whether the draft agrees with each of its tokens offline, and the passes that gave it online."""

    agreed: list[bool]
    passes: list[Pass]

    @property
    def judged(self) -> dict[int, bool]:
        """The verdict on the token with this index, where there was one."""
        return {
            one.index + offset: offset < one.num_accepted for one in self.passes for offset in range(one.num_judged)
        }

    @property
    def contradictions(self) -> list[int]:
        """Indices at which the verdict online is another one than offline."""
        return [index for index, is_right in self.judged.items() if is_right != self.agreed[index]]

    def replayed(self, num_predictions: int) -> list[Pass]:
        """The passes if all predictions always came in time; the first token needs none, the last is the target's."""
        index, passes = 1, []
        while index < len(self.agreed):
            run = self.agreed[index : min(index + num_predictions, len(self.agreed) - 1)]
            accepted = run.index(False) if False in run else len(run)
            passes.append(Pass(index, accepted + 1, len(run), accepted))
            index += accepted + 1
        return passes


def heldout_prompts(num_tokens: int = PROMPT_TOKENS) -> list[list[int]]:
    """How the documents begin that neither model was trained on, in so many tokens, as models/demo_acceptance.py has
    them.
    """
    tokenizer = Tokenizer.from_folder(DEMO_TARGET)
    lines = (DEMO_TARGET.parent / "heldout.jsonl").read_text(encoding="utf-8").splitlines()
    ids = [tokenizer.encode(json.loads(line)["text"]) for line in lines]
    return [one[:num_tokens] for one in ids if len(one) > num_tokens]


class OfflineDraft:
    """The draft's model without its service: one pass over a whole text."""

    def __init__(self) -> None:
        device = Device.cpu(isas()[0], 1)
        self._decoder = load_decoder(load_checkpoint(DEMO_DRAFT), device, weights="bf16", kv="bf16", num_blocks=_BLOCKS)
        self._sampler = Sampler(device)

    def agreement(self, prompt: Seq[int], answer: Seq[int], sampling: SamplingParams) -> list[bool]:
        """Whether it would draw each token of an answer that it has read up to there."""
        logits = self._decoder.forward(_batch([*prompt, *answer[:-1]], num_logits=len(answer))).logits
        state = new_sampling_state(sampling, prompt=prompt, min_tokens=0, masked_ids=())
        samples = self._sampler.sample(logits, [state], [answer[:-1]])
        return [*(samples.token_ids == np.asarray(answer))]


def _batch(tokens: Seq[int], *, num_logits: int) -> Batch:
    batch = Batch(max_rows=len(tokens), max_sequences=1, max_blocks=_BLOCKS)
    batch.append(tokens, position=0, blocks=range(_BLOCKS), num_logits=num_logits)
    return batch


class Experiment:
    """The demo target with its draft, each a service of its own, or with its head, and the passes that it makes."""

    def __init__(self, target: RunningTarget, offline: OfflineDraft | None = None) -> None:
        self._target = target
        self._log = PassLog(target.engine)
        self._offline = offline

    async def run(self, prompts: Seq[list[int]], *, temperature: float, num_predictions: int) -> list[Stream]:
        """One stream after the other."""
        async with AsyncClient(self._target.address) as client:
            return [
                await self._stream(client, seed, prompt, temperature, num_predictions)
                for seed, prompt in enumerate(prompts)
            ]

    async def _stream(
        self, client: AsyncClient, seed: int, prompt: list[int], temperature: float, num_predictions: int
    ) -> Stream:
        result = await client.generate(
            prompt,
            seed=seed,
            temperature=temperature,
            max_tokens=NEW_TOKENS,
            speculation="always",
            num_predictions=num_predictions,
        )
        request, passes = self._log.take()
        agreed = self._offline.agreement(prompt, result.token_ids, request.sampling) if self._offline else []
        return Stream(agreed, passes)


@contextmanager
def experiment() -> Iterator[Experiment]:
    """Start both services, and end them."""
    with tempfile.TemporaryDirectory() as logs:
        draft = Service("draft", DEMO_DRAFT, Path(logs))
        draft.start()
        try:
            with target_server(DEMO_TARGET, drafts=[draft.address]) as target:
                target.wait_for_draft()
                yield Experiment(target, OfflineDraft())
        finally:
            draft.kill()


@contextmanager
def head_experiment() -> Iterator[Experiment]:
    """Start the target with its head, and end it."""
    with target_server(DEMO_TARGET, head=DEMO_HEAD) as target:
        yield Experiment(target)


def first_share(passes: Seq[Pass]) -> float:
    """The share of passes with predictions in which the first one was accepted."""
    return float(np.mean([one.num_accepted > 0 for one in passes if one.num_judged]))


def share(passes: Seq[Pass]) -> float:
    """Accepted predictions among the judged ones: in each pass those accepted and the first that was not."""
    return sum(one.num_accepted for one in passes) / sum(one.num_judged for one in passes)


def tokens_per_pass(passes: Seq[Pass]) -> float:
    """How many tokens a pass gives, the mean."""
    return sum(one.num_tokens for one in passes) / len(passes)


def _report(temperature: float, num_predictions: int, streams: Seq[Stream]) -> bool:
    """Print the figures; returns whether all verdicts are the same offline, and enough of the greedy ones good."""
    online = [one for stream in streams for one in stream.passes]
    replayed = [one for stream in streams for one in stream.replayed(num_predictions)]
    agreed = [is_right for stream in streams for is_right in stream.agreed]
    num_judged = sum(len(stream.judged) for stream in streams)
    contradictions = sum(len(stream.contradictions) for stream in streams)
    print(
        f"temperature {temperature}, {num_predictions} predictions: "
        f"offline {np.mean(agreed):.4f} of {len(agreed)} positions; "
        f"judged only: replayed {share(replayed):.4f}, online {share(online):.4f} of {num_judged}, "
        f"{contradictions} verdicts differ; "
        f"tokens per pass: replayed {tokens_per_pass(replayed):.3f}, online {tokens_per_pass(online):.3f}",
        flush=True,
    )
    return contradictions == 0 and (temperature > 0 or share(online) >= LEAST_ACCEPTANCE)


def _report_head(temperature: float, num_predictions: int, streams: Seq[Stream]) -> bool:
    """Print the head's figures; returns whether they are as good as they were."""
    passes = [one for stream in streams for one in stream.passes]
    print(
        f"head, temperature {temperature}, {num_predictions} predictions: first {first_share(passes):.4f}; "
        f"tokens per pass {tokens_per_pass(passes):.3f} in {len(passes)} passes",
        flush=True,
    )
    least_first, least_per_pass = LEAST_OF_HEAD[temperature]
    return first_share(passes) >= least_first and tokens_per_pass(passes) >= least_per_pass


def main() -> int:
    """Print all figures; returns 1 where offline and online contradict each other, or what predicts is often wrong."""
    prompts = heldout_prompts()
    are_good = []
    for start, report in ((experiment, _report), (head_experiment, _report_head)):
        with start() as running:
            for temperature, count in itertools.product(TEMPERATURES, NUM_PREDICTIONS):
                streams = asyncio.run(running.run(prompts, temperature=temperature, num_predictions=count))
                are_good.append(report(temperature, count, streams))
    return int(not all(are_good))
