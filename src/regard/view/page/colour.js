// Which value has which colour: ramps even in lightness (OKLab), linear, logarithmic and diverging scales, and the
// table that turns the bits of a 32-bit float into a colour, so that a tile of 256 × 256 is coloured in a tenth of a
// millisecond. The numbers are those of view/colour.py.

export const THEMES = {
  light: {
    ramp: ["#ffffff", "#a4e0d8", "#1f9c9e", "#0a5580", "#06142b"],
    negative: ["#ffffff", "#ffd3a1", "#d67a1f", "#8f3d07", "#351402"],
    hidden: "#d7d7d7", hatch: "#a8a8a8", nan: "#e6007e", query: "#b04a00", key: "#1559b7",
    paper: "#ffffff", ink: "#1b2027", faint: "#69707a", line: "#e3e6ea", field: "#f6f7f9",
  },
  dark: {
    ramp: ["#0d0b14", "#46288c", "#8a5fd0", "#d9a9d6", "#fff6dc"],
    negative: ["#0d0b14", "#5e2c07", "#b0601a", "#e8a75e", "#ffe9c9"],
    hidden: "#3a3a3a", hatch: "#626262", nan: "#ff4f9a", query: "#ff9a4d", key: "#75b0ff",
    paper: "#15171b", ink: "#e7e9ec", faint: "#98a0aa", line: "#2c3036", field: "#1c1f24",
  },
};
// Other colour maps; `regard` is the theme's own.
const MAPS = {
  light: { grey: ["#ffffff", "#c6c6c6", "#7d7d7d", "#333333", "#0b0b0b"], warm: THEMES.light.negative },
  dark: { grey: ["#0b0b0b", "#3b3b3b", "#7d7d7d", "#c2c2c2", "#fafafa"], warm: THEMES.dark.negative },
};
export const MAP_NAMES = ["regard", "grey", "warm"];
export const LINEAR_UP_TO = 64; // tokens; with more, an even weight is too small to be seen on a linear scale
const STEPS = 1024;
const REACH = 0.8; // of a ramp that stands for one sign: further on both are nearly black, or nearly white
const SHIFT = 15; // the sign, the exponent and 8 bits of the fraction choose the entry: steps of 0.4 % at most
const ENTRIES = 1 << (32 - SHIFT);

export const rgb = (hex) => [1, 3, 5].map((at) => parseInt(hex.slice(at, at + 2), 16));

// OKLab (Ottosson 2020): a space in which equal steps look equal.
function oklab([r, g, b]) {
  const [x, y, z] = [r, g, b].map((c) => ((c /= 255) <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4));
  const l = Math.cbrt(0.4122214708 * x + 0.5363325363 * y + 0.0514459929 * z);
  const m = Math.cbrt(0.2119034982 * x + 0.6806995451 * y + 0.1073969566 * z);
  const s = Math.cbrt(0.0883024619 * x + 0.2817188376 * y + 0.6299787005 * z);
  return [
    0.2104542553 * l + 0.793617785 * m - 0.0040720468 * s,
    1.9779984951 * l - 2.428592205 * m + 0.4505937099 * s,
    0.0259040371 * l + 0.7827717662 * m - 0.8086757660 * s,
  ];
}

function srgb([L, a, b]) {
  const l = (L + 0.3963377774 * a + 0.2158037573 * b) ** 3;
  const m = (L - 0.1055613458 * a - 0.0638541728 * b) ** 3;
  const s = (L - 0.0894841775 * a - 1.291485548 * b) ** 3;
  return [
    4.0767416621 * l - 3.3077115913 * m + 0.2309699292 * s,
    -1.2684380046 * l + 2.6097574011 * m - 0.3413193965 * s,
    -0.0041960863 * l - 0.7034186147 * m + 1.707614701 * s,
  ].map((c) => {
    c = Math.min(1, Math.max(0, c));
    return Math.round(255 * (c <= 0.0031308 ? 12.92 * c : 1.055 * c ** (1 / 2.4) - 0.055));
  });
}

/** Colours through the stops, their lightness in even steps: [[r, g, b], …]. */
export function ramp(stops, steps = STEPS) {
  const labs = stops.map((stop) => oklab(rgb(stop)));
  const far = labs.map((lab) => Math.abs(lab[0] - labs[0][0]));
  const made = [];
  for (let k = 0, piece = 0; k < steps; k++) {
    const at = (far[far.length - 1] * k) / (steps - 1);
    while (piece < far.length - 2 && far[piece + 1] < at) piece++;
    const part = (at - far[piece]) / (far[piece + 1] - far[piece]);
    made.push(srgb([0, 1, 2].map((c) => labs[piece][c] + part * (labs[piece + 1][c] - labs[piece][c]))));
  }
  return made;
}

