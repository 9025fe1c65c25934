// What hands and keys do to the matrix: these are methods of it.

import { brightest } from "./tiles.js";

export const moves = {
  moved() {
    this.app.act("zoom");
    this.app.store.set(this.camera.said());
  },
  /** The cell under a pixel of the element, as fractions across and down. */
  held(x, y) {
    return [this.camera.across.cell(x - this.map.x), this.camera.down.cell(y - this.map.y)];
  },
  /** Zoom so that the cell that is held comes to a pixel: what is under it, and stays held while the pixel is the same. */
  zoomAt(x, y, factorQ, factorK, held = null) {
    this.layout(); // several turns of a wheel may come before the next frame
    const { camera, anchor } = this, { across, down } = camera;
    held ??= anchor && Math.hypot(anchor.x - x, anchor.y - y) < 2 ? anchor.held : this.held(x, y);
    camera.q.zoom *= factorQ;
    camera.k.zoom *= factorK;
    for (const [axis, way, pixel, start, cell] of [[across, "x", x, this.left, held[0]], [down, "y", y, this.top, held[1]]]) {
      axis.clamp();
      this.origin[way] = pixel - cell / axis.zoom; // as long as there is room around it
      axis.at = cell - (pixel - start) * axis.zoom;
    }
    camera.settle(camera.q);
    this.moved();
    this.anchor = { x, y, held };
  },
  handler() {
    const { camera, map } = this, inside = (box, x, y) => box && x >= box.x && y >= box.y && x < box.x + box.width && y < box.y + box.height;
    const grab = (x, y) => {
      if (inside(map, x, y)) return "map";
      if (inside(this.minimap.box, x, y)) return "mini";
      if (x < map.x && y >= map.y && y < map.y + map.height) return "down";
      return y < map.y && x >= map.x && x < map.x + map.width ? "across" : null;
    };
    const line = (x, y) => {
      const on = grab(x, y), cell = this.at(Math.max(x, map.x), Math.max(y, map.y));
      return on && cell ? { on: (on === "down") !== camera.turn ? "row" : "column", ...cell } : null;
    };
    return {
      grab,
      pan: (dx, dy) => (camera.pan(dx, dy), this.moved()),
      held: (x, y) => this.held(x, y),
      zoom: (x, y, fq, fk, held) => {
        const pin = this.marks.pinAt(x, y), at = pin ? this.where(pin.i, pin.j) : { x, y }; // on a pin, about its cell
        this.zoomAt(at.x, at.y, fq, fk, held);
        if (this.app.hovered) this.under = { x, y }; // another cell is under the pointer then
      },
      hover: (x, y) => {
        const on = grab(x, y), cell = on === "map" ? this.at(x, y) : null;
        this.above.style.cursor = on === "map" ? "crosshair" : on ? "pointer" : "default";
        this.app.hover(cell && { ...cell, ...this.known(cell.i, cell.j) });
      },
      leave: () => this.app.hover(null),
      jump: (x, y) => {
        const box = this.minimap.box;
        if (!box) return;
        const across = ((x - box.x) / box.width) * camera.across.n, down = ((y - box.y) / box.height) * camera.down.n;
        camera.centre(...(camera.turn ? [across, down] : [down, across]));
        this.moved();
      },
      boxing: (from, to) => {
        this.marks.rubber = from && { from, to };
        this.remark();
      },
      box: (from, to) => {
        this.marks.rubber = null;
        this.under = to;
        const within = (p) => this.at(Math.min(Math.max(p.x, map.x), map.x + map.width - 1), Math.min(Math.max(p.y, map.y), map.y + map.height - 1));
        const [one, two] = [within(from), within(to)];
        camera.box(Math.min(one.i, two.i), Math.max(one.i, two.i) + 1, Math.min(one.j, two.j), Math.max(one.j, two.j) + 1);
        this.moved();
      },
      tap: (x, y) => {
        const on = grab(x, y), cell = this.at(x, y);
        const pin = this.marks.pinAt(x, y);
        if (pin) this.app.choose(pin.i, pin.j);
        else if (on === "map") this.choose(cell.i, cell.j);
        else if (line(x, y)) this.app.chooseLine(line(x, y).on, line(x, y).on === "row" ? line(x, y).i : line(x, y).j);
      },
      double: (x, y) => {
        const on = grab(x, y);
        if (on === "map") return this.zoomAt(x, y, 1 / 4, 1 / 4);
        if (line(x, y)) { // the whole of a row, or of a column
          const axis = line(x, y).on === "row" ? camera.k : camera.q;
          axis.zoom = axis.fit;
          axis.clamp();
        } else return;
        this.moved();
      },
    };
  },
  /** Choose a cell; where a pixel is many cells, the brightest of them. */
  async choose(i, j) {
    const known = this.known(i, j);
    if (!known || (known.a === 0 && known.b === 0)) return this.app.choose(i, j);
    const cell = await this.app.busy(brightest(this.app.source, this.app.series.params, known.a, known.b, i >> known.a, j >> known.b)).catch(() => null);
    this.app.choose(cell?.i ?? i, cell?.j ?? j);
  },
  /** Keys that move or zoom; whether it was one. */
  onKey(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return false;
    const { camera, app, map } = this, { state } = app, step = event.shiftKey ? 10 : 1;
    const cursor = app.hovered ?? (state.i !== null && state.j !== null ? state : null);
    const go = (down, across) => {
      const [a, b] = this.levels(), [dq, dk] = camera.turn ? [across, down] : [down, across];
      const from = cursor ?? { i: Math.floor(camera.q.at + camera.q.seen / 2), j: Math.floor(camera.k.at + camera.k.seen / 2) };
      const i = Math.max(0, Math.min(camera.q.n - 1, from.i + dq * step * 2 ** a));
      const j = Math.max(0, Math.min(camera.k.n - 1, from.j + dk * step * 2 ** b));
      camera.show(i, j);
      this.moved();
      app.hover({ i, j, ...this.known(i, j) }, true);
    };
    const about = (factor) => {
      this.layout();
      const at = cursor ? this.where(cursor.i, cursor.j) : { x: map.x + map.width / 2, y: map.y + map.height / 2 };
      const x = Math.max(map.x, Math.min(map.x + map.width, at.x)), y = Math.max(map.y, Math.min(map.y + map.height, at.y));
      this.zoomAt(x, y, event.key === "}" || event.key === "{" ? 1 : factor, event.key === "]" || event.key === "[" ? 1 : factor);
    };
    const keys = {
      ArrowUp: () => go(-1, 0), ArrowDown: () => go(1, 0), ArrowLeft: () => go(0, -1), ArrowRight: () => go(0, 1),
      "+": () => about(0.5), "=": () => about(0.5), "-": () => about(2), _: () => about(2),
      "]": () => about(0.5), "[": () => about(2), "}": () => about(0.5), "{": () => about(2),
      PageDown: () => (camera.pan(0, -map.height * 0.8), this.moved()), PageUp: () => (camera.pan(0, map.height * 0.8), this.moved()),
      Home: () => go(0, -1e9), End: () => go(0, 1e9),
      0: () => (camera.box(0, camera.q.n, 0, camera.k.n), this.moved()),
      z: () => cursor && (camera.box(cursor.i - 3, cursor.i + 4, cursor.j - 3, cursor.j + 4), this.moved()),
      d: () => ((camera.follow = !camera.follow), camera.settle(camera.q), app.note(camera.follow ? "Following the diagonal." : "No longer following the diagonal."), this.moved()),
      Enter: () => cursor && this.choose(cursor.i, cursor.j),
    };
    if (!Object.hasOwn(keys, event.key)) return false;
    event.preventDefault();
    event.stopPropagation();
    keys[event.key]();
    return true;
  },
};
