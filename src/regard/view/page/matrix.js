// The matrix itself: a canvas with the tiles that are seen, names, profiles and a small map around them, and a second
// canvas above it for what follows the hand. A frame only draws: it measures nothing, asks for nothing and keeps what
// it can from the last one.

import { Camera } from "./camera.js";
import { THEMES, hatching } from "./colour.js";
import { hands } from "./gestures.js";
import { LETTER, Labels, MONO, SANS } from "./labels.js";
import { Marks } from "./marks.js";
import { moves } from "./moves.js";
import { Minimap, Profiles } from "./profiles.js";
import { SIDE, keyOf } from "./tiles.js";
import { count, digits } from "./words.js";

const ROOMY = 28; // pixels of a cell with its number in it
const LITTLE = 0.1; // of a row that is kept without some keys
const LINES = 14; // pixels of a cell from which cells stand apart

export const name = "matrix", title = "Matrix";

export function mount(element, app) {
  return new Matrix(element, app);
}

class Matrix {
  constructor(element, app) {
    Object.assign(this, { element, app, camera: new Camera(), labels: new Labels(), minimap: new Minimap() });
    this.profiles = new Profiles(() => this.redraw());
    const canvas = (id) => element.appendChild(Object.assign(document.createElement("canvas"), { id }));
    this.canvas = canvas("map");
    this.above = canvas("marks");
    this.canvas.setAttribute("aria-hidden", "true");
    this.above.tabIndex = 0;
    this.above.setAttribute("role", "application");
    this.above.setAttribute("aria-roledescription", "matrix");
    this.pen = this.canvas.getContext("2d", { alpha: false });
    this.over = this.above.getContext("2d");
    this.map = { x: 0, y: 0, width: 0, height: 0 }; // CSS pixels
    this.origin = { x: 0, y: 0 }; // where a matrix begins that does not fill the room
    this.missing = []; // tiles
    this.coarser = []; // where parents stand for tiles: four numbers each
    this.marks = new Marks(this);
    this.size = { width: 0, height: 0, ratio: 1 };
    new ResizeObserver(([entry]) => this.resize(entry.contentRect)).observe(element);
    hands(this.above, (this.hands = this.handler()));
    this.above.addEventListener("keydown", (event) => this.onKey(event));
    this.frame = this.frame.bind(this);
  }

  // When to draw.

  resize({ width, height }) {
    const ratio = devicePixelRatio || 1;
    this.size = { width: Math.floor(width), height: Math.floor(height), ratio };
    for (const canvas of [this.canvas, this.above]) {
      canvas.width = Math.round(this.size.width * ratio);
      canvas.height = Math.round(this.size.height * ratio);
      canvas.style.width = `${this.size.width}px`;
      canvas.style.height = `${this.size.height}px`;
    }
    this.hatches = null;
    this.redraw();
  }
  show(state, changed) {
    this.shown = true;
    this.anchor = null;
    if (!changed || ["turn", "unit", "r", "x", "l", "h"].some((field) => changed.has(field))) this.labels.clear();
    this.redraw();
  }
  hide() {
    this.shown = false;
    this.app.tiles.want(this.app.series, []);
  }
  redraw() {
    this.dirty = true;
    this.again();
  }
  /** Draw again only what follows the hand. */
  remark() {
    this.remarked = true;
    this.again();
  }
  again() {
    if (!this.asked) this.asked = requestAnimationFrame(this.frame);
  }
  get idle() {
    return !this.shown || !(this.asked || this.profiles.busy);
  }

  // Where things are.

