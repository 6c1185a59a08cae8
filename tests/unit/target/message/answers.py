"""Answers of each family, and the messages in them."""

from services.target.message.deltas import Content, Reasoning, ToolCall
from services.target.message.syntax import TOOL_SYNTAXES
from tests.unit.target.message.answer import NO_TOOLS, TYPED, Answer, F, G
from tests.unit.target.message.families import call_of_f
from tests.unit.target.message.gemma_answers import GEMMA_ANSWERS

_DEEPSEEK = "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>"

ANSWERS = {
    "hermes, all parts": Answer(
        "hermes",
        "<think>\nHm.\n</think>\n\nI look.\n"
        '<tool_call>\n{"name": "f", "arguments": {"a": 1}}\n</tool_call>\n'
        '<tool_call>\n{"name": "g.h", "arguments": {}}\n</tool_call>\n',
        [Reasoning("Hm."), Content("I look."), F, G],
    ),
    "hermes, marks in strings": Answer(
        "hermes",
        '<tool_call>{"name": "f", "arguments": {"a": "</tool_call>}{\\"\\\\"}}</tool_call>',
        [ToolCall("f", '{"a": "</tool_call>}{\\"\\\\"}')],
    ),
    "hermes, numbers and keys as written": Answer(
        "hermes",
        '<tool_call>{"arguments": {"z": 1e5, "a": 12345678901234567890}, "name": "f"}</tool_call>',
        [ToolCall("f", '{"z": 1e5, "a": 12345678901234567890}')],
    ),
    "hermes, no JSON": Answer("hermes", "a <tool_call>{x</tool_call> b", [Content("a <tool_call>{x</tool_call> b")]),
    "hermes, no name": Answer("hermes", '<tool_call>{"name": 3}', [Content('<tool_call>{"name": 3}')]),
    "hermes, no object": Answer(
        "hermes", '<tool_call>{"name": "f", "arguments": [1]}', [Content('<tool_call>{"name": "f", "arguments": [1]}')]
    ),
    "hermes, null for no arguments": Answer(
        "hermes", '<tool_call>{"name": "g.h", "arguments": null}</tool_call>', [ToolCall("g.h", "{}")]
    ),
    "hermes, nothing for no arguments": Answer(
        "hermes", '<tool_call>{"name": "g.h", "arguments": ""}</tool_call>', [ToolCall("g.h", "{}")]
    ),
    "hermes, cut off": Answer("hermes", 'a <tool_call>{"name": "f', [Content('a <tool_call>{"name": "f')]),
    "hermes, cut off in the arguments": Answer(
        "hermes", 'a <tool_call>{"name": "f", "arguments": {"a": "b\\', [Content("a"), ToolCall("f", '{"a": "b\\')]
    ),
    "hermes, cut off after the arguments": Answer("hermes", '<tool_call>{"name": "f", "arguments": {"a": 1}', [F]),
    "hermes, cut off in the mark after a call": Answer(
        "hermes", '<tool_call>{"name": "f", "arguments": {"a": 1}}\n</tool', [F]
    ),
    "qwen, cut off in the mark after a call": Answer(
        "qwen3_coder", "<tool_call>\n<function=f>\n<parameter=a>\n1\n</parameter>\n</func", [ToolCall("f", '{"a": 1')]
    ),
    "hermes, no brace at the end": Answer(
        "hermes", '<tool_call>{"name": "f", "arguments": {"a": 1}</tool_call> So.', [F, Content("So.")]
    ),
    "hermes, arguments that are no JSON": Answer(
        "hermes",
        '<tool_call>{"name": "f", "arguments": {"a": 1, x}}</tool_call> b',
        [ToolCall("f", '{"a": 1, '), Content("x}}</tool_call> b")],
    ),
    "hermes, a call inside of arguments that are no JSON": Answer(
        "hermes",
        '<tool_call>{"name": "f", "arguments": {"a": 1, {"name": "g.h", "arguments": {}}</tool_call> b',
        [ToolCall("f", '{"a": 1, '), Content('{"name": "g.h", "arguments": {}}</tool_call> b')],
    ),
    "hermes, a call that is only hinted at": Answer(
        "hermes",
        'As in <tool_call>{"name": "f", "arguments": {"a": ...}}</tool_call>.',
        [Content('As in <tool_call>{"name": "f", "arguments": {"a": ...}}</tool_call>.')],
    ),
    "hermes, cut off after the mark": Answer("hermes", "a <tool_call>", [Content("a <tool_call>")]),
    "hermes, the name last": Answer("hermes", '<tool_call>{"arguments": "", "name": "g.h"}</tool_call>', [G]),
    "hermes, other fields": Answer(
        "hermes", '<tool_call>{"type": {"name": 1}, "name": "f", "arguments": {"a": 1}, "id": 7}</tool_call>', [F]
    ),
    "hermes, a string that is no object": Answer(
        "hermes",
        '<tool_call>{"name": "f", "arguments": "[1]"}</tool_call>',
        [Content('<tool_call>{"name": "f", "arguments": "[1]"}</tool_call>')],
    ),
    "hermes, deep": Answer("hermes", "<tool_call>" + "[{" * 5, [Content("<tool_call>" + "[{" * 5)]),
    "words only": Answer("hermes", " <b> a \n\n", [Content(" <b> a \n\n")]),
    "nothing": Answer("hermes", "", []),
    "a thought of the prompt": Answer(
        "none", "\nHm </thin k> \n</think>\n\nYes ", [Reasoning("Hm </thin k>"), Content("Yes ")], True
    ),
    "a thought without end": Answer("none", "Hm ", [Reasoning("Hm ")], True),
    "a mark that is said": Answer("none", "The tag <think> opens", [Content("The tag <think> opens")]),
    "llama, a call": Answer("llama3_json", ' {"name": "f", "parameters": {"a": 1}}', [F]),
    "llama, several": Answer(
        "llama3_json", '<|python_tag|>{"name": "f", "parameters": {"a": 1}}; {"name": "g.h", "parameters": {}}', [F, G]
    ),
    "llama, arguments as text": Answer("llama3_json", '{"name": "f", "parameters": "{\\"a\\": 1}"}', [F]),
    "llama, other JSON": Answer("llama3_json", '{"a": 1} b', [Content('{"a": 1} b')]),
    "llama, a name that is no tool's": Answer(
        "llama3_json", '{"name": "Alice", "parameters": {}}', [Content('{"name": "Alice", "parameters": {}}')]
    ),
    "llama, a name without arguments": Answer("llama3_json", ' {"name": "f"}', [Content(' {"name": "f"}')]),
    "llama, another object after a call": Answer(
        "llama3_json",
        '{"name": "f", "parameters": {"a": 1}}; {"name": "f"}',
        [F, Content('{"name": "f"}')],
    ),
    "llama, JSON later": Answer("llama3_json", 'It is {"name": "f"}', [Content('It is {"name": "f"}')]),
    "mistral, a list": Answer(
        "mistral", 'So:[TOOL_CALLS][{"name": "f", "arguments": {"a": 1}}, {"name": "g.h"}]', [Content("So:"), F, G]
    ),
    "mistral, a list with another value": Answer(
        "mistral", '[TOOL_CALLS][{"name": "f", "arguments": {"a": 1}}, {"b": 2}]', [F, Content('{"b": 2}]')]
    ),
    "mistral, a list that is cut off": Answer(
        "mistral", '[TOOL_CALLS] [{"name": "f", "arguments": {"a": 1}}, {"name": "g.h"', [F, Content('{"name": "g.h"')]
    ),
    "mistral, nothing in a list": Answer("mistral", "[TOOL_CALLS][] b", [Content("[TOOL_CALLS][] b")]),
    "mistral, named": Answer(
        "mistral_args",
        '[THINK]Hm.[/THINK]So.[TOOL_CALLS]f[ARGS]{"a": 1}[TOOL_CALLS]g.h[CALL_ID]x1[ARGS]{}',
        [Reasoning("Hm."), Content("So."), F, G],
    ),
    "deepseek, fenced": Answer(
        "deepseek_v3",
        f'Hm.</think>So.{_DEEPSEEK}function<｜tool▁sep｜>f\n```json\n{{"a": 1}}\n```<｜tool▁call▁end｜>\n'
        "<｜tool▁call▁begin｜>function<｜tool▁sep｜>g.h\n```json\n{}\n```<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
        [Reasoning("Hm."), Content("So."), F, G],
        True,
    ),
    "deepseek, cut off in the mark after a call": Answer(
        "deepseek_v3", f'{_DEEPSEEK}function<｜tool▁sep｜>f\n```json\n{{"a": 1}}\n``', [F]
    ),
    "deepseek, plain": Answer(
        "deepseek_v31",
        f'{_DEEPSEEK}f<｜tool▁sep｜>{{"a": 1}}<｜tool▁call▁end｜><｜tool▁call▁begin｜>g.h<｜tool▁sep｜>{{}}'
        "<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
        [F, G],
    ),
    "hermes, two in one": Answer(
        "hermes",
        '<tool_call>\n{"name": "f", "arguments": {"a": 1}}\n{"name": "g.h", "arguments": {}}\n</tool_call>\nSo.',
        [F, G, Content("So.")],
    ),
    "hermes, JSON after a call": Answer(
        "hermes", '<tool_call>{"name": "f", "arguments": {"a": 1}}</tool_call>{"b": 2}', [F, Content('{"b": 2}')]
    ),
    "hermes, a mark in prose": Answer(
        "hermes",
        'The mark <tool_call> begins it: <tool_call>{"name": "f", "arguments": {"a": 1}}</tool_call>',
        [Content("The mark <tool_call> begins it:"), F],
    ),
    "qwen, in XML": Answer(
        "qwen3_coder",
        "<think>\nHm.\n</think>\n\nI look.\n<tool_call>\n<function=t.ypes>\n<parameter=text>\n12\n</parameter>\n"
        '<parameter=count>\n12\n</parameter>\n<parameter=any>\n[1, "a"]\n</parameter>\n</function>\n</tool_call>\n'
        "<tool_call>\n<function=g.h>\n</function>\n</tool_call>",
        [Reasoning("Hm."), Content("I look."), TYPED, G],
    ),
    "qwen, a value of lines": Answer(
        "qwen3_coder",
        '<tool_call><function=t.ypes><parameter=text>\n\n{"a": 1}\n<b>\n\n</parameter></function></tool_call>',
        [ToolCall("t.ypes", '{"text": "\\n{\\"a\\": 1}\\n<b>\\n"}')],
    ),
    "qwen, constants": Answer(
        "qwen3_coder",
        "<tool_call><function=t.ypes><parameter=flag>True</parameter><parameter=maybe>null</parameter>"
        "<parameter=count>many</parameter></function></tool_call>",
        [ToolCall("t.ypes", '{"flag": true, "maybe": null, "count": "many"}')],
    ),
    "qwen, cut off": Answer(
        "qwen3_coder",
        "a <tool_call>\n<function=f>\n<parameter=a>\n1",
        [Content("a"), ToolCall("f", '{"a": ')],
    ),
    "qwen, cut off before an argument": Answer(
        "qwen3_coder", "a <tool_call>\n<function=f>\n<param", [Content("a <tool_call>\n<function=f>\n<param")]
    ),
    "qwen, cut off in a string": Answer(
        "qwen3_coder",
        '<tool_call><function=t.ypes><parameter=text>\nShe said "Hm"\n\n</parame',
        [ToolCall("t.ypes", '{"text": "She said \\"Hm\\"\\n')],
    ),
    "qwen, cut off after a string": Answer(
        "qwen3_coder",
        "<tool_call><function=t.ypes><parameter=text>\n12\n</parameter>",
        [ToolCall("t.ypes", '{"text": "12"')],
    ),
    "qwen, cut off in a mark": Answer(
        "qwen3_coder",
        "<tool_call><function=t.ypes><parameter=text>\n12\n</parameter>\n<param",
        [ToolCall("t.ypes", '{"text": "12"'), Content("<param")],
    ),
    "qwen, something between arguments": Answer(
        "qwen3_coder",
        "<tool_call><function=f>\n<parameter=a>\n1\n</parameter>x</function></tool_call>",
        [ToolCall("f", '{"a": 1'), Content("x</function></tool_call>")],
    ),
    "qwen, an argument twice": Answer(
        "qwen3_coder",
        "<tool_call><function=f><parameter=a>1</parameter><parameter=a>2</parameter></function></tool_call>",
        [ToolCall("f", '{"a": 1, "a": 2}')],
    ),
    "qwen, a mark in words": Answer("qwen3_coder", "Say <tool_call> first.", [Content("Say <tool_call> first.")]),
    "qwen, something between": Answer(
        "qwen3_coder",
        "<tool_call><function=f>x</function></tool_call>",
        [Content("<tool_call><function=f>x</function></tool_call>")],
    ),
    "qwen, the end mark in a line": Answer(
        "qwen3_coder",
        '<tool_call>\n<function=t.ypes>\n<parameter=text>\nprint("</parameter>")\n</parameter>\n<parameter=count>\n1\n'
        "</parameter>\n</function>\n</tool_call>",
        [ToolCall("t.ypes", '{"text": "print(\\"</parameter>\\")", "count": 1}')],
    ),
    "seed, the end mark in a line": Answer(
        "seed_oss",
        '<seed:tool_call>\n<function=t.ypes>\n<parameter=text>print("</parameter>")</parameter>\n</function>\n'
        "</seed:tool_call>",
        [ToolCall("t.ypes", '{"text": "print(\\"</parameter>\\")"}')],
    ),
    "glm, the end mark in a line": Answer(
        "glm",
        '<tool_call>t.ypes\n<arg_key>text</arg_key>\n<arg_value>print("</arg_value>")</arg_value>\n</tool_call>',
        [ToolCall("t.ypes", '{"text": "print(\\"</arg_value>\\")"}')],
    ),
    "seed, in XML": Answer(
        "seed_oss",
        "<seed:think>Hm.</seed:think><seed:tool_call>\n<function=t.ypes>\n<parameter=text>a</parameter>\n</function>\n"
        "</seed:tool_call>",
        [Reasoning("Hm."), ToolCall("t.ypes", '{"text": "a"}')],
    ),
    "glm, in XML": Answer(
        "glm",
        "\n<think>Hm.</think>\nI look.\n<tool_call>t.ypes\n<arg_key>text</arg_key>\n<arg_value>12</arg_value>\n"
        "<arg_key>count</arg_key>\n<arg_value>12</arg_value>\n<arg_key>any</arg_key>\n"
        '<arg_value>[1, "a"]</arg_value>\n</tool_call>\n<tool_call>g.h\n</tool_call>',
        [Reasoning("Hm."), Content("I look."), TYPED, G],
    ),
    "glm, a mark in words": Answer("glm", "Say <tool_call> first.", [Content("Say <tool_call> first.")]),
    "glm, no key": Answer(
        "glm",
        "<tool_call>f<arg_key>a</arg_key><arg_value>1</arg_value><arg_key><a></arg_key></tool_call> b",
        [ToolCall("f", '{"a": 1'), Content("<arg_key><a></arg_key></tool_call> b")],
    ),
    "glm, no value": Answer(
        "glm", "<tool_call>f<arg_key>a</tool_call> b", [Content("<tool_call>f<arg_key>a</tool_call> b")]
    ),
    "harmony, reasoning and an answer": Answer(
        "harmony",
        "<|channel|>analysis<|message|>Hm. <|end|><|start|>assistant<|channel|>final<|message|>So <b>.<|return|>",
        [Reasoning("Hm. "), Content("So <b>.")],
    ),
    "harmony, a call": Answer(
        "harmony",
        "<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant<|channel|>commentary to=functions.f "
        '<|constrain|>json<|message|>{"a": 1}<|call|>',
        [Reasoning("Hm."), F],
    ),
    "harmony, a call without its end, the recipient first": Answer(
        "harmony", " to=functions.g.h<|channel|>commentary json<|message|>null", [G]
    ),
    "harmony, text before a call": Answer(
        "harmony",
        "<|channel|>commentary<|message|>I look.<|end|><|start|>assistant<|channel|>commentary "
        'to=functions.f<|message|>{"a": 1}',
        [Content("I look."), F],
    ),
    "harmony, no JSON": Answer("harmony", "<|channel|>commentary to=functions.f<|message|>{a<|call|>", [Content("{a")]),
    "harmony, JSON and more": Answer(
        "harmony",
        '<|channel|>commentary to=functions.f<|message|> {"a": 1} b<|call|>',
        [F, Content("b")],
    ),
    "harmony, cut off in the arguments": Answer(
        "harmony",
        '<|channel|>commentary to=functions.f<|message|>{"a": 1<|end|><|start|>assistant<|channel|>final<|message|>So.',
        [ToolCall("f", '{"a": 1'), Content("So.")],
    ),
    "harmony, words alone": Answer("harmony", "Just <b> words", [Content("Just <b> words")]),
    "harmony, reasoning of the prompt": Answer(
        "harmony",
        "Hm.<|end|><|start|>assistant<|channel|>final<|message|>So.",
        [Reasoning("Hm."), Content("So.")],
        True,
    ),
    "harmony, cut in a header": Answer(
        "harmony", "<|channel|>analysis<|message|>Hm.<|end|><|start|>assis", [Reasoning("Hm.")]
    ),
    "hermes, half a surrogate pair": Answer(
        "hermes",
        r'<tool_call>{"name": "\ud800", "arguments": {}}</tool_call>',
        [Content(r'<tool_call>{"name": "\ud800", "arguments": {}}</tool_call>')],
    ),
    "harmony, a header without end": Answer("harmony", "<|channel|>" + "x" * 300, [Content("<|channel|>" + "x" * 300)]),
    "harmony, a header without end later": Answer(
        "harmony", "Hello<|start|>" + "x" * 300, [Content("Hello<|start|>" + "x" * 300)]
    ),
    "harmony, a header of the longest": Answer(
        "harmony", "<|channel|>final " + "a" * 233 + "<|message|>hi", [Content("hi")]
    ),
    "harmony, no header": Answer("harmony", "<|message|>hi", [Content("hi")]),
    "harmony, what looks like a recipient": Answer("harmony", "to=5", [Content("to=5")]),
    "harmony, white space": Answer("harmony", " \n", [Content(" \n")]),
}


