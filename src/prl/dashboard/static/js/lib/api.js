/** Asking the server. Answers are kept by the browser and asked again by ETag. */

/** An answer that was none: `kind` is the server's, "unreachable" when there was no server. */
export class ApiError extends Error {
  /**
   * @param {number} status HTTP status; 0 without an answer
   * @param {string} kind
   * @param {string} message
   */
  constructor(status, kind, message) {
    super(message);
    this.status = status;
    this.kind = kind;
  }
}

/** This tab's name, by which the server knows how many people look. */
const CLIENT = crypto.getRandomValues(new Uint32Array(2)).join("-");

/**
 * The relative address of a route.
 * @param {string} path below api/v1
 * @param {import("./place.js").Changes} [parameters] those that are null, undefined, false or "" are left out
 */
export function address(path, parameters = {}) {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(parameters)) {
    for (const one of Array.isArray(value) ? value : [value]) {
      if (one !== null && one !== undefined && one !== false && one !== "") query.append(name, String(one));
    }
  }
  const text = query.toString();
  return `api/v1/${path}${text ? `?${text}` : ""}`;
}

/**
 * The path of a run's route.
 * @param {string} run
 * @param {...string} parts each becomes one segment, whatever it holds
 */
export function runPath(run, ...parts) {
  return ["runs", run, ...parts].map(encodeURIComponent).join("/");
}

/**
 * The answer of a route. Throws ApiError, or the signal's reason.
 * @param {string} url of {@link address}
 * @param {{signal?: AbortSignal, method?: string, body?: unknown}} [options]
 * @returns {Promise<any>}
 */
export async function ask(url, { signal, method = "GET", body } = {}) {
  /** @type {Response} */
  let response;
  try {
    response = await fetch(url, {
      method,
      signal,
      headers: { "Prl-Client": CLIENT, ...(body === undefined ? {} : { "Content-Type": "application/json" }) },
      body: body === undefined ? undefined : JSON.stringify(body),
    });
  } catch (error) {
    if (signal?.aborted) throw error;
    throw new ApiError(0, "unreachable", "The dashboard does not answer. Is it still running?");
  }
  const answer = await response.json().catch(() => null);
  if (response.ok && answer !== null) return answer;
  const said = answer?.error ?? { kind: "internal", message: `${url}: ${response.status} ${response.statusText}` };
  throw new ApiError(response.status, said.kind, said.message);
}
