"""Train the demo models: `python models/train_demo.py all`, or one stage by name.

tokenizer   learn the byte-level BPE from the standard library
target      train the target on all text, at a rate that stays
anneal      go on from there with long windows, at a rate that falls to zero, and write the target
texts       let the target write what the draft learns from
draft       teach the draft to predict the target
divide      clean what write_demo_corpus.py wrote (--written), and hold some of it out
narrow      teach the target such documents: it goes on from the one in --start, at a rate that falls to zero
follow      teach the draft of --start to predict the target again, on the same documents
head        let the target write functions, and teach an EAGLE-3 head to predict it from its own states
losses      measure both models on documents and files that were trained on and on those held out
acceptance  measure how often the draft and the head are right on the held-out documents
loops       measure how much of the target's greedy text goes round in circles
verify      compare both checkpoints with the transformers package (which must be installed)

A stage that trains goes on where it was stopped: it saves its state now and then, in the folder --state. To stop
`target` early and to scale `anneal` down gives a good target for little time; `target` can go on afterwards.
"""

import argparse
import math
from collections.abc import Callable, Mapping
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import torch
from demo_acceptance import Pair, measure
from demo_checkpoint import (
    TOKENIZER,
    difference_from_transformers,
    load_checkpoint,
    load_head,
    save_checkpoint,
    save_head,
)
from demo_corpus import VOCAB_SIZE, encode_documents, mixed_batches, train_tokenizer
from demo_documents import divided, read_written, save_documents
from demo_head import VOCAB as HEAD_VOCAB
from demo_head import Head, HeadLoss
from demo_loops import measure_loops
from demo_model import Llama, Shape
from demo_training import (
    LossOf,
    Plan,
    Training,
    continuations,
    distillation_loss,
    mean_loss,
    next_token_loss,
    start_from,
)
from demo_workshop import Workshop
from torch import Tensor

DEFAULT_FOLDER = Path(__file__).parent / "demo"
DEFAULT_STATE = Path(__file__).parents[1] / "build" / "demo"
TARGET = Shape(hidden=384, layers=4, heads=6, kv_heads=2, intermediate=1024, vocab=VOCAB_SIZE)
DRAFT = Shape(hidden=128, layers=3, heads=4, kv_heads=2, intermediate=384, vocab=VOCAB_SIZE)
TARGET_PLAN = Plan(steps=12_000, rows=16, length=512, warmup=60, decay=0)
ANNEAL_PLAN = Plan(steps=2_400, rows=8, length=1024, warmup=0, decay=2_400)
NARROW_PLAN = Plan(steps=800, rows=8, length=512, warmup=20, decay=480, muon_rate=0.01, adam_rate=0.0015)
DRAFT_PLAN = Plan(steps=4_000, rows=16, length=512, warmup=60, decay=2_000)
HEAD_PLAN = Plan(steps=800, rows=16, length=256, warmup=20, decay=560)
HEAD_STEPS = 4
HARDNESS = 0.5
WRITTEN_WEIGHT = 0.6  # the share of the draft's batches that the target wrote
SAMPLING_TEMPERATURE = 0.7
LOGIT_TOLERANCE = 1e-3
WRITTEN_PROMPTS = 6144  # for each temperature
WRITTEN_TEMPERATURES = (0.0, SAMPLING_TEMPERATURE)
WRITTEN_PROMPT_TOKENS, WRITTEN_NEW_TOKENS = 64, 192
HEAD_PROMPTS = 2048
EVALUATION_LENGTH = 512
SAMPLED_EVERY = 24  # of the texts that were trained on, one in so many is measured
JUDGED_EVERY = 8  # while training, one in so many of the held-out windows is enough


def make_tokenizer(shop: Workshop) -> None:
    """Run stage `tokenizer`: train the tokenizer."""
    path = shop.folder / "target" / TOKENIZER
    path.parent.mkdir(parents=True, exist_ok=True)
    train_tokenizer().save(str(path), pretty=False)


def train_target(shop: Workshop) -> None:
    """Run stage `target`: train the target."""
    run_target(shop, "target", Training(Llama(TARGET)), TARGET_PLAN.scaled(shop.scale))


def anneal_target(shop: Workshop) -> None:
    """Run stage `anneal`: anneal the target's learning rate."""
    training = Training(Llama(TARGET))
    training.load(shop.state / "target.pt")
    training.start_anew()
    run_target(shop, "anneal", training, ANNEAL_PLAN.scaled(shop.scale))
    save_checkpoint(training.model, shop.tokenizer(), shop.folder / "target")


def run_target(shop: Workshop, stage: str, training: Training, plan: Plan) -> None:
    """Train the target by one plan, from where the stage was stopped if it was."""
    path = shop.state / f"{stage}.pt"
    if path.exists():
        training.load(path)
    sources = shop.streams()
    judge = partial(mean_loss, training.model, shop.heldout(), EVALUATION_LENGTH, JUDGED_EVERY)
    training.run(plan, shop.batches(sources, plan), next_token_loss, judge, path)
    shop.note(stage, work_done(training, plan, sources))


