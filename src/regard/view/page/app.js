// The page as a whole: its regions, the text and the head that are looked at, and what the regions need of each other.
// Views (the centre) and parts (around it) are modules with mount(element, app) -> {show(state, changed), hide()};
// a new one is a line in VIEWS or PARTS.

import { Colours, THEMES, scaleOf } from "./colour.js";
import * as compare from "./compare.js";
import * as distance from "./distance.js";
import { make } from "./dom.js";
import * as share from "./export.js";
import { keyboard } from "./keys.js";
import * as matrix from "./matrix.js";
import * as overview from "./overview.js";
import * as reading from "./reading.js";
import * as search from "./search.js";
import { shell } from "./shell.js";
import { State } from "./state.js";
import * as steps from "./steps.js";
import * as text from "./text.js";
import { SIDE, Tiles, brightest } from "./tiles.js";
import { Tokens } from "./tokens.js";
import { count, headName, number } from "./words.js";

const VIEWS = [matrix, distance, text, steps, compare]; // in the order of the tabs
const PARTS = { overview, reading, search, sharing: share }; // by the id of the region that each fills
const PINS = 8; // bright cells that are pinned, at most
const BRIGHT = 0.5;
const CAMERA = new Set(["top", "left", "zoomA", "zoomB"]); // what moves while a hand does: nothing else has to follow
const CALM = 75; // milliseconds without a request or a frame, after which nothing more is to come
const PATIENCE = 900; // milliseconds for the overview before the first head is shown

/** Begin in an element. `url: false` keeps the address as it is; `first` is the hash to begin with. */
export function start(root, source, options = {}) {
  const app = new App(root, source, options);
  globalThis.regard = app;
  app.open().catch((problem) => app.fail(problem));
  return app;
}

class App {
  constructor(root, source, options) {
    Object.assign(this, { root, source, options, store: new State(options), loading: 0, hovered: null, views: {}, parts: {} });
    this.tiles = new Tiles(source, () => this.arrived());
    this.night = matchMedia("(prefers-color-scheme: dark)");
    this.night.addEventListener("change", () => this.changed(new Set(["theme"])));
    this.retheme();
  }
  get state() {
    return this.store.now;
  }
  get themeName() {
    return this.state.theme === "auto" ? (this.night.matches ? "dark" : "light") : this.state.theme;
  }

  // Opening.

