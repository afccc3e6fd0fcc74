/* A verdict, a search or a checked answer as a picture, in the colours of the page. */
import { letters, likely, percent } from "/page/elements.js";
import { shownPlaces, witnessWord } from "/page/scene.js";
import { against } from "/page/verdict.js";

const WIDTH = 1000, EDGE = 32, SHARP = 2;
const FONT = 'system-ui, -apple-system, "Segoe UI", sans-serif';

export class Sheet {
  constructor(height) {
    this.canvas = document.createElement("canvas");
    this.canvas.width = WIDTH * SHARP;
    this.canvas.height = height * SHARP;
    this.pen = this.canvas.getContext("2d");
    this.pen.scale(SHARP, SHARP);
    this.pen.textBaseline = "top";
    this.box(0, 0, WIDTH, height, resolved("ground"));
    this.y = EDGE;
  }

  /* The canvas without the empty rest at its foot. */
  finish() {
    const whole = document.createElement("canvas");
    whole.width = this.canvas.width;
    whole.height = Math.min(this.canvas.height, (this.y + EDGE) * SHARP);
    whole.getContext("2d").drawImage(this.canvas, 0, 0);
    return whole;
  }

  ink(name) { return resolved(name); }

  box(x, y, width, height, colour) { this.pen.fillStyle = colour; this.pen.fillRect(x, y, width, height); }

  frame(x, y, width, height, colour, dashed = false) {
    this.pen.strokeStyle = colour;
    this.pen.lineWidth = 3;
    this.pen.setLineDash(dashed ? [6, 4] : []);
    this.pen.strokeRect(x, y, width, height);
    this.pen.setLineDash([]);
  }

  /* Returns the height used; `lines` cuts what is longer. */
  write(words, x, y, { size = 16, weight = 400, colour = "ink", width = WIDTH - 2 * EDGE, lines = 4 } = {}) {
    this.pen.font = weight + " " + size + "px " + FONT;
    this.pen.fillStyle = resolved(colour);
    let line = "", row = 0;
    const put = (text) => { this.pen.fillText(text, x, y + row * size * 1.4); row += 1; };
    for (const word of String(words).split(/\s+/)) {
      if (row >= lines) break;
      const longer = line ? line + " " + word : word;
      if (this.pen.measureText(longer).width > width && line) {
        put(row === lines - 1 ? line + " …" : line);
        line = word;
      } else line = longer;
    }
    if (row < lines && line) put(line);
    return row * size * 1.4;
  }

  scale(x, y, width, probability, threshold, lower, colour) {
    this.box(x, y, width, 10, resolved("line"));
    if (lower !== null && lower !== undefined) this.box(x + lower * width, y, (threshold - lower) * width, 10, resolved("witness-ground"));
    this.box(x, y, probability * width, 10, resolved(colour));
    for (const mark of [lower, threshold]) if (mark !== null && mark !== undefined) this.box(x + mark * width - 1, y - 4, 2, 18, resolved("ink"));
  }
}

/* A canvas takes no light-dark(): the value as the browser computes it. */
function resolved(name) {
  const probe = document.createElement("span");
  probe.style.color = "var(--" + name + ")";
  document.body.append(probe);
  const colour = getComputedStyle(probe).color;
  probe.remove();
  return colour;
}

function picture(item) {
  if (!item?.picture) return Promise.resolve(null);
  return new Promise((done) => {
    const image = new Image();
    image.onload = () => done(image);
    image.onerror = () => done(null); // a format that the server reads and this browser does not show
    image.src = item.picture;
  });
}

const SIDE = 84, CELL = 104;
const COLOURS = { yes: "yes", no: "no", unsure: "witness" };

function put(sheet, image, item, place, x, y) {
  sheet.box(x, y, SIDE, SIDE, resolved("inset"));
  if (image) {
    const factor = Math.min(SIDE / image.naturalWidth, SIDE / image.naturalHeight);
    const width = image.naturalWidth * factor, height = image.naturalHeight * factor;
    sheet.pen.imageSmoothingEnabled = factor < 1;
    sheet.pen.drawImage(image, x + (SIDE - width) / 2, y + (SIDE - height) / 2, width, height);
  } else sheet.write("#" + (place + 1), x + 8, y + 30, { size: 15, width: SIDE - 16, lines: 1 });
}

