// Which part of the matrix is seen: for queries and for keys, the first cell and how many cells there are to a pixel.
// All lengths are CSS pixels.

export const LARGEST = 112; // pixels of a cell
const FAT = 28; // pixels of a cell at most when the whole of a very oblong matrix is seen

class Axis {
  n = 1;
  at = 0; // the cell at the beginning, a fraction
  zoom = 1; // cells per pixel
  room = 1; // pixels there are
  fit = 1; // the zoom at which all is seen
  get length() { // pixels that are used
    return Math.min(this.room, this.n / this.zoom);
  }
  get seen() { // cells
    return this.length * this.zoom;
  }
  get whole() { // whether all of it is seen
    return this.zoom >= this.fit * 0.9999;
  }
  pixel(cell) {
    return (cell - this.at) / this.zoom;
  }
  cell(pixel) {
    return this.at + pixel * this.zoom;
  }
  clamp() {
    this.zoom = Math.min(Math.max(this.zoom, 1 / LARGEST), this.fit);
    this.at = Math.max(0, Math.min(this.at, this.n - this.seen));
  }
}

export class Camera {
  q = new Axis();
  k = new Axis();
  turn = false; // columns are queries
  follow = false; // keep to the diagonal
  get down() {
    return this.turn ? this.k : this.q;
  }
  get across() {
    return this.turn ? this.q : this.k;
  }
  /** Sizes of the matrix and of the room for it; what the state says is looked at. */
  set({ nQ, nK, width, height, turn, state }) {
    const { q, k } = this;
    this.turn = turn;
    [q.n, k.n] = [nQ, nK];
    [this.across.room, this.down.room] = [Math.max(8, width), Math.max(8, height)];
    const [zq, zk] = [nQ / q.room, nK / k.room];
    if (Math.max(nQ / nK, nK / nQ) <= 4) q.fit = k.fit = Math.max(zq, zk, 1 / LARGEST);
    else [q.fit, k.fit] = [Math.max(zq, 1 / FAT), Math.max(zk, 1 / FAT)];
    [q.at, q.zoom] = [state.top, state.zoomA ?? q.fit];
    [k.at, k.zoom] = [state.left, state.zoomB ?? k.fit];
    q.clamp();
    k.clamp();
  }
  /** The fields of the state that say the same. */
  said() {
    const { q, k } = this;
    return { top: q.at, left: k.at, zoomA: q.whole ? null : q.zoom, zoomB: k.whole ? null : k.zoom };
  }
  pan(dx, dy) {
    this.across.at -= dx * this.across.zoom;
    this.down.at -= dy * this.down.zoom;
    this.settle(Math.abs(dx) > Math.abs(dy) ? this.across : this.down);
  }
  /** Show a box of cells. */
  box(i0, i1, j0, j1) {
    const { q, k } = this;
    const zoom = Math.max((i1 - i0) / q.room, (j1 - j0) / k.room);
    [q.zoom, k.zoom] = Math.max(q.n / k.n, k.n / q.n) <= 4 ? [zoom, zoom] : [(i1 - i0) / q.room, (j1 - j0) / k.room];
    this.centre((i0 + i1) / 2, (j0 + j1) / 2);
  }
  centre(i, j) {
    const { q, k } = this;
    q.clamp();
    k.clamp();
    q.at = i - q.seen / 2;
    k.at = j - k.seen / 2;
    this.settle(q);
  }
  /** Bring a cell into view, moving as little as that takes. */
  show(i, j) {
    for (const [axis, cell] of [[this.q, i], [this.k, j]]) {
      const margin = Math.min(2, axis.seen / 4);
      if (cell < axis.at + margin) axis.at = cell - margin;
      if (cell + 1 > axis.at + axis.seen - margin) axis.at = cell + 1 + margin - axis.seen;
      axis.clamp();
    }
  }
  settle(leader) {
    const { q, k } = this;
    q.clamp();
    k.clamp();
    if (!this.follow) return;
    const shift = k.n - q.n; // queries are the last of the keys
    if (leader === k) q.at = k.at + k.seen / 2 - shift - q.seen / 2;
    else k.at = q.at + q.seen / 2 + shift - k.seen / 2;
    q.clamp();
    k.clamp();
  }
}
