/** What keys mean, as the curated charts say it: the first pattern that a key fits. Pure. */

/** @typedef {{match: string, title: string, unit?: string, format?: string, about?: string, from_zero?: boolean}} Meaning */

/** @param {string} pattern with `*` for any text @param {string} key */
export function fits(pattern, key) {
  const parts = pattern.split("*");
  if (parts.length === 1) return pattern === key;
  const [first, last] = [parts[0], parts[parts.length - 1]];
  if (!key.startsWith(first) || !key.endsWith(last) || key.length < first.length + last.length) return false;
  let at = first.length;
  for (const part of parts.slice(1, -1)) {
    const next = key.indexOf(part, at);
    if (next < 0) return false;
    at = next + part.length;
  }
  return at <= key.length - last.length;
}

/** @param {readonly Meaning[]} meanings @param {string} key @returns {Meaning | null} */
export function meaningOf(meanings, key) {
  // A statistic of something has the unit of its mean.
  const mean = key.replace(/\/(p10|p90|min|max|std)$/, "/mean");
  return meanings.find(({ match }) => fits(match, key)) ?? meanings.find(({ match }) => fits(match, mean)) ?? null;
}
