/* A place to give a query or a bag: drop, choose, paste or photograph pictures; type or drop texts; paste vectors. */
import { photograph } from "/page/camera.js";
import { button, make, plural, say } from "/page/elements.js";
import { ACCEPTED, Unreadable, imagesOf, textsOf, vectorsOf, wordsOf } from "/page/reading.js";

const FEW = 24; // pictures shown before "Show all"
const WORDS = {
  query: { image: "Drop or choose the query", text: "What to look for, such as a statement", features: "The query as numbers: [0.1, 0.2, …]",
    note: "Several are taken together, as references of one thing." },
  bag: { image: "Drop or choose the pictures to look in", text: "Texts to look in, one per line", features: "One vector per line, or JSON: [[0.1, 0.2], [0.3, 0.4]]", note: "" },
};

const places = [];
let usedLast = null;

/* Where a picture goes that was pasted: to the place in use, else to the first empty one. */
function pasteGoesTo() {
  const open = places.filter((place) => place.element.isConnected && !place.element.hidden && place.kind === "image");
  return open.includes(usedLast) ? usedLast : open.find((place) => !place.items.length) ?? open.at(-1);
}
document.addEventListener("paste", (event) => {
  const files = [...(event.clipboardData?.files ?? [])].filter((file) => file.type.startsWith("image/"));
  const place = pasteGoesTo();
  if (!files.length || !place) return;
  event.preventDefault();
  place.take(files);
});
/* A file dropped beside a place must not replace the page. */
for (const kind of ["dragover", "drop"]) document.addEventListener(kind, (event) => event.preventDefault());

export class Giving {
  /* role: "query" or "bag"; onchange(items) after every change. */
  constructor(role, title, onchange) {
    this.role = role;
    this.kind = "image";
    this.items = [];
    this.onchange = onchange;
    this.all = false;
    this.count = make("span", { class: "count" });
    this.body = make("div", { class: "body" });
    this.trouble = make("p", { class: "problem", role: "alert", hidden: true });
    this.element = make("section", { class: "giving " + role, "aria-labelledby": role + "-heading" },
      make("header", {}, make("h3", { id: role + "-heading", text: title }), this.count), this.body, this.trouble);
    this.element.addEventListener("focusin", () => { usedLast = this; });
    places.push(this);
    this.element.addEventListener("dragover", (event) => { event.preventDefault(); this.element.classList.add("over"); });
    this.element.addEventListener("dragleave", () => this.element.classList.remove("over"));
    this.element.addEventListener("drop", (event) => {
      event.preventDefault();
      this.element.classList.remove("over");
      this.take([...event.dataTransfer.files]);
    });
  }

  show(kind) {
    if (kind !== this.kind) this.items = [];
    this.kind = kind;
    this.body.replaceChildren(...(kind === "image" ? this.pictures() : this.words()));
    this.told();
  }

  /* Replaces everything, for a sample or an empty start. */
  set(items, silent = false) {
    this.items = items;
    this.all = false;
    this.problem("");
    this.show(this.kind);
    if (!silent) this.onchange(this.items);
  }

  told() {
    const count = this.items.length;
    const words = this.role === "query" ? (count > 1 ? plural(count, "reference") : "") : plural(count, "instance");
    this.count.textContent = count ? words : "";
  }

  problem(words) {
    this.trouble.textContent = words;
    this.trouble.hidden = !words;
  }

  async take(files) {
    if (!files.length) return;
    usedLast = this;
    try {
      if (this.kind === "image") this.set([...this.items, ...await imagesOf(files)]);
      else this.write((await wordsOf(files)).map((file) => file.text.trim()).join("\n"), true);
      say(plural(files.length, "file") + " added to the " + this.role + ".");
    } catch (error) { this.problem(error.message); }
  }

  picker(name, more = { multiple: true }) {
    const input = make("input", { type: "file", accept: ACCEPTED[this.kind], hidden: true, "data-role": name, ...more });
    input.addEventListener("change", () => { this.take([...input.files]); input.value = ""; });
    return input;
  }

