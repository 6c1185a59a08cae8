"""The models that come with Outrider: small, a pair, and the draft worth asking."""

from services.engine.checkpoint.checkpoint import load_checkpoint
from services.engine.text.tokenizer import Tokenizer
from tests.e2e.acceptance import OfflineDraft
from tests.e2e.models import DEMO_DRAFT, DEMO_TARGET
from tests.e2e.stepper import Stepper, request
from tests.e2e.streams import prompt_of

MOST_BYTES = 24 * 10**6
LEAST_ACCEPTANCE = 0.5
NEW_TOKENS = 96


def test_both_models_together_stay_small():
    files = [path for path in DEMO_TARGET.parent.rglob("*") if path.is_file()]
    assert sum(path.stat().st_size for path in files) <= MOST_BYTES


def test_target_and_draft_share_one_vocabulary():
    target, draft = Tokenizer.from_folder(DEMO_TARGET), Tokenizer.from_folder(DEMO_DRAFT)
    assert target.fingerprint() == draft.fingerprint()
    assert load_checkpoint(DEMO_TARGET).config.vocab_size == load_checkpoint(DEMO_DRAFT).config.vocab_size


async def test_the_draft_foretells_most_of_what_the_target_says():
    stepper = Stepper("demo")
    draft = OfflineDraft()
    agreed: list[bool] = []
    for index in range(2, 8):
        asked = request(prompt_of("demo", index), temperature=0.0, max_tokens=NEW_TOKENS)
        answer = await stepper.complete(asked)
        agreed += draft.agreement(asked.prompt, answer.token_ids, asked.sampling)
    assert sum(agreed) / len(agreed) >= LEAST_ACCEPTANCE


async def test_the_target_writes_something_that_looks_like_python():
    stepper = Stepper("demo")
    prompt = stepper.tokenizer.encode("def read(self, path):\n")
    answer = await stepper.complete(request(prompt, temperature=0.0, max_tokens=NEW_TOKENS))
    assert "    " in answer.text
    assert any(word in answer.text for word in ("return", "self", "with open", '"""'))
