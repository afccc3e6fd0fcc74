/* The mode "Verify": give a query and a bag, see the verdict, compare two models. */
import { downloads } from "/page/downloads.js";
import { button, choice, letters, make, plural, say } from "/page/elements.js";
import { Giving } from "/page/giving.js";
import { itemsOf, queryOf } from "/page/reading.js";
import { scene, unanswered } from "/page/scene.js";
import { post, request } from "/page/server.js";
import { ServerTrouble, aboutModel, bringIntoView, emptyCard, fitChoice, fitOf, suggest, waiting } from "/page/states.js";
import { sentence, verdictCard } from "/page/verdict.js";

export class Verifying {
  constructor(shared) {
    this.shared = shared;
    this.query = new Giving("query", "Query", (items, typing) => this.given(typing));
    this.bag = new Giving("bag", "Bag", (items, typing) => this.given(typing));
    this.choices = make("div", { class: "filters" });
    this.go = button("Verify", () => this.verify(), { class: "main" });
    this.result = make("div", { class: "result", id: "result" });
    this.inputs = make("div", { class: "inputs" }, this.choices, this.query.element, this.bag.element, make("p", { class: "row go" }, this.go));
    this.inputs.addEventListener("keydown", (event) => { if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) this.verify(); });
    this.element = make("div", { class: "workspace" }, this.inputs, this.result);
    this.running = null;
    this.last = null;
    this.all = false;
  }

  get model() { return this.shared.model(); }

  get compared() {
    const other = this.shared.models.find((one) => one.name === this.shared.state.compare);
    return other && other.name !== this.model.name && other.kind === this.model.kind ? other : null;
  }

  /* Called when the mode is opened, and when the model changes. */
  show() {
    const { state, models } = this.shared;
    const stopped = this.running !== null; // it was asked with another model, perhaps
    this.stop();
    const alike = models.filter((one) => one.kind === this.model.kind && one.name !== this.model.name);
    this.choices.replaceChildren(
      choice("Model", models.map((one) => [one.name, one.name + " (" + kindWords(one) + ")"]), this.model.name, (name) => this.shared.choose(name)),
      alike.length ? choice("Compare with", [["", "no other model"], ...alike.map((one) => [one.name, one.name])], this.compared?.name ?? "", (name) => {
        this.shared.change({ compare: name, threshold_b: "" });
        if (this.last) this.verify();
      }) : "",
      fitChoice(this.model, this.shared, () => { if (this.last) this.verify(); }),
      aboutModel(this.model));
    suggest(this.samples(), (id) => this.sample(id));
    this.query.show(this.model.kind);
    this.bag.show(this.model.kind);
    this.ready();
    if (this.last && this.last.kind !== this.model.kind) this.last = null;
    const other = this.last && this.last.answers[0].model !== this.model;
    if (!this.last) this.empty();
    if (other || stopped) this.verify();
    if (state.sample && !this.last && this.samples().some((one) => one.id === state.sample)) this.sample(state.sample);
  }

  samples() { return (this.model.samples ?? []).filter((one) => one.use === "verify"); }

  empty() {
    const kind = { image: "a picture", text: "a statement", features: "a vector" }[this.model.kind];
    this.result.replaceChildren(emptyCard([
      [make("b", { class: "query-word", text: "Query" }), ": " + kind + " of what you look for."],
      [make("b", { text: "Bag" }), ": where it may be, " + { image: "any number of pictures.", text: "one text per line.", features: "one vector per line." }[this.model.kind]],
      [make("b", { class: "witness-word", text: "Witnesses" }), ": framed, with the verdict and how sure it is."],
    ]));
    const [first] = this.samples();
    if (first) this.preview(first.id);
  }

  ready() {
    const asked = this.query.items.length > 0 && this.bag.items.length > 0;
    this.go.disabled = !asked;
    return asked;
  }

  given(typing) {
    this.shared.change({ sample: "" });
    if (this.ready() && !typing) this.verify();
  }

  drawn(id, signal) { return request("/v1/samples/" + encodeURIComponent(id) + "?model=" + encodeURIComponent(this.model.name), { signal }); }

  /* What the example looks like, until there is something to see. */
  async preview(id) {
    const { model } = this;
    let found;
    try { found = await this.drawn(id); } catch { return; } // the button says what is wrong when it is pressed
    const empty = this.result.querySelector(".empty");
    if (empty && model === this.model && !this.last) empty.append(unanswered(queryOf(found), itemsOf(found.bag), model.kind));
  }

  /* What runs for an earlier question is stopped: its answer must not replace a newer one. */
  begin() {
    this.stop();
    this.wait();
    return this.running = new AbortController();
  }

  stop() {
    this.running?.abort();
    this.running = null;
    this.result.removeAttribute("aria-busy");
  }

  async sample(id) {
    const running = this.begin();
    try {
      const found = await this.drawn(id, running.signal);
      if (running !== this.running) return;
      this.query.set(queryOf(found), true);
      this.bag.set(itemsOf(found.bag), true);
      this.shared.change({ sample: id });
      this.ready();
      await this.verify();
    } catch (error) {
      if (running === this.running) this.failed(error, () => this.sample(id));
    }
  }

  wait() {
    this.result.setAttribute("aria-busy", "true");
    if (!this.last) this.result.replaceChildren(waiting("Verifying…"));
  }

  async verify() {
    if (!this.ready()) return;
    const running = this.begin();
    const asked = [this.model, this.compared].filter(Boolean);
    // What is given may change before the answer comes, which is about this.
    const given = { kind: this.model.kind, query: this.query.items, bag: this.bag.items };
    try {
      const [own, compared] = asked.map(async (model, place) => {
        const { verdicts } = await post("/v1/verify", this.content(model, place, given), running.signal);
        return { model, verdict: verdicts[0] };
      });
      // That the other model refuses must not hide what the first one says.
      const [first, other] = await Promise.all([own, compared?.catch((error) => ({ model: asked[1], error }))]);
      const answers = [first, ...(other?.verdict ? [other] : [])];
      if (running !== this.running) return;
      this.running = null;
      const before = this.last;
      this.last = { answers, refused: other?.error ? other : null, ...given, at: new Date() };
      if (!before || before.bag !== this.last.bag) this.all = false;
      this.draw();
      bringIntoView(this.result);
      say(answers.map(({ model, verdict }) => (answers.length > 1 ? model.name + ": " : "") + sentence(verdict)).join(" "));
    } catch (error) {
      if (running === this.running) this.failed(error, () => this.verify());
    }
  }

  content(model, place, { query, bag }) {
    const asked = query.map((item) => item.instance);
    const heads = this.shared.state.heads === letters[place] && model.heads > 1;
    const exemplar = { query: asked.length === 1 ? asked[0] : asked, bag: bag.map((item) => item.instance) };
    return { model: model.name, exemplars: [exemplar], ...(heads ? { heads: true } : {}), ...fitOf(model, this.shared) };
  }

  failed(error, again) {
    this.stop();
    this.last = null;
    this.result.replaceChildren(new ServerTrouble(error, again).element);
  }

  draw() {
    const { answers, refused } = this.last;
    const { state } = this.shared;
    const cards = answers.map(({ model, verdict }, place) => {
      const key = place ? "threshold_b" : "threshold";
      return verdictCard(model, verdict, answers.length > 1 ? place : null, state[key] ? Number(state[key]) : null, (value) => {
        this.shared.change({ [key]: value === null ? "" : String(value) });
      });
    });
    if (refused) cards.push(new ServerTrouble(refused.error, () => this.verify(), "No verdict of " + refused.model.name).element);
    this.bagPlace = make("div", {});
    this.result.removeAttribute("aria-busy");
    this.result.replaceChildren(make("div", { class: "verdicts" }, ...cards), ...agreement(answers), this.bagPlace,
      make("div", { class: "row after" }, ...downloads(() => this.last, this.shared)));
    this.drawBag();
  }

  drawBag() {
    const { state } = this.shared;
    this.bagPlace.replaceChildren(scene(this.last, { order: state.order ?? "", heads: state.heads ?? "", all: this.all }, (name, value) => this.option(name, value)));
  }

  option(name, value) {
    if (name === "all") this.all = true;
    else this.shared.change({ [name]: value });
    const place = letters.indexOf(value);
    const missing = name === "heads" && value && !this.last.answers[place].verdict.attention_by_head;
    if (missing) this.verify().then(() => this.focusOn(name));
    else { this.drawBag(); this.focusOn(name); }
  }

  focusOn(name) {
    const [order, heads] = this.bagPlace.querySelectorAll("select");
    (name === "order" ? order : name === "heads" ? heads ?? order : this.bagPlace.querySelector(".bag"))?.focus();
  }
}

const kindWords = (model) => ({ image: "pictures", text: "texts", features: plural(model.channels ?? 0, "number") + " per vector" })[model.kind];

function agreement(answers) {
  if (answers.length < 2) return [];
  const [a, b] = answers.map(({ verdict }) => verdict);
  const shared = a.witnesses.filter((one) => b.witnesses.some((other) => other.index === one.index)).length;
  const words = a.decision === b.decision ? "Both models say " + a.decision + ". " : "The models disagree. ";
  const counts = " of " + a.witnesses.length + " (A) and " + b.witnesses.length + " (B).";
  const found = a.witnesses.length + b.witnesses.length ? "They share " + plural(shared, "witness", "witnesses") + counts : "Neither names a witness.";
  return [make("p", { class: "note agreement", text: words + found })];
}
