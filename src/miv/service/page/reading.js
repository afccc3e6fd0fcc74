/* Turns files, texts and pasted numbers into instances: {instance, name, picture} where instance is what the server takes. */

export class Unreadable extends Error {}

const IMAGES = /\.(png|jpe?g|gif|bmp|webp|tiff?|pgm|ppm)$/i;
/* What the file picker offers for a query or a bag: the files that `miv verify` reads. */
export const ACCEPTED = { image: "image/*,.pgm,.ppm", text: ".txt,.md,.csv,text/plain", features: ".npy,.csv,.json,.txt" };

export function pictureOf(base64) {
  return "data:image/png;base64," + base64; // a browser looks at the bytes, not at the name of the format
}

function dataAddressOf(file) {
  return new Promise((done, failed) => {
    const reader = new FileReader();
    reader.onload = () => done(reader.result);
    reader.onerror = () => failed(new Unreadable("“" + file.name + "” could not be read. Choose it again."));
    reader.readAsDataURL(file);
  });
}

/* An empty file would reach the server as nothing, and its message could not say which one it was. */
function refuseEmpty(files, what) {
  const empty = [...files].filter((file) => file.size === 0).map((file) => "“" + file.name + "”");
  if (empty.length === 1) throw new Unreadable(empty[0] + " is empty (0 bytes). Give " + what + ".");
  if (empty.length) throw new Unreadable(empty.slice(0, 3).join(", ") + (empty.length > 3 ? " and " + (empty.length - 3) + " more" : "") + " are empty (0 bytes). Give " + what + ".");
}

export async function imagesOf(files) {
  const other = [...files].find((file) => !IMAGES.test(file.name) && !IMAGES.test(file.type.replace("/", ".")));
  if (other) throw new Unreadable("“" + other.name + "” is not a picture this page takes. Give PNG, JPEG, GIF, BMP, TIFF, WebP, PGM or PPM files.");
  refuseEmpty(files, "the picture itself");
  return Promise.all([...files].map(async (file) => {
    const picture = await dataAddressOf(file); // unlike an object URL, it goes with the last item that shows it
    return { instance: { image: picture.slice(picture.indexOf(",") + 1), name: file.name }, name: file.name, picture };
  }));
}

export async function wordsOf(files) {
  const other = [...files].find((file) => !/^text\/|json$/.test(file.type) && !/\.(txt|md|markdown|text|rst|log|csv|json|npy)$/i.test(file.name));
  if (other) throw new Unreadable("“" + other.name + "” is not a text file. Give plain text or Markdown.");
  refuseEmpty(files, "a file with text");
  const read = await Promise.all([...files].map(async (file) => ({ name: file.name, text: await (/\.npy$/i.test(file.name) ? linesOfNpy(file) : file.text()) })));
  const blank = read.find((file) => !file.text.trim());
  if (blank) throw new Unreadable("“" + blank.name + "” holds only spaces or line breaks. Give a file with text.");
  return read;
}

/* The vectors of a NumPy file as lines of numbers. */
async function linesOfNpy(file) {
  const content = await file.arrayBuffer(), head = new TextDecoder().decode(content.slice(0, 1000));
  const [, bits] = /'descr': '<f([48])'/.exec(head) ?? [], [, first, second] = /'shape': \((\d+),(?: (\d+))?\)/.exec(head) ?? [];
  const start = head.indexOf("\n") + 1, width = Number(second ?? first);
  if (!start || !bits || !width || /'fortran_order': True/.test(head) || (content.byteLength - start) % Number(bits)) {
    throw new Unreadable("“" + file.name + "” is not a NumPy file of vectors, float32 or float64.");
  }
  const numbers = new (bits === "4" ? Float32Array : Float64Array)(content.slice(start)), rows = [];
  for (let place = 0; place < numbers.length; place += width) rows.push(numbers.subarray(place, place + width).join(", "));
  return rows.join("\n");
}

export function textsOf(words) {
  return words.split(/\r?\n/).map((line) => line.trim()).filter(Boolean)
    .map((text) => ({ instance: text, name: text.length > 60 ? text.slice(0, 59) + "…" : text, text }));
}

/* JSON (one list, or a list of lists), or rows of numbers separated by commas, semicolons or spaces. */
export function vectorsOf(words) {
  const rows = /^\s*\[/.test(words) ? rowsOfJson(words) : rowsOfLines(words);
  const width = rows.length ? rows[0].length : 0;
  rows.forEach((row, place) => {
    if (!row.length || !row.every(Number.isFinite)) throw new Unreadable("Vector " + (place + 1) + " holds something that is not a number.");
    if (row.length !== width) throw new Unreadable("Vector " + (place + 1) + " has " + row.length + " numbers and the first has " + width + ". All need the same length.");
  });
  return rows.map((instance, place) => ({ instance, name: "vector " + (place + 1), vector: instance }));
}

function rowsOfJson(words) {
  let given;
  try { given = JSON.parse(words); } catch { throw new Unreadable("This starts like JSON and is not. Expected [[0.1, 0.2], [0.3, 0.4]]."); }
  return Array.isArray(given[0]) ? given : given.length ? [given] : [];
}

function rowsOfLines(words) {
  return words.split(/\r?\n/).filter((line) => line.trim()).map((line) => line.trim().split(/[\s,;]+/).filter(Boolean).map(Number));
}

/* Instances as the server sends them with a sample. */
export function itemsOf(given) {
  return given.map((one, place) => {
    if (typeof one === "string") return textsOf(one)[0] ?? { instance: one, name: "", text: one };
    if (Array.isArray(one)) return { instance: one, name: "vector " + (place + 1), vector: one };
    const name = one.name ?? "";
    return one.image ? { instance: one, name, picture: pictureOf(one.image) } : { instance: one, name: name || one.text, text: one.text };
  });
}

export const queryOf = (sample) => itemsOf(Array.isArray(sample.query) && typeof sample.query[0] !== "number" ? sample.query : [sample.query]);
