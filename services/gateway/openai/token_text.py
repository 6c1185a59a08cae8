"""Token texts: a token as OpenAI's APIs spell it."""

from outrider import Candidate, Token


def token_text(token: Token | Candidate) -> str:
    """Its text; of bytes that are none by themselves their numbers, so that no two tokens read the same."""
    try:
        return token.bytes.decode()
    except UnicodeDecodeError:
        return "bytes:" + "".join(f"\\x{byte:02x}" for byte in token.bytes)
