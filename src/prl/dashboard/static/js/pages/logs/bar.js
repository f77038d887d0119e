/** What is shown of the logs: text, level, components, attempt, layout, and a moment to jump to. */

import { bytes, count } from "../../lib/format.js";
import { useKeys } from "../../lib/keys.js";
import { html, useRef, useState } from "../../lib/ui.js";
import { Check, Choice, Search } from "../../parts/controls.js";
import { Icon } from "../../parts/icons.js";
import { typedTime } from "./lines.js";

const LEVELS = [
  { value: "", label: "All" },
  { value: "INFO", label: "Info" },
  { value: "WARNING", label: html`<${Icon} name="warn" size=${12} />Warn` },
  { value: "ERROR", label: html`<${Icon} name="bad" size=${12} />Error` },
];

/**
 * @param {object} properties
 * @param {string} properties.text
 * @param {(text: string) => void} properties.onText
 * @param {boolean} properties.regex
 * @param {boolean} properties.only
 * @param {string} properties.level
 * @param {boolean} properties.split
 * @param {any} properties.files answer of .../logs/files
 * @param {number} properties.hits
 * @param {number} properties.hit
 * @param {boolean} properties.done
 * @param {number} properties.near the moment that a time of day is of the day of
 * @param {(changes: import("../../lib/place.js").Changes) => void} properties.set
 */
export function LogBar({ text, onText, regex, only, level, split, files, hits, hit, done, near, set }) {
  const input = useRef(/** @type {HTMLInputElement | null} */ (null));
  useKeys([{ keys: "/", about: "Search the whole logs", run: () => input.current?.focus() }]);
  const said = text && html`<span class="tn small dim found" aria-live="polite">${hits ? `${count(hit + 1)} of ` : ""}${count(hits)}${done ? "" : "+"}</span><kbd>n</kbd><kbd>N</kbd>`;
  return html`<div class="toolbar logbar">
    <${Search} label="Search whole logs" class="fs" value=${text} onChange=${onText} input=${input} hint=${said} />
    <${Check} checked=${regex} title="The text is a regular expression" onChange=${(/** @type {boolean} */ on) => set({ regex: on })}>regex</${Check}>
    <${Check} checked=${only} title="Show only lines that match" onChange=${(/** @type {boolean} */ on) => set({ only: on })}>only hits</${Check}>
    <${Choice} label="Level" value=${level} options=${LEVELS} onChange=${(/** @type {string} */ next) => set({ level: next })} />
    <${Choice} label="Layout" value=${split ? "split" : ""} options=${[
      { value: "", label: "Merged" },
      { value: "split", label: "Side by side" },
    ]} onChange=${(/** @type {string} */ next) => set({ view: next })} />
    ${(files?.attempts.length ?? 0) > 1 && html`<${Attempt} files=${files} set=${set} />`}
    <span class="grow"></span>
    <${JumpTo} near=${near} onTime=${(/** @type {number} */ at) => set({ at: at.toFixed(3), file: null, offset: null })} />
    <button type="button" class="btn" onClick=${() => set({ at: null, file: null, offset: null })}>Newest <kbd>End</kbd></button>
  </div>`;
}

/** @param {{files: any, set: (changes: import("../../lib/place.js").Changes) => void}} properties */
function Attempt({ files, set }) {
  return html`<label class="row"><span class="dim">Attempt</span><select class="btn" value=${String(files.attempt)} onChange=${(/** @type {any} */ event) => set({ attempt: event.currentTarget.value, at: null, file: null, offset: null, component: null })}>
    ${files.attempts.map((/** @type {number} */ number) => html`<option key=${number} value=${String(number)}>${number}</option>`)}
  </select></label>`;
}

/** @param {{near: number, onTime: (at: number) => void}} properties */
function JumpTo({ near, onTime }) {
  const [typed, setTyped] = useState("");
  const time = typedTime(typed, near);
  const key = (/** @type {KeyboardEvent} */ event) => {
    if (event.key === "Enter" && time !== null) onTime(time);
  };
  return html`<label class="field jump"><span>Jump to</span>
    <input type="text" value=${typed} placeholder="14:05:09" aria-invalid=${String(typed !== "" && time === null)} title="A time of day, a date and time, or Unix seconds"
      onInput=${(/** @type {any} */ event) => setTyped(event.currentTarget.value)} onKeyDown=${key} /></label>`;
}

/**
 * @param {{files: any, chosen: readonly string[], colors: Map<string, number>, set: (changes: import("../../lib/place.js").Changes) => void}} properties
 */
export function Components({ files, chosen, colors, set }) {
  const components = files?.components ?? [];
  const shown = (/** @type {any} */ one) => (chosen.length ? chosen.includes(one.name) : one.default);
  const toggle = (/** @type {any} */ one) => {
    const next = components.filter((/** @type {any} */ other) => (other === one ? !shown(one) : shown(other)));
    const usual = components.every((/** @type {any} */ other) => next.includes(other) === other.default);
    set({ component: usual || next.length === 0 ? null : next.map((/** @type {any} */ other) => other.name) });
  };
  return html`<div class="toolbar cbs" role="group" aria-label="Components"><span class="faint">Components</span>
    ${components.map((/** @type {any} */ one) => {
      const size = one.files.reduce((/** @type {number} */ sum, /** @type {any} */ file) => sum + file.bytes, 0);
      return html`<button type="button" key=${one.name} class="btn cb" aria-pressed=${String(shown(one))} title=${one.files.map((/** @type {any} */ file) => file.name).join("\n")} onClick=${() => toggle(one)}>
        <i class="sw b${colors.get(one.name) ?? 0}"></i>${one.name.replace(/^envs\//, "")}<span class="v tn">${bytes(size)}</span></button>`;
    })}
    ${files?.left_out > 0 && html`<span class="warn small"><${Icon} name="warn" size=${12} /> ${count(files.left_out)} more files are not read</span>`}
  </div>`;
}
