// The page: a record that stays, its release, what that gives away, and the service's answer to it.
import { Drawing, bars, element, leakMeter, picture, share, short, waves } from "./pictures.js";

const $ = id => document.getElementById(id), product = shape => shape.reduce((a, b) => a * b, 1);
const DRAWN = [[[[.28, .22], [.72, .22], [.45, .8]]], [[[.38, .3], [.52, .18], [.52, .82]]], [[[.6, .18], [.3, .55], [.72, .55]], [[.6, .4], [.6, .84]]],
  [Array.from({ length: 17 }, (_, i) => [.5 + .2 * Math.sin(i * Math.PI / 8), .5 - .3 * Math.cos(i * Math.PI / 8)])]];
const MAX_TEXT = 100_000;
const GAP = "\ue000gap"; // the choice "unknown"
let about, filter, reader, body = null, version = 0, sample = 0;

await start();

async function start(key = "") {
  try {
    const allowed = key ? { headers: { authorization: `Bearer ${key}` } } : {};
    const told = await fetch("/v1/bundle", allowed);
    if (told.status === 401 || told.status === 403) return askKey(key);
    about = await answered(told).json();
    introduce();
    $("key").value = key;
    const model = await answered(await fetch("/v1/bundle/model.onnx", allowed)).arrayBuffer();
    const client = await import("./filter.js").catch(() => { throw new Error("This server lacks the browser’s runtime, so the filter cannot run here. Whoever runs the service can fetch it with: python -m tacit.serve.browser"); });
    filter = await client.loadFilter(about, model);
    reader = inputFor(about.input);
    document.querySelector("main").hidden = false;
    $("status").hidden = true;
    reader.next();
  } catch (error) {
    $("status").className = "bad";
    $("status").textContent = error.message;
  }
}

function answered(found) {
  if (!found.ok) throw new Error(`The service does not answer (${found.status}).`);
  return found;
}

/** Where the owner shows the filter to those with a key only. */
function askKey(wrong) {
  const field = element("input", { id: "first-key", type: "password", autocomplete: "off", spellcheck: "false" });
  const form = element("form", { id: "enter" }, element("label", {}, "API key ", field), element("button", { type: "submit" }, "Open"));
  form.addEventListener("submit", event => { event.preventDefault(); start(field.value.trim()); });
  $("status").replaceChildren(wrong ? "The service does not show its filter for this key. " : "The owner shows this filter to those with a key. ", form);
}

function introduce() {
  document.title = `${about.name} · Tacit`;
  $("name").textContent = about.name.replace(/\.tacit$/, "");
  $("about").textContent = `${about.filter}: ${about.output.meaning}`;
  $("key-field").hidden = !about.needs_key;
  showLeakage(about.audit);
}

// -- the record: each kind gives {read, next} and calls changed() ------------------------------------

function inputFor(input) {
  const ranges = input.ranges || [], low = Math.min(...ranges.map(r => r[0])), high = Math.max(...ranges.map(r => r[1]));
  if (input.kind === "table") return form(input.columns);
  if (input.shape.length === 2) return sampleWindow(input.shape, ranges);
  const side = Math.sqrt(product(input.shape));
  if (input.shape.length === 3) return drawing(input.shape, low, high);
  if (Number.isInteger(side) && side >= 7) return drawing([1, side, side], low, high);
  return form(input.shape[0] > 200 ? [] : Array.from({ length: input.shape[0] }, (_, i) => ({ name: `number ${i + 1}`, kind: "number", type: "float", range: ranges[i] })));
}

function form(columns) {
  const fields = element("div", { class: "fields" }), controls = columns.map(c => control(c));
  controls.forEach((node, i) => { fields.append(element("label", { title: columns[i].name }, columns[i].name + (columns[i].role === "sensitive" ? " (is never sent)" : ""), node)); node.addEventListener("input", changed); });
  let values = []; // of arrays too long for a form
  $("input").append(columns.length ? fields : element("p", {}, `A made-up record of ${product(about.input.shape)} numbers.`));
  note("A made-up record, from the ranges of the bundle’s schema: nobody’s data. Change what you like.");
  button("Another made-up record", next);
  if (about.output.types) files(columns);
  function next() {
    const made = about.samples[sample++ % about.samples.length];
    values = Array.isArray(made) ? made : columns.map(c => made[c.name]);
    controls.forEach((node, i) => { node.value = values[i] ?? (node.tagName === "SELECT" ? GAP : ""); });
    changed();
  }
  function read() {
    const found = columns.length ? columns.map((c, i) => value(c, controls[i])) : values;
    return about.input.kind === "array" ? found : Object.fromEntries(columns.map((c, i) => [c.name, found[i]]));
  }
  return { read, next };
}

