/* A checked answer in words: its sentences with outcomes and links to citations, counts, and what to know about it. */
import { make, percent, plural } from "/page/elements.js";
import { numbersOf } from "/page/highlights.js";

export const WORDS = { unsure: "unsure", unsupported: "not supported" };

export const counted = (checked) => Object.entries(checked.counts).filter(([, number]) => number);

export function spoken(checked) {
  const counts = counted(checked).map(([outcome, number]) => plural(number, "sentence") + " " + (WORDS[outcome] ?? outcome)).join(", ") + ".";
  return [counts, ...checked.warnings].join(" ");
}

export function remarkOf({ words_read: words }) {
  if (words === null) return "";
  return words === 1 ? "only 1 word was read" : "only its first " + words + " words were read";
}

export function paragraphs(checked, highlights) {
  const found = new Map();
  for (const one of checked.sentences) found.set(one.paragraph, [...(found.get(one.paragraph) ?? []), one]);
  return [...found.values()].map((sentences) => make("p", {}, ...sentences.flatMap((one) => [said(one, highlights), " "])));
}

function said(one, highlights) {
  if (one.probability === null) return make("span", { class: "not-checked", text: one.text });
  const words = make("span", { class: "said " + one.outcome, text: one.text, title: one.outcome + ", probability " + percent(one.probability) });
  const links = numbersOf(one).map((number, place) => highlights.link(number, words, one.probabilities[place]));
  const remark = remarkOf(one) ? make("span", { class: "remark", text: " (" + remarkOf(one) + ")" }) : null;
  if (!WORDS[one.outcome]) return make("span", {}, words, ...links, remark);
  return make("span", {}, words, " ", make("span", { class: "mark " + one.outcome, text: WORDS[one.outcome] }),
    links.length ? make("span", { class: "nearest" }, " nearest: ", ...links) : null, remark);
}
