// Names along the axes of the matrix: every token where it fits; where it does not, the beginnings of paragraphs and
// sentences, or round numbers. The same places keep their names while the matrix moves.

import { clip, count } from "./words.js";

export const MONO = "ui-monospace, Menlo, Consolas, 'DejaVu Sans Mono', monospace";
export const SANS = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Liberation Sans', sans-serif";
export const LETTER = 7.3; // pixels of a letter of 12 pixels
const SLANT = -Math.PI / 4;

/** 1, 2 or 5 times a power of ten that is at least so much. */
export function round(least) {
  const power = 10 ** Math.floor(Math.log10(Math.max(least, 1)));
  for (const m of [1, 2, 5, 10]) if (m * power >= least - 1e-9) return m * power;
  return 10 * power;
}

export class Labels {
  constructor() {
    this.known = new Map(); // "step:slot" as a number → {at, text, number}
    this.clipped = new Map();
  }
  /** Forget what was composed: tokens came. */
  clear() {
    this.known.clear();
    this.clipped.clear();
  }
  name(text, most) {
    if (text === undefined) return "";
    const key = most + text;
    let said = this.clipped.get(key);
    if (said === undefined) this.clipped.set(key, (said = clip(text, most)));
    return said;
  }
  /** What stands for the cells of a slot of `step` cells: where, and what it says. */
  slot(tokens, step, slot, shift, letters) {
    const key = ((slot * 64 + Math.round(Math.log2(step) * 3)) * 2 + (shift ? 1 : 0)) * 32 + letters;
    let label = this.known.get(key);
    if (!label) {
      const first = slot * step + shift;
      let at = tokens.start(first, Math.min(first + Math.ceil(step * 0.6), first + 4000));
      if (at < 0) at = first;
      const number = count(at - shift);
      label = { at: at - shift, number, text: clip(tokens.phrase(at, letters + 2), letters) };
      this.known.set(key, label);
    }
    return label;
  }
  /** Every cell of an axis has its name: each(name, pixel). */
  every({ axis }, tokens, isQuery, most, each) {
    const shift = isQuery ? tokens.shift : 0, last = Math.min(axis.n, Math.ceil(axis.at + axis.seen));
    tokens.ensure(Math.floor(axis.at) + shift, last + shift);
    for (let c = Math.max(0, Math.floor(axis.at)); c < last; c++) {
      const at = axis.pixel(c + 0.5);
      if (at >= 4 && at <= axis.length - 4) each(this.name(isQuery ? tokens.query(c) : tokens.key(c), most), at);
    }
  }
  /** Some places have names, at least so many pixels apart: each(label, pixel). */
  some({ axis }, tokens, isQuery, letters, pixels, apart, each) {
    const shift = isQuery ? tokens.shift : 0, step = round(pixels * axis.zoom);
    if (axis.seen < 140000) tokens.ensure(Math.floor(axis.at) + shift, axis.at + axis.seen + shift);
    for (let slot = Math.floor(axis.at / step), past = -99; slot * step < axis.at + axis.seen; slot++) {
      const label = this.slot(tokens, step, slot, shift, letters), at = axis.pixel(label.at + 0.5);
      if (at < -1 || at > axis.length - 4 || at - past < apart || label.at >= axis.n) continue;
      past = at;
      each(label, at);
    }
  }
  /** Draw the names of the axis that goes down, right-aligned at x. */
  down(pen, view, tokens, isQuery) {
    const { axis, x, y, width, colours } = view, hue = colours[isQuery ? "query" : "key"];
    pen.textBaseline = "middle";
    pen.font = `12px ${MONO}`;
    pen.textAlign = "right";
    pen.fillStyle = hue;
    if (1 / axis.zoom >= 13) {
      const most = Math.max(4, Math.floor((width - 14) / LETTER));
      return this.every(view, tokens, isQuery, most, (name, at) => pen.fillText(name, x - 8, y + at));
    }
    const wide = count(axis.n - 1).length * LETTER, roomy = width > 100; // of numbers; whether words fit beside them
    const letters = Math.max(3, Math.floor((width - wide - 26) / LETTER));
    this.some(view, tokens, isQuery, letters, 26, 15, (label, at) => {
      const beside = y + Math.max(at, 6), left = x - width + wide;
      pen.fillStyle = hue;
      pen.fillRect(x - 5, y + Math.round(at), 4, 1);
      pen.textAlign = "left";
      if (roomy) pen.fillText(label.text, left + 16, beside);
      pen.textAlign = "right";
      pen.fillStyle = colours.faint;
      pen.fillText(label.number, roomy ? left + 8 : x - 8, beside);
    });
  }
  /** Draw the names of the axis that goes across, above y: level if they fit, else at 45°. */
  across(pen, view, tokens, isQuery) {
    const { axis, x, y, height, colours, end } = view, px = 1 / axis.zoom;
    pen.font = `12px ${MONO}`;
    pen.fillStyle = colours[isQuery ? "query" : "key"];
    pen.textBaseline = "middle";
    this.level = px >= 14 && tokens.longest * LETTER <= px - 6;
    pen.textAlign = this.level ? "center" : "left";
    const most = this.level ? 99 : Math.max(4, Math.floor((height - 14) / (LETTER * 0.71)));
    if (px >= 14) return this.every(view, tokens, isQuery, most, (name, at) => {
      if (this.level) pen.fillText(name, x + at, y - 12);
      else this.slanted(pen, name, x + at, y - 6, end);
    });
    this.some(view, tokens, isQuery, 10, 34, 22, (label, at) => {
      pen.fillRect(x + Math.round(at), y - 5, 1, 4);
      this.slanted(pen, label.text || label.number, x + at, y - 8, end);
    });
  }
  /** Text at 45°, cut where the room ends. */
  slanted(pen, text, x, y, end) {
    pen.save();
    pen.translate(x, y);
    pen.rotate(SLANT);
    const room = Math.floor(((end - x) / 0.71 - 4) / LETTER);
    pen.fillText(text.length > room ? this.name(text, Math.max(1, room)) : text, 0, 0);
    pen.restore();
  }
}
