/* What one model says: the word, the probability in words and as a number, the scale, the reason, and "what if". */
import { badge, likely, make, percent } from "/page/elements.js";
import { scale, ticks, whatIf, whatIfDecision } from "/page/scale.js";

const SAYS = {
  yes: ["Yes", "Match found."],
  no: ["No", "No match found."],
  unsure: ["Unsure", "The model gives no yes or no."],
};

export function against(verdict) {
  const { probability, threshold, lower_threshold: lower } = verdict;
  if (probability >= threshold) return "at or above the threshold of " + percent(threshold);
  if (lower === null || lower === undefined) return "below the threshold of " + percent(threshold);
  return probability < lower ? "below the lower threshold of " + percent(lower) : "between the thresholds of " + percent(lower) + " and " + percent(threshold);
}

export const sentence = (verdict) => SAYS[verdict.decision][0] + ". " + (isWithheld(verdict) ? "Why: " + verdict.reason + ". " : SAYS[verdict.decision][1])
  + " Probability of yes " + percent(verdict.probability) + ", " + against(verdict) + ".";

const isWithheld = (verdict) => Boolean(verdict.reason) && verdict.reason !== "between the thresholds";

/* A visitor has no terminal for the command that a note names. */
export const forPeople = (note) => note.replace("`miv calibrate` measures it", "Whoever runs this server can measure it")
  .replace("Calibrate again with `miv calibrate`", "Ask whoever runs this server to calibrate it again");

export function reasonOf(verdict) {
  if (!verdict.reason) return null;
  const words = !isWithheld(verdict)
    ? "The probability lies between the two thresholds, where an answer would be wrong too often."
    : verdict.reason[0].toUpperCase() + verdict.reason.slice(1) + ".";
  return make("p", { class: "reason" }, make("b", { text: "Why unsure: " }), words);
}

function changed(verdict, tried) {
  const decision = whatIfDecision(verdict, tried);
  const same = decision === verdict.decision;
  return "What if: with a threshold of " + tried.toFixed(3) + " the verdict would " + (same ? "still be " : "change to ") + decision
    + ". The calibrated verdict " + (same ? "is the same." : "remains " + verdict.decision + ".");
}

/* place: 0 or 1 when two models are compared, else null; tried: the threshold of "what if", or null. */
export function verdictCard(model, verdict, place, tried, onmove) {
  const [word, says] = SAYS[verdict.decision];
  const who = make("p", { class: "who" }, place === null ? null : badge(place), " " + model.name + " says");
  const drawn = make("div", { class: "drawn" });
  const what = make("p", { class: "tried", role: "status", hidden: true });
  const card = make("article", { class: "verdict " + verdict.decision + " m" + (place ?? 0), "aria-label": "Verdict of " + model.name });
  const draw = (value) => {
    const shown = value ?? model.threshold;
    const track = scale(verdict.probability, verdict.threshold, verdict.lower_threshold, value === null ? verdict.threshold : shown);
    drawn.replaceChildren(track, ticks(verdict.threshold, verdict.lower_threshold, model.calibrated));
    what.hidden = value === null;
    what.textContent = value === null ? "" : changed(verdict, shown);
    card.classList.toggle("flips", value !== null && whatIfDecision(verdict, shown) !== verdict.decision);
  };
  const slider = whatIf(model, tried, "What if the threshold of " + model.name + " were", (value) => { draw(value); onmove(value); });
  draw(tried);
  card.append(who,
    make("p", { class: "word" }, make("strong", { text: word }), make("span", { text: says })),
    isWithheld(verdict)
      ? make("p", { class: "chance" }, "The probability of yes, " + percent(verdict.probability) + ", means nothing for such an input.")
      : make("p", { class: "chance" }, make("b", { text: percent(verdict.probability) }), " probability of yes: " + likely(verdict.probability)
        + (model.calibrated ? "" : " (not calibrated: read it as a score)") + ", " + against(verdict) + "."),
    drawn);
  const reason = reasonOf(verdict);
  if (reason) card.append(reason);
  for (const text of [verdict.chance_of_error, ...verdict.warnings]) if (text) card.append(make("p", { class: "note", text: forPeople(text) }));
  card.append(slider, what);
  if (model.promise) card.append(make("p", { class: "note", text: "The calibrated threshold: " + model.promise + "." }));
  return card;
}