  layout() {
    const { app, size, camera, map } = this, { state, tokens } = app, { nQ, nK } = app.extent();
    const phone = size.width < 480, small = Math.max(nQ, nK) <= 64, large = Math.max(nQ, nK) > 32;
    this.phone = phone;
    this.right = phone ? 40 : 72;
    this.below = phone ? 46 : large ? 78 : 52;
    const letters = Math.min(tokens.longest, 14) * LETTER;
    this.left = phone ? Math.max(64, Math.min(88, small ? letters + 16 : 88)) : small ? Math.max(state.turn ? 134 : 118, letters + 18) : 134;
    const wide = size.width - this.left - this.right;
    const level = small && tokens.longest * LETTER <= Math.min(96, wide / (state.turn ? nQ : nK)) - 6;
    this.top = level ? 42 : 20 + Math.min(92, small ? letters * 0.71 + 18 : phone ? 60 : 68);
    camera.set({ nQ, nK, width: wide, height: size.height - this.top - this.below, turn: state.turn, state });
    const begin = (axis, start, wanted, usual) => { // where zooming left it, or in the middle, and above
      const slack = Math.max(0, axis.room - axis.length);
      return Math.round(start + Math.max(0, Math.min(slack, axis.whole ? slack * usual : wanted - start)));
    };
    map.x = begin(camera.across, this.left, this.origin.x, 0.5);
    map.y = begin(camera.down, this.top, this.origin.y, 0);
    map.width = Math.round(camera.across.length);
    map.height = Math.round(camera.down.length);
  }
  /** The cell under a pixel: {i, j} as whole numbers, or null. */
  at(x, y) {
    const { map, camera } = this;
    if (x < map.x || y < map.y || x >= map.x + map.width || y >= map.y + map.height) return null;
    const down = Math.min(camera.down.n - 1, Math.floor(camera.down.cell(y - map.y)));
    const across = Math.min(camera.across.n - 1, Math.floor(camera.across.cell(x - map.x)));
    return camera.turn ? { i: across, j: down } : { i: down, j: across };
  }
  /** The middle of a cell in pixels of the element, for marks and for tests. */
  where(i, j) {
    const { map, camera } = this, [across, down] = camera.turn ? [i, j] : [j, i];
    return { x: map.x + camera.across.pixel(across + 0.5), y: map.y + camera.down.pixel(down + 0.5) };
  }
  /** The levels of the tiles that are drawn now: a tile's pixel is one to two pixels of the screen, never less. */
  levels() {
    const { camera, size, app } = this, least = (axis) => Math.ceil(Math.log2(axis.zoom / size.ratio) - 1e-3);
    return [Math.min(Math.max(0, least(camera.q)), app.series.topA), Math.min(Math.max(0, least(camera.k)), app.series.topB)];
  }
  /** What is known of a cell: {value, a, b}, from the finest tile that is there. */
  known(i, j) {
    const { series } = this.app, [a0, b0] = this.levels();
    for (let d = 0; d < 24; d++) {
      const a = Math.min(a0 + d, series.topA), b = Math.min(b0 + d, series.topB), [y, x] = [i >> a, j >> b];
      const tile = series.tiles.get(keyOf(a, b, Math.floor(y / SIDE), Math.floor(x / SIDE)));
      if (tile) return { value: tile.values[(y % SIDE) * tile.columns + (x % SIDE)], a, b };
    }
    return null;
  }
  /** The key that a query looks at most, special ones apart, as far as tiles are there. */
  strongest(i) {
    let best = null;
    for (let j = 0; j < this.camera.k.n; j++) {
      const known = this.app.tokens.special.has(j) ? null : this.known(i, j);
      if (known && !known.a && !known.b && !(known.value <= best?.value)) best = { i, j, ...known };
    }
    return best;
  }

  // A frame.

