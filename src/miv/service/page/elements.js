/* Small helpers: elements whose texts are always text nodes, and numbers in words. */

export function make(tag, options = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(options)) {
    if (name === "text") element.textContent = value;
    else if (name === "class") element.className = value;
    else if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (value === true) element.setAttribute(name, "");
    else if (value !== null && value !== undefined && value !== false) element.setAttribute(name, value);
  }
  element.append(...children.filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

export const button = (text, onclick, options = {}) => make("button", { type: "button", text, onclick, ...options });

/* Fine below the ends, so that 0 % and 100 % are said only of 0 and 1. */
export function percent(value) {
  if (value > 0 && value < 0.01) return "<1\u00a0%";
  if (value < 1 && value > 0.99) return ">99\u00a0%";
  return Math.round(value * 100) + "\u00a0%"; // a space that does not break
}

export const plural = (number, one, many = one + "s") => number.toLocaleString("en") + " " + (number === 1 ? one : many);

const LIKELY = [
  [0.99, "almost certain"], [0.9, "very likely"], [0.67, "likely"], [0.55, "rather likely"], [0.45, "about as likely as not"],
  [0.33, "rather unlikely"], [0.1, "unlikely"], [0.01, "very unlikely"], [-1, "almost ruled out"],
];
export const likely = (probability) => LIKELY.find(([least]) => probability >= least)[1];

/* What a verifier with these thresholds says; the same rule as Verdict.decision. */
export function decide(probability, threshold, lower) {
  if (probability >= threshold) return "yes";
  return lower === null || lower === undefined || probability < Math.min(lower, threshold) ? "no" : "unsure";
}

/* Said by a screen reader, once, wherever the focus is. */
export function say(words) {
  document.getElementById("said").textContent = words;
}

let choices = 0;

/* The label stands beside the list, not around it, so that the name of the list is the label alone. */
export function choice(label, options, value, onchange) {
  const id = "choice-" + (choices += 1);
  const select = make("select", { id }, ...options.map(([key, words]) => make("option", { value: key, text: words })));
  select.value = value;
  select.addEventListener("change", () => onchange(select.value));
  return make("div", { class: "field" }, make("label", { for: id, text: label }), select);
}

export const letters = ["A", "B"];
export const badge = (place) => make("span", { class: "badge m" + place, "aria-hidden": "true", text: letters[place] });
