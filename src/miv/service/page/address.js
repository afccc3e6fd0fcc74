/* The view in the address: mode, models, thresholds and options. Never the data. */

const KEYS = ["mode", "model", "compare", "sample", "threshold", "threshold_b", "heads", "order", "gallery", "citations", "resize"];

export function readAddress() {
  const given = new URLSearchParams(location.search);
  const state = {};
  for (const key of KEYS) if (given.get(key)) state[key] = given.get(key);
  for (const key of ["threshold", "threshold_b"]) {
    const value = Number(state[key]);
    if (state[key] !== undefined && !(value >= 0 && value <= 1)) delete state[key];
  }
  return state;
}

/* A step that the browser's "back" should undo is an entry of its own. */
export function writeAddress(state, step = false) {
  const given = new URLSearchParams();
  for (const key of KEYS) if (state[key]) given.set(key, state[key]);
  const words = given.toString();
  history[step ? "pushState" : "replaceState"](null, "", words ? "?" + words : location.pathname);
}
