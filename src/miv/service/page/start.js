/* Loads the models, reads the address and opens a mode. */
import { readAddress, writeAddress } from "/page/address.js";
import { Checking } from "/page/checking.js";
import { make } from "/page/elements.js";
import { Galleries } from "/page/galleries.js";
import { request } from "/page/server.js";
import { ServerTrouble, suggest } from "/page/states.js";
import { Verifying } from "/page/verifying.js";

const LEADS = {
  verify: ["Is there a match among these? See which one, and how sure.",
    ["Give one ", ["query"], " and a ", ["bag"], " to look in. The model answers yes, no or unsure, and frames the ", ["witnesses"], ": the ones that show it."]],
  check: ["Is each sentence backed by the sources?",
    ["Give an ", ["answer"], " and its ", ["sources"], ". Each sentence gets numbered ", ["citations"], "; what no source supports is marked."]],
  gallery: ["Which of many bags contains it?", ["Ask with one ", ["query"], ". The bags of the ", ["gallery"], " come back best first, each with its ", ["witnesses"], "."]],
};
const STYLES = { query: "query-word", answer: "query-word", witnesses: "witness-word", citations: "witness-word" };

const place = document.getElementById("mode");
const shared = {
  state: readAddress(),
  models: [],
  hasGalleries: false,
  version: "",
  model() { return this.models.find((one) => one.name === this.state.model) ?? this.models[0]; },
  change(changes, step = false) {
    Object.assign(this.state, changes);
    writeAddress(this.state, step);
  },
  /* Another model: its threshold is another one, and its samples are its own. */
  choose(name) {
    this.change({ model: name, compare: this.state.compare === name ? "" : this.state.compare, threshold: "", threshold_b: "", heads: "", sample: "" });
    modes[mode()].show();
  },
};
const kinds = { verify: Verifying, check: Checking, gallery: Galleries };
const modes = {};
const mode = () => (Object.hasOwn(kinds, shared.state.mode ?? "") ? shared.state.mode : "verify");

function open(focus) {
  const now = mode();
  modes[now] ??= new kinds[now](shared);
  for (const link of document.querySelectorAll("[data-mode]")) {
    if (link.dataset.mode === now) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  const [heading, words] = LEADS[now];
  document.getElementById("lead-heading").textContent = heading;
  const written = words.map((part) => (typeof part === "string" ? part : make("b", { class: STYLES[part[0]] ?? "", text: part[0] })));
  document.getElementById("lead-words").replaceChildren(...written);
  document.title = heading + " miv";
  suggest([]);
  place.replaceChildren(modes[now].element);
  modes[now].show();
  if (focus) document.getElementById("lead-heading").focus();
}

async function start() {
  place.setAttribute("aria-busy", "true");
  try {
    const found = await request("/v1/models");
    Object.assign(shared, { models: found.models, hasGalleries: found.galleries, version: found.version });
    document.getElementById("version").textContent = " (miv " + found.version + ")";
    open(false);
  } catch (error) {
    place.replaceChildren(new ServerTrouble(error, start).element);
  }
  place.removeAttribute("aria-busy");
}

for (const link of document.querySelectorAll("[data-mode]")) {
  link.addEventListener("click", (event) => {
    if (event.ctrlKey || event.metaKey || event.shiftKey || !shared.models.length) return;
    event.preventDefault();
    if (link.dataset.mode === mode()) return;
    shared.change({ mode: link.dataset.mode, sample: "", threshold: "", threshold_b: "" }, true);
    open(true);
  });
}
addEventListener("popstate", () => {
  shared.state = readAddress();
  if (shared.models.length) open(false);
});
document.getElementById("lead-heading").tabIndex = -1;
start();