  async open() {
    this.about = await this.busy(this.source.about());
    if (!this.settle()) throw new Error("There is no recording to look at.");
    this.shell = shell(this, VIEWS);
    for (const [id, part] of Object.entries(PARTS)) this.parts[id] = part.mount(this.shell.region(id), this);
    for (const view of VIEWS) this.views[view.name] = view.mount(this.shell.stage(view.name), this);
    keyboard(this);
    this.store.subscribe((_, changed) => this.changed(changed));
    this.changed(null);
  }
  /** Bring the state to what there is: a recording, a text and a head that exist. */
  settle() {
    const { state, about } = this, first = about.recordings.find((rec) => rec.texts.length);
    if (!first) return false;
    this.recording = about.recordings.find((rec) => rec.r === state.r) ?? first;
    this.text = this.recording.texts.find((text) => text.x === state.x) ?? this.recording.texts[0];
    Object.assign(state, { r: this.recording.r, x: this.text.x });
    this.layer = this.text.layers.find((layer) => layer.l === state.l) ?? null;
    if (state.l !== null && (!this.layer || !(state.h < this.layer.heads))) Object.assign(state, { l: null, h: null, i: null, j: null });
    this.chosen = state.l !== null && state.h !== null;
    this.layer ??= this.text.layers[0];
    if (state.unit === "words" && !this.text.n_words) state.unit = "tokens";
    const { nQ, nK } = this.extent();
    if (state.i >= nQ || state.j >= nK) Object.assign(state, { i: null, j: null, pinned: false });
    if (!VIEWS.some((view) => view.name === state.view)) state.view = "matrix";
    return true;
  }
  /** Everything shown is brought in line with the state; `changed` names the fields, null means all. */
  changed(changed) {
    if (changed && this.chosen && [...changed].every((name) => CAMERA.has(name))) return this.views[this.state.view].show(this.state, changed);
    const has = (...names) => !changed || names.some((name) => changed.has(name));
    if (has("theme")) this.retheme();
    if (has("r", "x", "l", "h", "unit")) this.settle();
    const { state } = this;
    if (has("r", "x", "unit") || !this.tokens) this.read();
    if (changed && has("r", "x")) Object.assign(this, { said: null, waiting: false, hovered: null });
    if (this.chosen) {
      const { nQ, nK } = this.extent();
      this.series = this.tiles.series(this.tileParams(), nQ, nK);
      this.recolour();
      this.pins();
    }
    this.shell.show(state, changed);
    for (const part of Object.values(this.parts)) part.show(state, changed);
    if (!this.chosen) return this.wait();
    for (const [name, view] of Object.entries(this.views)) {
      if (name === state.view) view.show(state, has("view") ? null : changed);
      else if (has("view")) view.hide();
    }
    this.shell.status();
  }
  /** Have the tokens of the text. */
  read() {
    const { unit } = this.state, params = { ...this.place(), l: this.layer.l };
    if (unit !== "tokens") params.unit = unit;
    const tokens = new Tokens(this.source, params, this.extent(), () => {
      if (tokens !== this.tokens) return;
      const changed = new Set(["tokens"]);
      this.views.matrix?.labels.clear();
      this.shell.show(this.state, changed);
      this.parts.overview.show(this.state, changed);
      if (this.chosen) this.changed(new Set(["sinks"]));
    });
    this.tokens = tokens;
    this.busy(tokens.ensure(0, 1));
  }
  /** The overview is there: begin with a telling head and the cell that tells it. */
  told(said) {
    this.said = said;
    this.shell.cards(said);
    if (this.chosen && !this.waiting) return;
    this.waiting = false;
    this.begin(said.telling?.[0]);
  }
  /** Of a long text it is known late what tells: it is shown then, if nothing was done before. */
  wait() {
    if (this.said) return this.begin(this.said.telling?.[0]);
    clearTimeout(this.timer);
    this.timer = setTimeout(() => {
      if (this.chosen) return;
      this.waiting = true;
      this.begin();
    }, PATIENCE);
  }
  /** The first head that is shown: the one that tells most, or the first of all. */
  begin(head = { l: this.text.layers[0].l, h: 0 }, act = false) {
    const { l, h, i = null, j = null } = head;
    this.store.set({ l, h, i, j, pinned: i !== null }, { act });
  }

  // What requests say.

  place() {
    return { r: this.state.r, x: this.state.x };
  }
  /** Queries and keys in the unit that is shown. */
  extent() {
    const words = this.state.unit === "words" && this.text.n_words;
    return words ? { nQ: words, nK: words } : { nQ: this.layer.n_q, nK: this.layer.n_k };
  }
  profileParams() {
    const { r, x, l, h } = this.state;
    return { r, x, l, h };
  }
  cellParams() {
    const { of, unit, sinks } = this.state, params = this.profileParams();
    if (of !== "weight") params.of = of;
    if (unit !== "tokens") params.unit = unit;
    if (sinks === "without" && this.tokens.special.size) params.without = [...this.tokens.special].sort((a, b) => a - b).join(",");
    return params;
  }
  tileParams() {
    const params = { ...this.cellParams(), pool: this.state.pool };
    if (this.state.minus) params.minus = this.state.minus;
    return params;
  }

  // Colours.

