// Beside the matrix: the largest weight of each query at its right, what each key receives below it, and a small map of
// the whole with the part that is seen.

import { SANS } from "./labels.js";
import { short } from "./words.js";

const BINS = 4096;
const MOST_KEYS = 16;

/** The profiles of one head, fetched once. */
export class Profiles {
  constructor(changed) {
    Object.assign(this, { changed, name: "", lines: {}, busy: false });
  }
  /** Have them fetched for these parameters. */
  async want(source, params, nQ, nK) {
    const name = JSON.stringify(params);
    if (name === this.name) return;
    this.name = name;
    this.lines = {};
    this.busy = true;
    for (const [axis, n] of [["rows", nQ], ["keys", nK]]) {
      const asked = { ...params, axis, bins: Math.min(n, BINS) };
      let found = null;
      while (!(found ??= await source.profile(asked).catch(() => ({ lines: [[]] }))) && this.name === name) await new Promise((resolve) => setTimeout(resolve, 500));
      if (this.name !== name) return;
      const [line] = found.lines, most = line.reduce((a, b) => (b > a && Number.isFinite(b) ? b : a), 0);
      this.lines[axis] = { line, most, size: found.size };
      this.busy = axis === "rows";
      this.changed();
    }
    if (!params.without) return;
    // What each query gives to the keys that were taken out; the rest is what it keeps.
    const { without, of, ...plain } = params, keys = without.split(",").slice(0, MOST_KEYS);
    const lines = await Promise.all(keys.map((j) => source.column({ ...plain, j, bins: BINS }))).catch(() => null);
    if (this.name !== name || !lines) return;
    const line = lines[0].map((_, k) => 1 - lines.reduce((sum, column) => sum + Math.max(0, column[k]), 0));
    this.lines.kept = { line, size: Math.ceil(nQ / line.length) };
    this.changed();
  }
  /** Draw one along an axis of the camera: `down` at the right of the map, else below it. */
  draw(pen, { axis, down, isQuery, x, y, depth, colours, named }) {
    const { line, most, size: per } = this.lines[isQuery ? "rows" : "keys"] ?? {};
    pen.font = `11px ${SANS}`;
    pen.fillStyle = colours.faint;
    pen.textBaseline = "alphabetic";
    pen.textAlign = "left";
    const title = isQuery ? "strongest" : "received", under = y + depth + 14;
    if (!down) pen.fillText(title, x, under);
    else if (named) pen.fillText(title, x, y - 8);
    if (!most) return;
    pen.textAlign = "right";
    if (!down) pen.fillText(`to ${short(Number(most.toPrecision(2)))}`, x + axis.length, under);
    pen.fillStyle = colours[isQuery ? "query" : "key"];
    pen.globalAlpha = 0.72;
    // A bin of several pixels is one bar; of several bins in a pixel the largest is shown.
    const wide = per / axis.zoom, gap = 1 / axis.zoom >= 8 ? 1 : 0, one = wide < 1;
    const end = one ? axis.length : Math.min(line.length, Math.ceil((axis.at + axis.seen) / per));
    for (let k = one ? 0 : Math.max(0, Math.floor(axis.at / per)); k < end; k++) {
      let value = 0, from = k, to = k + 1;
      if (one) {
        const last = Math.min(line.length, Math.ceil(axis.cell(k + 1) / per));
        for (let bin = Math.floor(axis.cell(k) / per); bin < last; bin++) if (line[bin] > value) value = line[bin];
      } else {
        value = line[k];
        from = Math.max(0, Math.round(axis.pixel(k * per)));
        to = Math.min(axis.length, Math.round(axis.pixel((k + 1) * per))) - gap;
      }
      const size = Math.max(value > 0 ? 1 : 0, Math.round((depth * value) / most));
      if (down) pen.fillRect(x, y + from, size, to - from);
      else pen.fillRect(x + from, y, to - from, size);
    }
    pen.globalAlpha = 1;
  }
}

/** The values of a tile in fewer pixels: the largest of each block, exact. */
export function shrink({ values, rows, columns }, height, width) {
  const [h, w] = [Math.min(height, rows), Math.min(width, columns)];
  const made = new Float32Array(h * w).fill(-Infinity);
  for (let y = 0; y < rows; y++) {
    const line = Math.floor((y * h) / rows) * w;
    for (let x = 0; x < columns; x++) {
      const at = line + Math.floor((x * w) / columns), value = values[y * columns + x];
      if (made[at] === -Infinity || Math.abs(value) > Math.abs(made[at]) || Number.isNaN(value)) made[at] = value;
    }
  }
  return { values: made, rows: h, columns: w };
}

/** Values as a picture. */
export function painted({ values, rows, columns }, colours) {
  const canvas = new OffscreenCanvas(columns, rows), pen = canvas.getContext("2d");
  const image = pen.createImageData(columns, rows);
  colours.paint(values, new Uint32Array(image.data.buffer));
  pen.putImageData(image, 0, 0);
  return canvas;
}

/** A small map of the whole with the part that is seen. */
export class Minimap {
  box = null; // where it was drawn
  draw(pen, ratio, { tile, camera, room, palette, colours, hatch, ends }) {
    const { down, across } = camera;
    const square = Math.max(down.n / across.n, across.n / down.n) <= 4;
    const scale = Math.min(room.width / across.n, room.height / down.n);
    const width = Math.round(square ? across.n * scale : room.width), height = Math.round(square ? down.n * scale : room.height);
    const x = Math.round(room.x + room.width - width), y = Math.round(room.y);
    pen.fillStyle = hatch ?? colours.field;
    pen.fillRect(x, y, width, height);
    if (tile) {
      const size = `${width} ${height} ${camera.turn}`;
      if (this.tile !== tile || this.palette !== palette || this.size !== size) {
        const [rows, columns] = camera.turn ? [width, height] : [height, width];
        this.picture = painted(shrink(tile, Math.round(rows * ratio), Math.round(columns * ratio)), palette);
        Object.assign(this, { tile, palette, size });
      }
      // The last pixel of a tile may stand for fewer cells than the others.
      const [more, past] = ends;
      pen.save();
      pen.beginPath();
      pen.rect(x, y, width, height);
      pen.clip();
      if (camera.turn) {
        pen.transform(0, 1, 1, 0, 0, 0);
        pen.drawImage(this.picture, y, x, height * past, width * more);
      } else pen.drawImage(this.picture, x, y, width * past, height * more);
      pen.restore();
    }
    pen.strokeStyle = colours.hatch;
    pen.lineWidth = 1;
    pen.strokeRect(x - 0.5, y - 0.5, width + 1, height + 1);
    const vw = Math.max(5, (across.seen / across.n) * width), vh = Math.max(5, (down.seen / down.n) * height);
    const vx = Math.min(x + (across.at / across.n) * width, x + width - vw);
    const vy = Math.min(y + (down.at / down.n) * height, y + height - vh);
    pen.strokeStyle = colours.query;
    pen.lineWidth = 1.5;
    pen.strokeRect(vx, vy, vw, vh);
    this.box = { x, y, width, height };
  }
}
