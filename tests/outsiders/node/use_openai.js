// The openai package of npm: texts, streams, objects, calls, an abort and errors by their types, as one line of JSON.
import OpenAI from "openai";
import { zodResponseFormat } from "openai/helpers/zod";
import { z } from "zod";

const [url, said] = process.argv.slice(2);
const client = new OpenAI({ baseURL: url, apiKey: "none", maxRetries: 0 });
const model = "target";
const asked = { model, messages: [{ role: "user", content: said }], temperature: 0.7, seed: 5, max_completion_tokens: 40 };
const Colour = z.object({ name: z.enum(["red", "green", "blue"]), is_dark: z.boolean() });
const add = {
  type: "function",
  function: {
    name: "add",
    strict: true,
    parameters: {
      type: "object",
      properties: { first: { type: "integer" }, second: { type: "integer" } },
      required: ["first", "second"],
      additionalProperties: false,
    },
  },
};

async function streamed() {
  let text = "";
  for await (const part of await client.chat.completions.create({ ...asked, stream: true })) {
    text += part.choices[0].delta.content ?? "";
  }
  return text;
}

async function parsed() {
  const format = { response_format: zodResponseFormat(Colour, "colour"), banned_strings: [" ", "\n"] };
  const answer = await client.chat.completions.parse({ ...asked, ...format, max_completion_tokens: 200 });
  return answer.choices[0].message.parsed;
}

async function called() {
  const tools = { tools: [add], tool_choice: "required", parallel_tool_calls: false, max_completion_tokens: 200 };
  const runner = client.chat.completions.stream({ ...asked, ...tools });
  const answer = await runner.finalChatCompletion();
  const call = answer.choices[0].message.tool_calls[0].function;
  return [call.name, Object.keys(JSON.parse(call.arguments)).sort()];
}

async function text() {
  const answer = await client.completions.create({ model, prompt: said, temperature: 0.7, seed: 5, max_tokens: 40 });
  return answer.choices[0].text;
}

async function response() {
  const stream = client.responses.stream({ model, input: said, temperature: 0.7, max_output_tokens: 40, seed: 5 });
  let text = "";
  for await (const event of stream) {
    if (event.type === "response.output_text.delta") text += event.delta;
  }
  return text;
}

async function aborted() {
  const endless = { model, prompt: said, max_tokens: 1900, ignore_eos: true, stream: true };
  const stream = await client.completions.create(endless);
  let parts = 0;
  for await (const _ of stream) {
    if (++parts === 3) stream.controller.abort();
  }
  return parts;
}

async function refused(change) {
  try {
    await client.chat.completions.create({ ...asked, ...change });
  } catch (error) {
    return [error.constructor.name, error.status, error.param];
  }
}

const told = {
  chat: (await client.chat.completions.create(asked)).choices[0].message.content,
  streamed: await streamed(),
  parsed: await parsed(),
  called: await called(),
  text: await text(),
  response: await response(),
  aborted: await aborted(),
  refused: [await refused({ top_p: 7 }), await refused({ model: "other" })],
};
console.log(JSON.stringify(told));