  retheme() {
    this.root.dataset.theme = this.themeName;
    for (const [name, value] of Object.entries(THEMES[this.themeName])) {
      if (typeof value === "string") this.root.style.setProperty(`--${name}`, value);
    }
    this.root.style.colorScheme = this.themeName;
  }
  recolour() {
    const { scale, range, map, of, minus } = this.state, diverging = Boolean(minus);
    const largest = diverging || of === "length" ? this.series.whole?.largest : 1;
    this.colours = this.palette(scaleOf({ n: this.extent().nK, kind: scale, range, largest, diverging }), map);
  }
  /** The colours of weights as they come, for pictures of heads. */
  plain() {
    return this.palette(scaleOf({ n: this.extent().nK }), this.state.map);
  }
  palette(scale, map) {
    const name = JSON.stringify([scale, this.themeName, map]);
    this.palettes ??= new Map();
    if (!this.palettes.has(name)) {
      if (this.palettes.size > 6) this.palettes.clear();
      this.palettes.set(name, new Colours(scale, this.themeName, map));
    }
    return this.palettes.get(name);
  }

  // What arrives.

  arrived() {
    if (this.chosen && (this.state.of === "length" || this.state.minus)) {
      this.recolour();
      this.shell.legend();
    }
    if (this.series?.pending && !this.sketching) this.sketchIn();
    if (this.series?.error) this.note(this.series.error);
    this.pins();
    this.views.matrix?.redraw();
    this.shell?.status();
  }
  /** While a long head has no first pass yet: its picture from a sample of its rows. */
  async sketchIn() {
    const { series } = this, { l, h } = this.state;
    this.sketching = true;
    const found = await this.busy(this.source.thumbs({ ...this.place(), l, size: 128, pool: "max" })).catch(() => null);
    this.sketching = false;
    if (!found?.values || series !== this.series) return;
    const { rows, columns, sampled, values } = found;
    const tile = { rows, columns, values: values.slice(h * rows * columns, (h + 1) * rows * columns) };
    if (tile.values.includes(-Infinity)) series.hidden = true;
    series.sketch = { tile, sampled, a: Math.log2(series.nQ / rows), b: Math.log2(series.nK / columns) };
    this.views.matrix.redraw();
  }
  get sketch() {
    return this.series?.sketch ?? null;
  }
  /** Find the few bright cells of a head, exactly. */
  async pins() {
    const { series } = this;
    if (!series || series.brights || series.params.minus || series.params.of || Math.max(series.nQ, series.nK) <= SIDE / 4) return;
    if (!series.whole || !this.tokens.pieces.size) return;
    series.brights = [];
    const { topA: a, topB: b, params } = series, pool = { ...params, pool: "max" };
    const tile = params.pool === "max" ? series.whole : await this.source.tile({ ...pool, a, b, i: 0, j: 0 }).catch(() => null);
    if (!tile?.values) return;
    const sinks = new Set([...this.tokens.special].map((at) => at >> b)), found = [];
    for (let k = 0; k < tile.values.length && found.length <= PINS; k++) {
      if (tile.values[k] >= BRIGHT && !sinks.has(k % tile.columns)) found.push([Math.floor(k / tile.columns), k % tile.columns]);
    }
    if (found.length > PINS) return;
    for (const [y, x] of found) {
      const cell = a || b ? await this.busy(brightest(this.source, params, a, b, y, x)).catch(() => null) : { i: y, j: x, value: tile.values[y * tile.columns + x] };
      if (cell && !this.tokens.special.has(cell.j)) series.brights.push(cell);
    }
    this.views.matrix?.remark();
    // Of a long text only a sample was looked at for the brightest cell of all.
    const best = series.brights.toSorted((x, y) => y.value - x.value)[0], { said } = this, told = said?.telling.find((head) => !head.name) ?? {};
    if (!best || !said?.sampled || best.value <= told.weight) return;
    if (!said.telling.includes(told)) said.telling.push(told);
    Object.assign(told, { l: series.params.l, h: series.params.h, ...best, weight: best.value, sentence: "", exact: true });
    this.shell.cards(this.said);
  }
  drawn() {
    this.shell.status();
  }

  // What a person does.

