/* The sources with their cited sentences marked. A citation and its sentence light up together. */
import { make, percent } from "/page/elements.js";

const MUCH = 200_000; // letters; of longer sources only paragraphs with a citation are shown
const LINK = /!?\[([^[\]]*)\]\([^()\s]*\)/g;

/* Letters and digits only, with the place of each in the text: marks of Markdown and line breaks do not count. */
function letters(text) {
  const found = [], places = [];
  for (const { 0: letter, index } of text.matchAll(/[\p{L}\p{N}]/gu)) { found.push(letter); places.push(index); }
  return { words: found.join("\u0000"), places };
}

/* [{from, to, number}] in order; a sentence that is not found again in the text is left out. */
function spans(text, citations) {
  const all = letters(text), found = [];
  let after = 0;
  for (const one of [...citations].sort((a, b) => a.sentence - b.sentence)) {
    const asked = letters(one.text).words;
    let start = asked ? all.words.indexOf(asked, after) : -1;
    if (start < 0) start = all.words.indexOf(asked);
    if (start < 0 || !asked) continue;
    const first = all.words.slice(0, start).split("\u0000").length - 1, count = asked.split("\u0000").length;
    const from = all.places[first];
    let to = all.places[first + count - 1] + 1;
    const stop = /^[^\s\p{L}\p{N}]+/u.exec(text.slice(to)); // the full stop and closing quotes belong to it
    if (stop) to += stop[0].length;
    after = start + asked.length;
    if (!found.some((other) => from < other.to && other.from < to)) found.push({ from, to, number: one.number });
  }
  return found.sort((a, b) => a.from - b.from);
}

/* The server separates what supports a sentence from what is only nearest to it; both have numbers of one sequence. */
export const numbersOf = (sentence) => [...sentence.citations, ...sentence.nearest];
export const allCited = (checked) => [...checked.citations, ...checked.nearest].sort((a, b) => a.number - b.number);

export class Highlights {
  constructor(checked, sources) {
    this.citations = allCited(checked);
    this.sources = sources.map(({ name, text }) => ({ name, text: text.replace(LINK, "$1") }));
    this.marks = new Map(); // number of the citation → its <mark>
    this.links = new Map(); // number of the citation → [[link, sentence of the answer]]
  }

  link(number, sentence, alone) {
    const link = make("a", { class: "cite", href: "#c" + number, text: "[" + number + "]", title: "alone " + percent(alone),
      "aria-label": "Citation " + number + ": " + this.citations[number - 1].text });
    this.links.set(number, [...(this.links.get(number) ?? []), [link, sentence]]);
    for (const [begins, ends] of [["mouseenter", "mouseleave"], ["focus", "blur"]]) {
      link.addEventListener(begins, () => this.light(number, [sentence], true));
      link.addEventListener(ends, () => this.light(number, [sentence], false));
    }
    link.addEventListener("click", (event) => {
      event.preventDefault();
      this.light(number, [sentence], true);
      const mark = this.marks.get(number);
      mark.scrollIntoView({ block: "center", behavior: matchMedia("(prefers-reduced-motion: reduce)").matches ? "auto" : "smooth" });
      mark.querySelector("a").focus({ preventScroll: true });
    });
    return link;
  }

  light(number, sentences, on) {
    this.marks.get(number)?.classList.toggle("lit", on);
    for (const sentence of sentences) sentence.classList.toggle("lit", on);
  }

  mark(number, text) {
    const back = make("a", { href: "#answer", class: "back", text: "[" + number + "]", "aria-label": "Citation " + number + ", back to the answer" });
    const mark = make("mark", { id: "c" + number }, back, " " + text);
    const cited = () => (this.links.get(number) ?? []).map(([, sentence]) => sentence);
    for (const [begins, ends] of [["mouseenter", "mouseleave"], ["focusin", "focusout"]]) {
      mark.addEventListener(begins, () => this.light(number, cited(), true));
      mark.addEventListener(ends, () => this.light(number, cited(), false));
    }
    back.addEventListener("click", (event) => { event.preventDefault(); this.links.get(number)?.[0][0].focus(); });
    this.marks.set(number, mark);
    return mark;
  }

  articles() {
    const much = this.sources.reduce((sum, one) => sum + one.text.length, 0) > MUCH;
    return this.sources.map((source) => {
      const citations = this.citations.filter((one) => one.source === source.name);
      const found = spans(source.text, citations);
      const lost = citations.filter((one) => !found.some((other) => other.number === one.number));
      const shown = this.paragraphs(source.text, found, much);
      return make("article", { class: "source" }, make("h3", { text: source.name }),
        much && shown.length ? make("p", { class: "note", text: "Only paragraphs with a citation are shown." }) : null,
        ...lost.map((one) => make("p", {}, this.mark(one.number, one.text))),
        ...(shown.length || lost.length ? shown : [make("p", { class: "none", text: "No sentence of it is cited." })]));
    });
  }

  paragraphs(text, found, onlyCited) {
    const shown = [];
    for (const { 0: words, index } of text.matchAll(/(?:(?!\n\s*\n)[\s\S])+/g)) {
      const inside = found.filter(({ from }) => from >= index && from < index + words.length);
      if (!words.trim() || (onlyCited && !inside.length)) continue;
      const pieces = [];
      let here = index;
      for (const { from, to, number } of inside) {
        pieces.push(text.slice(here, from), this.mark(number, text.slice(from, to)));
        here = to;
      }
      shown.push(make("p", {}, ...pieces, text.slice(here, index + words.length)));
    }
    return shown;
  }
}