  frame() {
    this.asked = 0;
    if (!this.shown || !this.app.chosen || !this.app.series || !this.size.width) return;
    const began = performance.now();
    this.app.tiles.tick();
    if (this.dirty) {
      this.dirty = false;
      this.layout();
      this.paint();
      if (this.under) this.hands.hover(this.under.x, this.under.y), (this.under = null);
      this.remarked = true;
      this.app.drawn(this);
    }
    if (this.remarked) {
      this.remarked = false;
      this.marks.draw(this.over, this.size.ratio);
    }
    if (this.app.tiles.late) this.redraw();
    this.cost = performance.now() - began;
  }
  paint() {
    const { pen, size, map, camera, app } = this, { ratio } = size, colours = THEMES[app.themeName], { series } = app;
    if (this.hatchTheme !== app.themeName) this.hatches = null;
    this.hatchTheme = app.themeName;
    this.hatches ??= hatching(pen, colours, ratio);
    pen.setTransform(1, 0, 0, 1, 0, 0);
    pen.fillStyle = colours.paper;
    pen.fillRect(0, 0, this.canvas.width, this.canvas.height);
    pen.imageSmoothingEnabled = false;
    this.box = [map.x * ratio, map.y * ratio, map.width * ratio, map.height * ratio].map(Math.round);
    pen.fillStyle = series.hidden ? this.hatches : colours.field;
    pen.fillRect(...this.box);
    pen.save();
    pen.beginPath();
    pen.rect(...this.box);
    pen.clip();
    this.tilesOf(pen, series);
    pen.restore();
    pen.setTransform(ratio, 0, 0, ratio, 0, 0);
    this.dims(pen, colours);
    this.weak(pen, colours);
    this.apart(pen, colours);
    this.numbers(pen, series);
    this.corners(pen, colours);
    pen.strokeStyle = colours.hatch;
    pen.lineWidth = 1;
    pen.strokeRect(map.x - 0.5, map.y - 0.5, map.width + 1, map.height + 1);
    this.around(pen, colours);
  }
  /** Draw what is there of the tiles that are seen, and ask for the rest. */
  tilesOf(pen, series) {
    const { camera, app } = this, { q, k } = camera, [a, b] = this.levels(), missing = this.missing;
    missing.length = 0;
    this.coarser.length = 0;
    this.sampled = 0;
    const [tall, wide] = [SIDE * 2 ** a, SIDE * 2 ** b];
    const i0 = Math.floor(q.at / tall), i1 = Math.min(Math.ceil((q.at + q.seen) / tall), Math.ceil(q.n / tall));
    const j0 = Math.floor(k.at / wide), j1 = Math.min(Math.ceil((k.at + k.seen) / wide), Math.ceil(k.n / wide));
    pen.setTransform(...(camera.turn ? [0, 1, 1, 0, 0, 0] : [1, 0, 0, 1, 0, 0]));
    for (let i = i0; i < i1; i++) {
      for (let j = j0; j < j1; j++) {
        const tile = series.tiles.get(keyOf(a, b, i, j));
        if (tile) this.tile(pen, tile, a, b, i * tall, (i + 1) * tall, j * wide, (j + 1) * wide, i * tall, j * wide);
        else {
          missing.push(keyOf(a, b, i, j));
          this.parent(pen, series, a, b, i, j);
        }
      }
    }
    if (!series.whole) missing.unshift(keyOf(series.topA, series.topB, 0, 0));
    const [ci, cj] = [(i0 + i1 - 1) / 2, (j0 + j1 - 1) / 2];
    if (missing.length > 1) {
      const far = (key) => Math.hypot((Math.floor(key / 65536) % 65536) - ci, (key % 65536) - cj);
      const levels = Math.floor(keyOf(a, b, 0, 0) / 4294967296);
      missing.sort((one, two) => (Math.floor(one / 4294967296) === levels ? far(one) : -1) - (Math.floor(two / 4294967296) === levels ? far(two) : -1));
    } else if (!missing.length) this.near(a, b, i0, i1, j0, j1, missing);
    app.tiles.want(series, missing);
  }
  /** What may be seen next: one ring around, and the level above. */
  near(a, b, i0, i1, j0, j1, missing) {
    const { series } = this.app, rows = Math.ceil(series.nQ / (SIDE * 2 ** a)), columns = Math.ceil(series.nK / (SIDE * 2 ** b));
    for (let i = Math.max(0, i0 - 1); i < Math.min(rows, i1 + 1); i++) {
      for (let j = Math.max(0, j0 - 1); j < Math.min(columns, j1 + 1); j++) {
        if (i < i0 || i >= i1 || j < j0 || j >= j1) missing.push(keyOf(a, b, i, j));
      }
    }
    const [up, over] = [Math.min(a + 1, series.topA), Math.min(b + 1, series.topB)];
    missing.push(keyOf(up, over, i0 >> 1, j0 >> 1), keyOf(up, over, (i1 - 1) >> 1, (j1 - 1) >> 1));
  }
  /** Draw a part of a tile: queries from q0 to q1, keys from k0 to k1; the tile begins at query fq, key fk. */
  tile(pen, tile, a, b, q0, q1, k0, k1, fq, fk) {
    const { camera, box } = this, { q, k } = camera, { ratio } = this.size, [tall, wide] = [2 ** a, 2 ** b];
    const oq = camera.turn ? box[0] : box[1], ok = camera.turn ? box[1] : box[0]; // where each axis begins
    // Only the pixels that are seen, whole ones: of a tile of one cell a hundred pixels wide that is little.
    const r0 = Math.max((q0 - fq) / tall, Math.floor((q.at - fq) / tall)), r1 = Math.min(tile.rows, (q1 - fq) / tall, Math.ceil((q.at + q.seen - fq) / tall));
    const c0 = Math.max((k0 - fk) / wide, Math.floor((k.at - fk) / wide)), c1 = Math.min(tile.columns, (k1 - fk) / wide, Math.ceil((k.at + k.seen - fk) / wide));
    if (r1 <= r0 || c1 <= c0) return;
    const y0 = oq + Math.round(q.pixel(fq + r0 * tall) * ratio), y1 = oq + Math.round(q.pixel(fq + r1 * tall) * ratio);
    const x0 = ok + Math.round(k.pixel(fk + c0 * wide) * ratio), x1 = ok + Math.round(k.pixel(fk + c1 * wide) * ratio);
    pen.drawImage(this.app.tiles.picture(tile, this.app.colours), c0, r0, c1 - c0, r1 - r0, x0, y0, x1 - x0, y1 - y0);
    if (tile.sampled) this.sampled = tile.sampled;
  }
  /** In place of a tile that is not there, the nearest coarser one: exact, its cells larger. */
  parent(pen, series, a, b, i, j) {
    const [q0, k0] = [i * SIDE * 2 ** a, j * SIDE * 2 ** b], [q1, k1] = [q0 + SIDE * 2 ** a, k0 + SIDE * 2 ** b];
    for (let d = 1; d < 24; d++) {
      const [up, over] = [Math.min(a + d, series.topA), Math.min(b + d, series.topB)];
      const [pi, pj] = [Math.floor(q0 / (SIDE * 2 ** up)), Math.floor(k0 / (SIDE * 2 ** over))];
      const tile = series.tiles.get(keyOf(up, over, pi, pj));
      if (tile) {
        this.tile(pen, tile, up, over, q0, q1, k0, k1, pi * SIDE * 2 ** up, pj * SIDE * 2 ** over);
        this.coarser.push(q0, q1, k0, k1);
        return;
      }
      if (up === series.topA && over === series.topB) break;
    }
    const sketch = this.app.sketch;
    if (!sketch) return;
    this.tile(pen, sketch.tile, sketch.a, sketch.b, q0, q1, k0, k1, 0, 0);
    this.sampled = sketch.sampled;
  }
  /** Fill what lies between two pixels of an axis, all the way along the other. */
  band(pen, axis, from, to) {
    const { map, camera } = this, first = Math.max(0, from), size = Math.min(axis.length, to) - first;
    if (size <= 0) return;
    if (axis === camera.across) pen.fillRect(map.x + first, map.y, size, map.height);
    else pen.fillRect(map.x, map.y + first, map.width, size);
  }
  /** Grey over the columns of special tokens: no number changes. */
  dims(pen, colours) {
    const { app } = this, { k } = this.camera;
    if (app.state.sinks !== "dim" || 1 / k.zoom < 2) return;
    pen.fillStyle = colours.paper;
    pen.globalAlpha = 0.55;
    for (const j of app.tokens.special) {
      this.band(pen, k, Math.round(k.pixel(j)), Math.round(k.pixel(j + 1)));
    }
    pen.globalAlpha = 1;
  }
  /** Without some keys: hatching over rows that keep little of what the model gives. */
  weak(pen, colours) {
    const { line, size } = this.profiles.lines.kept ?? {}, { q } = this.camera;
    if (!line || this.app.state.sinks !== "without") return;
    pen.fillStyle = hatching(pen, colours, 1, true);
    for (let bin = Math.floor(q.at / size); bin < Math.min(line.length, (q.at + q.seen) / size); bin++) {
      if (line[bin] < LITTLE) this.band(pen, q, q.pixel(bin * size), Math.max(q.pixel(bin * size) + 1, q.pixel((bin + 1) * size)));
    }
  }
  /** Thin lines between large cells. */
  apart(pen, colours) {
    pen.fillStyle = colours.paper;
    for (const axis of [this.camera.across, this.camera.down]) {
      if (1 / axis.zoom < LINES) continue;
      const last = Math.min(axis.n - 1, Math.floor(axis.at + axis.seen));
      for (let c = Math.ceil(axis.at + 1e-9); c <= last; c++) {
        const at = Math.round(axis.pixel(c));
        if (at > 0) this.band(pen, axis, at, at + 1);
      }
    }
  }
  numbers(pen, series) {
    const { camera, map, app } = this, { down, across } = camera;
    const wide = 1 / across.zoom;
    if (1 / down.zoom < 18 || wide < ROOMY) return;
    pen.font = `${wide >= 56 ? 12 : wide >= 38 ? 11 : 10}px ${MONO}`;
    pen.textAlign = "center";
    pen.textBaseline = "middle";
    const dim = app.state.sinks === "dim", [y1, x1] = [Math.min(down.n, down.at + down.seen), Math.min(across.n, across.at + across.seen)];
    for (let y = Math.floor(down.at); y < y1; y++) {
      for (let x = Math.floor(across.at); x < x1; x++) {
        const [i, j] = camera.turn ? [x, y] : [y, x];
        const tile = series.tiles.get(keyOf(0, 0, Math.floor(i / SIDE), Math.floor(j / SIDE)));
        if (!tile) continue;
        const at = (i % SIDE) * tile.columns + (j % SIDE), px = across.pixel(x + 0.5), py = down.pixel(y + 0.5);
        if (px < 14 || px > across.length - 14 || py < 7 || py > down.length - 7) continue;
        tile.said ??= new Array(tile.values.length);
        const text = (tile.said[at] ??= digits(tile.values[at]));
        if (text.length * 6.1 > wide) continue;
        const faded = dim && app.tokens.special.has(j);
        pen.fillStyle = Number.isNaN(tile.values[at]) ? "#fff" : faded ? THEMES[app.themeName].ink : app.colours.ink(tile.values[at]);
        pen.fillText(text, map.x + px, map.y + py + 0.5);
      }
    }
  }
  /** A word in the corner of what is coarser than it should be, or sampled. */
  corners(pen, colours) {
    const { camera, map, coarser } = this, { q, k } = camera;
    pen.font = `10px ${SANS}`;
    pen.textBaseline = "middle";
    pen.textAlign = "right";
    const tag = (text, right, top) => {
      const wide = text.length * 5.4 + 8;
      pen.fillStyle = colours.paper;
      pen.globalAlpha = 0.85;
      pen.fillRect(right - wide, top, wide, 14);
      pen.globalAlpha = 1;
      pen.fillStyle = colours.faint;
      pen.fillText(text, right - 4, top + 7.5);
    };
    for (let at = 0; at < coarser.length; at += 4) {
      const [top, bottom, left, right] = [q.pixel(coarser[at]), q.pixel(coarser[at + 1]), k.pixel(coarser[at + 2]), k.pixel(coarser[at + 3])];
      const [x0, x1, y0, y1] = camera.turn ? [top, bottom, left, right] : [left, right, top, bottom];
      const clear = Math.min(x1, map.width) - Math.max(0, x0) > 70 && Math.min(y1, map.height) - Math.max(0, y0) > 30;
      if (clear) tag("coarser", map.x + Math.min(x1, map.width), map.y + Math.max(0, y0));
    }
    if (this.sampled) tag(`sampled ${count(this.sampled)} of ${count(q.n)}`, map.x + map.width, map.y);
  }
  /** Titles, names, profiles and the small map. */
  around(pen, colours) {
    const { camera, map, app, size } = this, { tokens, series } = app, { turn } = camera;
    const [across, down] = turn ? ["query", "key"] : ["key", "query"];
    const far = Math.min(size.width - 4, map.x + map.width + this.right);
    this.labels.across(pen, { axis: camera.across, x: map.x, y: map.y, height: this.top - 18, colours, end: far }, tokens, turn);
    this.labels.down(pen, { axis: camera.down, x: map.x, y: map.y, width: this.left, colours }, tokens, !turn);
    pen.font = `600 12px ${SANS}`;
    pen.textBaseline = "alphabetic";
    pen.textAlign = "left";
    pen.fillStyle = colours[across];
    pen.fillText(turn ? "query → looks at" : "key → is looked at", map.x, map.y - (this.labels.level ? 30 : this.top - 13));
    pen.textAlign = "right";
    pen.fillStyle = colours[down];
    pen.fillText(`${down} ↓${this.phone ? "" : turn ? " is looked at" : " looks at"}`, map.x - 8, map.y - 8);
    if (series.params.minus) return this.small(pen, colours); // profiles are those of one head
    this.profiles.want(app.source, app.cellParams(), camera.q.n, camera.k.n);
    this.profiles.draw(pen, { colours, axis: camera.down, down: true, isQuery: !turn, x: map.x + map.width + 8, y: map.y, depth: this.right - 16, named: !this.phone });
    this.profiles.draw(pen, { colours, axis: camera.across, isQuery: turn, x: map.x, y: map.y + map.height + 8, depth: this.below - 28 });
    this.small(pen, colours);
  }
  /** The small map, where not all is seen. */
  small(pen, colours) {
    const { camera, map, app, size } = this, { series } = app, tile = series.whole;
    this.minimap.box = null;
    if (this.phone || (camera.q.whole && camera.k.whole && Math.max(camera.q.n, camera.k.n) <= 256)) return;
    const room = { x: map.x - this.left + 12, y: map.y + map.height + 8, width: this.left - 24, height: this.below - 14 };
    const ends = tile ? [(tile.rows << series.topA) / series.nQ, (tile.columns << series.topB) / series.nK] : null;
    this.minimap.draw(pen, size.ratio, { tile, camera, room, palette: app.colours, colours, hatch: series.hidden ? colours.hidden : null, ends });
  }
}
Object.assign(Matrix.prototype, moves);