def work_done(training: Training, plan: Plan, sources: list[tuple[Tensor, float]]) -> dict[str, object]:
    """The facts of one training stage."""
    return {
        "plan": asdict(plan),
        "steps": training.step,
        "tokens": training.step * plan.rows * plan.length,
        "minutes": round(training.seconds / 60, 1),
        "last_training_loss": training.recent_loss,
        "heldout_after_steps": training.judgements,
        "sources": [{"tokens": len(stream), "weight": weight} for stream, weight in sources],
    }


def write_texts(shop: Workshop) -> None:
    """Stage `texts`: the target's texts at each temperature, after prompts from the library."""
    target, library = load_checkpoint(shop.folder / "target"), shop.streams()[0][0]
    count = max(64, round(WRITTEN_PROMPTS * shop.scale))
    texts = []
    for temperature in WRITTEN_TEMPERATURES:
        prompts = next(mixed_batches([(library, 1.0)], count, WRITTEN_PROMPT_TOKENS - 1, shop.generator))
        texts.append(continuations(target, prompts, WRITTEN_NEW_TOKENS, temperature, shop.generator))
        print(f"wrote {len(texts[-1])} tokens at temperature {temperature}", flush=True)
    torch.save(texts, shop.state / "texts.pt")


def train_draft(shop: Workshop) -> None:
    """Run stage `draft`: train the draft on the library and on the target's texts."""
    target, draft = load_checkpoint(shop.folder / "target"), Llama(DRAFT)
    written = torch.load(shop.state / "texts.pt", weights_only=True)
    sources = [(stream, weight * (1 - WRITTEN_WEIGHT)) for stream, weight in shop.streams()]
    sources += [(stream, WRITTEN_WEIGHT / len(written)) for stream in written]
    start_from(target, draft)
    training, plan, path = Training(draft), DRAFT_PLAN.scaled(shop.scale), shop.state / "draft.pt"
    if path.exists():
        training.load(path)
    loss_of = distillation_loss(target, HARDNESS)
    judge = partial(mean_loss, draft, shop.heldout(), EVALUATION_LENGTH, JUDGED_EVERY, loss_of)
    training.run(plan, shop.batches(sources, plan), loss_of, judge, path)
    save_checkpoint(draft, shop.tokenizer(), shop.folder / "draft")
    shop.note("draft", work_done(training, plan, sources))


def divide_documents(shop: Workshop, written: Path) -> None:
    """Run stage `divide`: split the written documents into training and held-out ones."""
    documents = divided(read_written(written))
    save_documents(documents, shop.folder)
    shop.note("divide", {"trained": len(documents.trained), "heldout": len(documents.heldout)})


def narrow_target(shop: Workshop) -> None:
    """Run stage `narrow`: continue the target's training on the written documents."""
    training = Training(load_checkpoint(shop.start / "target"))
    run_narrow(shop, "narrow", training, next_token_loss)
    save_checkpoint(training.model, shop.tokenizer(), shop.folder / "target")


def follow_target(shop: Workshop) -> None:
    """Run stage `follow`: train the draft on the narrowed target's texts."""
    training = Training(load_checkpoint(shop.start / "draft"))
    run_narrow(shop, "follow", training, distillation_loss(load_checkpoint(shop.folder / "target"), HARDNESS))
    save_checkpoint(training.model, shop.tokenizer(), shop.folder / "draft")


def train_head(shop: Workshop) -> None:
    """Run stage `head`: train a head on what the target writes."""
    target = load_checkpoint(shop.folder / "target")
    written = functions(shop, target)
    counts = torch.bincount(torch.cat(written), minlength=target.shape.vocab)
    known = counts.topk(HEAD_VOCAB)
    training = Training(Head(target, known.indices.sort().values))
    plan, path = HEAD_PLAN.scaled(shop.scale), shop.state / "head.pt"
    if path.exists():
        training.load(path)
    sources = [(stream, 1 / len(written)) for stream in written]
    loss_of = HeadLoss(target, HEAD_STEPS, HARDNESS)
    judge = partial(mean_loss, training.model, shop.heldout_documents(), plan.length, 1, loss_of)
    training.run(plan, shop.batches(sources, plan), loss_of, judge, path)
    save_head(training.model, target.shape, shop.folder / "head", plan.length)
    share = known.values.sum().item() / counts.sum().item()
    shop.note("head", work_done(training, plan, sources) | {"known_share_of_tokens": share})


def functions(shop: Workshop, target: Llama) -> list[Tensor]:
    """The target's texts at each temperature, after the beginnings of documents; written once in a state folder."""
    path = shop.state / "functions.pt"
    if not path.exists():
        prompts = shop.narrow_prompts()[: max(64, round(HEAD_PROMPTS * shop.scale))]
        texts = [
            continuations(target, prompts, WRITTEN_NEW_TOKENS, temperature, shop.generator)
            for temperature in WRITTEN_TEMPERATURES
        ]
        shop.state.mkdir(parents=True, exist_ok=True)
        torch.save({"texts": texts, "generator": shop.generator.get_state()}, path)
    written = torch.load(path, weights_only=True)
    shop.generator.set_state(written["generator"])  # so that the batches are the same after a stop
    return written["texts"]


