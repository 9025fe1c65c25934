// Tiles of a head: 256 × 256 pixels of exact numbers at independent levels of rows and columns, fetched by priority,
// given up when they are no longer seen, coloured when they are drawn, and forgotten when there are too many.

export const SIDE = 256;
const AT_ONCE = 8; // requests
const MOST = 400; // tiles kept: 512 KB each with their pictures
const PAINTING = 5; // milliseconds of a frame that recolouring may take

/** A tile's levels and place in one number, so that a frame makes no strings. */
export const keyOf = (a, b, i, j) => ((a * 32 + b) * 65536 + i) * 65536 + j;
const partsOf = (key) => {
  const j = key % 65536, i = Math.floor(key / 65536) % 65536, levels = Math.floor(key / 4294967296);
  return { a: levels >> 5, b: levels & 31, i, j };
};

/** The level at which all of n cells are one tile. */
export const topLevel = (n) => Math.max(0, Math.ceil(Math.log2(n / SIDE)));

/** The tiles of one head under one way of counting. */
class Series {
  constructor(params, nQ, nK) {
    Object.assign(this, { params, nQ, nK, topA: topLevel(nQ), topB: topLevel(nK) });
    this.tiles = new Map();
    this.waiting = new Set(); // tiles that need the first pass of the head
    this.failed = new Map(); // key: when it may be tried again
    this.hidden = false; // some cell is masked
    this.pending = null; // {state, share} of the first pass
    this.error = null;
    this.polls = 0;
  }
  get whole() {
    return this.tiles.get(keyOf(this.topA, this.topB, 0, 0));
  }
}

export class Tiles {
  /** `source` answers; `changed()` is called when something new can be drawn. */
  constructor(source, changed) {
    Object.assign(this, { source, changed, all: new Map(), running: new Map(), queue: [], clock: 0, kept: 0, spent: 0 });
  }
  /** The series of some parameters; the last few stay. */
  series(params, nQ, nK) {
    const name = JSON.stringify(params);
    let found = this.all.get(name);
    if (!found) found = new Series(params, nQ, nK);
    this.all.delete(name);
    this.all.set(name, found); // the newest is last
    return found;
  }
  /** Say which tiles of a series are wanted, the most wanted first; all others are given up. */
  want(series, keys) {
    this.queue = [];
    for (const key of keys) {
      if (series.tiles.has(key) || series.waiting.has(key) || (series.failed.get(key) ?? 0) > performance.now()) continue;
      this.queue.push(key);
    }
    for (const [request, { controller, key }] of this.running) {
      if (request.series !== series || !this.queue.includes(key)) controller.abort();
    }
    this.wanted = series;
    this.start();
  }
  start() {
    while (this.running.size < AT_ONCE && this.queue.length) {
      const key = this.queue.shift();
      if ([...this.running.keys()].some((request) => request.series === this.wanted && request.key === key)) continue;
      this.fetch(this.wanted, key);
    }
  }
  async fetch(series, key) {
    const request = { series, key }, controller = new AbortController();
    this.running.set(request, { controller, key });
    try {
      const answer = await this.source.tile({ ...series.params, ...partsOf(key) }, controller.signal);
      if (answer.pending) {
        series.waiting.add(key);
        series.pending = answer.pending;
        this.poll(series);
      } else this.keep(series, key, answer);
    } catch (problem) {
      if (problem.name !== "AbortError") {
        series.failed.set(key, performance.now() + 4000);
        series.error = problem.message;
      }
    }
    this.running.delete(request);
    this.changed();
    this.start();
  }
  /** Ask how far the first pass of a head is, until it is done. */
  async poll(series) {
    if (series.polls) return;
    const { r, x, l, h } = series.params;
    for (series.polls = 1; series.pending && this.wanted === series; series.polls++) {
      await new Promise((resolve) => setTimeout(resolve, Math.min(100 * series.polls, 500)));
      series.pending = await this.source.base({ r, x, l, h }).catch(() => null);
      if (series.pending?.state === "done") series.pending = null;
      this.changed();
    }
    series.polls = 0;
    series.pending = null;
    series.waiting.clear();
    this.changed();
  }
  keep(series, key, { rows, columns, values, sampled = 0 }) {
    let largest = 0;
    for (let k = 0; k < values.length; k++) {
      const size = Math.abs(values[k]);
      if (values[k] === -Infinity) series.hidden = true;
      else if (size > largest) largest = size;
    }
    series.error = null;
    series.tiles.set(key, { key, rows, columns, values, sampled, largest, picture: null, colours: null, said: null, used: this.clock });
    if (++this.kept > MOST) this.forget();
  }
  /** Let go of the quarter that was not drawn for longest; whole pictures stay. */
  forget() {
    const old = [];
    for (const series of this.all.values()) {
      for (const tile of series.tiles.values()) if (tile !== series.whole) old.push([tile.used, series, tile.key]);
    }
    old.sort((x, y) => x[0] - y[0]);
    for (const [, series, key] of old.slice(0, MOST >> 2)) series.tiles.delete(key);
    for (const [name, series] of this.all) if (this.all.size > 24 && series !== this.wanted) this.all.delete(name);
    this.kept = 0;
    for (const series of this.all.values()) this.kept += series.tiles.size;
  }
  /** Before a frame: what was painted in the last one no longer counts. */
  tick() {
    this.clock++;
    this.spent = 0;
    this.late = false; // whether a picture was left in its old colours
  }
  /** The picture of a tile in these colours; in a frame that has painted enough, in its old ones. */
  picture(tile, colours) {
    tile.used = this.clock;
    if (tile.colours === colours) return tile.picture;
    if (this.spent > PAINTING && tile.picture) {
      this.late = true;
      return tile.picture;
    }
    const began = performance.now();
    tile.picture ??= new OffscreenCanvas(tile.columns, tile.rows);
    const pen = tile.picture.getContext("2d"), image = pen.createImageData(tile.columns, tile.rows);
    colours.paint(tile.values, new Uint32Array(image.data.buffer));
    pen.putImageData(image, 0, 0);
    tile.colours = colours;
    this.spent += performance.now() - began;
    return tile.picture;
  }
  get busy() {
    return this.running.size + this.queue.length > 0 || Boolean(this.wanted?.pending);
  }
}

/** The brightest cell of a block of cells (at level a × b, pixel y, x), found through finer tiles: {i, j, value}. */
export async function brightest(source, params, a, b, y, x, signal) {
  let i = y, j = x, value = NaN;
  while (a > 0 || b > 0) {
    const [fineA, fineB] = [Math.max(0, a - 8), Math.max(0, b - 8)];
    const [rows, columns] = [1 << (a - fineA), 1 << (b - fineB)], [i0, j0] = [i * rows, j * columns];
    const tile = await source.tile(
      { ...params, pool: "max", a: fineA, b: fineB, i: Math.floor(i0 / SIDE), j: Math.floor(j0 / SIDE) }, signal);
    if (tile.pending) return null;
    let best = -1;
    const [y0, x0] = [i0 % SIDE, j0 % SIDE];
    for (let u = y0; u < Math.min(y0 + rows, tile.rows); u++) {
      for (let v = x0; v < Math.min(x0 + columns, tile.columns); v++) {
        const size = Math.abs(tile.values[u * tile.columns + v]);
        if (size !== Infinity && size > best) [best, i, j] = [size, i0 - y0 + u, j0 - x0 + v];
      }
    }
    if (best < 0) return null;
    [a, b, value] = [fineA, fineB, best];
  }
  return { i, j, value };
}
