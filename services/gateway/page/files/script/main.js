// The page: connects its parts, and handles input.

import { Api, Problem } from "./api.js";
import { Conversation } from "./conversation.js";
import { find } from "./dom.js";
import { DraftSwitch } from "./draft_switch.js";
import { Form } from "./form.js";
import { askForKey, followKey } from "./key.js";
import { plot } from "./plots.js";
import { Answer } from "./answer.js";
import { Pointing } from "./pointing.js";
import { Runner } from "./runner.js";

const api = new Api(followKey(begin));
const [form, conversation, runner] = [new Form(), new Conversation(), new Runner(api)];
const draftSwitch = new DraftSwitch(api, fail);
new Pointing(() => runner.views);

async function begin() {
  try {
    const [model] = (await api.get("/v1/models")).data;
    find("model").textContent = `${model.id} · ${model.outrider.architecture}, context of ${model.max_model_len}`;
    setModes(model.outrider.has_chat_template);
    await draftSwitch.begin(api);
    form.clear();
  } catch (error) {
    find("model").textContent = "";
    fail(error);
  }
}

function setModes(hasTemplate) {
  const [text, chat] = document.querySelectorAll("#modes input");
  chat.disabled = !hasTemplate;
  chat.title = chat.parentElement.title = hasTemplate ? "" : "this model has no chat template";
  (hasTemplate ? chat : text).checked = true;
  showMode();
}

function showMode() {
  const isChat = form.mode === "chat";
  find("system-field").hidden = !isChat;
  find("turns").hidden = find("forget").hidden = !isChat || !find("turns").children.length;
  find("prompt").placeholder = isChat ? "Your message" : "The text to continue";
}

async function run(isCompared) {
  if (runner.isBusy) return;
  form.clear();
  setBusy(true);
  try {
    const prompt = form.prompt;
    const parameters = form.parameters();
    const messages = form.mode === "chat" ? conversation.ask(prompt) : null;
    const answer = await runner.run({ ...(messages ? { messages } : { prompt }), ...parameters }, isCompared);
    if (messages) keep(messages, prompt, answer);
  } catch (error) {
    fail(error);
  } finally {
    setBusy(false);
  }
}

// The prompt is cleared, unless another one was typed meanwhile.
function keep(messages, prompt, answer) {
  conversation.keep(messages, answer.text);
  if (form.prompt === prompt) form.prompt = "";
}

function setBusy(isBusy) {
  find("run").disabled = find("compare").disabled = isBusy;
  find("stop").disabled = !isBusy;
  if (isBusy) find("status").textContent = "waiting …";
}

function fail(error) {
  if (error.name === "AbortError") {
    find("status").textContent = "stopped";
    return;
  }
  find("status").textContent = "";
  form.fault(error instanceof Problem ? error.message : `the gateway cannot be reached: ${error.message}`, error.field);
  if (error.status === 401) askForKey();
}

function press(event) {
  if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) {
    event.preventDefault();
    run(event.shiftKey);
  } else if (event.key === "Escape") {
    runner.stop();
  } else if (event.key === "/" && !event.target.closest("input, textarea, select")) {
    event.preventDefault();
    find("prompt").focus();
  }
}

find("ask").addEventListener("submit", (event) => {
  event.preventDefault();
  run(false);
});
find("compare").addEventListener("click", () => run(true));
find("stop").addEventListener("click", () => runner.stop());
find("forget").addEventListener("click", () => conversation.forget());
find("modes").addEventListener("change", showMode);
document.addEventListener("keydown", press);
plot(new Answer(), null);
begin();