/** A scale: {kind: linear | log | diverging, low, high}. */
export function scaleOf({ n, kind = "auto", range = null, largest = 1, diverging = false }) {
  const high = range?.[1] ?? (diverging ? largest || 1 : largest > 1.001 ? largest : 1);
  if (diverging) return { kind: "diverging", low: -high, high };
  const chosen = kind === "auto" ? (n <= LINEAR_UP_TO ? "linear" : "log") : kind;
  if (chosen === "log") return { kind: "log", low: range?.[0] || high / (10 * n), high };
  return { kind: "linear", low: range?.[0] ?? 0, high };
}

/** Where a value lies on a scale, from 0 to 1. */
export function place(scale, value) {
  const { kind, low, high } = scale;
  const at = kind === "log" ? Math.log(Math.max(value, low) / low) / Math.log(high / low) : (value - low) / (high - low);
  return Math.min(1, Math.max(0, at));
}

/** Values to write beside a scale. */
export function ticks(scale) {
  const { kind, low, high } = scale;
  if (kind !== "log") return [low, (low + high) / 2, high];
  const found = [];
  for (let p = Math.ceil(Math.log10(low) - 1e-9); p <= Math.log10(high) + 1e-9; p++) found.push(Number(`1e${p}`));
  return found;
}

/** Colours of a scale in a theme: `lut` by the bits of a float, `css(value)`, `ink(value)` to write on it. */
export class Colours {
  constructor(scale, themeName, map = "regard") {
    const theme = THEMES[themeName];
    this.scale = scale;
    const stops = MAPS[themeName][map] ?? theme.ramp;
    const sign = (stops) => ramp(stops, Math.round(STEPS / 2 / REACH)).slice(0, STEPS / 2);
    this.table = scale.kind === "diverging" ? [...sign(theme.negative).reverse(), ...sign(stops)] : ramp(stops);
    this.words = new Uint32Array(this.table.map(([r, g, b]) => ((255 << 24) | (b << 16) | (g << 8) | r) >>> 0));
    this.lut = new Uint32Array(ENTRIES);
    const bits = new Uint32Array(1), value = new Float32Array(bits.buffer);
    const [r, g, b] = rgb(theme.nan);
    for (let k = 0; k < ENTRIES; k++) {
      bits[0] = (k << SHIFT) | (1 << (SHIFT - 1)); // the middle of what shares an entry
      this.lut[k] = Number.isNaN(value[0]) ? ((255 << 24) | (b << 16) | (g << 8) | r) >>> 0 : this.words[this.index(value[0])];
    }
    bits[0] = 0x7f800000; // the bits of infinities share an entry with those of some NaNs, which are never made
    this.lut[bits[0] >>> SHIFT] = this.words[STEPS - 1];
    this.lut[0xff800000 >>> SHIFT] = 0; // hidden: clear, so that the hatching behind it is seen
    this.inks = this.table.map((colour) => (oklab(colour)[0] > 0.6 ? "#000" : "#fff"));
  }
  index(value) {
    return Math.round(place(this.scale, value) * (STEPS - 1)) || 0;
  }
  css(value) {
    return `rgb(${this.table[this.index(value)].join(" ")})`;
  }
  ink(value) {
    return this.inks[this.index(value)];
  }
  /** Colours of `values` into the 32-bit words of a picture. */
  paint(values, words) {
    const bits = new Uint32Array(values.buffer, values.byteOffset, values.length), { lut } = this;
    for (let k = 0; k < bits.length; k++) words[k] = lut[bits[k] >>> SHIFT];
  }
}

/** Fine hatching for what is hidden, as a pattern of a canvas. */
export function hatching(context, theme, ratio = 1, clear = false) {
  const side = Math.round(6 * ratio);
  const tile = new OffscreenCanvas(side, side), pen = tile.getContext("2d");
  pen.fillStyle = theme.hidden;
  if (!clear) pen.fillRect(0, 0, side, side);
  pen.strokeStyle = theme.hatch;
  pen.lineWidth = (clear ? 1 : 0.6) * ratio;
  for (const d of [-side, 0, side]) {
    pen.beginPath();
    pen.moveTo(d - 1, side + 1);
    pen.lineTo(d + side + 1, -1);
    pen.stroke();
  }
  return context.createPattern(tile, "repeat");
}

// Patterns in hues that are told apart without colour vision too, each with its letter.
export const PATTERNS = {
  P: ["previous token", "#2b8cbe"], N: ["next token", "#d55e00"], C: ["itself", "#009e73"],
  S: ["special tokens", "#868686"], L: ["near tokens", "#c0679b"], I: ["induction", "#b8860b"],
  D: ["same token before", "#7b68c8"], M: ["punctuation", "#5f8a8b"], A: ["aligned", "#5f8a8b"],
};
