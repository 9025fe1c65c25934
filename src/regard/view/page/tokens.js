// The tokens of a text as they are needed: pieces of 16 384, their names ready to draw, and where sentences begin.

import { clean } from "./words.js";

const PIECE = 16384;
const OPEN = /[([{“‘«]$/, CLOSED = /^[.,;:!?)\]}”’»%]|^['’]\w{1,2}$|^##/; // no space stands behind, before

export class Tokens {
  /** `params` are {r, x, l} and the unit; `changed()` is called when names arrive. */
  constructor(source, params, { nQ, nK }, changed) {
    Object.assign(this, { source, params, n: Math.max(nQ, nK), nQ, nK, changed });
    this.names = []; // of keys, as drawn
    this.others = []; // of queries, where they are not the keys
    this.spaced = false; // whether tokens tell the spaces before them
    this.raw = [];
    this.special = new Set();
    this.offsets = [];
    this.text = null;
    this.pieces = new Map();
    this.ranks = new Map(); // place: 2 begins a paragraph, 1 a sentence
    this.longest = 4;
  }
  /** Have the names from one place to another fetched; resolves when they are there. */
  ensure(from, to) {
    const wanted = [];
    for (let p = Math.max(0, Math.floor(from / PIECE)); p * PIECE < Math.min(to, this.n); p++) {
      if (!this.pieces.has(p)) this.pieces.set(p, this.fetch(p).catch(() => this.pieces.delete(p)));
      wanted.push(this.pieces.get(p));
    }
    return wanted.length === 1 ? wanted[0] : Promise.all(wanted);
  }
  async fetch(piece) {
    const { from, tokens, key_tokens, special, offsets, text } = await this.source.tokens({ ...this.params, from: piece * PIECE, count: PIECE });
    this.put(from, key_tokens ?? tokens, special ?? []);
    if (key_tokens) tokens.forEach((token, k) => (this.others[from + k] = clean(token)));
    offsets?.forEach((span, k) => (this.offsets[from + k] = span));
    if (!piece) this.text = text;
    this.changed();
  }
  put(from, tokens, special) {
    tokens.forEach((token, k) => {
      const name = clean(token);
      this.raw[from + k] = token;
      this.spaced ||= /^[\sĠ▁]/.test(token);
      this.names[from + k] = name;
      if (name.length > this.longest) this.longest = name.length;
      const before = this.raw[from + k - 1] ?? "";
      if (/\n|Ċ|↵/.test(before)) this.ranks.set(from + k, 2);
      else if (/^[.!?。]["')\]]*\s*$/.test(before) || special.includes(from + k - 1)) this.ranks.set(from + k, 1);
    });
    for (const at of special) this.special.add(at);
  }
  key(j) {
    return this.names[j];
  }
  query(i) {
    return this.others.length ? this.others[i] : this.names[i + this.shift];
  }
  /** Queries that are fewer than the keys are the last of the text. */
  get shift() {
    return this.nK > this.nQ && !this.others.length ? this.nK - this.nQ : 0;
  }
  /** Where in [from, to) a paragraph begins, or else a sentence; -1 if nothing does. */
  start(from, to) {
    let found = -1;
    for (let at = from; at < to; at++) {
      const rank = this.ranks.get(at);
      if (rank === 2) return at;
      if (rank === 1 && found < 0) found = at;
    }
    return found;
  }
  /** What stands before a token: a space, or nothing. */
  space(t) {
    const raw = this.raw[t];
    return !t || (this.spaced ? !/^[\sĠ▁]/.test(raw) : CLOSED.test(raw) || OPEN.test(this.raw[t - 1])) ? "" : " ";
  }
  /** A token without what tells how it is joined. */
  bare(t) {
    return this.spaced ? clean(this.raw[t].replace(/^[ĠĊ▁\s]+/, "")) : this.names[t].replace(/^##/, "");
  }
  /** A few tokens from a place on, as text. */
  phrase(at, letters) {
    let said = "";
    for (let k = at; k < Math.min(at + 8, this.n) && said.length < letters; k++) {
      if (this.raw[k] === undefined) break;
      said += this.space(k) + this.bare(k);
    }
    return said.trim();
  }
}
