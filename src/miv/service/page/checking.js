/* The mode "Check an answer": an answer and its sources, each sentence with citations that light up. */
import { counted, paragraphs, spoken, styleOf } from "/page/checked.js";
import { button, choice, make, plural, say } from "/page/elements.js";
import { Highlights } from "/page/highlights.js";
import { saveJson, savePicture } from "/page/downloads.js";
import { drawChecked } from "/page/drawing_checked.js";
import { wordsOf } from "/page/reading.js";
import { post, request } from "/page/server.js";
import { ServerTrouble, aboutModel, bringIntoView, emptyCard, suggest, waiting } from "/page/states.js";

export class Checking {
  constructor(shared) {
    this.shared = shared;
    this.answer = make("textarea", { rows: 7, id: "answer-text", placeholder: "Paste the answer to check" });
    this.sources = make("div", { class: "sources-given" });
    this.trouble = make("p", { class: "problem", role: "alert", hidden: true });
    this.question = make("input", { id: "question-text", placeholder: "for very short answers" });
    this.choices = make("div", { class: "filters" });
    this.go = button("Check", () => this.check(), { class: "main" });
    this.result = make("div", { class: "result" });
    const files = make("input", { type: "file", multiple: true, hidden: true, accept: ".txt,.md,.markdown,.text,.rst,.log,text/plain,text/markdown", "data-role": "sources" });
    files.addEventListener("change", () => { this.take([...files.files]); files.value = ""; });
    this.zone = button("", () => files.click(), { class: "drop" });
    this.zone.append(make("b", { text: "Drop or choose source files" }), make("small", { text: "plain text or Markdown" }));
    this.given = make("section", { class: "giving bag", "aria-labelledby": "sources-heading" },
      make("header", {}, make("h3", { id: "sources-heading", text: "Sources" })), this.sources, this.zone, files,
      make("p", { class: "row" }, button("Paste another source", () => { this.add("", "").focus(); })), this.trouble);
    this.given.addEventListener("dragover", (event) => { event.preventDefault(); this.given.classList.add("over"); });
    this.given.addEventListener("dragleave", () => this.given.classList.remove("over"));
    this.given.addEventListener("drop", (event) => { event.preventDefault(); this.given.classList.remove("over"); this.take([...event.dataTransfer.files]); });
    this.inputs = make("div", { class: "inputs" }, this.choices,
      make("section", { class: "giving query", "aria-labelledby": "answer-heading" },
        make("header", {}, make("h3", {}, make("label", { id: "answer-heading", for: "answer-text", text: "Answer" }))), this.answer,
        make("p", { class: "row" }, make("label", { for: "question-text", text: "Question" }), this.question)),
      this.given, make("p", { class: "row go" }, this.go));
    this.inputs.addEventListener("keydown", (event) => { if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) this.check(); });
    this.inputs.addEventListener("input", () => this.ready());
    this.element = make("div", { class: "workspace" }, this.inputs, this.result);
    this.running = null;
    this.last = null;
    this.add("", "");
  }

  get models() { return this.shared.models.filter((one) => one.can_check); }

  get model() { return this.models.find((one) => one.name === this.shared.state.model) ?? this.models[0]; }

  samples() { return (this.model.samples ?? []).filter((one) => one.use === "check"); }

  show() {
    if (!this.models.length) {
      this.element.replaceChildren(make("div", { class: "card empty" }, make("h3", { text: "No model here can check texts" }),
        make("p", { class: "note", text: "Start the server with a verifier of texts, for instance: miv serve miv/digits miv/judge" })));
      return;
    }
    const { state } = this.shared;
    this.choices.replaceChildren(
      choice("Model", this.models.map((one) => [one.name, one.name]), this.model.name, (name) => this.shared.choose(name)),
      choice("Citations per sentence", ["1", "2", "3", "5", "10"].map((one) => [one, "at most " + one]), state.citations ?? "3", (value) => {
        this.shared.change({ citations: value === "3" ? "" : value });
        if (this.last) this.check();
      }),
      aboutModel(this.model));
    suggest(this.samples(), (id) => this.sample(id));
    this.ready();
    const other = this.running !== null || (this.last && this.last.model !== this.model);
    if (!this.last) this.empty();
    if (other) this.check();
    if (state.sample && !this.last && this.samples().some((one) => one.id === state.sample)) this.sample(state.sample);
  }

  empty() {
    this.result.replaceChildren(emptyCard([
      [make("b", { class: "query-word", text: "Answer" }), ": a text, such as one written by a language model."],
      [make("b", { text: "Sources" }), ": the documents that it should rest on."],
      [make("b", { class: "witness-word", text: "Citations" }), ": the source sentences behind each statement. What is not in the sources is marked."],
    ]));
  }

  add(name, text) {
    const number = this.sources.childElementCount + 1;
    const title = make("input", { class: "source-name", value: name || "source " + number, "aria-label": "Name of the source" });
    const words = make("textarea", { rows: 4, placeholder: "Paste the text of a source", "aria-label": "Text of the source" });
    words.value = text;
    const remove = () => { place.remove(); this.ready(); this.zone.focus(); };
    const place = make("div", { class: "source-given" },
      make("div", { class: "row" }, title, button("×", remove, { class: "away", "aria-label": "Remove the source" })), words);
    this.sources.append(place);
    return words;
  }

  read() {
    const sources = [...this.sources.children].map((place) => ({ name: place.querySelector("input").value.trim(), text: place.querySelector("textarea").value }))
      .filter((one) => one.text.trim());
    const used = new Map(); // equal names get a number, so that a citation names one source
    for (const one of sources) {
      const name = one.name || "source", times = used.get(name) ?? 0;
      used.set(name, times + 1);
      one.name = times ? name + " (" + (times + 1) + ")" : name;
    }
    return { answer: this.answer.value, sources, question: this.question.value.trim() || null };
  }

  ready() {
    const { answer, sources } = this.read();
    this.go.disabled = !answer.trim() || !sources.length;
    return !this.go.disabled;
  }

  async take(files) {
    try {
      const found = await wordsOf(files);
      this.trouble.hidden = true;
      for (const place of [...this.sources.children]) if (!place.querySelector("textarea").value.trim()) place.remove();
      for (const { name, text } of found) this.add(name, text);
      this.ready();
      say(plural(found.length, "source") + " added.");
    } catch (error) { this.trouble.textContent = error.message; this.trouble.hidden = false; }
  }

  /* What runs for an earlier question is stopped: its answer must not replace a newer one. */
  begin() {
    this.running?.abort();
    this.result.setAttribute("aria-busy", "true");
    if (!this.last) this.result.replaceChildren(waiting("Reading the sources…"));
    return this.running = new AbortController();
  }

  async sample(id) {
    const running = this.begin();
    try {
      const found = await request("/v1/samples/" + encodeURIComponent(id) + "?model=" + encodeURIComponent(this.model.name), { signal: running.signal });
      if (running !== this.running) return;
      this.answer.value = found.answer;
      this.sources.replaceChildren();
      for (const { name, text } of found.sources) this.add(name, text);
      this.shared.change({ sample: id });
      this.ready();
      await this.check();
    } catch (error) {
      if (running === this.running) this.failed(error, () => this.sample(id));
    }
  }

  async check() {
    if (!this.ready()) return;
    const running = this.begin();
    const given = this.read(), { model } = this;
    try {
      const asked = { ...given, citations: Number(this.shared.state.citations ?? 3), model: model.name };
      const checked = await post("/v1/check", asked, running.signal);
      if (running !== this.running) return;
      this.running = null;
      this.last = { checked, given, model };
      this.draw();
      bringIntoView(this.result);
      say(spoken(checked));
    } catch (error) {
      if (running === this.running) this.failed(error, () => this.check());
    }
  }

  failed(error, again) {
    this.result.removeAttribute("aria-busy");
    this.running = this.last = null;
    this.result.replaceChildren(new ServerTrouble(error, again).element);
  }

  draw() {
    const { checked, given } = this.last;
    const highlights = new Highlights(checked, given.sources), isJudged = "supported" in checked.counts;
    this.result.removeAttribute("aria-busy");
    this.result.replaceChildren(
      make("ul", { class: "counts" }, ...counted(checked).map(([outcome, number]) => make("li", { class: styleOf(outcome) },
        make("b", { text: number }), outcome))),
      ...checked.warnings.map((text) => make("p", { class: "reason", text })),
      make("div", { class: "checked" },
        make("section", { class: "answer-text", "aria-label": "Checked answer" }, ...paragraphs(checked, highlights)),
        make("section", { class: "sources", "aria-label": "Sources" }, ...highlights.articles())),
      make("p", { class: "note", text: "Checked with " + checked.verifier + " (" + checked.goal
        + "). " + (isJudged ? "The rates are those of claims about Wikipedia sentences with a known truth; yours may differ."
          : "False accepts are sentences without evidence in the sources that are called evidence found; false rejects are "
          + "sentences with evidence, confirming or contradicting, that are called not in the sources. The rates are those of "
          + "the verifier's calibration data, and not of false and true sentences.") }),
      make("p", { class: "note", text: (isJudged ? "A judge read each sentence with the source sentences nearest to it. It errs, so read "
          + "what it cites, such as [1]. " : "A cited sentence, such as [1], is evidence on the statement; it may confirm or contradict it, so read it. ")
        + "A sentence with a letter, such as (a), is only nearest to what is unsure or not in the sources. Numbers, dates and names "
        + "that no cited source contains have a wavy line, and so do words that a contradicting sentence lacks." }),
      make("div", { class: "row after" }, button("Download JSON", () => saveJson(checked, "checked.json")),
        button("Download PNG", () => savePicture(drawChecked(checked), "checked.png"))));
  }
}
