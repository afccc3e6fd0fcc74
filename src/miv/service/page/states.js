/* What is shown when there is nothing yet, when an answer is awaited, and when something went wrong. */
import { button, choice, make } from "/page/elements.js";

/* Under the heading, so that a first visitor sees it first. */
export function suggest(samples, onchoose) {
  const [first, ...others] = samples;
  document.getElementById("samples").replaceChildren(...(first ? [
    button("Try an example", () => onchoose(first.id), { class: "main", "data-sample": first.id, title: first.title }),
    ...(others.length ? [make("span", { class: "note", text: "or" })] : []),
    ...others.map((one) => button(one.title, () => onchoose(one.id), { class: "plain", "data-sample": one.id }))] : []));
}

export function emptyCard(steps) {
  return make("div", { class: "card empty" }, make("ol", { class: "steps" }, ...steps.map((words) => make("li", {}, make("span", {}, ...words)))));
}

/* On a small screen the result is below what was given. */
export function bringIntoView(element) {
  const calm = matchMedia("(prefers-reduced-motion: reduce)").matches;
  if (element.getBoundingClientRect().top > innerHeight * 0.6) element.scrollIntoView({ block: "start", behavior: calm ? "auto" : "smooth" });
}

/* How to fit pictures to the size that the model was trained on; the size itself says whether it matters. */
export function fitChoice(model, shared, onchange) {
  if (model.kind !== "image" || !model.image) return "";
  const options = [["", "stretched"], ["crop", "cropped"], ["pad", "padded"]];
  const label = "Fitted to " + model.image.width + " × " + model.image.height + " pixels";
  return choice(label, options, shared.state.resize ?? "", (value) => { shared.change({ resize: value }); onchange(); });
}
export const fitOf = (model, shared) => (model.kind === "image" ? { resize: shared.state.resize || "stretch" } : {});

/* What a model decides, in the words of its card. */
export const aboutModel = (model) => (model?.about ? make("p", { class: "note about", text: model.about }) : "");

export const waiting = (words) => make("div", { class: "card waiting" }, make("span", { class: "moving", "aria-hidden": "true" }), make("p", { text: words }));

const HEADINGS = { 0: "No connection", 401: "The token is missing", 429: "The server is busy", 503: "The server is busy" };

export class ServerTrouble {
  constructor(error, again, heading = HEADINGS[error.status] ?? "This did not work") {
    const later = error.wait ? " Try again in " + error.wait + " s." : "";
    if (error.status === undefined) console.error(error);
    this.element = make("div", { class: "card trouble", role: "alert" },
      make("h3", { text: heading }), make("p", { text: (error.message || "Something went wrong.") + later }),
      again ? make("p", { class: "row" }, button("Try again", again)) : null);
  }
}
