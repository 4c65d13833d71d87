// The client half: a raw record in, its release out. Nothing here touches the network but the runtime's own files.
import * as ort from "./runtime/ort.wasm.min.mjs";

const GAP = "\ue000missing", OTHER = "\ue000other"; // as tacit/records/cells.py has them

ort.env.wasm.numThreads = 1;
ort.env.wasm.wasmPaths = new URL("./runtime/", import.meta.url).href;
ort.env.logLevel = "error";

/** A filter that is ready to release records one by one. `about` is the service's description of its bundle. */
export async function loadFilter(about, model) {
  const session = await ort.InferenceSession.create(model, { executionProviders: ["wasm"] });
  return new Filter(about, session);
}

class Filter {
  constructor(about, session) {
    this.about = about;
    this.session = session;
    this.draws = new Map();
    this.queue = Promise.resolve(); // the runtime computes one thing at a time
  }

  /** The release of one record, as flat numbers in the order of the bundle's output; `who` tells equal records of different people apart. */
  release(record, who = "") {
    const done = this.queue.then(() => this.run(record, who));
    this.queue = done.catch(() => {});
    return done;
  }

  async run(record, who) {
    const feeds = encode(this.about.input, record, this.about.gaps), noise = this.about.noise;
    if (!noise) return numbers((await this.session.run(feeds, ["release"])).release);
    if (!noise.added) {
      const blank = new ort.Tensor("float64", new Float64Array(noise.columns), [1, noise.columns]);
      const { encoded } = await this.session.run({ ...feeds, noise: blank }, ["encoded"]);
      const drawn = new ort.Tensor("float64", this.draw(noise, encoded.data, who), [1, noise.columns]);
      const out = numbers((await this.session.run({ ...feeds, noise: drawn }, ["release"])).release);
      if (this.about.output.types && out.some(code => code < 0)) throw new Error("this combination of sensitive values was not in the fit");
      return out;
    }
    const { before_noise: code, encoded } = await this.session.run(feeds, ["before_noise", "encoded"]);
    const norm = code.data.reduce((sum, v) => sum + Math.abs(v), 0);
    if (noise.radius != null && norm > noise.radius * (1 + 1e-9)) throw new Error("a code leaves the ball that its noise is made for");
    const drawn = this.draw(noise, encoded.data, who), step = noise.grid * noise.scale;
    // the last digits of a sum tell which sums are possible at all: they are rounded away
    return Float64Array.from(code.data, (v, i) => Math.round((v + drawn[i]) / step) * step + 0);
  }

  /** The same record draws the same noise for as long as the page is open. */
  draw(noise, encoded, who) {
    // values at the resolution by which noise is named: a record that was rounded on its way keeps its draw
    const record = `${who}:` + Array.from(encoded, v => (noise.resolution ? Math.round(v / noise.resolution) : v) + 0).join();
    if (!this.draws.has(record)) this.draws.set(record, Float64Array.from({ length: noise.columns }, () => noise.scale * DRAWS[noise.distribution]()));
    return this.draws.get(record);
  }
}

/** Inputs of the graph for one record: {column: value} of a table (null is a gap), or flat numbers of an array.
 * Cells mean what tacit/records/cells.py says; `gaps` are its words for one. */
export function encode(input, record, gaps) {
  if (input.kind === "array") {
    const values = Float64Array.from(record);
    if (values.length !== input.shape.reduce((a, b) => a * b)) throw new Error(`a record has ${input.shape.join(" × ")} numbers`);
    const bad = values.findIndex(v => !Number.isFinite(v));
    if (bad >= 0) throw new Error(`number ${bad} is missing`);
    return { X: new ort.Tensor("float64", values, [1, ...input.shape]) };
  }
  const cell = value => value === undefined || Number.isNaN(value) ? null : typeof value !== "string" ? value : gaps.includes(value.replace(/^ +/, "")) ? null : value.replace(/^ +/, "");
  const numbers = input.columns.filter(c => c.kind === "number"), texts = input.columns.filter(c => c.kind === "category"), feeds = {};
  if (numbers.length) feeds.numbers = new ort.Tensor("float64", Float64Array.from(numbers, c => number(c, cell(record[c.name]))), [1, numbers.length]);
  if (texts.length) feeds.texts = new ort.Tensor("string", texts.map(c => category(c, record[c.name], cell)), [1, texts.length]);
  return feeds;
}

const TRUTH = { true: 1, false: 0 };
const NUMBER = /^\s*[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?\s*$/i;

const DAY = 86400;
const TIME = /^(\d{4})-(\d\d)-(\d\d)(?:[T ](\d\d):(\d\d)(?::(\d\d(?:\.\d+)?))?)?(Z|[+-]\d\d:\d\d)?$/;

/** Days or seconds since 1970, as tacit/records/cells.py counts them; a duration comes as seconds. */
function time(column, value) {
  if (column.type === "duration" && typeof value === "number") return value;
  const text = String(value).trim();
  const found = TIME.test(text) ? Date.parse(text.length > 10 ? text.replace(" ", "T") + (/Z|[+-]\d\d:\d\d$/.test(text.slice(10)) ? "" : "Z") : text) : NaN;
  if (Number.isNaN(found)) throw new Error(`${column.name}: not a time`);
  return found / 1000 / (column.type === "day" ? DAY : 1);
}

function number(column, value) {
  if (column.role === "sensitive") refuse(column, value === null, column.levels.length && value !== null && !column.levels.includes(Number(TRUTH[String(value).toLowerCase()] ?? value)));
  if (value === null) return NaN;
  if (["day", "time", "duration"].includes(column.type)) return time(column, value);
  let found = typeof value === "boolean" ? +value : value;
  if (typeof found === "string" && column.type === "boolean") found = TRUTH[found.toLowerCase()] ?? found;
  if (typeof found === "string" && NUMBER.test(found)) found = +found;
  if (typeof found !== "number" || !Number.isFinite(found)) throw new Error(`${column.name}: not a number`);
  return found;
}

/** The release looks at this column: what the fit did not have cannot be hidden. */
function refuse(column, gap, strange) {
  if (gap && !column.gaps) throw new Error(`${column.name}: missing, and this release looks at it`);
  if (strange) throw new Error(`${column.name}: this value was not in the fit`);
}

function category(column, value, cell) {
  const found = word(column, value, cell);
  if (column.role === "sensitive") refuse(column, found === GAP, found === OTHER);
  return found;
}

function word(column, value, cell) {
  const known = column.categories, given = value === true ? "True" : value === false ? "False" : value;
  if (known.includes(given)) return given;
  const text = cell(given);
  if (text === null) return GAP;
  if (typeof text === "number") throw new Error(`${column.name}: a number, where text is expected`);
  const booleans = known.length && known.every(word => word === "True" || word === "False");
  return known.find(word => booleans ? word.toLowerCase() === text.toLowerCase() : word === text) ?? OTHER;
}

const numbers = tensor => Float64Array.from(tensor.data);

/** Between 0 and 1, neither of them, with 52 bits from the operating system. */
function uniform() {
  const [high, low] = crypto.getRandomValues(new Uint32Array(2));
  return ((high >>> 6) * 2 ** 26 + (low >>> 6) + 0.5) / 2 ** 52;
}

const DRAWS = {
  uniform,
  normal: () => Math.sqrt(-2 * Math.log(uniform())) * Math.cos(2 * Math.PI * uniform()),
  laplace: () => { const u = uniform(); return u < 0.5 ? Math.log(2 * u) : -Math.log(2 * (1 - u)); },
};
