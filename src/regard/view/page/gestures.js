// Hands on the matrix: wheel, drag, pinch, box, click, double-click and hover, for mouse, pen and fingers. What they do
// is told to a handler in pixels of the element: pan, zoom, box, hover, leave, tap, double, and `grab` says what lies
// under a pixel ("map", "mini", "down", "across" or null).

const STILL = 4; // pixels that a click may move
const TWICE = 350; // milliseconds between the taps of a double tap

export function hands(element, handler) {
  const pointers = new Map();
  let start = null, last = null, held = null, moved = false, boxing = false, tapped = { time: 0, x: 0, y: 0 };
  const place = (event) => ({ x: event.offsetX, y: event.offsetY });

  element.addEventListener("wheel", (event) => {
    event.preventDefault();
    const { x, y } = place(event);
    const turned = event.deltaY || event.deltaX; // browsers turn the wheel's way with Shift
    const factor = Math.exp(Math.max(-120, Math.min(120, turned * [1, 30, 300][event.deltaMode])) * (event.ctrlKey ? 0.01 : 0.0022));
    handler.zoom(x, y, event.shiftKey ? 1 : factor, event.altKey ? 1 : factor);
  }, { passive: false });

  element.addEventListener("pointerdown", (event) => {
    if (event.button > 0) return;
    element.focus({ preventScroll: true, focusVisible: false });
    element.setPointerCapture(event.pointerId);
    pointers.set(event.pointerId, place(event));
    if (pointers.size > 1) {
      start = null; // a pinch
      return;
    }
    start = last = place(event);
    moved = false;
    boxing = event.shiftKey && handler.grab(start.x, start.y) === "map";
    start.on = handler.grab(start.x, start.y);
    if (start.on === "mini") handler.jump(start.x, start.y);
  });

  element.addEventListener("pointermove", (event) => {
    const here = place(event);
    if (pointers.size === 2 && pointers.has(event.pointerId)) return pinch(event.pointerId, here);
    if (!start) {
      if (!pointers.size) handler.hover(here.x, here.y);
      return;
    }
    moved ||= Math.hypot(here.x - start.x, here.y - start.y) > STILL;
    if (!moved) return;
    if (start.on === "mini") handler.jump(here.x, here.y);
    else if (boxing) handler.boxing(start, here);
    else handler.pan(here.x - last.x, here.y - last.y);
    last = here;
  });

  function pinch(id, here) {
    const [other] = [...pointers].filter(([key]) => key !== id).map(([, at]) => at);
    const before = pointers.get(id);
    pointers.set(id, here);
    const spread = (a, b) => Math.max(20, Math.hypot(a.x - b.x, a.y - b.y));
    const factor = spread(before, other) / spread(here, other), middle = (a) => [(a.x + other.x) / 2, (a.y + other.y) / 2];
    held ??= handler.held(...middle(before));
    handler.zoom(...middle(here), factor, factor, held);
    moved = true;
  }

  function end(event) {
    const here = place(event);
    pointers.delete(event.pointerId);
    if (start && boxing) {
      if (moved && event.type === "pointerup") handler.box(start, here);
      else handler.boxing(null);
    } else if (start && !moved && event.type === "pointerup" && start.on !== "mini") {
      const double = event.timeStamp - tapped.time < TWICE && Math.hypot(here.x - tapped.x, here.y - tapped.y) < 12;
      tapped = { time: double ? 0 : event.timeStamp, ...here };
      if (double) handler.double(here.x, here.y, event);
      else handler.tap(here.x, here.y, event);
    }
    start = held = null;
    boxing = false;
  }
  element.addEventListener("pointerup", end);
  element.addEventListener("pointercancel", end);
  element.addEventListener("pointerleave", () => pointers.size || handler.leave());
}