/** A whole table: read, released and written in this page. */
function files(columns) {
  const file = element("input", { type: "file", accept: ".csv,text/csv", hidden: true });
  file.addEventListener("change", async () => {
    if (!file.files.length) return;
    try {
      const text = await releaseTable(await file.files[0].text(), columns, done => note(`${done} rows released …`));
      const link = element("a", { href: URL.createObjectURL(new Blob([text], { type: "text/csv" })), download: "release.csv", id: "released-file" }, "release.csv");
      $("input-note").replaceChildren("Released in this page; nothing was sent. ", link);
    } catch (error) { note(error.message); }
    file.value = "";
  });
  $("input-buttons").append(file);
  button("Release a CSV file", () => file.click());
}

async function releaseTable(text, columns, tell) {
  const [header, ...rows] = parseCsv(text), { names, carried, table } = about.output;
  const absent = columns.map(c => c.name).concat(Object.keys(carried)).find(n => !header.includes(n));
  if (absent) throw new Error(`The file has no column ${absent}.`);
  const lines = [names.map(quoted).join()];
  for (const [i, row] of rows.entries()) {
    const record = Object.fromEntries(header.map((n, j) => [n, row[j] ?? ""]));
    const codes = await filter.release(record, i).catch(error => { throw new Error(`row ${i + 2}: ${error.message}`); });
    let at = 0;
    lines.push(names.map(n => quoted(n in carried ? record[n] : table[at][codes[at++]])).join());
    if (i % 200 === 199) tell(i + 1);
  }
  return lines.join("\n") + "\n";
}

const quoted = value => value == null ? "" : /[",\n\r]/.test(String(value)) ? `"${String(value).replaceAll('"', '""')}"` : String(value);

/** Rows of cells, the first of them names; quoted cells may hold commas and line ends. */
function parseCsv(text) {
  const rows = [[]];
  for (const [, quotedCell, plainCell, end] of text.replace(/^\ufeff/, "").matchAll(/ *(?:"((?:[^"]|"")*)"|([^,\r\n]*))(,|\r\n|\n|\r|$)/g)) {
    rows.at(-1).push(quotedCell === undefined ? plainCell : quotedCell.replaceAll('""', '"'));
    if (end === "") break;
    if (end !== ",") rows.push([]);
  }
  return rows.filter(row => row.length > 1 || row[0] !== "");
}

function control(column) {
  if (column.kind === "number" && ["day", "time"].includes(column.type)) return element("input", { type: column.type === "day" ? "date" : "datetime-local" });
  if (column.levels?.length) return element("select", {}, ...column.levels.map(v => element("option", { value: v }, column.type === "boolean" ? (v ? "yes" : "no") : String(v))));
  if (column.kind === "number" && column.type !== "boolean") {
    return element("input", { type: "number", step: column.type === "integer" ? 1 : "any", inputmode: "decimal", placeholder: column.gaps ? "unknown" : "" });
  }
  const words = column.kind === "category" ? column.categories.map(c => [c, c || "(empty)"]) : [["1", "yes"], ["0", "no"]];
  const gap = column.role === "sensitive" && !column.gaps ? "" : element("option", { value: GAP }, "unknown");
  return element("select", {}, ...words.map(([value, text]) => element("option", { value }, text)), gap);
}

function value(column, node) {
  if (node.tagName === "SELECT") return node.value === GAP ? null : column.kind === "category" ? node.value : +node.value;
  const text = node.value.trim(), bad = node.validity.badInput || (text === "" && about.input.kind === "array");
  node.classList.toggle("bad", bad);
  if (bad) throw new Error(`${column.name}: enter a number`);
  return text === "" ? null : ["day", "time"].includes(column.type) ? text : +text;
}

function drawing(size, low, high) {
  const board = new Drawing(size, low, high, changed);
  $("input").append(board.canvas);
  note("Draw with mouse or finger. The picture exists in this page alone.");
  button("Clear", () => board.clear());
  button("Another sketch", next);
  const file = element("input", { type: "file", accept: "image/*", hidden: true });
  file.addEventListener("change", () => { if (file.files.length) board.photo(file.files[0]).catch(() => { $("input-note").textContent = "That file is not a picture."; }); file.value = ""; });
  $("input-buttons").append(file);
  button("Take a picture file", () => file.click());
  function next() { board.strokes(DRAWN[sample++ % DRAWN.length]); }
  return { read: () => board.values.slice(), next };
}

