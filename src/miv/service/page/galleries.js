/* The mode "Search a gallery": one query against many bags, best first. */
import { saveJson } from "/page/downloads.js";
import { button, choice, make, percent, plural, say } from "/page/elements.js";
import { Giving } from "/page/giving.js";
import { queryOf } from "/page/reading.js";
import { scale, whatIf, whatIfDecision } from "/page/scale.js";
import { look } from "/page/scene.js";
import { post, request } from "/page/server.js";
import { ServerTrouble, aboutModel, bringIntoView, emptyCard, fitOf, suggest, waiting } from "/page/states.js";
import { forPeople, reasonOf } from "/page/verdict.js";

const WITNESSES = 6; // shown per bag

export class Galleries {
  constructor(shared) {
    this.shared = shared;
    this.query = new Giving("query", "Query", (items, typing) => { this.ready(); if (!typing && items.length) this.search(); });
    this.choices = make("div", { class: "filters" });
    this.go = button("Search", () => this.search(), { class: "main" });
    this.inputs = make("div", { class: "inputs" }, this.choices, this.query.element, make("p", { class: "row go" }, this.go));
    this.inputs.addEventListener("keydown", (event) => { if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) this.search(); });
    this.result = make("div", { class: "result" });
    this.element = make("div", { class: "workspace" }, this.inputs, this.result);
    this.galleries = null;
    this.running = null;
  }

  get gallery() { return this.galleries.find((one) => one.name === this.shared.state.gallery) ?? this.galleries.find((one) => !one.problem) ?? this.galleries[0]; }

  get model() { return this.shared.models.find((one) => one.name === this.gallery.model); }

  async show() {
    if (!this.shared.hasGalleries) {
      return this.none("Galleries are not served here", "A gallery is a folder of many bags, made by miv gallery add. "
        + "Start the server with --galleries FOLDER to search those in it.");
    }
    const running = this.begin();
    this.result.replaceChildren(waiting("Reading the galleries…"));
    try {
      const { galleries } = await request("/v1/galleries", { signal: running.signal });
      if (running !== this.running) return null;
      this.galleries = galleries;
    } catch (error) { return running === this.running ? this.element.replaceChildren(new ServerTrouble(error, () => this.show()).element) : null; }
    if (!this.galleries.length) return this.none("There is no gallery yet", "Make one with miv gallery add, or with PUT /v1/galleries/NAME/bags/BAG.");
    this.element.replaceChildren(this.inputs, this.result);
    return this.chosen();
  }

  /* What runs for an earlier question is stopped: its answer must not replace a newer one. */
  begin() {
    this.running?.abort();
    this.result.setAttribute("aria-busy", "true");
    return this.running = new AbortController();
  }

  done(...shown) {
    this.running?.abort();
    this.running = null;
    this.result.removeAttribute("aria-busy");
    this.result.replaceChildren(...shown);
  }

  none(heading, words) {
    this.element.replaceChildren(make("div", { class: "card empty" }, make("h3", { text: heading }), make("p", { class: "note", text: words })));
  }

  chosen() {
    const { gallery } = this;
    const named = (one) => one.name + " (" + plural(one.bags, "bag") + (one.model ? ", " + one.model : "") + ")";
    this.choices.replaceChildren(choice("Gallery", this.galleries.map((one) => [one.name, named(one)]), gallery.name,
      (name) => { this.shared.change({ gallery: name, threshold: "" }); this.chosen(); }), aboutModel(this.model));
    const usable = this.model && !gallery.problem;
    this.query.element.hidden = !usable;
    if (!usable) {
      this.go.disabled = true;
      const words = gallery.problem ?? "No served model made this gallery.";
      this.done(make("div", { class: "card trouble", role: "alert" }, make("h3", { text: "This gallery cannot be searched" }), make("p", { text: words })));
      return;
    }
    this.query.show(this.model.kind);
    const sample = (this.model.samples ?? []).find((one) => one.use === "verify");
    suggest(sample ? [sample] : [], (id) => this.sample(id));
    this.ready();
    this.done(emptyCard([
      [make("b", { class: "query-word", text: "Query" }), ": what you look for, as for one bag."],
      [make("b", { text: plural(gallery.bags, "bag") }), " of the gallery are compared with it."],
      [make("b", { class: "witness-word", text: "Hits" }), ": the best bags first, each with its witnesses."]]));
  }

  ready() {
    this.go.disabled = !this.query.items.length;
    return !this.go.disabled;
  }

  async sample(id) {
    const running = this.begin();
    try {
      const found = await request("/v1/samples/" + encodeURIComponent(id) + "?model=" + encodeURIComponent(this.model.name), { signal: running.signal });
      if (running === this.running) this.query.set(queryOf(found));
    } catch (error) {
      if (running === this.running) this.done(new ServerTrouble(error, () => this.sample(id)).element);
    }
  }

  async search() {
    if (!this.ready()) return;
    const running = this.begin();
    if (!this.result.querySelector(".hits")) this.result.replaceChildren(waiting("Searching…"));
    const query = this.query.items.map((item) => item.instance);
    try {
      const asked = { query: query.length === 1 ? query[0] : query, top: 10, pictures: this.model.kind === "image", ...fitOf(this.model, this.shared) };
      const found = await post("/v1/galleries/" + encodeURIComponent(this.gallery.name) + "/search", asked, running.signal);
      if (running !== this.running) return;
      this.draw(found);
      bringIntoView(this.result);
      const yes = found.hits.filter((hit) => hit.decision === "yes").length;
      say(plural(found.hits.length, "hit") + ", " + yes + " yes. Best: " + (found.hits[0]?.name ?? "none") + ".");
    } catch (error) {
      if (running === this.running) this.done(new ServerTrouble(error, () => this.search()).element);
    }
  }

  draw(found) {
    const { state } = this.shared;
    const list = make("ol", { class: "hits" });
    const summary = make("p", { class: "tried", role: "status" });
    const draw = (tried) => {
      list.replaceChildren(...found.hits.map((hit) => hitCard(hit, found, tried)));
      const before = found.hits.filter((hit) => hit.decision === "yes").length;
      const now = found.hits.filter((hit) => decisionOf(hit, found, tried) === "yes").length;
      summary.hidden = tried === null;
      summary.textContent = tried === null ? "" : "What if: with a threshold of " + tried.toFixed(3) + ", " + now + " of these "
        + found.hits.length + " bags would be yes. With the calibrated one " + before + " are.";
    };
    const tried = state.threshold ? Number(state.threshold) : null;
    const slider = whatIf({ threshold: found.threshold }, tried, "What if the threshold were", (value) => {
      this.shared.change({ threshold: value === null ? "" : String(value) });
      draw(value);
    });
    draw(tried);
    this.done(
      make("div", { class: "card" }, make("h3", { text: "The best of " + plural(found.bags, "bag") }), slider, summary),
      list, ...found.notes.map((note) => make("p", { class: "note", text: forPeople(note) })),
      make("div", { class: "row after" }, button("Download JSON", () => saveJson(found, "hits.json"))));
  }
}