  go(l, h) {
    this.act("head");
    const same = l === this.state.l && h === this.state.h;
    if (!same) this.store.set({ l, h }, { act: true });
  }
  /** The next head, or the one before. */
  step(by) {
    const all = this.text.layers.flatMap(({ l, heads }) => Array.from({ length: heads }, (_, h) => [l, h]));
    const at = all.findIndex(([l, h]) => l === this.state.l && h === this.state.h);
    this.go(...all[(at + by + all.length) % all.length]);
  }
  choose(i, j) {
    this.act("cell");
    this.hovered = null;
    this.store.set({ i, j, pinned: true }, { act: true });
    this.views.matrix.remark();
  }
  /** Choose a row and the key that it looks at most, or a column and who looks at it most. */
  async chooseLine(which, at) {
    const { nQ } = this.extent(), [i, j] = which === "row" ? [at, 0] : [Math.min(at, nQ - 1), at];
    const said = await this.busy(this.source.cell({ ...this.cellParams(), i, j })).catch((problem) => this.fail(problem));
    const list = said?.[which === "row" ? "row_top" : "column_top"];
    if (!list?.length) return;
    const best = list.find(([k]) => !this.tokens.special.has(k)) ?? list[0];
    if (which === "row") this.choose(at, best[0]);
    else this.choose(best[0], at);
  }
  unpin() {
    this.hovered = null;
    if (!this.store.set({ i: null, j: null, pinned: false }, { act: true })) return;
    this.say("");
  }
  /** A cell under the pointer, or under the cursor of the keyboard: {i, j, value, a, b}. */
  hover(cell) {
    const before = this.hovered;
    if (cell?.i === before?.i && cell?.j === before?.j && cell?.a === before?.a) return;
    this.hovered = cell;
    if (cell) this.act("hover");
    this.parts.reading.show(this.state, null);
    this.views[this.state.view].remark?.();
    if (!cell && (this.state.i === null || this.state.j === null)) this.say("");
  }
  toggle(field, one, other, act = true) {
    this.store.set({ [field]: this.state[field] === one ? other : one }, { act });
  }
  /** After the first act the hint has done its work. */
  act() {
    this.waiting = false;
    this.shell.hint.hidden = true;
  }

  // What is said.

  say(sentence) {
    sentence = sentence.replace(/(?<=\bat |≈ )\d{5,}(\.\d+)?|\d{5,}(?= times| tokens| words| keys)/g, (n) => count(Math.round(n))).replaceAll(" %", "\u00a0%");
    if (this.shell.sentence.textContent !== sentence) this.shell.sentence.textContent = sentence;
  }
  /** Of a pixel that is many cells. */
  sayBlock({ i, j, a, b, value }) {
    const span = (at, level) => {
      const first = Math.floor(at / 2 ** level) * 2 ** level;
      return level ? `${count(first)} to ${count(first + 2 ** level - 1)}` : count(at);
    };
    const what = this.state.pool === "max" ? "with at most" : "on average with";
    const hidden = value === -Infinity, said = hidden ? "cannot see" : `look ${what} ${number(value)} at`;
    const more = hidden ? "" : ` A click chooses the brightest of these ${count(2 ** (a + b))} cells.`;
    this.say(`In ${headName(this.state.l, this.state.h)}, queries ${span(i, a)} ${said} keys ${span(j, b)}.${more}`);
  }
  note(text) {
    this.shell.noted(text);
  }
  fail(problem) {
    if (problem.name === "AbortError") return;
    if (this.shell) this.note(problem.message);
    else this.root.replaceChildren(make("p", { class: "failed", role: "alert", text: problem.message }));
  }

  // What tests wait for.

  /** Count a request that is under way. */
  async busy(promise) {
    this.loading++;
    try {
      return await promise;
    } finally {
      this.loading--;
      this.shell?.status();
    }
  }
  /** Resolves when nothing is loading and all is drawn. */
  async idle(most = 60000) {
    const end = performance.now() + most;
    for (let since = performance.now(); performance.now() < Math.min(end, since + CALM); ) {
      await new Promise((resolve) => setTimeout(resolve, 15));
      if (this.loading || this.tiles.busy || !this.views.matrix?.idle) since = performance.now();
    }
  }
}
