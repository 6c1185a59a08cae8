// The page: connects its parts, and handles input.

import { find } from "./dom.js";
import { DraftSwitch } from "./draft_switch.js";
import { clearFigures } from "./figures/figures.js";
import { askForKey, followKey } from "./key.js";
import { Pointing } from "./pointing.js";
import { Api } from "./request/api.js";
import { showExamples } from "./request/examples.js";
import { Form } from "./request/form.js";
import { readLink } from "./request/link.js";
import { Session } from "./session.js";
import { followTheme } from "./theme.js";

const COMPOSING = 229; // the code of keys that belong to an input method, also where `isComposing` is false
const PHONE = matchMedia("(hover: none)"); // its keyboard has no other key for a line break

const api = new Api(followKey(begin));
const form = new Form();
const draftSwitch = new DraftSwitch(api, showModel, fail);
const session = new Session(api, form, (view, pass) => pointing.point(view, pass), perform);
const pointing = new Pointing(() => session.views);

async function begin() {
  try {
    const { has_chat_template: hasTemplate } = await showModel();
    setModes(hasTemplate);
    await draftSwitch.begin(api);
    form.clear();
    readLink(fill);
  } catch (error) {
    find("model").textContent = "";
    fail(error);
  }
}

/** Shows the first model, and whether it has a draft by now; returns what the gateway adds to OpenAI's description. */
async function showModel() {
  const [{ id, max_model_len: context, outrider }] = (await api.get("/v1/models")).data;
  document.body.dataset.draft = outrider.has_draft ? "linked" : "none";
  const parts = [id, `${outrider.architecture}, context of ${context}`];
  if (outrider.head) parts.push(`head ${outrider.head}`);
  else if (!outrider.has_draft) parts.push("no draft");
  find("model").textContent = parts.join(" · ");
  return outrider;
}

function setModes(hasTemplate) {
  const [text, chat] = document.querySelectorAll("#modes input");
  chat.disabled = !hasTemplate;
  chat.title = chat.parentElement.title = hasTemplate ? "" : "this model has no chat template";
  (hasTemplate ? chat : text).checked = true;
  showMode();
}

function showMode() {
  document.body.dataset.mode = form.mode;
  find("prompt").placeholder = form.mode === "chat" ? "Your message" : "The text to continue";
  showExamples(form.mode, (prompt) => {
    form.prompt = prompt;
    run(false);
  });
}

function fill(fields) {
  form.fill(fields);
  showMode();
}

const run = (isCompared) => perform(() => session.ask(isCompared));

async function perform(work) {
  if (session.isBusy) return;
  form.clear();
  setBusy(true);
  try {
    await work();
    await showModel().catch(() => {}); // the answer is there without it
  } catch (error) {
    fail(error);
  } finally {
    setBusy(false);
  }
}

function setBusy(isBusy) {
  find("run").disabled = find("compare").disabled = isBusy;
  find("stop").disabled = !isBusy;
  if (isBusy) find("status").textContent = "waiting …";
}

function fail(error) {
  find("status").textContent = error.name === "AbortError" ? "stopped" : "";
  if (error.name === "AbortError") return;
  form.fault(error.message, error.field);
  if (error.status === 401) askForKey();
}

/** Whether a key sends: with Control always, in a conversation also alone, unless it ends the composition of a character. */
function isSending({ key, ctrlKey, metaKey, shiftKey, altKey, isComposing, keyCode, target }) {
  if (key !== "Enter") return false;
  if (ctrlKey || metaKey) return true;
  const isComposed = isComposing || keyCode === COMPOSING;
  return target === find("prompt") && form.mode === "chat" && !(shiftKey || altKey || isComposed || PHONE.matches);
}

function press(event) {
  if (isSending(event)) {
    event.preventDefault();
    run(event.shiftKey);
  } else if (event.key === "Escape") {
    session.stop();
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
find("stop").addEventListener("click", () => session.stop());
find("forget").addEventListener("click", () => {
  session.forget();
  clearFigures();
});
find("modes").addEventListener("change", showMode);
document.addEventListener("keydown", press);
find("parameters").addEventListener("toggle", ({ target }) => target.open && target.scrollIntoView({ block: "nearest" }));
followTheme(find("theme"));
clearFigures();
addEventListener("hashchange", () => readLink(fill));
begin();
