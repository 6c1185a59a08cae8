"""A web service of yours that streams from Outrider: `uvicorn fastapi_stream:app`, with outrider-client beside it."""

# /// script
# requires-python = ">=3.11"
# dependencies = ["fastapi==0.165.0", "uvicorn==0.54.0", "outrider-client"]
# ///

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from fastapi import FastAPI, HTTPException
from fastapi.responses import StreamingResponse
from pydantic import BaseModel

from outrider import AsyncClient, InvalidArgument, ResourceExhausted


class Question(BaseModel):
    """What a caller of this service may say."""

    prompt: str
    max_tokens: int = 200
    seed: int | None = None


def create_app(*addresses: str) -> FastAPI:
    """The service, in front of these Outrider servers."""

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        async with AsyncClient(*addresses) as client:  # one for the process: it belongs to the event loop
            app.state.client = client
            yield

    app = FastAPI(lifespan=lifespan)

    @app.post("/stream")
    async def stream(question: Question) -> StreamingResponse:
        options: dict[str, Any] = question.model_dump(exclude={"prompt"})
        chunks = aiter(app.state.client.stream(question.prompt, **options))
        try:
            first = await anext(chunks, None)  # before the status is sent: what is refused is refused here
        except InvalidArgument as error:
            problems = [{"field": each.field, "problem": each.description} for each in error.violations]
            raise HTTPException(400, problems) from error
        except ResourceExhausted as error:
            raise HTTPException(503, str(error)) from error

        async def text() -> AsyncIterator[str]:
            if first is not None:
                yield first.text
            async for chunk in chunks:  # a caller who leaves cancels this, and it the generation
                yield chunk.text

        return StreamingResponse(text(), media_type="text/plain; charset=utf-8")

    return app


app = create_app("localhost:50051")
