/** Numbers, times and sizes for people. Pure. A real minus sign; "n/a" where nothing is known, which is not 0. */

export const NONE = "n/a";
const MINUS = "\u2212";
/** Made once: `toLocaleString` makes one a call, which is felt in long lists. */
const GROUPED = new Intl.NumberFormat("en-US", { maximumFractionDigits: 0 });

/** @param {unknown} value @returns {value is number} */
const known = (value) => typeof value === "number" && Number.isFinite(value);

/** @param {string} text */
const signed = (text) => text.replace(/^-/, MINUS).replace(/e-/, `e${MINUS}`);

/**
 * A number with about four significant digits.
 * @param {number | null | undefined} value
 */
export function number(value) {
  if (!known(value)) return NONE;
  const size = Math.abs(value);
  if (size === 0) return "0";
  if (Number.isInteger(value) && size < 1e7) return signed(GROUPED.format(value));
  if (size >= 1e7 || size < 1e-4) return signed(value.toExponential(2).replace("e+", "e"));
  if (size >= 1000) return signed(GROUPED.format(value));
  if (size >= 100) return signed(value.toFixed(1));
  if (size >= 10) return signed(value.toFixed(2));
  if (size >= 0.1) return signed(value.toFixed(3));
  return signed(value.toPrecision(3).replace(/0+$/, "").replace(/\.$/, ""));
}

/** A whole number with separators. @param {number | null | undefined} value */
export function count(value) {
  return known(value) ? signed(GROUPED.format(Math.round(value))) : NONE;
}

/** A share of 1 as per cent. @param {number | null | undefined} value */
export function percent(value) {
  if (!known(value)) return NONE;
  const hundred = value * 100;
  const digits = hundred !== 0 && Math.abs(hundred) < 10 ? 1 : 0;
  return `${signed(hundred.toFixed(digits))}%`;
}

/**
 * A number with so many decimals, for columns that are compared.
 * @param {number} value @param {number} digits
 */
export function fixed(value, digits) {
  if (Math.abs(value) >= 1e4) return number(value);
  return signed((Math.abs(value) < 0.5 * 10 ** -digits ? 0 : value).toFixed(digits));
}

/** A change, with its sign; one that is nothing when written has none. @param {number | null | undefined} value @param {(value: number) => string} [as] */
export function change(value, as = number) {
  if (!known(value)) return NONE;
  const text = as(value);
  return value > 0 && /[1-9]/.test(text) ? `+${text}` : text;
}

const UNITS = /** @type {const} */ ([
  [86400, "d"],
  [3600, "h"],
  [60, "min"],
  [1, "s"],
]);

/**
 * A length of time in its two largest units: "7 h 26 min", "3 min 38 s", "61.4 s", "12 ms".
 * @param {number | null | undefined} seconds
 */
export function duration(seconds) {
  if (!known(seconds)) return NONE;
  const size = Math.abs(seconds);
  const sign = seconds < 0 ? MINUS : "";
  if (size < 0.001 && size > 0) return `${sign}<1 ms`;
  if (size < 1) return size === 0 ? "0 s" : `${sign}${Math.round(size * 1000)} ms`;
  if (size < 100) return `${sign}${size < 10 ? trimmed(size.toFixed(1)) : size < 99.5 ? trimmed(size.toFixed(1)) : "100"} s`;
  const first = UNITS.findIndex(([unit]) => size >= unit);
  const [[large, name], next] = [UNITS[first], UNITS[first + 1]];
  if (next === undefined) return `${sign}${Math.round(size)} ${name}`;
  const rounded = Math.round(size / next[0]) * next[0];
  const whole = Math.floor(rounded / large);
  const rest = Math.round((rounded - whole * large) / next[0]);
  return `${sign}${whole} ${name}${rest ? ` ${rest} ${next[1]}` : ""}`;
}

/** @param {string} text */
const trimmed = (text) => text.replace(/\.0$/, "");

/** How long ago, in one unit: "2 s", "3 min", "7 h", "4 d". @param {number | null | undefined} seconds */
export function age(seconds) {
  if (!known(seconds)) return NONE;
  const size = Math.max(0, seconds);
  for (const [unit, name] of UNITS) if (size >= unit) return `${Math.floor(size / unit)} ${name}`;
  return "0 s";
}

/** @param {number | null | undefined} value */
export function bytes(value) {
  if (!known(value)) return NONE;
  let size = value;
  for (const unit of ["B", "KiB", "MiB", "GiB"]) {
    if (Math.abs(size) < 1024) return `${unit === "B" ? Math.round(size) : size.toFixed(1)} ${unit}`;
    size /= 1024;
  }
  return `${size.toFixed(1)} TiB`;
}

/** A moment as local date and time: "2026-03-01 14:05:09". @param {number | null | undefined} time Unix seconds */
export function moment(time) {
  if (!known(time)) return NONE;
  const at = new Date(time * 1000);
  if (Number.isNaN(at.getTime())) return NONE;
  const two = (/** @type {number} */ part) => String(part).padStart(2, "0");
  return `${at.getFullYear()}-${two(at.getMonth() + 1)}-${two(at.getDate())} ${clock(time)}`;
}

/** The local time of day. @param {number | null | undefined} time Unix seconds */
export function clock(time) {
  if (!known(time)) return NONE;
  const at = new Date(time * 1000);
  if (Number.isNaN(at.getTime())) return NONE;
  return [at.getHours(), at.getMinutes(), at.getSeconds()].map((part) => String(part).padStart(2, "0")).join(":");
}

/**
 * A value in the form that the server names for it.
 * @param {number | null | undefined} value
 * @param {string} format "number", "percent", "seconds", "tokens", "bytes", "rate" or "count"
 */
export function formatted(value, format) {
  if (format === "percent") return percent(value);
  if (format === "seconds") return duration(value);
  if (format === "bytes") return bytes(value);
  if (format === "count" || format === "tokens") return known(value) && Number.isInteger(value) ? count(value) : number(value);
  if (format === "rate") return known(value) ? `${number(value)}/s` : NONE;
  return number(value);
}

/** One or several: plural(1, "run") is "1 run". @param {number} many @param {string} one @param {string} [more] */
export function plural(many, one, more = `${one}s`) {
  return `${count(many)} ${many === 1 ? one : more}`;
}
