/* A probability on a scale with its threshold or unsure zone, and a slider that asks "what if". */
import { button, decide, make, percent } from "/page/elements.js";

const at = (value) => Math.max(0, Math.min(1, value)) * 100 + "%";

function zone(from, to, kind) {
  const part = make("i", { class: "zone " + kind });
  part.style.left = at(from);
  part.style.width = Math.max(0, to - from) * 100 + "%";
  return part;
}

function line(value, kind) {
  const mark = make("b", { class: kind });
  mark.style.left = at(value);
  return mark;
}

/* The track: fill up to the probability, the unsure zone, the calibrated thresholds. */
export function scale(probability, threshold, lower, tried = threshold) {
  const bar = make("div", { class: "scale", "aria-hidden": "true" });
  const low = lower === null || lower === undefined ? null : Math.min(lower, tried);
  if (low !== null) bar.append(zone(low, tried, "between"));
  if (probability !== null) {
    const fill = make("i", { class: "fill" });
    fill.style.width = at(probability);
    bar.append(fill);
  }
  if (lower !== null && lower !== undefined) bar.append(line(lower, "threshold"));
  bar.append(line(threshold, "threshold"));
  if (tried !== threshold) bar.append(line(tried, "tried"));
  if (probability !== null) bar.append(line(probability, "here"));
  return bar;
}

export function ticks(threshold, lower, calibrated) {
  const word = calibrated ? "calibrated threshold " : "threshold ";
  const label = (value, words) => {
    const mark = make("span", { text: words + percent(value) });
    mark.style.left = at(value);
    mark.classList.add(value < 0.2 ? "start" : value > 0.8 ? "end" : "middle");
    return mark;
  };
  const two = lower !== null && lower !== undefined;
  if (two && threshold - lower < 0.35) {
    const both = label((threshold + lower) / 2, "");
    both.textContent = "unsure from " + percent(lower) + " to " + percent(threshold);
    return make("div", { class: "ticks" }, both);
  }
  return make("div", { class: "ticks" }, two ? label(lower, "no below ") : null, label(threshold, two ? "yes from " : word));
}

/* `show(tried)` redraws what depends on the threshold; the slider itself stays, so that it keeps the focus. */
export function whatIf(model, tried, name, onmove) {
  const range = make("input", { type: "range", min: "0", max: "1", step: "0.005", "aria-label": name });
  const number = make("output", {});
  const back = button("Back to " + model.threshold.toFixed(3), () => set(model.threshold, true), { class: "plain" });
  const set = (value, moved) => {
    if (moved) range.value = value;
    number.textContent = value.toFixed(3);
    range.setAttribute("aria-valuetext", value.toFixed(3));
    back.hidden = value === model.threshold;
    onmove(value === model.threshold ? null : value);
  };
  range.value = tried ?? model.threshold;
  number.textContent = (tried ?? model.threshold).toFixed(3);
  range.setAttribute("aria-valuetext", number.textContent);
  back.hidden = tried === null;
  range.addEventListener("input", () => set(Number(range.value), false));
  return make("div", { class: "what-if" },
    make("p", { class: "row" }, make("span", { text: "What if the threshold were" }), number, back), range);
}

export const whatIfDecision = (verdict, tried) => (
  verdict.reason && verdict.reason !== "between the thresholds" ? "unsure" : decide(verdict.probability, tried, verdict.lower_threshold));
