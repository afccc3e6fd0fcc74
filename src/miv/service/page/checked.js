/* A checked answer in words: its sentences with outcomes and links to citations, counts, and what to know about it. */
import { make, percent, plural } from "/page/elements.js";
import { numbersOf } from "/page/highlights.js";

const MARKED = ["contradicted", "unsure", "not in the sources"];

/* The name of an outcome as a class of the style sheet. */
export const styleOf = (outcome) => outcome.replaceAll(" ", "-");

export const counted = (checked) => Object.entries(checked.counts).filter(([, number]) => number);

export function spoken(checked) {
  const counts = counted(checked).map(([outcome, number]) => plural(number, "sentence") + " " + outcome).join(", ") + ".";
  return [counts, ...checked.warnings].join(" ");
}

export function remarkOf({ words_read: words, parts, outcome }) {
  const remarks = [], first = parts[0]?.outcome;
  if (parts.some((part) => part.outcome !== first)) remarks.push(...parts.map((part) => '"' + part.text + '" is ' + part.outcome));
  else if (first && first === outcome) remarks.push(parts.length + " facts, each " + first);
  if (words !== null) remarks.push("only its first " + words + " words were read");
  return remarks.join("; ");
}

export function paragraphs(checked, highlights) {
  const found = new Map();
  for (const one of checked.sentences) found.set(one.paragraph, [...(found.get(one.paragraph) ?? []), one]);
  return [...found.values()].map((sentences) => make("p", {}, ...sentences.flatMap((one) => [said(one, highlights), " "])));
}

/* The sentence with words in no cited source, and those that the cited one lacks; places count characters, not UTF-16. */
function withMarks({ text, missing, differs }) {
  const letters = [...text], pieces = [];
  const lacking = differs.filter((one) => !missing.some((two) => two.start < one.end && one.start < two.end));
  let here = 0;
  for (const one of [...missing, ...lacking].sort((a, b) => a.start - b.start)) {
    const { start, end, kind } = one, where = missing.includes(one) ? " in no cited source" : " that the cited sentence lacks";
    pieces.push(letters.slice(here, start).join(""),
      make("span", { class: "missing", text: letters.slice(start, end).join(""), title: kind + where }));
    here = end;
  }
  return [...pieces, letters.slice(here).join("")];
}

function said(one, highlights) {
  if (one.probability === null) return make("span", { class: "not-checked", text: one.text });
  const words = make("span", { class: "said " + styleOf(one.outcome),
    title: one.outcome + ", probability " + percent(one.probability)
      + (one.contradiction === null ? "" : ", of a contradiction " + percent(one.contradiction))
      + (one.reason ? ": " + one.reason : "") }, ...withMarks(one));
  const links = numbersOf(one).map((number, place) => highlights.link(number, words, one.probabilities[place]));
  const remark = remarkOf(one) ? make("span", { class: "remark", text: " (" + remarkOf(one) + ")" }) : null;
  if (!MARKED.includes(one.outcome)) return make("span", {}, words, ...links, remark);
  return make("span", {}, words, " ", make("span", { class: "mark " + styleOf(one.outcome), text: one.outcome }),
    links.length ? make("span", { class: "nearest" }, one.outcome === "contradicted" ? " by " : " nearest: ", ...links) : null, remark);
}
