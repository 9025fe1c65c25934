// The keyboard: every hover and every click has its key, and `?` lists them.

import { make } from "./dom.js";

const HANDS = "Wheel or pinch zooms, Shift-wheel keys alone, Alt-wheel queries alone; drag moves, Shift-drag draws a box; "
  + "a click on a name chooses its row, a double-click shows the whole of it.";

/** [keys as they are told, what they do, {key of the event: what is done}]; where that is missing, the matrix does it. */
const table = (app) => {
  const { store } = app, view = (name) => store.set({ view: name }, { act: true });
  return [
    ["arrows", "move the crosshair by a cell, with Shift by ten"],
    ["Enter", "choose the cell"],
    ["+ −", "zoom; ] [ queries alone, } { keys alone"],
    ["0 z", "all of it; this cell"],
    ["PgUp PgDn", "move by a page"],
    ["Home End", "to the ends of the row"],
    ["d", "follow the diagonal"],
    [", .", "the head before, the next head", { ",": () => app.step(-1), ".": () => app.step(1) }],
    ["o", "walk the overview with the arrows", { o: () => app.parts.overview.focus() }],
    ["m", "to the matrix", { m: () => (view("matrix"), app.views.matrix.above.focus()) }],
    ["1 … 5", "the views", Object.fromEntries(Object.keys(app.views).map((name, at) => [at + 1, () => view(name)]))],
    ["b", "to the next bright cell", { b: () => bright(app) }],
    ["/", "search", { "/": () => app.parts.search?.open?.() }],
    ["t", "turn: columns are queries", { t: () => app.toggle("turn", true, false) }],
    ["v", "weight, or weight × value", { v: () => app.layer.values && app.toggle("of", "weight", "length") }],
    ["u", "words, or tokens", { u: () => app.root.querySelector("#unit:not([hidden]) [aria-pressed=false]")?.click() }],
    ["x", "special tokens: dim, show, without", { x: () => cycle(app, "sinks", ["dim", "show", "without"]) }],
    ["p", "a pixel is the largest, or the mean", { p: () => app.toggle("pool", "max", "mean", false) }],
    ["c", "colours", { c: () => app.root.querySelector("#colours").togglePopover() }],
    ["l", "light, dark, as the system", { l: () => cycle(app, "theme", ["auto", "light", "dark"]) }],
    ["Esc", "unpin", { Escape: () => escape(app) }],
    ["Backspace", "back", { Backspace: () => store.back() }],
    ["?", "this list", { "?": () => app.sheet.showModal() }],
  ];
};

/** Closes a sheet that is open; if none is, the cell is let go. */
function escape(app) {
  if (app.state.open) app.store.set({ open: null });
  else app.unpin();
}

function cycle(app, field, values) {
  app.store.set({ [field]: values[(values.indexOf(app.state[field]) + 1) % values.length] });
  app.note(`${field === "sinks" ? "Special tokens" : "Page"}: ${app.state[field]}`);
}

function bright(app) {
  const all = app.series.brights ?? [], { camera } = app.views.matrix;
  if (!all.length) return app.note("No cell stands out.");
  const { i, j } = all[(all.findIndex((cell) => cell.i === app.state.i && cell.j === app.state.j) + 1) % all.length];
  camera.centre(i, j);
  app.store.set(camera.said());
  app.choose(i, j);
}

export function keyboard(app) {
  const rows = table(app), actions = Object.assign({}, ...rows.map(([, , does]) => does ?? {}));
  const named = (keys) => make("dt", {}, ...keys.split(" ").map((key) => make("kbd", { text: key })));
  const list = make("dl", {}, ...rows.map(([keys, what]) => make("div", {}, named(keys), make("dd", { text: what }))));
  const close = make("button", { text: "Close", on: { click: () => app.sheet.close() } });
  const hands = make("p", { class: "faint", text: HANDS });
  app.sheet = app.root.appendChild(make("dialog", { id: "keys", "aria-label": "keys" }, make("h2", { text: "Keys" }), list, hands, close));
  app.sheet.addEventListener("click", (event) => event.target === app.sheet && app.sheet.close());
  const where = app.options.url === false ? app.root : document;
  where.addEventListener("keydown", (event) => {
    if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey || app.sheet.open || !app.chosen) return;
    const above = event.key === "Escape" && app.root.querySelector(":popover-open");
    if (above) return above.hidePopover();
    if (event.target.closest?.("input, select, textarea, [contenteditable]")) return;
    const does = Object.hasOwn(actions, event.key) ? actions[event.key] : null;
    if (does) {
      event.preventDefault();
      app.act("key");
      does();
    } else if (!event.target.closest?.("button, a, summary, [role=tab]") && app.state.view === "matrix") app.views.matrix.onKey(event);
  });
}
