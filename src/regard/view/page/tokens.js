// The tokens of a text as they are needed: pieces of 16 384, their names ready to draw, and where sentences begin.

import { clean } from "./words.js";

const PIECE = 16384;
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
  /** A few tokens from a place on, as text. */
  phrase(at, letters) {
    let said = "";
    for (let k = at; k < Math.min(at + 8, this.n) && said.length < letters; k++) {
      const token = this.raw[k];
      if (token === undefined) break;
      if (/^##/.test(token)) said += token.slice(2);
      else if (this.spaced) said += token.replace(/^[ĠĊ▁\s]+/, " ");
      else said += said && /^[\p{L}\p{N}(]/u.test(token) ? ` ${token}` : token;
    }
    return said.trim();
  }
}
