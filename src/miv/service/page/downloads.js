/* Results as files, made in the browser: JSON as the server answered, or a picture. */
import { button } from "/page/elements.js";
import { drawVerdict } from "/page/drawing.js";

export function save(blob, name) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(blob);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}

export const saveJson = (content, name) => save(new Blob([JSON.stringify(content, null, 2) + "\n"], { type: "application/json" }), name);

export async function savePicture(canvas, name) {
  save(await new Promise((done) => canvas.toBlob(done, "image/png")), name);
}

/* The answers and the names of what was given; never the pictures or texts themselves. */
export function documentOf(result, shared) {
  return {
    made: result.at.toISOString(),
    version: shared.version,
    query: result.query.map((item) => item.instance?.name ?? null),
    bag: result.bag.map((item) => item.instance?.name ?? null),
    answers: result.answers.map(({ model, verdict }, place) => {
      const tried = shared.state[place ? "threshold_b" : "threshold"];
      return { model: model.name, ...verdict, ...(tried ? { what_if_threshold: Number(tried) } : {}) };
    }),
  };
}

export function downloads(current, shared) {
  return [
    button("Download JSON", () => saveJson(documentOf(current(), shared), "verdict.json")),
    button("Download PNG", async () => savePicture(await drawVerdict(current(), shared), "verdict.png")),
  ];
}