export async function drawVerdict(result, shared) {
  const { answers, query, bag, kind } = result;
  const places = shownPlaces(answers, shared.state.order ?? "", false, 48);
  const text = kind === "text", across = Math.floor((WIDTH - 2 * EDGE) / CELL);
  const rows = text ? 0 : Math.ceil(places.length / across) + Math.ceil(Math.min(query.length, across) / across);
  const sheet = new Sheet(EDGE * 2 + answers.length * 128 + (text ? (places.length + query.length) * 58 : rows * 134) + 90);
  answers.forEach(({ model, verdict }, number) => {
    sheet.write((answers.length > 1 ? letters[number] + "  " : "") + model.name, EDGE, sheet.y, { size: 15, weight: 600, colour: "soft" });
    sheet.write(verdict.decision[0].toUpperCase() + verdict.decision.slice(1), EDGE, sheet.y + 22, { size: 34, weight: 700, colour: COLOURS[verdict.decision] });
    const words = "Probability of yes " + percent(verdict.probability) + " (" + likely(verdict.probability) + "), " + against(verdict) + ".";
    sheet.write(words, EDGE + 160, sheet.y + 34, { size: 16, width: WIDTH - 2 * EDGE - 160, lines: 2 });
    sheet.scale(EDGE, sheet.y + 86, WIDTH - 2 * EDGE, verdict.probability, verdict.threshold, verdict.lower_threshold, "m" + number);
    sheet.y += 128;
  });
  if (text) drawTexts(sheet, answers, query, bag, places);
  else await drawPictures(sheet, answers, query, bag, places, across);
  const size = answers[0].verdict.size;
  const shown = places.length < size ? "; shown: " + places.length + ", those with the most attention" : "";
  sheet.write("Bag of " + size + shown + ". miv " + shared.version, EDGE, sheet.y + 8, { size: 13, colour: "soft" });
  sheet.y += 24;
  return sheet.finish();
}

async function drawPictures(sheet, answers, query, bag, places, across) {
  const asked = query.slice(0, across);
  const images = await Promise.all([...asked, ...places.map((place) => bag[place])].map(picture));
  asked.forEach((item, number) => {
    const x = EDGE + number * CELL;
    put(sheet, images[number], item, number, x, sheet.y);
    sheet.frame(x, sheet.y, SIDE, SIDE, resolved("query"));
    sheet.write(query.length > 1 ? "reference " + (number + 1) : "query", x, sheet.y + SIDE + 6, { size: 13, weight: 650, colour: "query" });
  });
  sheet.y += 134;
  places.forEach((place, number) => {
    const x = EDGE + (number % across) * CELL, y = sheet.y + Math.floor(number / across) * 134;
    put(sheet, images[asked.length + number], bag[place], place, x, y);
    answers.forEach(({ verdict }, which) => {
      const shares = verdict.attention ?? verdict.shares;
      if (verdict.witnesses.some((one) => one.index === place)) sheet.frame(x, y, SIDE, SIDE, resolved("witness"), witnessWord(verdict) === "candidate");
      if (!shares) return;
      sheet.box(x, y + SIDE + 6 + which * 12, SIDE, 8, resolved("inset"));
      sheet.box(x, y + SIDE + 6 + which * 12, SIDE * shares[place], 8, resolved("m" + which));
    });
  });
  sheet.y += Math.ceil(places.length / across) * 134;
}

function drawTexts(sheet, answers, query, bag, places) {
  for (const item of query) {
    sheet.frame(EDGE, sheet.y, WIDTH - 2 * EDGE, 46, resolved("query"));
    sheet.write(item.text, EDGE + 12, sheet.y + 12, { weight: 600, lines: 1, width: WIDTH - 2 * EDGE - 24 });
    sheet.y += 58;
  }
  for (const place of places) {
    answers.forEach(({ verdict }, which) => {
      const shares = verdict.attention ?? verdict.shares;
      if (verdict.witnesses.some((one) => one.index === place)) sheet.frame(EDGE, sheet.y, WIDTH - 2 * EDGE, 46, resolved("witness"), witnessWord(verdict) === "candidate");
      if (shares) sheet.box(WIDTH - EDGE - 132, sheet.y + 10 + which * 14, 120 * shares[place], 10, resolved("m" + which));
    });
    sheet.write(bag[place]?.text ?? "instance " + (place + 1), EDGE + 12, sheet.y + 6, { size: 14, lines: 2, width: WIDTH - 2 * EDGE - 170 });
    sheet.y += 58;
  }
}
