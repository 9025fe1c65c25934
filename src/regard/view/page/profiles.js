// Beside the matrix: the largest weight of each query at its right, what each key receives below it, and a small map of
// the whole with the part that is seen.

import { SANS } from "./labels.js";
import { short } from "./words.js";

const BINS = 4096;
const MOST_KEYS = 16;

/** The profiles of one head, fetched once. */
export class Profiles {
  constructor(changed) {
    Object.assign(this, { changed, name: "", lines: {}, most: {} });
  }
  /** Have them fetched for these parameters. */
  async want(source, params, nQ, nK) {
    const name = JSON.stringify(params);
    if (name === this.name) return;
    this.name = name;
    this.lines = {};
    for (const [axis, n] of [["rows", nQ], ["keys", nK]]) {
      const found = await source.profile({ ...params, axis, bins: Math.min(n, BINS) }).catch(() => null);
      if (this.name !== name) return;
      if (!found) return void setTimeout(() => this.name === name && (this.name = "", this.changed()), 1500);
      let most = 0;
      for (const value of found.lines[0]) if (value > most && Number.isFinite(value)) most = value;
      this.lines[axis] = { line: found.lines[0], size: found.size };
      this.most[axis] = most;
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
    const { line, size: per } = this.lines[isQuery ? "rows" : "keys"] ?? {}, most = this.most[isQuery ? "rows" : "keys"];
    const title = isQuery ? "strongest" : "received";
    pen.font = `11px ${SANS}`;
    pen.fillStyle = colours.faint;
    pen.textBaseline = "alphabetic";
    pen.textAlign = "left";
    if (down && named) pen.fillText(title, x, y - 8);
    if (!down) pen.fillText(title, x, y + depth + 14);
    if (!line || !most) return;
    const high = most;
    pen.textAlign = "right";
    if (!down) pen.fillText(`to ${short(Number(high.toPrecision(2)))}`, x + axis.length, y + depth + 14);
    pen.fillStyle = colours[isQuery ? "query" : "key"];
    pen.globalAlpha = 0.72;
    const gap = 1 / axis.zoom >= 8 ? 1 : 0;
    // A pixel shows the largest of the bins that it stands for, a bin of several pixels is one bar.
    const wide = per / axis.zoom;
    if (wide >= 1) {
      const last = Math.min(line.length, Math.ceil((axis.at + axis.seen) / per));
      for (let bin = Math.max(0, Math.floor(axis.at / per)); bin < last; bin++) {
        const from = Math.max(0, Math.round(axis.pixel(bin * per))), to = Math.min(axis.length, Math.round(axis.pixel((bin + 1) * per)));
        const size = Math.max(line[bin] > 0 ? 1 : 0, Math.round((depth * line[bin]) / high));
        if (down) pen.fillRect(x, y + from, size, to - from - gap);
        else pen.fillRect(x + from, y, to - from - gap, size);
      }
    } else {
      for (let p = 0; p < axis.length; p++) {
        let value = 0;
        const last = Math.min(line.length, Math.ceil(axis.cell(p + 1) / per));
        for (let bin = Math.floor(axis.cell(p) / per); bin < last; bin++) if (line[bin] > value) value = line[bin];
        const size = Math.max(value > 0 ? 1 : 0, (depth * value) / high);
        if (down) pen.fillRect(x, y + p, size, 1);
        else pen.fillRect(x + p, y, 1, size);
      }
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
