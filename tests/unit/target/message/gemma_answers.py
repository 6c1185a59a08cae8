"""Answers of Gemma 4, and the messages in them."""

from services.target.message.deltas import Content, Reasoning, ToolCall
from tests.unit.target.message.answer import Answer, G

GEMMA_ANSWERS = {
    "gemma, all parts": Answer(
        "gemma4",
        "<|channel>thought\nHm.\n<channel|>I look.\n"
        '<|tool_call>call:t.ypes{any:[1,<|"|>a<|"|>],count:12,flag:false,text:<|"|>1, "2" {\n}<|"|>}<tool_call|>'
        "<|tool_call>call:g.h{}<tool_call|><|tool_response>",
        [
            Reasoning("Hm."),
            Content("I look."),
            ToolCall("t.ypes", '{"any": [1, "a"], "count": 12, "flag": false, "text": "1, \\"2\\" {\\n}"}'),
            G,
        ],
    ),
    "gemma, no reasoning between its marks": Answer("gemma4", "<|channel>thought\n<channel|>So.", [Content("So.")]),
    "gemma, objects in objects, and odd spaces": Answer(
        "gemma4",
        '<|tool_call> call:f { a : { b c:[ ], <|"|>d:e<|"|> :[[-1.5e3] , {}],} , } <tool_call|> So.',
        [ToolCall("f", '{"a": {"b c": [], "d:e": [[-1.5e3], {}]}}'), Content("So.")],
    ),
    "gemma, bare texts and constants": Answer(
        "gemma4",
        "<|tool_call>call:t.ypes{text:12,flag:True,maybe:None,any:{a:None,b:New York,c:007}}<tool_call|>",
        [
            ToolCall(
                "t.ypes",
                '{"text": "12", "flag": true, "maybe": null, "any": {"a": null, "b": "New York", "c": "007"}}',
            )
        ],
    ),
    "gemma, cut off in a string": Answer(
        "gemma4", '<|tool_call>call:f{a:<|"|>Rome <|', [ToolCall("f", '{"a": "Rome ')]
    ),
    "gemma, cut off in a number": Answer("gemma4", "<|tool_call>call:f{a:1,b:1", [ToolCall("f", '{"a": 1, "b": ')]),
    "gemma, cut off in a key": Answer("gemma4", "<|tool_call>call:f{a:1,b", [ToolCall("f", '{"a": 1')]),
    "gemma, cut off in the name": Answer("gemma4", "a <|tool_call>call:f", [Content("a <|tool_call>call:f")]),
    "gemma, no call": Answer("gemma4", "Say <|tool_call>call me{a:1}.", [Content("Say <|tool_call>call me{a:1}.")]),
    "gemma, no name": Answer("gemma4", "<|tool_call>call:{a:1}", [Content("<|tool_call>call:{a:1}")]),
    "gemma, no arguments": Answer("gemma4", "<|tool_call>call:f(1) b", [Content("<|tool_call>call:f(1) b")]),
    "gemma, no value": Answer(
        "gemma4",
        "<|tool_call>call:f{a:1,b:}<tool_call|> c",
        [ToolCall("f", '{"a": 1, "b": '), Content("}<tool_call|> c")],
    ),
    "gemma, no key": Answer(
        "gemma4", "<|tool_call>call:f{a:1,:2}<tool_call|> c", [ToolCall("f", '{"a": 1'), Content(":2}<tool_call|> c")]
    ),
    "gemma, no key between marks": Answer(
        "gemma4", '<|tool_call>call:f{<|"|>a<|"|>1}', [ToolCall("f", "{"), Content('<|"|>a<|"|>1}')]
    ),
    "gemma, two values": Answer(
        "gemma4", '<|tool_call>call:f{a:<|"|>b<|"|>c}', [ToolCall("f", '{"a": "b"'), Content("c}")]
    ),
    "gemma, the wrong bracket": Answer("gemma4", "<|tool_call>call:f{a:[1}", [ToolCall("f", '{"a": [1'), Content("}")]),
}
