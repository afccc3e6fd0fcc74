/* Kept bags: the server keeps a bag, and further queries need not send it again. Their ids live in this tab only. */
import { button, make, percent, plural, say } from "/page/elements.js";
import { whatIfDecision } from "/page/scale.js";
import { post, remove } from "/page/server.js";
import { ServerTrouble, fitOf } from "/page/states.js";

const KEY = "miv-kept";

function remembered() {
  try { return JSON.parse(sessionStorage.getItem(KEY)) ?? []; } catch { return []; }
}
function remember(bags) {
  try { sessionStorage.setItem(KEY, JSON.stringify(bags)); } catch { /* they are then forgotten after a reload */ }
}

export class KeptBags {
  constructor(shared, mode) {
    this.shared = shared;
    this.mode = mode;
    this.current = null; // {id, model, size, expires}
    this.items = null; // what to show of it
    this.history = [];
    this.element = make("div", { class: "kept", hidden: true });
  }

  show() {
    if (this.current && this.current.model !== this.mode.model.name) this.leave();
    const known = remembered().filter((one) => one.model === this.mode.model.name && new Date(one.expires) > new Date());
    const others = known.filter((one) => one.id !== this.current?.id);
    this.element.hidden = !this.current && !others.length;
    this.element.replaceChildren(...(this.current ? this.using() : []), ...others.map((one) => make("p", { class: "row" },
      button("Use the kept bag of " + one.size, () => this.use(one, null)), make("span", { class: "note", text: until(one) }))));
    this.mode.bag.element.hidden = this.current !== null;
    this.mode.query.replace(this.current !== null);
  }

  using() {
    const rows = this.history.map((one) => this.row(one));
    return [
      make("header", {}, make("h3", { text: "Kept bag of " + this.current.size.toLocaleString("en") }), make("span", { class: "count", text: until(this.current) })),
      make("p", { class: "note", text: "Now change the query: the bag stays." }),
      rows.length ? make("table", { class: "tried-queries" }, make("caption", { text: "Queries tried" }),
        make("thead", {}, make("tr", {}, ...["Query", "Verdict", "Probability"].map((text) => make("th", { scope: "col", text })))), make("tbody", {}, ...rows)) : "",
      make("p", { class: "row" }, button("Give another bag", () => { this.leave(); this.mode.bag.set([], true); this.mode.ready(); }),
        button("Delete it from the server", () => this.forget())),
    ];
  }

  row({ query, verdict }) {
    const [first] = query;
    const shown = first.picture ? make("img", { src: first.picture, alt: first.name || "query", loading: "lazy" }) : make("span", { text: first.name });
    const tried = Number(this.shared.state.threshold ?? NaN);
    const what = Number.isNaN(tried) ? verdict.decision : whatIfDecision(verdict, tried);
    return make("tr", {}, make("th", { scope: "row" }, shown, query.length > 1 ? " +" + (query.length - 1) : ""),
      make("td", { class: verdict.decision, text: verdict.decision + (what === verdict.decision ? "" : " → " + what + ", what if") }), make("td", { text: percent(verdict.probability) }));
  }

  redraw() { if (this.current && this.history.length) this.show(); }

  tried(result) {
    if (!this.current || result.bag !== this.items) return; // it was asked before this bag was in use
    if (this.history.at(-1)?.query !== result.query) this.history.push({ query: result.query, verdict: result.answers[0].verdict });
    this.show();
  }

  keepButton() {
    return this.current ? null : button("Keep this bag for further queries", () => this.keep(), { id: "keep" });
  }

  async keep() {
    const { model, bag } = this.mode, { items } = bag; // the bag may change before the answer comes
    try {
      const kept = await post("/v1/bags", { model: model.name, bag: items.map((item) => item.instance), ...fitOf(model, this.shared) });
      remember([...remembered(), { id: kept.id, model: model.name, size: kept.size, expires: kept.expires }]);
      if (this.current || bag.items !== items || this.mode.model !== model) return this.show(); // it is offered, not put in the place of the new one
      this.use({ ...kept, model: model.name }, items);
      if (this.mode.last) {
        this.tried(this.mode.last);
        this.mode.draw();
      }
      say("The bag of " + kept.size + " is kept. Change the query to try another one.");
      this.mode.query.element.querySelector("button, textarea").focus();
    } catch (error) {
      this.mode.result.append(new ServerTrouble(error, null).element);
    }
    return null;
  }

  use(kept, items) {
    this.current = kept;
    this.items = items ?? Array.from({ length: kept.size }, (_, place) => ({ name: "instance " + (place + 1) }));
    this.history = [];
    this.show();
    this.mode.ready();
  }

  leave() {
    this.current = this.items = null;
    this.show();
  }

  async forget() {
    const { id, size } = this.current;
    try {
      await remove("/v1/bags/" + encodeURIComponent(id));
    } catch (error) {
      if (error.status !== 404) return this.mode.result.append(new ServerTrouble(error, null).element);
    }
    remember(remembered().filter((one) => one.id !== id));
    this.leave();
    this.mode.ready();
    say("The kept bag of " + plural(size, "instance") + " is deleted.");
    return null;
  }
}

const until = (kept) => "kept until " + new Date(kept.expires).toLocaleString([], { dateStyle: "medium", timeStyle: "short" });