const decisionOf = (hit, found, tried) => (tried === null ? hit.decision : whatIfDecision({ ...hit, lower_threshold: found.lower_threshold }, tried));

function hitCard(hit, found, tried) {
  const what = decisionOf(hit, found, tried);
  const own = hit.warnings.filter((text) => !found.notes.includes(text));
  return make("li", { class: "card hit " + hit.decision },
    make("header", {}, make("h3", { text: hit.name }), make("span", { class: "facts", text: "bag of " + hit.size.toLocaleString("en") })),
    make("p", { class: "says" }, make("strong", { text: hit.decision }),
      what === hit.decision ? null : make("span", { class: "flip", text: "→ " + what + ", what if" }),
      " " + percent(hit.probability) + " probability"),
    scale(hit.probability, found.threshold, found.lower_threshold, tried ?? found.threshold),
    reasonOf(hit), hit.shown?.some((one) => one.picture) ? pictures(hit) : names(hit),
    ...own.map((text) => make("p", { class: "note", text })));
}

/* The best instances of a hit, witnesses framed. */
function pictures(hit) {
  const word = hit.verdict ? "witness" : "candidate", more = hit.size - hit.shown.length;
  return make("ol", { class: "bag", "aria-label": "The best of the bag" }, ...hit.shown.map((one) => {
    const item = { ...one, picture: one.picture ?? undefined, name: one.name.split("/").at(-1) };
    return make("li", { class: "instance " + (one.is_witness ? word : "") }, look(item, one.is_witness ? "A " + word : "In the bag", one.index),
      make("span", { class: "caption", text: one.is_witness ? word : "" }));
  }), more ? make("li", { class: "more", text: "and " + more + " more" }) : null);
}

function names(hit) {
  if (!hit.witnesses.length) return null;
  const shown = hit.witnesses.slice(0, WITNESSES), more = hit.witnesses.length - shown.length;
  return make("ul", { class: "found", "aria-label": hit.verdict ? "Witnesses" : "Candidates" },
    ...shown.map((one) => make("li", {}, make("span", { text: one.name || "instance " + (one.index + 1) }), " ", make("small", { text: percent(one.score) }))),
    more ? make("li", { class: "more", text: "and " + more + " more" }) : null);
}
