  // Pieces of a figure, for every page: marks that explain themselves, axes, ranges.
  const NS = "http://www.w3.org/2000/svg";
  const colour = i => `var(--c${i % 8})`;
  const p = v => v == null ? "–" : v.toFixed(3).replace(/^(-?)0\./, "$1.");
  const range = m => `${p(m.value)} [${p(m.low)}, ${p(m.high)}]`;

  const tip = document.getElementById("tip");
  function add(parent, name, attributes, text) {
    const node = document.createElementNS(NS, name);
    for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
    if (text != null) node.textContent = text;
    parent.appendChild(node);
    return node;
  }
  function explain(node, text) {
    node.classList.add("mark");
    node.setAttribute("tabindex", "0");
    node.setAttribute("role", "img");
    node.setAttribute("aria-label", text);
    const show = (x, y) => { tip.textContent = text; tip.style.display = "block"; tip.style.left = Math.min(x + 12, innerWidth - tip.offsetWidth - 8) + "px"; tip.style.top = Math.min(y + 12, innerHeight - tip.offsetHeight - 8) + "px"; };
    node.addEventListener("mousemove", e => show(e.clientX, e.clientY));
    node.addEventListener("focus", () => { const b = node.getBoundingClientRect(); show(b.right, b.bottom); });
    for (const leave of ["mouseleave", "blur"]) node.addEventListener(leave, () => { tip.style.display = "none"; });
  }
  function ticks(low, high) {
    const step = [.01, .02, .05, .1, .2, .25, .5, 1, 2, 5].find(s => (high - low) / s <= 6) || 10;
    const out = [];
    for (let t = Math.ceil(low / step - 1e-9) * step; t <= high + 1e-9; t += step) out.push(+t.toFixed(4));
    return out;
  }
  function frame(place, xs, ys, xLabel, yLabel, height = 380) {
    const width = 640, left = 56, right = 16, top = 14, bottom = 44;
    const svg = add(place, "svg", { viewBox: `0 0 ${width} ${height}`, role: "group" });
    const X = v => left + (v - xs[0]) / (xs[1] - xs[0]) * (width - left - right);
    const Y = v => height - bottom - (v - ys[0]) / (ys[1] - ys[0]) * (height - top - bottom);
    for (const t of ticks(...xs)) { add(svg, "line", { x1: X(t), x2: X(t), y1: Y(ys[0]), y2: Y(ys[1]), class: "grid" }); add(svg, "text", { x: X(t), y: height - bottom + 16, "text-anchor": "middle", class: "quiet" }, p(t).replace(/0$/, "")); }
    for (const t of ticks(...ys)) { add(svg, "line", { x1: X(xs[0]), x2: X(xs[1]), y1: Y(t), y2: Y(t), class: "grid" }); add(svg, "text", { x: left - 6, y: Y(t) + 4, "text-anchor": "end", class: "quiet" }, p(t).replace(/0$/, "")); }
    add(svg, "text", { x: (left + width - right) / 2, y: height - 8, "text-anchor": "middle" }, xLabel);
    add(svg, "text", { x: -(top + height - bottom) / 2, y: 13, transform: "rotate(-90)", "text-anchor": "middle" }, yLabel);
    return { svg, X, Y, dotted: (x1, y1, x2, y2, extra = {}) => add(svg, "line", { x1, y1, x2, y2, class: "axis", "stroke-dasharray": "2 3", ...extra }) };
  }
  const spread = (values, margin) => {
    const known = values.filter(v => v != null && isFinite(v));
    const low = Math.min(...known), high = Math.max(...known), pad = Math.max((high - low) * margin, .01);
    return [Math.max(low - pad, Math.min(0, low)), high + pad];
  };
