/** The keys of a run: which are found, which belong together, and the tree that their names make. Pure. */

/**
 * @typedef {object} Series  a row of GET .../metrics/keys
 * @property {string} producer
 * @property {string} key
 * @property {number} points
 * @property {number | null} last
 * @property {number | null} last_step
 * @property {number | null} last_time
 * @property {number} nonfinite
 * @property {string | null} band
 */

/**
 * @typedef {object} Metric  a key, whoever writes it
 * @property {string} key
 * @property {string[]} producers
 * @property {boolean} edge  whether a band of another key shows it
 * @property {number} nonfinite
 */

/**
 * @typedef {object} Branch
 * @property {string} name
 * @property {string} path
 * @property {number} count  metrics below
 * @property {Branch[]} children
 */

const EDGES = Object.freeze(["p10", "p90", "min", "max", "std"]);

/** @param {readonly Series[]} series @returns {Metric[]} by key */
export function metricsOf(series) {
  const means = new Set(series.filter(({ band }) => band).map(({ key }) => key.slice(0, key.lastIndexOf("/"))));
  /** @type {Map<string, Metric>} */
  const metrics = new Map();
  for (const { producer, key, nonfinite } of series) {
    const known = metrics.get(key);
    const at = key.lastIndexOf("/");
    const edge = EDGES.includes(key.slice(at + 1)) && means.has(key.slice(0, at));
    if (known) {
      known.producers.push(producer);
      known.nonfinite += nonfinite;
    } else metrics.set(key, { key, producers: [producer], edge, nonfinite });
  }
  return [...metrics.values()].sort((a, b) => a.key.localeCompare(b.key, "en", { numeric: true }));
}

/**
 * @param {readonly Metric[]} metrics
 * @param {{text: string, below: string, all: boolean}} filter `text`: words that a key has, `*` for anything between;
 *   `below`: the path of a branch; `all`: also what bands show already
 */
export function found(metrics, { text, below, all }) {
  const words = text.toLowerCase().split(/\s+/).filter(Boolean).map(wordTest);
  return metrics.filter(({ key, edge }) => (all || words.length > 0 || !edge) && isBelow(key, below) && words.every((test) => test(key.toLowerCase())));
}

/** @param {string} word @returns {(key: string) => boolean} */
function wordTest(word) {
  if (!word.includes("*")) return (key) => key.includes(word);
  const parts = word.split("*");
  return (key) => {
    let at = 0;
    return parts.every((part) => {
      const next = key.indexOf(part, at);
      at = next + part.length;
      return next >= 0;
    });
  };
}

/** @param {string} key @param {string} path "" is above all */
export function isBelow(key, path) {
  return path === "" || key === path || key.startsWith(`${path}/`);
}

/** Metrics of a group at most, where their names divide them further. */
const MOST_OF_GROUP = 24;

/**
 * Metrics in groups: those of one branch of the tree, of the largest branches that are not too large.
 * @param {readonly Metric[]} metrics by key
 * @param {string} [above] path of the branch that all are of
 * @returns {[string, Metric[]][]} each group's path and metrics; "" for keys without a branch
 */
export function grouped(metrics, above = "") {
  const start = above === "" ? 0 : above.length + 1;
  /** @type {Map<string, Metric[]>} */
  const branches = new Map();
  for (const metric of metrics) {
    const at = metric.key.indexOf("/", start);
    const path = at < 0 ? above : metric.key.slice(0, at);
    const branch = branches.get(path);
    if (branch) branch.push(metric);
    else branches.set(path, [metric]);
  }
  return [...branches].flatMap(([path, members]) => {
    const divides = path !== above && members.length > MOST_OF_GROUP;
    return divides ? grouped(members, path) : [/** @type {[string, Metric[]]} */ ([path, members])];
  });
}

/** The tree of names, without the leaves' statistics. A branch with a single child is one with it. @param {readonly Metric[]} metrics @returns {Branch[]} */
export function treeOf(metrics) {
  /** @type {Branch} */
  const root = { name: "", path: "", count: 0, children: [] };
  for (const { key } of metrics) {
    let branch = root;
    const parts = key.split("/");
    parts.forEach((name, depth) => {
      let child = branch.children.at(-1);
      if (child?.name !== name) {
        child = { name, path: parts.slice(0, depth + 1).join("/"), count: 0, children: [] };
        branch.children.push(child);
      }
      child.count += 1;
      branch = child;
    });
  }
  return root.children.map(joined);
}

/** @param {Branch} branch @returns {Branch} */
function joined(branch) {
  if (branch.children.length === 1 && branch.count === branch.children[0].count) {
    const child = joined(branch.children[0]);
    return { ...child, name: `${branch.name}/${child.name}` };
  }
  return { ...branch, children: branch.children.map(joined) };
}

/**
 * The rows of a tree that are seen: those below open branches.
 * @param {readonly Branch[]} branches @param {(path: string) => boolean} isOpen @param {number} [depth]
 * @returns {{branch: Branch, depth: number}[]}
 */
export function seenRows(branches, isOpen, depth = 0) {
  return branches.flatMap((branch) => [{ branch, depth }, ...(isOpen(branch.path) ? seenRows(branch.children, isOpen, depth + 1) : [])]);
}