ANSWERS |= GEMMA_ANSWERS
MARKED = [family for family in TOOL_SYNTAXES if family != "harmony"]
for _family in MARKED:
    _call = call_of_f(_family)
    for _name, _text in {"shown": f"An example: {_call} so. ", "alone": f" {_call}"}.items():
        ANSWERS[f"{_family}, a call {_name} without tools"] = Answer(_family, _text, [Content(_text)], schemas=NO_TOOLS)
    _quoted = '{"a": "' + _call + '"}\n'
    ANSWERS[f"{_family}, a call in a form's text"] = Answer(_family, _quoted, [Content(_quoted)], has_form=True)
    ANSWERS[f"{_family}, a call instead of a form"] = Answer(_family, f"\n{_call}", [F], has_form=True)
ANSWERS["hermes, a form after a thought"] = Answer(
    "hermes",
    '<think>Hm.</think>\n{"a": "<tool_call>"}',
    [Reasoning("Hm."), Content('{"a": "<tool_call>"}')],
    has_form=True,
)
ANSWERS["hermes, no call instead of a form"] = Answer(
    "hermes", f"<tool_call>x{call_of_f('hermes')}", [Content(f"<tool_call>x{call_of_f('hermes')}")], has_form=True
)
ANSWERS["harmony, a call without tools"] = Answer(
    "harmony", f"{call_of_f('harmony')}<|call|>", [Content('{"a": 1}')], schemas=NO_TOOLS
)
