/* The query and the bag: witnesses framed, attention as bars, of one or two models, or by head. */
import { badge, button, choice, letters, make, percent, plural } from "/page/elements.js";

const MANY = 60; // more instances than these are shown on request
const SMALL = 0.2; // if no share of a large bag reaches this, the largest one fills its bar
const EVEN = 0.01; // shares this close to an even share, relative to it, say nothing

export const witnessWord = (verdict) => (verdict.verdict ? "witness" : "candidate");

export function look(item, words, place) {
  if (item.text !== undefined) return make("p", { class: "words", text: item.text });
  if (item.picture) {
    const image = make("img", { src: item.picture, alt: words + (item.name ? ": " + item.name : ""), loading: "lazy", decoding: "async", title: item.name });
    image.addEventListener("load", () => fitted(image), { once: true });
    image.addEventListener("error", () => image.replaceWith(look({ name: item.name }, words, place)), { once: true }); // a format that this browser does not show
    return image;
  }
  return make("span", { class: "chip", text: item.name && !item.vector ? item.name : "#" + (place + 1), title: item.vector ? item.vector.slice(0, 8).join(", ") + (item.vector.length > 8 ? ", …" : "") : item.name });
}

/* Small pictures are enlarged by a whole factor and keep their squares; large ones are shrunk. */
function fitted(image) {
  const side = Math.max(image.naturalWidth, image.naturalHeight), least = image.closest(".query") ? 84 : 58;
  const factor = side <= 72 ? Math.max(1, Math.round(least / side)) : Math.min(1, 112 / side);
  image.style.width = image.naturalWidth * factor + "px";
  if (side <= 72) image.classList.add("squares");
}

/* rows: [{style, mark, name, value, found}]; a full bar is the share `whole`, the thin line an even share. */
function bars(rows, even, whole) {
  if (!rows.length) return null;
  return make("ul", { class: "bars" }, ...rows.map(({ style, mark, name, value, found }) => {
    const fill = make("i"), share = make("b");
    fill.style.width = (value / whole) * 100 + "%";
    share.style.left = (even / whole) * 100 + "%";
    const words = name + ": attention " + percent(value) + (found ? ", " + found : "");
    return make("li", { class: style, title: words }, mark, make("span", { class: "bar", "aria-hidden": "true" }, fill, share),
      make("span", { "aria-hidden": "true", text: percent(value) }), make("span", { class: "hidden", text: words }));
  }));
}

/* answers: [{model, verdict}]; heads: "" or the letter of the model whose heads are shown. */
export function rowsOf(answers, place, heads) {
  const several = answers.length > 1;
  const rows = [];
  answers.forEach(({ model, verdict }, number) => {
    const found = verdict.witnesses.some((one) => one.index === place) ? witnessWord(verdict) : "";
    const shares = verdict.attention ?? verdict.shares;
    const name = several ? model.name : verdict.attention ? "all heads" : "share";
    if (shares) rows.push({ style: "m" + number, mark: several ? badge(number) : make("span"), name, value: shares[place], found });
    if (letters[number] !== heads || !verdict.attention_by_head) return;
    verdict.attention_by_head.forEach((head, h) => {
      const mark = make("span", { class: "head-number", "aria-hidden": "true", text: String(h + 1) });
      rows.push({ style: "head m" + (h % 10), mark, name: "head " + (h + 1), value: head[place], found: "" });
    });
  });
  return rows;
}

/* In a large bag every share is small: the bars then compare with the largest one. */
function wholeBar(answers, places, heads) {
  const most = Math.max(...places.flatMap((place) => rowsOf(answers, place, heads).map(({ value }) => value)), 0);
  return answers[0].verdict.size > MANY && most > 0 && most < SMALL ? most : 1;
}

function caption(answers, place) {
  const found = [];
  let kind = "";
  answers.forEach(({ verdict }, number) => {
    const order = verdict.witnesses.findIndex((one) => one.index === place);
    if (order < 0) return;
    const word = witnessWord(verdict);
    if (kind !== "witness") kind = word;
    const reference = verdict.matched_by && verdict.matches.length > 1 ? " of reference " + (verdict.matched_by[order] + 1) : "";
    found.push({ word: word + reference, letter: letters[number] });
  });
  const both = found.length > 1 && found[0].word === found[1].word;
  const words = both ? [found[0].word + " for both"] : found.map(({ word, letter }) => (answers.length > 1 ? letter + " " : "") + word);
  const flagged = (places) => answers.some(({ verdict }) => verdict.unlike?.[places].includes(place));
  if (flagged("places")) words.push(flagged("empty_places") ? "without content" : "out of distribution");
  return { kind, words: words.join("\n") };
}

