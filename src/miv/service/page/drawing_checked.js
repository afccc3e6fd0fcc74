/* A checked answer as a picture: each sentence with its outcome, then the cited sentences. */
import { remarkOf } from "/page/checked.js";
import { Sheet } from "/page/drawing.js";
import { allCited, markOf, numbersOf } from "/page/highlights.js";

const COLOURS = { supported: "yes", "evidence found": "yes", contradicted: "no", unsure: "witness", "not in the sources": "no" };

const listed = (what, details) => (details.length ? ", " + what + ": " + details.map((detail) => detail.text).join(", ") : "");
const wordsOf = (one, cited) => one.outcome === "contradicted"
  ? "(contradicted by " + cited + listed("differs", one.differs) + ")"
  : "(" + one.outcome + listed("missing", one.missing) + (cited ? ", nearest: " + cited : "") + ")";

export function drawChecked(checked) {
  const lines = (text) => Math.ceil(text.length / 95) + 1;
  const texts = [...[...checked.sentences, ...allCited(checked)].map((one) => one.text), ...checked.warnings];
  const height = 150 + 24 * texts.reduce((sum, text) => sum + lines(text), 0);
  const sheet = new Sheet(Math.min(height, 8000));
  const put = (words, options, x = 32) => { sheet.y += sheet.write(words, x, sheet.y, { width: 968 - x, lines: 12, ...options }); };
  put("Is each sentence backed by the sources?", { size: 26, weight: 700 });
  put(Object.entries(checked.counts).filter(([, number]) => number).map(([outcome, number]) => number + " " + outcome).join(" · "), { colour: "soft" });
  for (const words of checked.warnings) put(words, { size: 14, colour: "witness" });
  sheet.y += 10;
  for (const one of checked.sentences) {
    const colour = COLOURS[one.outcome], top = sheet.y;
    const cited = numbersOf(one).map((number) => markOf(checked, number)).join("");
    const found = colour && colour !== "yes" ? wordsOf(one, cited) : cited;
    put([one.text, found, remarkOf(one) && "(" + remarkOf(one) + ")"].filter(Boolean).join(" "), {}, 48);
    if (colour) sheet.box(32, top, 4, sheet.y - top - 4, sheet.ink(colour));
    sheet.y += 6;
  }
  sheet.y += 12;
  for (const one of allCited(checked)) put(markOf(checked, one.number) + " " + one.source + ", line " + one.line + ", sentence " + one.sentence + ": " + one.text, { size: 14, colour: "soft" });
  return sheet.finish();
}