  /* Pictures. */
  pictures() {
    const files = this.picker(this.role), app = this.picker(this.role + "-photograph", { capture: "environment" });
    const zone = button("", () => files.click(), { class: this.items.length ? "drop small" : "drop" });
    zone.append(make("b", { text: this.items.length ? "Add more" : WORDS[this.role].image }),
      this.items.length ? "" : make("small", { text: "drop files, paste, or press to choose. " + WORDS[this.role].note }));
    const tools = make("p", { class: "row" }, button("Paste", () => this.paste(), { "aria-label": "Paste a picture into the " + this.role }),
      button("Photograph", () => this.photo(app), { "aria-label": "Photograph the " + this.role }),
      this.items.length ? button("Clear", () => this.set([]), { "aria-label": "Clear the " + this.role }) : null);
    return [zone, tools, files, app, this.thumbnails()];
  }

  thumbnails() {
    if (!this.items.length) return "";
    const shown = this.all ? this.items : this.items.slice(0, FEW);
    const list = make("ul", { class: "thumbs", "aria-label": this.role === "query" ? "Query" : "Bag" }, ...shown.map((item, place) => {
      const name = item.name || "picture " + (place + 1);
      return make("li", {}, make("img", { src: item.picture, alt: name, title: name, loading: "lazy", decoding: "async" }),
        button("×", () => this.drop(place), { class: "away", "aria-label": "Remove " + name }));
    }));
    if (shown.length === this.items.length) return list;
    return make("div", {}, list, button("Show all " + this.items.length.toLocaleString("en"), () => { this.all = true; this.show(this.kind); }, { class: "plain" }));
  }

  drop(place) {
    const all = this.all;
    this.items = this.items.filter((_, other) => other !== place);
    this.all = all;
    this.show(this.kind);
    (this.body.querySelectorAll(".away")[Math.min(place, this.items.length - 1)] ?? this.body.querySelector(".drop")).focus();
    this.onchange(this.items);
  }

  async paste() {
    try {
      const found = [];
      for (const one of await navigator.clipboard.read()) {
        const type = one.types.find((name) => name.startsWith("image/"));
        if (type) found.push(new File([await one.getType(type)], "pasted.png", { type }));
      }
      if (!found.length) throw new Unreadable("There is no picture on the clipboard. Copy one first.");
      await this.take(found);
    } catch (error) {
      this.problem(error instanceof Unreadable ? error.message : "The browser does not let this page read the clipboard. Press Ctrl+V (⌘V) here instead.");
    }
  }

  async photo(app) {
    this.problem("");
    try {
      const taken = await photograph(() => { app.click(); return null; });
      if (taken) await this.take([taken]);
    } catch (error) { this.problem(error.message); }
  }

  /* Texts and vectors. */
  words() {
    const bag = this.role === "bag", several = bag ? "" : " Several lines are several references.";
    const note = (this.kind === "text" ? (bag ? "One per line. " : "") + "Text files" : "JSON, CSV or NumPy files") + " can be dropped here." + several;
    const files = this.picker(this.role);
    this.field = make("textarea", { rows: this.role === "bag" ? 7 : 2, spellcheck: "false", placeholder: WORDS[this.role][this.kind],
      "aria-label": this.role === "query" ? "Query" : "Bag", "aria-describedby": this.role + "-note" });
    this.field.value = this.items.map((item) => (item.vector ? item.vector.join(", ") : item.text)).join("\n");
    this.field.addEventListener("input", () => this.write(this.field.value, false));
    return [this.field, make("p", { class: "row" }, button("Choose files", () => files.click(), { "aria-label": "Choose files for the " + this.role }),
      make("span", { id: this.role + "-note", class: "note", text: note })), files];
  }

  write(words, whole) {
    try {
      this.items = this.kind === "text" ? textsOf(words) : vectorsOf(words);
      this.problem("");
    } catch (error) {
      this.items = [];
      this.problem(error.message);
    }
    if (whole) this.field.value = words;
    this.told();
    this.onchange(this.items, !whole);
  }
}
