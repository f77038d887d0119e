/** A report's blocks, which the server made of its text: headings, paragraphs, lists, tables, code. Text nodes only. */

import { html } from "../../lib/ui.js";

/**
 * @param {{blocks: readonly any[], citation: (id: string) => any}} properties `citation` draws the mark of a citation
 */
export function Blocks({ blocks, citation }) {
  return html`${blocks.map((block, index) => html`<${Block} key=${index} block=${block} citation=${citation} />`)}`;
}

/** @param {{block: any, citation: (id: string) => any}} properties */
function Block({ block, citation }) {
  const text = html`<${Spans} spans=${block.spans ?? []} citation=${citation} />`;
  if (block.type === "heading") return block.level <= 1 ? html`<h1>${text}</h1>` : block.level === 2 ? html`<h2>${text}</h2>` : html`<h3>${text}</h3>`;
  if (block.type === "code") return html`<pre tabindex="0">${block.text ?? ""}</pre>`;
  if (block.type === "quote") return html`<blockquote><${Blocks} blocks=${block.blocks ?? []} citation=${citation} />${text}</blockquote>`;
  if (block.type === "rule") return html`<hr />`;
  if (block.type === "list") {
    const items = (block.items ?? []).map((/** @type {any} */ item, /** @type {number} */ index) => html`<li key=${index}><${Blocks} blocks=${item} citation=${citation} /></li>`);
    return block.ordered ? html`<ol start=${block.start ?? 1}>${items}</ol>` : html`<ul>${items}</ul>`;
  }
  if (block.type === "table") {
    const cells = (/** @type {any[]} */ row, /** @type {string} */ tag) => row.map((cell, index) => (tag === "th" ? html`<th key=${index} scope="col"><${Spans} spans=${cell} citation=${citation} /></th>` : html`<td key=${index}><${Spans} spans=${cell} citation=${citation} /></td>`));
    return html`<table><thead><tr>${cells(block.head ?? [], "th")}</tr></thead><tbody>${(block.rows ?? []).map((/** @type {any[]} */ row, /** @type {number} */ index) => html`<tr key=${index}>${cells(row, "td")}</tr>`)}</tbody></table>`;
  }
  return html`<p>${text}</p>`;
}

/** @param {{spans: readonly any[], citation: (id: string) => any}} properties */
function Spans({ spans, citation }) {
  return html`${spans.map((span, index) => {
    if (span.cite) return html`<span key=${index}>${citation(span.cite)}</span>`;
    const style = span.style ?? [];
    const inner = style.includes("code") ? html`<code>${span.text}</code>` : span.text;
    const strong = style.includes("strong") ? html`<strong>${inner}</strong>` : inner;
    const slanted = style.includes("em") ? html`<em>${strong}</em>` : strong;
    const all = style.includes("strike") ? html`<s>${slanted}</s>` : slanted;
    // The server lets through http, https and relative addresses alone.
    return span.href ? html`<a key=${index} href=${span.href} rel="noreferrer noopener" target="_blank">${all}</a>` : html`<span key=${index}>${all}</span>`;
  })}`;
}
