"""Grammars that are made to end a service, or to keep it busy."""

import json

from services.engine.grammar.source import GrammarKind, GrammarSource

DOTS = ".*" * 20_000
_CHAINED = "".join(f"r{i}: r{i + 1}\n" for i in range(2999))
_CONTAINING = " & ".join(f"/(.*{chr(97 + i % 26)}.*){{{i // 26 + 1}}}/" for i in range(1000))
_DOUBLED = "".join(f'a{i}: x x "{i}" |\n' for i in range(300))
_NAMES = " | ".join(f"a{i}" for i in range(300))


def _lark(text: str) -> GrammarSource:
    return GrammarSource(GrammarKind.LARK, (text,))


HOSTILE = {
    "chained rules": _lark(f'start: r0\n{_CHAINED}r2999: "a"\n'),  # they overflow the stack
    "parts that may be empty": GrammarSource(GrammarKind.REGEX, (DOTS,)),  # a minute, 7 GB
    "the same behind others": GrammarSource(GrammarKind.REGEX, ("[ab]{40}" + DOTS,)),  # once some tokens are drawn
    "the same by names": _lark(f"start: /[ab]{{40}}/ A\nA: B B B B B B B B\nB: {'C ' * 500}\nC: /.*/\n"),
    "the same in a schema": GrammarSource(GrammarKind.JSON_SCHEMA, (json.dumps({"pattern": f"a{DOTS}"}),)),
    "intersections": _lark(f"start: A\nA: {_CONTAINING}"),  # minutes
    "ambiguous rules": _lark(f"start: x\nx: {_NAMES}\n{_DOUBLED}"),
    "a long forced text": GrammarSource(GrammarKind.REGEX, ("((a{1000}){1000}){1000}",)),  # 0.7 s for a mask
}
SLOW = GrammarSource(GrammarKind.REGEX, ("(((((a{1000}){1000}){1000}){1000}){1000}){1000}",))  # as long as it may take
