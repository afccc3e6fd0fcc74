/* The sources with their cited sentences marked. A citation and its sentence light up together. */
import { make, percent } from "/page/elements.js";

const MUCH = 200_000; // letters; of longer sources only paragraphs with a citation are shown
const LINK = /!?\[([^[\]]*)\]\([^()\s]*\)/g;

/* Letters and digits only, with the place of each in the text: marks of Markdown and line breaks do not count. */
function letters(text) {
  const places = [], starts = [];
  let words = "";
  for (const { 0: letter, index } of text.matchAll(/[\p{L}\p{N}]/gu)) {
    places.push(index);
    starts.push(words.length);
    words += letter + "\u0000";
  }
  return { words, places, starts };
}

/* Place of the first of rising numbers that is at least as great. */
function firstFrom(numbers, least) {
  let low = 0, high = numbers.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (numbers[middle] < least) low = middle + 1; else high = middle;
  }
  return low;
}

/* [{from, to}] of each line without the spaces around it. */
function linesOf(text) {
  let start = 0;
  return text.split(/\r\n|\r|\n/).map((line) => {
    const from = start + line.length - line.trimStart().length, to = Math.max(from, start + line.trimEnd().length);
    start += line.length + (text.startsWith("\r\n", start + line.length) ? 2 : 1);
    return { from, to };
  });
}

/* [{from, to, one}] in order. Words that are not in the text as they were read, such as rows of tables, are the line. */
function spans(text, citations) {
  const all = letters(text), lines = linesOf(text), found = [], others = [];
  let after = 0;
  for (const one of [...citations].sort((a, b) => a.sentence - b.sentence)) {
    const line = lines[Math.min(one.line, lines.length) - 1], { words: asked, places: { length } } = letters(one.text);
    const begin = Math.max(firstFrom(all.places, line.from), after);
    const place = length && begin < all.starts.length ? all.words.indexOf(asked, all.starts[begin]) : -1;
    const first = place < 0 ? -1 : firstFrom(all.starts, place);
    if (first < 0 || all.places[first] >= line.to) { others.push({ one, line }); continue; }
    after = first + length;
    const end = all.places[after - 1] + 1;
    const stop = /^[^\s\p{L}\p{N}]+/u.exec(text.slice(end, end + 100)); // the full stop and closing quotes belong to it
    found.push({ from: all.places[first], to: end + (stop ? stop[0].length : 0), one });
  }
  for (const { one, line } of others) { // what other citations leave of the line, or nothing but a number
    let { from, to } = line;
    for (const other of found.sort((a, b) => a.from - b.from)) {
      if (other.from <= from && from < other.to) from = other.to;
      else if (other.from >= from) to = Math.min(to, other.from);
    }
    found.push({ from, to: Math.max(from, to), one });
  }
  return found.sort((a, b) => a.from - b.from || a.to - b.to);
}

/* The server separates the evidence on a sentence from what is only nearest to it; both have numbers of one sequence. */
export const numbersOf = (sentence) => [...sentence.citations, ...sentence.nearest];
export const allCited = (checked) => [...checked.citations, ...checked.nearest].sort((a, b) => a.number - b.number);

/* The letters that count a, b, …, z, aa, ab. */
const counting = (number) => (number ? counting(Math.floor((number - 1) / 26)) + String.fromCharCode(97 + ((number - 1) % 26)) : "");

/* As `miv check` marks them: [1] is evidence, (a) is only nearest to something. */
export function markOf(checked, number) {
  const most = checked.citations.length;
  return number <= most ? "[" + number + "]" : "(" + counting(number - most) + ")";
}

export class Highlights {
  constructor(checked, sources) {
    this.checked = checked;
    this.citations = allCited(checked);
    this.sources = sources.map(({ name, text }) => ({ name, text: text.replace(LINK, "$1") }));
    this.marks = new Map(); // number of the citation → its <mark>
    this.links = new Map(); // number of the citation → [[link, sentence of the answer]]
  }

  link(number, sentence, alone) {
    const { source, line, sentence: place, text } = this.citations[number - 1];
    const link = make("a", { class: "cite", href: "#c" + number, text: markOf(this.checked, number),
      title: source + ", line " + line + ", sentence " + place + "; alone " + percent(alone), "aria-label": this.called(number) + ": " + text });
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

  called(number) {
    return (number <= this.checked.citations.length ? "Citation " : "Nearest ") + markOf(this.checked, number).slice(1, -1);
  }

  light(number, sentences, on) {
    this.marks.get(number)?.classList.toggle("lit", on);
    for (const sentence of sentences) sentence.classList.toggle("lit", on);
  }

  mark(number, text) {
    const back = make("a", { href: "#answer", class: "back", text: markOf(this.checked, number), "aria-label": this.called(number) + ", back to the answer" });
    const mark = make("mark", { id: "c" + number }, back, text ? " " + text : "");
    const cited = () => (this.links.get(number) ?? []).map(([, sentence]) => sentence);
    for (const [begins, ends] of [["mouseenter", "mouseleave"], ["focusin", "focusout"]]) {
      mark.addEventListener(begins, () => this.light(number, cited(), true));
      mark.addEventListener(ends, () => this.light(number, cited(), false));
    }
    back.addEventListener("click", (event) => { event.preventDefault(); this.links.get(number)?.[0][0].focus(); });
    this.marks.set(number, mark);
    const { line, sentence } = this.citations[number - 1];
    return [mark, " ", make("small", { class: "line", text: "line " + line + ", sentence " + sentence })];
  }

  articles() {
    const much = this.sources.reduce((sum, one) => sum + one.text.length, 0) > MUCH;
    return this.sources.map((source) => {
      const citations = this.citations.filter((one) => one.source === source.name);
      const shown = this.paragraphs(source.text, spans(source.text, citations), much);
      const lost = citations.filter((one) => !this.marks.has(one.number));
      return make("article", { class: "source" }, make("h3", { text: source.name }),
        much && shown.length ? make("p", { class: "note", text: "Only paragraphs with a citation are shown." }) : null,
        ...lost.map((one) => make("p", {}, ...this.mark(one.number, one.text))),
        ...(shown.length || lost.length ? shown : [make("p", { class: "none", text: "No sentence of it is cited." })]));
    });
  }

  paragraphs(text, found, onlyCited) {
    const shown = [];
    for (const { 0: words, index } of text.matchAll(/(?:(?!\n\s*\n)[\s\S])+/g)) {
      const inside = found.filter(({ from }) => from >= index && from <= index + words.length);
      if (!words.trim() || (onlyCited && !inside.length)) continue;
      const pieces = [];
      let here = index;
      for (const { from, to, one } of inside) {
        pieces.push(text.slice(here, from) || " ", ...this.mark(one.number, text.slice(from, to)));
        here = to;
      }
      shown.push(make("p", {}, ...pieces, text.slice(here, index + words.length)));
    }
    return shown;
  }
}
