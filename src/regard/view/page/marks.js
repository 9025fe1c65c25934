// What lies above the matrix and follows the hand: the crosshair with the names of its row and column, the chosen cell,
// pins on bright cells that would be too small to see, and the box being drawn.

import { THEMES } from "./colour.js";
import { LETTER, MONO, SANS } from "./labels.js";
import { clip, count } from "./words.js";

const LEAST = 5; // pixels that a mark has at any zoom

export class Marks {
  constructor(matrix) {
    Object.assign(this, { matrix, rubber: null, rings: [] });
  }
  draw(pen, ratio) {
    const { matrix } = this, { app, map } = matrix, colours = THEMES[app.themeName], { i, j, pinned } = app.state;
    pen.setTransform(ratio, 0, 0, ratio, 0, 0);
    pen.clearRect(0, 0, matrix.size.width, matrix.size.height);
    const chosen = i !== null && j !== null ? app.state : null;
    pen.save();
    pen.beginPath();
    pen.rect(map.x - 8, map.y - 8, map.width + 16, map.height + 16);
    pen.clip();
    this.pins(pen, colours);
    const cell = app.hovered ?? chosen;
    if (cell) this.cross(pen, cell, colours);
    if (chosen) this.cell(pen, chosen, colours, pinned);
    if (app.hovered) this.cell(pen, app.hovered, colours, false);
    pen.restore();
    if (cell) this.names(pen, cell, colours);
    if (this.rubber) {
      const { from, to } = this.rubber;
      pen.strokeStyle = colours.ink;
      pen.setLineDash([4, 3]);
      pen.strokeRect(Math.min(from.x, to.x) + 0.5, Math.min(from.y, to.y) + 0.5, Math.abs(to.x - from.x), Math.abs(to.y - from.y));
      pen.setLineDash([]);
    }
  }
  /** Where the cells lie that a mark stands for: of a pixel, all that it pools. */
  span(axis, from, level) {
    const size = 2 ** (level ?? 0), first = Math.floor(from / size) * size;
    const start = axis.pixel(first), end = axis.pixel(Math.min(axis.n, first + size));
    const grow = Math.max(0, LEAST - (end - start)) / 2;
    return [start - grow, end + grow];
  }
  box({ i, j, a, b }) {
    const { camera, map } = this.matrix, [top, bottom] = this.span(camera.q, i, a), [left, right] = this.span(camera.k, j, b);
    const [x0, x1, y0, y1] = camera.turn ? [top, bottom, left, right] : [left, right, top, bottom];
    return [map.x + x0, map.y + y0, x1 - x0, y1 - y0];
  }
  cross(pen, cell, colours) {
    const { map, camera } = this.matrix, [x, y, w, h] = this.box(cell);
    pen.globalAlpha = 0.8;
    pen.lineWidth = 1;
    const line = (colour, ...rect) => {
      pen.strokeStyle = colour;
      pen.strokeRect(...rect);
    };
    const [row, column] = camera.turn ? [colours.key, colours.query] : [colours.query, colours.key];
    line(row, map.x - 0.5, Math.round(y) - 0.5, map.width + 1, Math.round(h) + 1);
    line(column, Math.round(x) - 0.5, map.y - 0.5, Math.round(w) + 1, map.height + 1);
    pen.globalAlpha = 1;
  }
  cell(pen, cell, colours, pinned) {
    const [x, y, w, h] = this.box(cell).map(Math.round);
    pen.lineWidth = 4;
    pen.strokeStyle = colours.paper;
    pen.strokeRect(x - 1, y - 1, w + 2, h + 2);
    pen.lineWidth = 2;
    pen.strokeStyle = pinned ? colours.query : colours.ink;
    pen.strokeRect(x - 1, y - 1, w + 2, h + 2);
  }
  /** The bright cell whose ring is at a pixel. */
  pinAt(x, y) {
    return this.rings.find((ring) => Math.hypot(ring.x - x, ring.y - y) <= 9)?.bright;
  }
  /** Bright cells: rings of a size that can be seen, where the cells themselves cannot. */
  pins(pen, colours) {
    const { camera, map, app } = this.matrix, { q, k } = camera;
    this.rings.length = 0;
    if (Math.min(1 / q.zoom, 1 / k.zoom) >= LEAST) return;
    for (const bright of app.series.brights ?? []) {
      const { x, y } = this.matrix.where(bright.i, bright.j);
      if (x < map.x - 2 || y < map.y - 2 || x > map.x + map.width + 2 || y > map.y + map.height + 2) continue;
      pen.fillStyle = app.colours.css(bright.value);
      pen.fillRect(Math.round(x) - 3, Math.round(y) - 3, 6, 6);
      for (const [width, colour] of [[4, colours.paper], [1.5, colours.ink]]) {
        pen.lineWidth = width;
        pen.strokeStyle = colour;
        pen.beginPath();
        pen.arc(Math.round(x), Math.round(y), 7.5, 0, 7);
        pen.stroke();
      }
      if (this.rings.push({ x, y, bright }) > 1) continue;
      const text = "pin, not to scale", left = x + 110 > map.x + map.width;
      pen.font = `11px ${SANS}`;
      pen.textBaseline = "middle";
      pen.textAlign = left ? "right" : "left";
      pen.lineWidth = 3;
      pen.strokeStyle = colours.paper;
      pen.strokeText(text, x + (left ? -10 : 10), y - 13);
      pen.fillStyle = colours.ink;
      pen.fillText(text, x + (left ? -10 : 10), y - 13);
    }
  }
  /** The names of the row and the column of the crosshair, on the axes. */
  names(pen, cell, colours) {
    const { map, camera, app, left, top } = this.matrix, [x, y, w, h] = this.box(cell);
    const numbered = Math.max(camera.q.n, camera.k.n) > 64;
    const told = (at, level, name, most) => {
      if (level) return `${count(Math.floor(at / 2 ** level) * 2 ** level)} …`;
      return clip(numbered ? `${count(at)} ${name ?? ""}` : (name ?? String(at)), most);
    };
    const query = told(cell.i, cell.a, app.tokens.query(cell.i), 20), key = told(cell.j, cell.b, app.tokens.key(cell.j), 20);
    const [across, down] = camera.turn ? [query, key] : [key, query];
    const [hueAcross, hueDown] = camera.turn ? [colours.query, colours.key] : [colours.key, colours.query];
    pen.font = `600 12px ${MONO}`;
    pen.textBaseline = "middle";
    const middle = Math.min(Math.max(y + h / 2, map.y + 8), map.y + map.height - 8);
    if (y + h > map.y && y < map.y + map.height) {
      const name = clip(down, Math.floor((left - 8) / LETTER)), wide = name.length * LETTER + 10;
      pen.textAlign = "right";
      pen.fillStyle = hueDown;
      pen.fillRect(map.x - 4 - wide, middle - 9, wide, 18);
      pen.fillStyle = colours.paper;
      pen.fillText(name, map.x - 9, middle + 0.5);
    }
    if (x + w > map.x && x < map.x + map.width) {
      const { level } = this.matrix.labels, name = clip(across, Math.floor(level ? 16 : (top - 34) / (0.71 * LETTER))), wide = name.length * LETTER + 10;
      if (!level) {
        pen.save();
        pen.translate(x + w / 2, map.y - 7);
        pen.rotate(-Math.PI / 4);
        pen.fillStyle = hueAcross;
        pen.fillRect(-5, -9, wide, 18);
        pen.textAlign = "left";
        pen.fillStyle = colours.paper;
        pen.fillText(name, 0, 0.5);
        return pen.restore();
      }
      const at = Math.min(Math.max(x + w / 2 - wide / 2, 2), map.x + map.width + 8 - wide);
      pen.textAlign = "left";
      pen.fillStyle = hueAcross;
      pen.fillRect(at, map.y - 22, wide, 18);
      pen.fillStyle = colours.paper;
      pen.fillText(name, at + 5, map.y - 12.5);
    }
  }
}
