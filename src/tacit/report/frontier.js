"use strict";
// Draws the trade-off curves from the same JSON that the table was written from. No network, no library.
(() => {
  const data = JSON.parse(document.getElementById("frontier").textContent);
{% include "figure.js" %}

  function curve(place, attribute, target) {
    const points = data.points.map(q => ({ ...q, u: q.utility[target], v: q.leakage[attribute], c: q.certified[attribute], i: data.filters.indexOf(q.filter) }));
    const guess = { x: points[0].v.guessing, y: points[0].u.guessing }, limit = data.limit[attribute] || [];
    const floor = { u: data.label_only.utility[target], v: data.label_only.leakage[attribute] };
    const xs = spread([guess.x, floor.v.value, ...points.flatMap(q => [q.v.value, q.c])], .05);
    const ys = spread([floor.u.value, ...points.map(q => q.u.value), ...limit.map(q => q[0])], .05);
    const f = frame(place, xs, ys, `leakage of ${attribute}: ${data.measures[attribute]} of fresh attackers`, `utility: ${data.measures[target]} of ${target}`, 420);
    f.dotted(f.X(guess.x), f.Y(ys[0]), f.X(guess.x), f.Y(ys[1]));
    add(f.svg, "text", { x: f.X(guess.x) + 4, y: f.Y(ys[0]) - 5, class: "quiet" }, `guessing ${p(guess.x)}`);
    if (limit.length) {
      const path = [...limit].sort((a, b) => a[1] - b[1]).map(q => `${f.X(q[1])},${f.Y(q[0])}`).join(" ");
      explain(add(f.svg, "polyline", { points: path, fill: "none", class: "axis limit", "stroke-dasharray": "7 4", "stroke-width": 2 }), "estimated limit: the best accuracy any release could have at this leakage, as far as boosted trees know the data");
    }
    for (let i = 0; i < data.filters.length; i++) {
      const best = points.filter(q => q.i === i).filter(q => !points.some(o => o.i === i && o.u.value >= q.u.value && o.v.value <= q.v.value && (o.u.value > q.u.value || o.v.value < q.v.value)));
      const steps = best.sort((a, b) => a.v.value - b.v.value).map(q => `${f.X(q.v.value)},${f.Y(q.u.value)}`).join(" ");
      add(f.svg, "polyline", { points: steps, fill: "none", style: `stroke:${colour(i)};opacity:.6`, "stroke-width": 2 });
    }
    const x = f.X(floor.v.value), y = f.Y(floor.u.value);
    explain(add(f.svg, "path", { d: `M${x} ${y - 7}L${x + 7} ${y}L${x} ${y + 7}L${x - 7} ${y}Z`, fill: "var(--back)", class: "axis floor", "stroke-width": 2 }), `label-only (the floor)\n${target}: ${data.measures[target]} ${range(floor.u)}\n${attribute}: leakage ${range(floor.v)}`);
    const lines = add(f.svg, "g", {});
    for (const q of points) {
      const x = f.X(q.v.value), y = f.Y(q.u.value), stroke = colour(q.i);
      const dot = add(f.svg, "circle", { cx: x, cy: y, r: q.pareto ? 5.5 : 3.5, style: `stroke:${stroke};fill:${q.pareto ? stroke : "var(--back)"}`, "stroke-width": 1.5, class: "point", "data-filter": q.filter });
      explain(dot, `${q.filter}, ${q.knob} = ${q.value}, seed ${q.seed}${q.pareto ? "" : " (beaten by another point)"}\n${target}: ${data.measures[target]} ${range(q.u)}\n${attribute}: leakage ${range(q.v)} by ${q.v.by}\n${q.c == null ? "audited, not certified" : "certified: no attacker exceeds " + p(q.c)}`);
      // the interval and the certificate of the point under the pointer, not of all at once
      const show = () => {
        lines.replaceChildren();
        for (const [x1, y1, x2, y2] of [[f.X(q.v.low), y, f.X(q.v.high), y], [x, f.Y(q.u.low), x, f.Y(q.u.high)]]) add(lines, "line", { x1, y1, x2, y2, style: `stroke:${stroke}`, "stroke-width": 1.5 });
        if (q.c != null) add(lines, "line", { x1: f.X(q.c), x2: f.X(q.c), y1: y - 10, y2: y + 10, style: `stroke:${stroke}`, "stroke-width": 3, class: "bound" });
      };
      for (const enter of ["mouseenter", "focus"]) dot.addEventListener(enter, show);
      for (const leave of ["mouseleave", "blur"]) dot.addEventListener(leave, () => lines.replaceChildren());
    }
    const legend = document.createElement("div");
    legend.className = "legend";
    data.filters.forEach((name, i) => { const item = document.createElement("span"), mark = document.createElement("i"); mark.style.background = colour(i); item.append(mark, name); legend.append(item); });
    legend.append(["filled: beaten by no point", "◇ label-only", limit.length ? "– – limit (estimate)" : "", "❘ certified bound, shown at the pointer", "better is up and to the left"].filter(Boolean).join(" · "));
    place.append(legend);
  }

  for (const place of document.querySelectorAll("[data-attribute]")) curve(place, place.dataset.attribute, place.dataset.target);
  const all = document.getElementById("all");
  if (all) all.addEventListener("change", () => { for (const row of document.querySelectorAll("tr.beaten")) row.hidden = !all.checked; });
  document.documentElement.dataset.drawn = "yes";
})();
