"use strict";
// Draws the figures from the same JSON that the text was written from. No network, no library.
(() => {
  const data = JSON.parse(document.getElementById("audit").textContent);
  const reports = data.reports;
{% include "figure.js" %}
  const headline = r => r[r.headline];
  const measured = r => ({ r2: "R²", balanced_accuracy: "balanced accuracy" }[r.headline] || r.headline);


  function tradeOff(place, attribute, target) {
    const points = reports.map((r, i) => ({ name: r.name, u: headline(r.utility[target]), v: headline(r.leakage[attribute]), by: r.leakage[attribute].attacker, c: r.certificate[attribute], i, beaten: data.dominated[attribute][i] }));
    const floor = !reports.some(r => r.name === "label-only") && reports.find(r => r.label_only[attribute] && r.label_only_utility[target]);
    const limit = (reports.find(r => r.limit[attribute]) || { limit: {} }).limit[attribute] || [];
    const guess = { x: points[0].v.guessing, y: points[0].u.guessing };
    const lone = floor && { u: headline(floor.label_only_utility[target]), v: headline(floor.label_only[attribute]) };
    const xs = spread([guess.x, ...points.flatMap(q => [q.v.low, q.v.high, q.c && q.c.bound]), ...(lone ? [lone.v.low, lone.v.high] : [])], .06);
    const ys = spread([guess.y, ...points.flatMap(q => [q.u.low, q.u.high]), ...(lone ? [lone.u.high] : []), ...limit.map(q => q.accuracy)], .06);
    const f = frame(place, xs, ys, `leakage of ${attribute}: ${measured(reports[0].leakage[attribute])} of the best attacker`, `utility: ${measured(reports[0].utility[target])} of ${target}`);
    f.dotted(f.X(guess.x), f.Y(ys[0]), f.X(guess.x), f.Y(ys[1]));
    f.dotted(f.X(xs[0]), f.Y(guess.y), f.X(xs[1]), f.Y(guess.y));
    add(f.svg, "text", { x: f.X(guess.x) + 4, y: f.Y(ys[0]) - 5, class: "quiet" }, `guessing ${p(guess.x)}`);
    if (limit.length) {
      const path = add(f.svg, "polyline", { points: limit.map(q => `${f.X(q.leakage)},${f.Y(q.accuracy)}`).join(" "), fill: "none", class: "axis limit", "stroke-dasharray": "7 4", "stroke-width": 2 });
      explain(path, "estimated limit: the best accuracy any release could have at this leakage, as far as boosted trees know the data");
    }
    if (lone) {
      const x = f.X(lone.v.value), y = f.Y(lone.u.value);
      f.dotted(f.X(lone.v.low), y, f.X(lone.v.high), y, { "stroke-dasharray": "none" });
      explain(add(f.svg, "path", { d: `M${x} ${y - 7}L${x + 7} ${y}L${x} ${y + 7}L${x - 7} ${y}Z`, fill: "var(--back)", class: "axis floor", "stroke-width": 2 }), `label-only (the floor)\n${target}: ${measured(reports[0].utility[target])} ${range(lone.u)}\n${attribute}: leakage ${range(lone.v)}`);
    }
    for (const q of points) {
      const x = f.X(q.v.value), y = f.Y(q.u.value), stroke = colour(q.i);
      for (const [x1, y1, x2, y2] of [[f.X(q.v.low), y, f.X(q.v.high), y], [x, f.Y(q.u.low), x, f.Y(q.u.high)]]) add(f.svg, "line", { x1, y1, x2, y2, style: `stroke:${stroke}`, "stroke-width": 1.5 });
      if (q.c) explain(add(f.svg, "line", { x1: f.X(q.c.bound), x2: f.X(q.c.bound), y1: y - 10, y2: y + 10, style: `stroke:${stroke}`, "stroke-width": 3, class: "bound" }), `${q.name}: certified, no attacker exceeds ${p(q.c.bound)}`);
      const dot = add(f.svg, "circle", { cx: x, cy: y, r: 6, style: `stroke:${stroke};fill:${q.beaten ? "var(--back)" : stroke}`, "stroke-width": 2, class: "release", "data-release": q.name });
      explain(dot, `${q.name}${q.beaten ? " (dominated)" : ""}\n${target}: ${measured(reports[0].utility[target])} ${range(q.u)}, guessing ${p(q.u.guessing)}\n${attribute}: leakage ${range(q.v)} by ${q.by}, guessing ${p(q.v.guessing)}\n${q.c ? "certified ≤ " + p(q.c.bound) : "audited, not certified"}`);
    }
    const legend = document.createElement("div");
    legend.className = "legend";
    for (const q of points) { const item = document.createElement("span"), i = document.createElement("i"); i.style.background = colour(q.i); item.append(i, q.name + (q.beaten ? " (dominated)" : "")); legend.append(item); }
    const words = [lone && "◇ label-only", points.some(q => q.c) && "❘ certified bound", limit.length && "– – limit (estimate)", "dotted: guessing; better is up and to the left"];
    legend.append(words.filter(Boolean).join(" · "));
    place.append(legend);
  }

  function bars(place, rows, guessing, label) {
    const xs = [0, Math.max(1, ...rows.map(r => r.m.high || 0))], height = 24 * rows.length + 60;
    const width = 640, left = matchMedia("(max-width: 40rem)").matches ? 250 : 190, right = 16;  // a phone has larger letters
    const svg = add(place, "svg", { viewBox: `0 0 ${width} ${height}`, role: "group" });
    const X = v => left + Math.max(0, v - xs[0]) / (xs[1] - xs[0]) * (width - left - right);
    for (const t of ticks(...xs)) { add(svg, "line", { x1: X(t), x2: X(t), y1: 8, y2: height - 40, class: "grid" }); add(svg, "text", { x: X(t), y: height - 24, "text-anchor": "middle", class: "quiet" }, p(t).replace(/0$/, "")); }
    rows.forEach((r, k) => {
      const y = 12 + 24 * k;
      add(svg, "text", { x: left - 8, y: y + 12, "text-anchor": "end" }, r.name.length > 26 ? r.name.slice(0, 25) + "…" : r.name);
      explain(add(svg, "rect", { x: X(0), y, "data-name": r.name, width: Math.max(1, X(r.m.value) - X(0)), height: 15, style: `fill:${colour(r.i)};opacity:${r.faint ? .45 : .85}`, class: "bar" }), `${r.name}: ${range(r.m)}`);
      if (r.m.low != null) add(svg, "line", { x1: X(r.m.low), x2: X(r.m.high), y1: y + 7.5, y2: y + 7.5, class: "axis", "stroke-width": 2 });
    });
    if (guessing != null) { add(svg, "line", { x1: X(guessing), x2: X(guessing), y1: 8, y2: height - 40, class: "axis", "stroke-dasharray": "2 3" }); }
    add(svg, "text", { x: (left + width - right) / 2, y: height - 6, "text-anchor": "middle" }, label);
  }

  function heatMap(place, names, table, title) {
    const left = 96, size = Math.min(24, 300 / names.length), width = left + size * names.length + 8;
    const figure = document.createElement("figure"), words = document.createElement("figcaption"), svg = add(figure, "svg", { viewBox: `0 0 ${width} ${size * names.length + 90}`, role: "group" });
    words.textContent = title;
    svg.style.width = `${width}px`;
    names.forEach((a, i) => {
      add(svg, "text", { x: left - 5, y: size * (i + .7), "text-anchor": "end", "font-size": 10 }, a.length > 15 ? a.slice(0, 14) + "…" : a);
      const x = left + size * (i + .6), y = size * names.length + 8;
      add(svg, "text", { x, y, "text-anchor": "end", "font-size": 10, transform: `rotate(-60 ${x} ${y})` }, a.length > 15 ? a.slice(0, 14) + "…" : a);
      names.forEach((b, j) => explain(add(svg, "rect", { x: left + size * j, y: size * i, width: size - 1, height: size - 1, style: `fill:${colour(table[i][j] < 0 ? 3 : 0)};opacity:${.04 + .96 * Math.min(1, Math.abs(table[i][j]))}`, class: "cell" }), `${a} and ${b}: ${p(table[i][j])} (${title})`));
    });
    figure.append(words);
    place.append(figure);
  }

  const drawers = {
    "trade-off": (place, d) => tradeOff(place, d.attribute, d.target),
    attackers: (place, d) => {
      const rows = reports.flatMap((r, i) => Object.entries(r.leakage[d.attribute].attackers).map(([name, m]) => ({ name: reports.length > 1 ? `${r.name}: ${name}` : name, m, i, faint: name !== r.leakage[d.attribute].attacker })));
      bars(place, rows, headline(reports[0].leakage[d.attribute]).guessing, `${measured(reports[0].leakage[d.attribute])}; dotted: guessing`);
    },
    groups: (place, d) => {
      const rows = reports.flatMap((r, i) => Object.entries(r.groups[d.attribute] || {}).slice(0, 14).map(([name, m]) => ({ name: reports.length > 1 ? `${r.name}: ${name}` : name, m, i })));
      bars(place, rows, headline(reports[0].leakage[d.attribute]).guessing, "balanced accuracy; dotted: guessing");
    },
    findings: (place, d) => {
      const found = reports[d.report].findings.filter(f => f.name === d.name);
      const scale = found[0].kind, rows = found.filter(f => f.kind === scale).slice(0, 40);
      bars(place, rows.map(f => ({ name: f.subject, m: f, i: +d.report })), found[0].chance, scale);
    },
    kept: (place, d) => {
      const columns = Object.entries(reports[d.report].change.columns).sort((a, b) => b[1].kept - a[1].kept);
      bars(place, columns.map(([name, c]) => ({ name, m: { value: c.kept }, i: +d.report })), null, "share of the values that are as they were");
    },
    marginals: (place, d) => {
      for (const [name, c] of Object.entries(reports[d.report].change.columns)) {
        const title = document.createElement("h4");
        title.textContent = name;
        place.append(title);
        bars(place, c.values.flatMap((v, k) => [{ name: v, m: { value: c.before[k] }, i: +d.report, faint: true }, { name: "", m: { value: c.after[k] }, i: +d.report }]), null, "share of the records; pale: before");
      }
    },
    associations: (place, d) => {
      const { columns, before, after } = reports[d.report].change, names = Object.keys(columns);
      const apart = before.map((row, i) => row.map((v, j) => after[i][j] - v));
      for (const [title, table] of [["before", before], ["after", after], ["after minus before", apart]]) heatMap(place, names, table, title);
    },
    pooled: (place, d) => {
      const lines = reports.map((r, i) => ({ i, name: r.name, points: [[1, headline(r.leakage[d.attribute])], ...r.attacks.filter(a => a.kind.startsWith("pooled, ") && a.results[d.attribute]).map(a => [+a.kind.slice(8), headline(a.results[d.attribute])])] })).filter(l => l.points.length > 1);
      const most = Math.log(Math.max(...lines.flatMap(l => l.points.map(q => q[0]))));
      const f = frame(place, [-.05 * most, most * 1.05], spread(lines.flatMap(l => l.points.flatMap(q => [q[1].low, q[1].high, q[1].guessing])), .05), "releases of the same unit read together (log scale)", `leakage of ${d.attribute}`, 280);
      for (const l of lines) {
        add(f.svg, "polyline", { points: l.points.map(q => `${f.X(Math.log(q[0]))},${f.Y(q[1].value)}`).join(" "), fill: "none", style: `stroke:${colour(l.i)}`, "stroke-width": 2 });
        for (const [m, q] of l.points) {
          const x = f.X(Math.log(m));
          add(f.svg, "line", { x1: x, x2: x, y1: f.Y(q.low), y2: f.Y(q.high), style: `stroke:${colour(l.i)}` });
          explain(add(f.svg, "circle", { cx: x, cy: f.Y(q.value), r: 5, style: `fill:${colour(l.i)}`, class: "pool" }), `${l.name}, ${m} together: ${range(q)}, guessing ${p(q.guessing)}`);
          add(f.svg, "text", { x: x + 7, y: f.Y(q.value) - 7, class: "quiet" }, m);
        }
      }
    },
    examples: (place, d) => {
      const r = reports[d.report];
      for (const example of r.examples) example.forEach((record, k) => { if (record) place.append(picture(record, ["original", "released", "reconstructed"][k])); });
    },
  };
  function picture(record, caption) {
    const figure = document.createElement("figure"), words = document.createElement("figcaption");
    words.textContent = caption;
    if (Array.isArray(record[0][0])) {
      const canvas = document.createElement("canvas"), h = record[0].length, w = record[0][0].length, flat = record.flat(2);
      const low = Math.min(...flat), high = Math.max(...flat), grey = v => 255 * (v - low) / (high - low || 1);
      canvas.width = w; canvas.height = h; canvas.style.width = "96px";
      const context = canvas.getContext("2d"), image = context.createImageData(w, h);
      for (let y = 0; y < h; y++) for (let x = 0; x < w; x++) { for (let c = 0; c < 3; c++) image.data[4 * (y * w + x) + c] = grey(record[record.length === 3 ? c : 0][y][x]); image.data[4 * (y * w + x) + 3] = 255; }
      context.putImageData(image, 0, 0);
      figure.append(canvas);
    } else {
      const n = record[0].length, flat = record.flat(), low = Math.min(...flat), high = Math.max(...flat);
      const svg = document.createElementNS(NS, "svg");
      svg.setAttribute("viewBox", "0 0 200 80"); svg.style.width = "200px";
      record.forEach((channel, c) => add(svg, "polyline", { points: channel.map((v, x) => `${200 * x / (n - 1)},${78 - 76 * (v - low) / (high - low || 1)}`).join(" "), fill: "none", style: `stroke:${colour(c)}` }));
      figure.append(svg);
    }
    figure.append(words);
    return figure;
  }

  for (const place of document.querySelectorAll("[data-draw]")) drawers[place.dataset.draw](place, place.dataset);
  const choice = document.getElementById("choice");
  if (choice) {
    const show = () => { for (const part of document.querySelectorAll("[data-part]")) part.hidden = choice.value !== "" && part.dataset.part !== choice.value; };
    choice.addEventListener("change", show);
    choice.closest(".choose").hidden = false;
  }
  document.documentElement.dataset.drawn = "yes";
})();
