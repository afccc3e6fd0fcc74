/* A checked answer in words: its sentences with outcomes and links to citations, counts, and what to know about it. */
import { make, percent, plural } from "/page/elements.js";
import { numbersOf } from "/page/highlights.js";

const MARKED = ["unsure", "not in the sources"];

/* The name of an outcome as a class of the style sheet. */
export const styleOf = (outcome) => outcome.replaceAll(" ", "-");

export const counted = (checked) => Object.entries(checked.counts).filter(([, number]) => number);

export function spoken(checked) {
  const counts = counted(checked).map(([outcome, number]) => plural(number, "sentence") + " " + outcome).join(", ") + ".";
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

/* The sentence with the numbers, dates and names that no cited source contains; places count characters, not UTF-16. */
function withMarks({ text, missing }) {
  const letters = [...text], pieces = [];
  let here = 0;
  for (const { start, end, kind } of missing) {
    pieces.push(letters.slice(here, start).join(""),
      make("span", { class: "missing", text: letters.slice(start, end).join(""), title: kind + " in no cited source" }));
    here = end;
  }
  return [...pieces, letters.slice(here).join("")];
}

function said(one, highlights) {
  if (one.probability === null) return make("span", { class: "not-checked", text: one.text });
  const words = make("span", { class: "said " + styleOf(one.outcome),
    title: one.outcome + ", probability " + percent(one.probability) + (one.reason ? ": " + one.reason : "") }, ...withMarks(one));
  const links = numbersOf(one).map((number, place) => highlights.link(number, words, one.probabilities[place]));
  const remark = remarkOf(one) ? make("span", { class: "remark", text: " (" + remarkOf(one) + ")" }) : null;
  if (!MARKED.includes(one.outcome)) return make("span", {}, words, ...links, remark);
  return make("span", {}, words, " ", make("span", { class: "mark " + styleOf(one.outcome), text: one.outcome }),
    links.length ? make("span", { class: "nearest" }, " nearest: ", ...links) : null, remark);
}
