// A canvas that fills an element and draws itself at most once a frame: draw(pen, width, height) in CSS pixels.

import { make } from "./dom.js";

export function surface(element, options, draw) {
  const canvas = element.appendChild(make("canvas", options));
  let asked = 0, [width, height] = [0, 0];
  canvas.sketch = (pen) => draw(pen, width, height); // what export.js draws once more, as vectors
  const frame = () => {
    asked = 0;
    if (!width || !height) return;
    const ratio = devicePixelRatio || 1, pen = canvas.getContext("2d");
    Object.assign(canvas, { width: Math.round(width * ratio), height: Math.round(height * ratio) });
    Object.assign(canvas.style, { width: `${width}px`, height: `${height}px` });
    pen.setTransform(ratio, 0, 0, ratio, 0, 0);
    pen.imageSmoothingEnabled = false;
    draw(pen, width, height);
  };
  const redraw = () => void (asked ||= requestAnimationFrame(frame));
  new ResizeObserver(([{ contentRect: box }]) => {
    [width, height] = [Math.floor(box.width), Math.floor(box.height)];
    redraw();
  }).observe(element);
  return { canvas, redraw };
}

/** Only the last of several questions counts: ask(what, answer) gives null where that is the same, was overtaken or failed. */
export function latest(app, tell = (sentence) => app.note(sentence)) {
  let asked = null, running = null;
  return async (what, answer) => {
    const name = JSON.stringify(what);
    if (name === asked) return null;
    asked = name;
    running?.abort();
    const { signal } = (running = new AbortController());
    try {
      const found = await app.busy(answer(signal));
      return signal.aborted ? null : found;
    } catch (problem) {
      if (signal.aborted) return null;
      asked = null;
      tell(problem.message);
      return null;
    }
  };
}
