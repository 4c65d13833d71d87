// Records and releases to look at: pictures, waves and bars. Text goes in as text, never as markup.
const NS = "http://www.w3.org/2000/svg";

export function element(name, attributes = {}, ...children) {
  const node = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) if (value !== false && value != null) node.setAttribute(key, value === true ? "" : value);
  node.append(...children);
  return node;
}

export function shape(name, attributes = {}, text = null) {
  const node = document.createElementNS(NS, name);
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
  if (text != null) node.textContent = text;
  return node;
}

export const short = v => Number.isInteger(v) ? String(v) : Math.abs(v) >= 1e5 || (v && Math.abs(v) < 1e-3) ? v.toExponential(2) : v.toPrecision(4).replace(/\.?0+$/, "");
export const share = v => `${Math.round(100 * v)} %`;

/** A picture of [channels, height, width] numbers between low and high. */
export function picture(canvas, values, [channels, height, width], low, high) {
  canvas.width = width; canvas.height = height;
  const context = canvas.getContext("2d"), image = context.createImageData(width, height), area = width * height;
  for (let i = 0; i < area; i++) {
    for (let c = 0; c < 3; c++) image.data[4 * i + c] = 255 * (values[(channels >= 3 ? c : 0) * area + i] - low) / (high - low || 1);
    image.data[4 * i + 3] = 255;
  }
  context.putImageData(image, 0, 0);
}

/** A window of [channels, length] numbers, each channel in its own range. */
export function waves(values, [channels, length], ranges, label) {
  const width = 480, height = 200, svg = shape("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": label });
  svg.append(shape("line", { x1: 0, x2: width, y1: height / 2, y2: height / 2, class: "axis" }));
  for (let c = 0; c < channels; c++) {
    const [low, high] = ranges[c], points = [];
    for (let t = 0; t < length; t++) {
      const y = height - 8 - (values[c * length + t] - low) / (high - low || 1) * (height - 16);
      points.push(`${(t * width / Math.max(1, length - 1)).toFixed(1)},${Math.min(height, Math.max(0, y)).toFixed(1)}`);
    }
    const line = shape("polyline", { points: points.join(" "), class: "wave" });
    line.style.stroke = `var(--c${c % 8})`;
    svg.append(line);
  }
  return svg;
}

/** Numbers with their names, as bars around zero. */
export function bars(values, names) {
  const most = Math.max(1e-12, ...values.map(Math.abs)), zero = values.some(v => v < 0) ? 100 : 0, room = 200 - zero, grid = element("div", { class: "bars" });
  values.forEach((v, i) => {
    const bar = shape("svg", { viewBox: "0 0 200 12", preserveAspectRatio: "none", height: 12, "aria-hidden": "true" });
    const rect = shape("rect", { x: v < 0 ? zero + room * v / most : zero, y: 1, width: Math.max(1, Math.abs(v) / most * room), height: 10 });
    rect.style.fill = v < 0 ? "var(--c1)" : "var(--c0)";
    bar.append(rect, shape("line", { x1: zero, x2: zero, y1: 0, y2: 12, class: "axis" }));
    bar.style.height = "12px";
    grid.append(element("span", { class: "name", title: names[i] }, names[i]), bar, element("span", { class: "number" }, short(v)));
  });
  return grid;
}

/** Between guessing and always right: where an attacker stands. */
export function leakMeter(leak) {
  const width = 480, X = v => 4 + v * (width - 8), svg = shape("svg", { viewBox: `0 0 ${width} 48`, role: "img", "aria-label": leak.words });
  svg.append(shape("rect", { x: X(0), y: 8, width: X(1) - X(0), height: 14, rx: 7, class: "track" }));
  svg.append(shape("rect", { x: X(leak.low), y: 8, width: Math.max(3, X(leak.high) - X(leak.low)), height: 14, rx: 3, class: leak.certified ? "band certain" : "band" }));
  svg.append(shape("line", { x1: X(leak.guessing), x2: X(leak.guessing), y1: 3, y2: 27, class: "guess" }));
  const side = leak.guessing < .25 ? "start" : leak.guessing > .75 ? "end" : "middle";
  svg.append(shape("text", { x: X(leak.guessing), y: 43, "text-anchor": side }, `guessing ${share(leak.guessing)}`), shape("text", { x: X(1), y: 43, "text-anchor": "end" }, leak.guessing > .75 ? "" : "always right"));
  return svg;
}

/** A canvas to draw on: numbers of [channels, height, width] between low and high. */
export class Drawing {
  constructor(size, low, high, changed) {
    [this.channels, this.height, this.width] = size;
    Object.assign(this, { size, low, high, changed, last: null });
    this.values = new Float64Array(size[0] * size[1] * size[2]).fill(low);
    this.canvas = element("canvas", { class: "picture drawing", "aria-label": "Draw here", tabindex: 0 });
    this.canvas.style.aspectRatio = `${this.width} / ${this.height}`;
    this.canvas.addEventListener("pointerdown", e => { this.canvas.setPointerCapture(e.pointerId); this.last = this.place(e); this.line(this.last, this.last); });
    this.canvas.addEventListener("pointermove", e => { if (!this.last) return; const now = this.place(e); this.line(this.last, now); this.last = now; });
    for (const end of ["pointerup", "pointercancel"]) this.canvas.addEventListener(end, () => { this.last = null; });
    this.show();
  }
  place(e) {
    const box = this.canvas.getBoundingClientRect();
    return [(e.clientX - box.left) / box.width, (e.clientY - box.top) / box.height];
  }
  /** Soft ink along a line, in shares of the canvas. */
  line(from, to) {
    const radius = Math.max(.75, this.width / 20), steps = 1 + Math.ceil(4 * Math.hypot((to[0] - from[0]) * this.width, (to[1] - from[1]) * this.height));
    for (let s = 0; s <= steps; s++) {
      const x = (from[0] + (to[0] - from[0]) * s / steps) * this.width - .5, y = (from[1] + (to[1] - from[1]) * s / steps) * this.height - .5;
      for (let i = Math.max(0, Math.floor(y - 2 * radius)); i <= Math.min(this.height - 1, y + 2 * radius); i++)
        for (let j = Math.max(0, Math.floor(x - 2 * radius)); j <= Math.min(this.width - 1, x + 2 * radius); j++) {
          const ink = this.low + (this.high - this.low) * Math.min(1, Math.max(0, 1.5 - Math.hypot(i - y, j - x) / radius));
          for (let c = 0; c < this.channels; c++) { const at = (c * this.height + i) * this.width + j; this.values[at] = Math.max(this.values[at], ink); }
        }
    }
    this.show();
  }
  clear() { this.values.fill(this.low); this.show(); }
  strokes(paths) { this.values.fill(this.low); for (const path of paths) for (let i = 1; i < path.length; i++) this.line(path[i - 1], path[i]); this.show(); }
  async photo(file) {
    const image = await createImageBitmap(file), canvas = element("canvas", { width: this.width, height: this.height }), context = canvas.getContext("2d");
    context.drawImage(image, 0, 0, this.width, this.height);
    const { data } = context.getImageData(0, 0, this.width, this.height), area = this.width * this.height;
    for (let i = 0; i < area; i++) {
      const grey = (data[4 * i] + data[4 * i + 1] + data[4 * i + 2]) / 3;
      for (let c = 0; c < this.channels; c++) this.values[c * area + i] = this.low + (this.high - this.low) * (this.channels === 3 ? data[4 * i + c] : grey) / 255;
    }
    this.show();
  }
  show() { picture(this.canvas, this.values, this.size, this.low, this.high); this.changed(); }
}
