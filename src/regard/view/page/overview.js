// All heads, layers down and heads across: pictures of up to 200, glyphs of up to 2000, a strip for each layer when
// there are more. A head never changes its place: the filter fades the others.

import { THEMES, PATTERNS } from "./colour.js";
import { make } from "./dom.js";
import { painted } from "./profiles.js";
import { headName, percent } from "./words.js";

const PICTURES = 200, GLYPHS = 2000;

export function mount(element, app) {
  const grid = make("div", { class: "heads", role: "grid", "aria-label": "heads: layers down, heads across" });
  const filter = make("div", { class: "filter", role: "group", "aria-label": "show only" });
  const ranked = make("ol", { class: "ranked", "aria-label": "strongest first" });
  const note = make("p", { class: "faint small" });
  element.append(make("header", { class: "between" }, make("h2", { text: "Heads" }), note), grid, filter, ranked);
  let text = null, told = new Map(), only = null, cells = new Map(), open = null, running = null;

  /** Make the grid for a text. */
  function build() {
    const { layers } = app.text;
    const total = layers.reduce((sum, layer) => sum + layer.heads, 0), widest = Math.max(...layers.map((layer) => layer.heads));
    const kind = total <= PICTURES ? "pictures" : total <= GLYPHS ? "glyphs" : "strips";
    const room = (element.clientWidth || app.root.clientWidth - 16) - 24; // a sheet that is closed has no width
    const [least, most] = kind === "pictures" ? [23, 57] : [17, 29], side = Math.max(least, Math.min(most, Math.floor(room / widest)));
    grid.style.setProperty("--side", `${side}px`);
    grid.dataset.kind = kind;
    note.textContent = `${layers.length} × ${widest}`;
    grid.replaceChildren();
    cells = new Map();
    for (const layer of layers) {
      const row = make("div", { class: "layer", role: "row", data: { layer: layer.l } }, make("span", { class: "name", role: "rowheader", title: layer.name, text: layer.l }));
      if (kind === "strips" && open !== layer.l) {
        row.append(make("button", { class: "strip", "aria-expanded": "false", data: { strip: layer.l }, on: { click: () => ((open = layer.l), build(), paint(), pictures()) } }));
      } else {
        for (let h = 0; h < layer.heads; h++) {
          const cell = make("button", { class: "head", role: "gridcell", tabindex: -1, data: { head: `${layer.l}.${h}` } });
          if (kind === "pictures") cell.append(make("canvas", { width: 1, height: 1, "aria-hidden": "true" }));
          row.append(cell);
          cells.set(cell.dataset.head, cell);
        }
      }
      grid.append(row);
    }
    select();
  }

  /** Fetch a picture of every head, the layers from the top, and what is told of them. */
  async function fetch() {
    running?.abort();
    const { signal } = (running = new AbortController());
    told = new Map();
    pictures(signal);
    try {
      const said = await app.busy(app.source.overview(app.place(), signal));
      for (const head of said.heads) told.set(`${head.l}.${head.h}`, head);
      app.told(said);
      paint();
    } catch (problem) {
      if (problem.name !== "AbortError") app.fail(problem);
    }
  }
  async function pictures(signal = running?.signal) {
    if (grid.dataset.kind !== "pictures") return;
    for (const { l } of app.text.layers) {
      try {
        const side = parseInt(grid.style.getPropertyValue("--side")) * Math.min(2, devicePixelRatio);
        const { values, rows, columns, heads } = await app.busy(app.source.thumbs({ ...app.place(), l, size: Math.ceil(side), pool: "max" }, signal));
        for (let h = 0; values && h < heads; h++) {
          const cell = cells.get(`${l}.${h}`);
          if (cell) cell.values = { values: values.subarray(h * rows * columns, (h + 1) * rows * columns), rows, columns };
        }
        colour(l);
      } catch (problem) {
        if (problem.name === "AbortError") return;
      }
    }
  }
  /** Colour the pictures, of one layer or of all. */
  function colour(layer = null) {
    const theme = THEMES[app.themeName], palette = app.plain();
    for (const [name, cell] of cells) {
      if (!cell.values || (layer !== null && !name.startsWith(`${layer}.`))) continue;
      const canvas = cell.firstChild, { rows, columns } = cell.values;
      Object.assign(canvas, { width: columns, height: rows });
      const pen = canvas.getContext("2d");
      pen.fillStyle = theme.hidden;
      pen.fillRect(0, 0, columns, rows);
      pen.drawImage(painted(cell.values, palette), 0, 0);
      if (app.state.sinks === "show") continue;
      pen.fillStyle = theme.paper;
      pen.globalAlpha = 0.6;
      if (columns === app.layer.n_k) for (const at of app.tokens.special) pen.fillRect(at, 0, 1, rows);
      pen.globalAlpha = 1;
    }
  }

  function bar(share) {
    const made = make("span", { class: "share", "aria-hidden": "true" });
    made.style.setProperty("--part", `${100 * share}%`);
    return made;
  }
  /** What each head is called: hue, letter, share. */
  function paint() {
    const counts = {};
    for (const [name, cell] of cells) {
      const head = told.get(name), [l, h] = name.split(".");
      const pattern = head?.letter && PATTERNS[head.letter];
      cell.setAttribute("aria-label", `${headName(l, h)}${pattern ? ` ${head.name} ${percent(head.share)}` : ""}`);
      cell.title = cell.getAttribute("aria-label") + (head?.sampled ? ", sampled" : "");
      cell.classList.toggle("sampled", Boolean(head?.sampled));
      cell.style.setProperty("--hue", pattern && (head.letter !== "S" || grid.dataset.kind !== "pictures") ? pattern[1] : "transparent");
      if (grid.dataset.kind === "glyphs" || grid.dataset.kind === "strips") {
        cell.textContent = head?.letter ?? "";
        cell.style.setProperty("--share", pattern ? String(Math.round(100 * head.share)) + "%" : "0%");
      }
    }
    for (const head of told.values()) if (head.letter) counts[head.letter] = (counts[head.letter] ?? 0) + 1;
    for (const strip of grid.querySelectorAll(".strip")) {
      const mine = [...told.values()].filter((head) => head.l === Number(strip.dataset.strip) && head.letter);
      const sums = Object.keys(PATTERNS).map((letter) => [letter, mine.filter((head) => head.letter === letter).length]).filter(([, many]) => many);
      const rest = app.text.layers.find(({ l }) => l === Number(strip.dataset.strip)).heads - mine.length;
      strip.replaceChildren(...[...sums, ["", rest]].map(([letter, many]) => {
        const part = make("span", { text: letter && `${letter} ${many}`, title: letter && PATTERNS[letter][0] });
        part.style.flexGrow = many;
        part.style.setProperty("--hue", letter ? PATTERNS[letter][1] : "var(--line)");
        return part;
      }));
    }
    filter.replaceChildren(...Object.entries(counts).map(([letter, many]) => make("button", {
      class: "chip", title: PATTERNS[letter][0], data: { letter }, "aria-pressed": String(only === letter),
      on: { click: () => ((only = only === letter ? null : letter), paint()) },
    }, make("b", { text: letter }), ` ${PATTERNS[letter][0]} `, make("span", { class: "faint", text: letter === "S" ? "" : many })))); // the line on sinks counts those
    for (const chip of filter.children) chip.style.setProperty("--hue", PATTERNS[chip.dataset.letter][1]);
    for (const [name, cell] of cells) cell.classList.toggle("faded", only !== null && told.get(name)?.letter !== only);
    const shown = [...told.values()].filter((head) => head.letter && head.letter === only).sort((x, y) => y.share - x.share).slice(0, 12);
    ranked.hidden = !shown.length;
    ranked.replaceChildren(...shown.map(({ l, h, share }) => make("li", {}, make("button", { class: "line", on: { click: () => app.go(l, h) } },
      make("b", { text: headName(l, h) }), bar(share), make("span", { text: percent(share) })))));
  }
  function select() {
    const { l, h } = app.state, name = `${l}.${h}`;
    for (const [at, cell] of cells) {
      const mine = at === name;
      cell.setAttribute("aria-selected", String(mine));
      cell.tabIndex = mine ? 0 : -1;
    }
  }

  grid.addEventListener("click", (event) => {
    const name = event.target.closest("[data-head]")?.dataset.head;
    if (name) app.go(...name.split(".").map(Number));
  });
  grid.addEventListener("keydown", (event) => {
    const at = event.target.dataset.head?.split(".").map(Number);
    const step = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] }[event.key];
    if (!at || !step) return;
    event.preventDefault();
    event.stopPropagation();
    const next = cells.get(`${at[0] + step[0]}.${at[1] + step[1]}`);
    if (!next) return;
    next.focus();
    app.go(...next.dataset.head.split(".").map(Number), { quiet: true });
  });

  return {
    show(state, changed) {
      const now = `${state.r} ${state.x}`;
      if (now !== text) {
        text = now;
        only = open = null;
        build();
        fetch();
      }
      if (!changed || changed.has("l") || changed.has("h")) select();
      if (!changed || changed.has("theme") || changed.has("map") || changed.has("sinks") || changed.has("tokens")) colour();
    },
    focus: () => grid.querySelector("[tabindex='0']")?.focus(),
  };
}