function sampleWindow(size, ranges) {
  let values = [];
  note("A made-up window within the ranges of the bundle’s schema: nobody’s data. One line per channel.");
  button("Another made-up window", next);
  function next() {
    values = about.samples[sample++ % about.samples.length].flat();
    $("input").replaceChildren(waves(values, size, ranges, "the raw window"));
    changed();
  }
  return { read: () => values, next };
}

function note(text) { $("input-note").textContent = text; }

function button(text, action) {
  const node = element("button", { type: "button" }, text);
  node.addEventListener("click", action);
  $("input-buttons").append(node);
}

// -- the release -----------------------------------------------------------------------------------

async function changed() {
  if (!reader) return;
  const now = ++version;
  $("send").disabled = true;
  $("answers").classList.add("stale");
  try {
    const values = await filter.release(reader.read());
    if (now !== version) return; // the record has changed meanwhile
    body = JSON.stringify({ release: [nest(Array.from(values), about.output.shape)] });
    if (body.length > MAX_TEXT) body = values; // as doubles: shorter
    showRelease(Array.from(values));
    $("send").disabled = false;
  } catch (error) {
    if (now !== version) return;
    body = null;
    $("output").replaceChildren(element("p", { class: "leaves" }, error.message));
    $("output-note").textContent = $("body").textContent = "";
  }
}

const plain = v => v == null ? "unknown" : typeof v === "number" ? short(v) : String(v);

function nest(flat, shape) {
  if (shape.length === 1) return flat;
  const size = flat.length / shape[0];
  return Array.from({ length: shape[0] }, (_, i) => nest(flat.slice(i * size, (i + 1) * size), shape.slice(1)));
}

function showRelease(values) {
  const { output, input } = about, ranges = input.ranges || [], place = $("output");
  const alike = input.kind === "array" && product(output.shape) === product(input.shape), side = Math.sqrt(values.length);
  if (output.types) {
    const record = reader.read(), kept = output.names.filter(n => !(n in output.carried));
    place.replaceChildren(element("dl", {}, ...kept.flatMap((n, i) => [element("dt", {}, n), cell(record[n], output.table[i][values[i]])])),
      element("p", { class: "soft" }, `Marked values are replaced or rounded. ${hidden().join(" and ")}: looked at here, and never sent.`));
  } else if (output.codes != null) {
    const rows = output.table ? [element("dl", {}, ...output.names.flatMap((n, i) => [element("dt", {}, n), element("dd", {}, plain(output.table[i][values[0]]))]))] : [];
    place.replaceChildren(element("div", { class: "big" }, `${values[0]}`), element("p", { class: "soft" }, `one of ${output.codes} codes${output.table ? ", which stands for this typical record" : ""}`), ...rows);
  } else if (output.shape.length === 3 || (alike && input.shape.length === 1 && Number.isInteger(side) && side >= 7)) {
    const canvas = element("canvas", { class: "picture", role: "img", "aria-label": "the released picture" }), size = output.shape.length === 3 ? output.shape : [1, side, side];
    picture(canvas, values, size, ...(alike ? [Math.min(...ranges.map(r => r[0])), Math.max(...ranges.map(r => r[1]))] : [Math.min(...values), Math.max(...values)]));
    canvas.style.aspectRatio = `${size[2]} / ${size[1]}`;
    place.replaceChildren(canvas);
  } else if (output.shape.length === 2) {
    const [channels, length] = output.shape;
    const own = Array.from({ length: channels }, (_, c) => { const part = values.slice(c * length, (c + 1) * length); return [Math.min(...part), Math.max(...part)]; });
    place.replaceChildren(waves(values, output.shape, alike && ranges.length === channels ? ranges : own, "the released window"));
  } else {
    place.replaceChildren(bars(values.slice(0, 100), output.names), ...(values.length > 100 ? [element("p", { class: "soft" }, `and ${values.length - 100} more`)] : []));
  }
  const numbers = values.length === 1 ? "1 number" : `${values.length} numbers`, taken = input.kind === "table" ? `${input.columns.length} columns` : `${product(input.shape)} numbers`;
  $("output-note").textContent = `${numbers}, ${body.byteLength ?? body.length} bytes, made from ${taken}.` + (about.noise
    ? " It holds noise that was drawn in this page from your browser’s random numbers: this record keeps its draw until the page is closed. Whoever reloads and sends it again gives the service two draws to average."
    : "");
  $("body").textContent = typeof body === "string" ? body : `as doubles: ${values.join(" ")}`;
}

