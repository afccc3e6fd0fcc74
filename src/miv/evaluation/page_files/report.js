"use strict";
/* Draws exemplars from the data embedded in the page, one page at a time. Texts reach the document only as
   text nodes and attributes, never as markup. */
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const PER_PAGE = 10;
  const models = data.models;
  const count = data.exemplar.length;

  function make(tag, options = {}, ...children) {
    const element = document.createElement(tag);
    for (const [name, value] of Object.entries(options)) {
      if (name === "text") element.textContent = value;
      else if (name === "class") element.className = value;
      else if (value !== null && value !== undefined) element.setAttribute(name, value);
    }
    element.append(...children.filter((child) => child !== null));
    return element;
  }
  const percent = (parts) => (parts > 0 && parts < 10 ? "<1" : parts > 990 && parts < 1000 ? ">99" : Math.round(parts / 10)) + " %";
  const plural = (number, one, many) => number.toLocaleString("en") + " " + (number === 1 ? one : many);
  const badge = (m, hollow = false) => make("span", { class: "badge " + models[m].style + (hollow ? " hollow" : ""), "aria-hidden": "true", text: models[m].letter });

  /* Pictures: a sheet is decoded when a picture on it is first shown. */
  const sheets = new Map();
  function sheet(number) {
    if (!sheets.has(number)) {
      const image = new Image();
      sheets.set(number, new Promise((done, failed) => {
        image.onload = () => done(image);
        image.onerror = failed;
      }));
      image.src = data.pictures.sheets[number];
    }
    return sheets.get(number);
  }
  function picture(row, label, large) {
    const { width, height, across, down } = data.pictures;
    const canvas = make("canvas", { width, height, role: "img", "aria-label": label });
    const side = Math.max(width, height);
    const scale = side <= 72 ? Math.max(1, Math.round((large ? 84 : 58) / side)) : Math.min(1, 112 / side);
    canvas.style.width = width * scale + "px";
    canvas.style.height = height * scale + "px";
    const place = row % (across * down);
    sheet(Math.floor(row / (across * down))).then((image) => {
      const x = (place % across) * width, y = Math.floor(place / across) * height;
      canvas.getContext("2d").drawImage(image, x, y, width, height, 0, 0, width, height);
    });
    return canvas;
  }

  function named(row) {
    return "instance " + data.number[row] + (data.classes ? ", class " + data.classes[row] : "")
      + (data.names && data.names[row] ? ", " + data.names[row] : "");
  }
  function look(row, what, large = false) {
    const label = what + ": " + named(row);
    if (data.kind === "text") return make("p", { class: "words", title: named(row), text: data.texts[row] });
    if (data.kind === "image") {
      const canvas = picture(row, label, large);
      canvas.title = named(row);
      return canvas;
    }
    return make("span", { class: "chip", title: named(row), text: "#" + data.number[row] });
  }

  /* One exemplar: its query, its bag with bars of attention, and each model's answer. */
  const truly = (e) => data.label[e] === 1;
  const says = (m, e) => models[m].verdict[e] === 1;
  /* Between two thresholds, or out of distribution: neither right nor wrong. */
  const isUnsure = (m, e) => Boolean(models[m].unsure) && models[m].unsure[e] === 1;
  const isOutside = (m, e) => Boolean(models[m].unlike) && models[m].unlike[e] === 1;
  const word = (m, e) => (isUnsure(m, e) ? "unsure" : says(m, e) ? "yes" : "no");
  const isRight = (m, e) => !isUnsure(m, e) && says(m, e) === truly(e);
  const isWrong = (m, e) => !isUnsure(m, e) && says(m, e) !== truly(e);
  const members = (e) => Array.from({ length: data.ptr[e + 1] - data.ptr[e] }, (_, i) => data.ptr[e] + i);
  /* true, false, or null if it does not apply; decided by the program, which has every member at full precision. */
  const looksAtWitness = (m, e) => {
    const looked = models[m].looked_right ? models[m].looked_right[e] : null;
    return looked === null ? null : looked === 1;
  };

  function bars(e, t) {
    const shown = models.map((_, m) => m).filter((m) => models[m].attention);
    if (!shown.length) return null;
    const even = 100 / data.size[e];
    return make("ul", { class: "bars" }, ...shown.map((m) => {
      const parts = models[m].attention[t];
      const fill = make("i"), line = make("b");
      fill.style.width = parts / 10 + "%";
      line.style.left = even + "%";
      const found = models[m].found && models[m].found[t] === 1;
      const words = models[m].name + ": attention " + percent(parts) + (found ? ", a witness for this model" : "");
      return make("li", { class: models[m].style, title: words }, badge(m, !found), make("span", { class: "bar", "aria-hidden": "true" }, fill, line),
        make("span", { "aria-hidden": "true", text: percent(parts) }), make("span", { class: "hidden", text: words }));
    }));
  }

  function instance(e, t, lead) {
    const witness = data.witness && data.witness[t] === 1;
    return make("li", { class: "instance" + (witness ? " witness" : "") },
      look(data.bag[t], "In the bag" + (witness ? ", a witness" : ""), lead),
      make("span", { class: "caption", text: witness ? "witness" : "" }), bars(e, t));
  }

  function answer(m, e) {
    const right = isRight(m, e), unsure = isUnsure(m, e), seen = looksAtWitness(m, e), model = models[m];
    const fill = make("i");
    fill.style.width = model.probability[e] / 10 + "%";
    const thresholds = model.lower_threshold !== null ? [model.lower_threshold, model.threshold] : [model.threshold];
    const lines = thresholds.map((threshold) => {
      const line = make("b");
      line.style.left = "calc(" + Math.min(100, threshold * 100) + "% - 1px)";
      return line;
    });
    let reason = "";
    if (unsure && seen !== null) reason = seen ? "it looked most at a witness" : "it looked most elsewhere";
    else if (seen === true) reason = right ? "and for the right reason: it looked most at a witness" : "though it looked most at a witness";
    else if (seen === false) reason = right ? "but not for the right reason: it looked most elsewhere" : "and it looked most elsewhere";
    return make("li", { class: "answer " + model.style },
      make("p", { class: "who" }, badge(m), " " + model.name),
      make("p", { class: "says" }, make("span", { text: "says " + word(m, e) + (isOutside(m, e) ? " (out of distribution)" : "") + ", probability of yes " + percent(model.probability[e]) }),
        unsure ? null : make("span", { class: right ? "right" : "wrong", text: right ? "✓ right" : "✗ wrong" })),
      make("div", { class: "scale", "aria-hidden": "true", title: lines.length > 1 ? "probability, and the two thresholds" : "probability, and the threshold" }, fill, ...lines),
      reason ? make("p", { class: "reason", text: reason }) : null);
  }

  /* The references of a query: rows of instances; a single query is one of them. */
  const references = (e) => (data.reference ? data.reference.slice(data.reference_ptr[e], data.reference_ptr[e + 1]) : [data.query[e]]);

  function asking(row, number, count, lead, step) {
    const word = count > 1 ? "reference " + number : "query";
    return make(data.kind === "text" ? "div" : "figure", { class: "instance query" },
      lead || data.kind === "text" ? make("span", { class: "caption" }, number ? null : step(1), word) : null,
      look(row, count > 1 ? "Reference " + number : "Query", lead),
      lead || data.kind === "text" ? null : make("span", { class: "caption", text: word }));
  }

  function card(e, lead = false) {
    const id = "exemplar-" + (lead ? "lead-" : "") + data.exemplar[e];
    const step = (number) => (lead ? make("span", { class: "step", "aria-hidden": "true", text: number }) : null);
    const known = data.witnesses ? data.witnesses[e] : 0;
    const facts = ["bag of " + data.size[e]];
    if (data.witness) facts.unshift(known ? plural(known, "witness", "witnesses") : "no witness");
    if (data.groups) facts.push("group " + data.groups[data.group[e]]);
    if (data.query_id) facts.push("query id " + data.query_id[e]);
    const left = data.size[e] - members(e).length;
    const asked = references(e).map((row, number, all) => asking(row, number, all.length, lead, step));
    const query = asked.length === 1 ? asked[0] : make("div", { class: "references" }, ...asked);
    const items = members(e).map((t) => instance(e, t, lead));
    const hidden = known - members(e).filter((t) => data.witness && data.witness[t]).length;
    if (left > 0) items.push(make("li", { class: "more", text: "and " + left + " more" + (hidden > 0 ? ", " + plural(hidden, "witness", "witnesses") + " among them" : "") }));
    const bag = make("ul", { class: "bag", "aria-label": "Bag" }, ...items);
    const witness = lead && bag.querySelector(".witness .caption");
    if (witness) witness.prepend(step(3));
    const place = lead ? make("div", { class: "place" }, make("span", { class: "caption" }, step(2), "bag: is one of these of the query’s class?"), bag) : bag;
    const kind = data.kind === "text" ? " texts" : data.kind === "image" && Math.max(data.pictures.width, data.pictures.height) > 72 ? " smooth" : "";
    return make("article", { class: "card" + kind + (lead ? " telling" : ""), "aria-labelledby": id },
      make("header", {}, make("h3", { id, tabindex: "-1", text: "Exemplar " + data.exemplar[e] }),
        make("p", { class: "facts" }, make("span", { class: "truth", text: truly(e) ? "truly yes" : "truly no" }), " · " + facts.join(" · "))),
      make("div", { class: "scene" }, query, place),
      lead ? make("p", { class: "caption" }, step(4), models.length > 1 ? "what each model says" : "what the model says") : null,
      make("ul", { class: "answers", "aria-label": "Answers" }, ...models.map((_, m) => answer(m, e))));
  }

  /* Filters and pages. */
  const state = { label: "", model: "", verdict: "", group: "", disagree: false, low: "", high: "", order: "error", page: 0 };
  const status = document.getElementById("count"), cards = document.getElementById("cards"), pages = document.getElementById("pages");

  function fits(e) {
    if (state.label !== "" && data.label[e] !== Number(state.label)) return false;
    if (state.group !== "" && data.group[e] !== Number(state.group)) return false;
    if (state.low !== "" && data.size[e] < Number(state.low)) return false;
    if (state.high !== "" && data.size[e] > Number(state.high)) return false;
    if (state.disagree && models.every((_, m) => word(m, e) === word(0, e))) return false;
    if (state.verdict === "") return true;
    const asked = state.model === "" ? models.map((_, m) => m) : [Number(state.model)];
    return asked.some((m) => ({
      right: isRight(m, e),
      wrong: isWrong(m, e),
      unsure: isUnsure(m, e),
      accept: isWrong(m, e) && !truly(e),
      reject: isWrong(m, e) && truly(e),
      reason: isRight(m, e) && looksAtWitness(m, e) === false,
    })[state.verdict]);
  }
  const orders = {
    error: (a, b) => data.error[b] - data.error[a],
    number: (a, b) => data.exemplar[a] - data.exemplar[b],
    small: (a, b) => data.size[a] - data.size[b],
    large: (a, b) => data.size[b] - data.size[a],
  };

  function show(focus = false) {
    const found = [];
    for (let e = 0; e < count; e += 1) if (fits(e)) found.push(e);
    found.sort((a, b) => orders[state.order](a, b) || a - b);
    const last = Math.max(0, Math.ceil(found.length / PER_PAGE) - 1);
    state.page = Math.min(state.page, last);
    const first = state.page * PER_PAGE, shown = found.slice(first, first + PER_PAGE);
    cards.replaceChildren(...shown.map((e) => card(e)));
    status.textContent = found.length
      ? plural(found.length, "exemplar matches", "exemplars match") + "; shown: " + (first + 1) + " to " + (first + shown.length) + "."
      : "No exemplar matches. Use fewer filters, or reset.";
    const turn = (text, page, off) => {
      const button = make("button", { type: "button", text });
      button.disabled = off;
      button.addEventListener("click", () => { state.page = page; show(true); });
      return button;
    };
    pages.replaceChildren(turn("Previous", state.page - 1, state.page === 0),
      make("span", { text: "Page " + (state.page + 1) + " of " + (last + 1) }),
      turn("Next", state.page + 1, state.page >= last));
    pages.hidden = last === 0;
    if (focus && shown.length) {
      const heading = cards.querySelector("h3");
      heading.focus({ preventScroll: true });
      document.getElementById("count").scrollIntoView({ block: "start" });
    }
  }

  function choice(name, text, options) {
    const select = make("select", { name }, ...options.map(([value, words]) => make("option", { value, text: words })));
    select.value = state[name];
    return make("label", {}, text, select);
  }
  function filters() {
    const form = document.getElementById("filters");
    const verdicts = [["", "any answer"], ["wrong", "wrong"], ["right", "right"], ["accept", "false accept (yes, truly no)"], ["reject", "false reject (no, truly yes)"]];
    if (models.some((model) => model.unsure)) verdicts.push(["unsure", "unsure"]);
    if (data.witness && models.some((model) => model.attention)) verdicts.push(["reason", "right, but looked elsewhere"]);
    const sizes = data.size.reduce(([low, high], size) => [Math.min(low, size), Math.max(high, size)], [Infinity, 0]);
    const number = (name, label) => make("input", { type: "number", name, min: sizes[0], max: sizes[1], inputmode: "numeric", "aria-label": label, placeholder: name === "low" ? sizes[0] : sizes[1] });
    form.append(
      choice("label", "Truth", [["", "any"], ["1", "truly yes"], ["0", "truly no"]]),
      choice("verdict", "Answer", verdicts),
      models.length > 1 ? choice("model", "By model", [["", "any model"], ...models.map((model, m) => [String(m), model.letter + " " + model.name])]) : "",
      data.groups && data.groups.length > 1 ? choice("group", "Group", [["", "any"], ...data.groups.map((group, g) => [String(g), group])]) : "",
      make("fieldset", {}, make("legend", { text: "Bag size" }), make("div", { class: "pair" }, number("low", "Smallest bag"), "to", number("high", "Largest bag"))),
      models.length > 1 ? make("label", { class: "check" }, make("input", { type: "checkbox", name: "disagree" }), "models disagree") : "",
      choice("order", "Order", [["error", "most confident errors first"], ["number", "by number"], ["small", "smallest bags first"], ["large", "largest bags first"]]),
      make("button", { type: "reset", text: "Reset" }));
    const read = () => {
      for (const field of form.elements) if (field.name in state) state[field.name] = field.type === "checkbox" ? field.checked : field.value;
      state.page = 0;
      show();
    };
    form.addEventListener("input", read);
    form.addEventListener("submit", (event) => event.preventDefault());
    form.addEventListener("reset", () => setTimeout(() => { read(); }, 0));
  }

  const lead = document.getElementById("telling");
  lead.append(card(data.telling, true));
  if (models.some((model) => model.attention)) {
    lead.append(make("p", { class: "key", text: "Bars: a model's share of attention on an instance; the thin line is an even share. Filled letter: the model counts the instance as a witness." }));
  }
  filters();
  show();

  /* A table is focusable only while it is wider than its container. */
  const watch = new ResizeObserver((entries) => {
    for (const { target } of entries) {
      const scrolls = target.scrollWidth > target.clientWidth;
      for (const [name, value] of [["tabindex", "0"], ["role", "region"], ["aria-label", target.dataset.label]]) {
        if (scrolls) target.setAttribute(name, value);
        else target.removeAttribute(name);
      }
    }
  });
  for (const place of document.querySelectorAll(".scroll")) watch.observe(place);
})();