function order(answers, by) {
  const { verdict } = answers[0];
  const places = Array.from({ length: verdict.size }, (_, place) => place);
  const shares = verdict.attention ?? verdict.shares;
  if (by === "attention" && shares) places.sort((a, b) => shares[b] - shares[a] || a - b);
  return places;
}

/* The places to show at first: all of a small bag, else those with the largest shares, in the order asked for. */
export function shownPlaces(answers, by, all, most = MANY) {
  const places = order(answers, by);
  if (all || places.length <= most) return places;
  const best = new Set(order(answers, "attention").slice(0, most));
  for (const { verdict } of answers) for (const one of verdict.witnesses.slice(0, most)) best.add(one.index);
  return places.filter((place) => best.has(place));
}

export function scene(result, options, onoption) {
  const { answers, query, bag, kind } = result;
  const places = shownPlaces(answers, options.order, options.all);
  const size = answers[0].verdict.size, even = 1 / size, whole = wholeBar(answers, places, options.heads);
  const items = places.map((place) => {
    const { kind: found, words } = caption(answers, place);
    return make("li", { class: "instance " + found }, look(bag[place] ?? { name: "instance " + (place + 1) }, "In the bag" + (found ? ", a " + found : ""), place),
      make("span", { class: "caption", text: words }), bars(rowsOf(answers, place, options.heads), even, whole));
  });
  const more = size - places.length;
  return make("section", { class: "card scene-card" + (kind === "text" ? " texts" : ""), "aria-label": "Query and bag" },
    make("div", { class: "row tools" }, make("h3", { text: "Bag of " + size.toLocaleString("en") }), ...tools(answers, options, onoption)),
    make("div", { class: "scene" }, asked(query), make("ol", { class: "bag" + (items.length > MANY ? " many" : ""), "aria-label": "Bag", tabindex: "-1" }, ...items)),
    more ? make("p", { class: "row" },
      make("span", { class: "note", text: "Shown: " + places.length + " of " + size.toLocaleString("en") + ", those with the most attention." }),
      button("Show all " + size.toLocaleString("en"), () => onoption("all", true))) : null,
    ...notes(answers), make("p", { class: "key", text: key(answers, whole) }));
}

function asked(query) {
  return make("ul", { class: "references", "aria-label": "Query" }, ...query.map((item, place) => make("li", { class: "instance query" }, look(item, "Query", place),
    make("span", { class: "caption", text: query.length > 1 ? "reference " + (place + 1) : "query" }))));
}

/* An exemplar before anyone has verified it. */
export function unanswered(query, bag, kind) {
  const shown = bag.slice(0, kind === "text" ? 4 : 24);
  const items = shown.map((item, place) => make("li", { class: "instance" }, look(item, "In the bag", place), make("span", { class: "caption" })));
  return make("div", { class: "preview" + (kind === "text" ? " texts" : "") }, make("p", { class: "note", text: "The example:" }),
    make("div", { class: "scene" }, asked(query), make("ol", { class: "bag", "aria-label": "Bag of the example" }, ...items)));
}

function tools(answers, options, onoption) {
  const found = [];
  if (answers[0].verdict.attention ?? answers[0].verdict.shares) {
    found.push(choice("Order", [["", "as given"], ["attention", "most attention first"]], options.order, (value) => onoption("order", value)));
  }
  const headed = answers.map(({ model }, number) => [letters[number], model]).filter(([, model]) => model.heads > 1);
  if (headed.length) {
    const names = headed.map(([letter, model]) => [letter, answers.length > 1 ? "each head of " + letter : "each of " + plural(model.heads, "head")]);
    found.push(choice("Attention", [["", "all heads"], ...names], options.heads, (value) => onoption("heads", value)));
  }
  return found;
}

/* The note of a printed verdict whose shares say little. */
function notes(answers) {
  const found = [];
  for (const { model, verdict } of answers) {
    const who = answers.length > 1 ? model.name + ": " : "";
    const shares = verdict.shares;
    const even = shares && verdict.size > 1 && shares.every((share) => Math.abs(share * verdict.size - 1) <= EVEN);
    if (even) found.push(who + "the shares do not separate the instances: each has about 1 / " + verdict.size + ".");
  }
  return found.map((text) => make("p", { class: "note", text }));
}

function key(answers, whole) {
  const attention = answers.some(({ verdict }) => verdict.attention);
  const shares = attention ? "Bars: the share of attention on an instance; the thin line is an even share. " : "Bars: the share of an instance in the verdict. ";
  const full = whole < 1 ? "A full bar is " + percent(whole) + ". " : "";
  const any = answers.some(({ verdict }) => verdict.witnesses.length);
  const no = answers.some(({ verdict }) => !verdict.verdict && verdict.witnesses.length);
  if (!any) return shares + full + "No instance stands out as a witness.";
  return shares + full + "Framed: witnesses" + (no ? "; dashed: candidates, the best ones in case the answer is wrong." : ".");
}