const hidden = () => (about.input.columns || []).filter(c => c.role === "sensitive").map(c => c.name);

/** A released value, marked where it is not the record's own. */
function cell(raw, value) {
  const same = raw == null ? value == null : String(raw) === String(value) || (raw !== "" && +raw === +value);
  return element("dd", same ? {} : { class: "changed" }, plain(value));
}

// -- what it costs here ----------------------------------------------------------------------------

const LONG = 20; // milliseconds: browsers round their clocks, so that a batch must be longer than a tick of them

/** Milliseconds that so many releases of this record take, one after the other. */
async function batchOf(count, record) {
  const began = performance.now();
  for (let i = 0; i < count; i++) await filter.release(record);
  return performance.now() - began;
}

$("time").addEventListener("click", async () => {
  $("time").disabled = true;
  $("took").textContent = "…";
  try {
    const record = reader.read(), took = [];
    let batch = 5;
    while (await batchOf(batch, record) < LONG) batch *= 2; // the first ones are slower, too
    for (const end = performance.now() + 1000; took.length < 3 || performance.now() < end;) took.push(await batchOf(batch, record) / batch);
    const median = took.sort((a, b) => a - b)[took.length >> 1];
    $("took").textContent = `${short(median)} ms a record here (median; ${batch * took.length} releases, one after the other). Nothing was sent.`;
  } catch (error) { $("took").textContent = error.message; }
  $("time").disabled = false;
});

// -- what it gives away ----------------------------------------------------------------------------

function showLeakage(audit) {
  if (!audit) return $("leaks").replaceChildren(element("p", { class: "leaves" }, "This filter was saved without an audit: nothing is known about what its releases give away."));
  for (const [name, leak] of Object.entries(audit.leakage)) {
    const tag = element("span", { class: `tag ${leak.certified ? "stays" : "leaves"}` }, leak.certified ? "certified" : "audited");
    $("leaks").append(element("div", { class: "leak" }, element("h3", {}, name, tag), leakMeter(leak), element("p", {}, leak.words)));
  }
  const told = "Shares are balanced: every class counts alike. They hold for one release of a fresh record and an attacker who knows nothing else of the person.";
  $("leaks").append(element("p", { class: "soft" }, audit.fresh ? told : `${told} They were measured on rows that the filter was fitted on, which leak otherwise than fresh ones.`));
}

// -- the answer ------------------------------------------------------------------------------------

$("ask").addEventListener("submit", async event => {
  event.preventDefault();
  if (!body) return;
  const sent = version;
  $("problem").textContent = "";
  $("send").disabled = true;
  try {
    const headers = { "content-type": typeof body === "string" ? "application/json" : "application/octet-stream", "tacit-model": about.model.sha256 };
    if (about.needs_key) headers.authorization = `Bearer ${$("key").value.trim()}`;
    const found = await fetch("/v1/analyze", { method: "POST", headers, body });
    const said = await found.json();
    if (!found.ok) throw new Error(found.status === 401 ? "The service does not know this key." : said.detail);
    showAnswers(said.answers);
    $("answers").classList.toggle("stale", sent !== version);
  } catch (error) {
    $("problem").textContent = error instanceof TypeError ? "The service cannot be reached." : error.message;
  }
  $("send").disabled = !body;
});

function showAnswers(answers) {
  $("answers").replaceChildren(...about.analyzer.targets.map(target => {
    const { label, probabilities } = answers[target.name], grid = element("div", { class: "bars" });
    probabilities[0].map((p, i) => [p, target.classes[i]]).sort((a, b) => b[0] - a[0]).slice(0, 5).forEach(([p, name]) => {
      grid.append(element("span", { class: "name", title: name }, String(name)), element("progress", { max: 1, value: p }), element("span", { class: "number" }, share(p)));
    });
    const right = target.accuracy == null ? "How often this is right was not measured." : `Right ${share(target.accuracy)} of the time on ${target.rows.toLocaleString("en")} rows that nothing was fitted on; always naming the commonest class is right ${share(target.guessing)} of the time.`;
    return element("div", { class: "target" }, element("h3", {}, target.name), element("div", { class: "big" }, String(label[0])), grid, element("p", { class: "soft" }, right));
  }));
}