def run_narrow(shop: Workshop, stage: str, training: Training, loss_of: LossOf) -> None:
    """Train a model on documents, from where the stage was stopped if it was."""
    path, plan, sources = shop.state / f"{stage}.pt", NARROW_PLAN.scaled(shop.scale), shop.narrow_streams()
    if path.exists():
        training.load(path)
    judge = partial(mean_loss, training.model, shop.heldout_documents(), EVALUATION_LENGTH, 1, loss_of)
    training.run(plan, shop.batches(sources, plan), loss_of, judge, path)
    shop.note(stage, work_done(training, plan, sources))


def measure_losses(shop: Workshop) -> None:
    """Run stage `losses`: measure the losses of both models."""
    documents = shop.documents()
    texts: dict[str, Mapping[Any, str]] = {
        "heldout": documents.heldout,
        "trained": dict(list(documents.trained.items())[::SAMPLED_EVERY]),
        "library_heldout": shop.corpus.heldout,
        "library_trained": dict(list(shop.corpus.library.items())[::SAMPLED_EVERY]),
    }
    for name in ("target", "draft"):
        model = load_checkpoint(shop.folder / name)
        facts: dict[str, object] = {"parameters": sum(weight.numel() for weight in model.parameters())}
        for kind, chosen in texts.items():
            stream = encode_documents(shop.tokenizer(), chosen)
            loss = mean_loss(model, stream, EVALUATION_LENGTH)
            facts[kind] = {"loss": loss, "bits_per_byte": bits_per_byte(loss, stream, chosen)}
        shop.note(f"losses_{name}", facts)


def bits_per_byte(loss: float, stream: Tensor, documents: Mapping[Any, str]) -> float:
    """A loss in nats per token as bits per byte of text."""
    size = sum(len(text.encode()) for text in documents.values())
    return loss * len(stream) / size / math.log(2)


def measure_acceptance(shop: Workshop) -> None:
    """Run stage `acceptance`: measure the acceptance rates of the draft and the head."""
    target = load_checkpoint(shop.folder / "target")
    drafters = {"": load_checkpoint(shop.folder / "draft"), "head_": load_head(target, shop.folder / "head")}
    for prefix, drafter in drafters.items():
        pair = Pair(target, drafter, shop.tokenizer())
        for stage, temperature in (("acceptance_greedy", 0.0), ("acceptance_sampled", SAMPLING_TEMPERATURE)):
            shop.note(prefix + stage, measure(pair, shop.documents().heldout, temperature, shop.seed))


def measure_repetition(shop: Workshop) -> None:
    """Run stage `loops`: measure how much of greedy text repeats itself."""
    target = load_checkpoint(shop.folder / "target")
    shop.note("loops", measure_loops(target, shop.tokenizer(), shop.documents().heldout))


def verify(shop: Workshop) -> None:
    """Run stage `verify`: check the finished pair."""
    text = shop.corpus.heldout["heapq.py"]
    ids = torch.tensor([shop.tokenizer().encode(text).ids[:EVALUATION_LENGTH]])
    for name in ("target", "draft"):
        difference = difference_from_transformers(shop.folder / name, ids)
        print(f"{name}: largest difference of a logit {difference:.2g}")
        if difference > LOGIT_TOLERANCE:
            raise SystemExit(f"{name} does not compute what transformers computes")


STAGES: dict[str, Callable[[Workshop], None]] = {
    "tokenizer": make_tokenizer,
    "target": train_target,
    "anneal": anneal_target,
    "texts": write_texts,
    "draft": train_draft,
    "narrow": narrow_target,
    "follow": follow_target,
    "head": train_head,
    "losses": measure_losses,
    "acceptance": measure_acceptance,
    "loops": measure_repetition,
    "verify": verify,
}
NOT_IN_ALL = frozenset({"verify"})


def main() -> None:
    """Run the stages that the command line names."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("stage", choices=["all", "divide", *STAGES])
    parser.add_argument("--written", type=Path, help="what write_demo_corpus.py wrote, for stage divide")
    parser.add_argument("--start", type=Path, help="the pair that `narrow` and `follow` go on from (default: --folder)")
    parser.add_argument("--folder", type=Path, default=DEFAULT_FOLDER, help="where target/, draft/ and head/ are")
    parser.add_argument("--state", type=Path, default=DEFAULT_STATE, help="where training goes on after a stop")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--threads", type=int, default=1, help="another number gives slightly other weights")
    parser.add_argument("--scale", type=float, default=1.0, help="train this part of the steps only")
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    start = arguments.start or arguments.folder
    shop = partial(Workshop, arguments.folder, arguments.state, start, arguments.seed, arguments.scale)
    if arguments.stage == "divide":
        divide_documents(shop(), arguments.written)
        return
    names = [name for name in STAGES if name not in NOT_IN_ALL] if arguments.stage == "all" else [arguments.stage]
    for name in names:
        STAGES[name](shop())


if __name__ == "__main__":
    main()
