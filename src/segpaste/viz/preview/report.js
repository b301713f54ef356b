// What was pasted, and what was not and why.
"use strict";
import { element } from "/options.js";

const count = (number) => number.toLocaleString("en");

function table(title, heads, rows) {
  if (!rows.length) return null;
  const cells = (row, tag) => row.map((cell, i) => element(tag, { className: i && typeof cell !== "object" ? "n" : "" }, cell ?? ""));
  const head = element("tr", {}, ...cells(heads, "th"));
  const body = rows.map((row) => element("tr", {}, ...cells(row, "td")));
  return element("section", {}, element("h3", { textContent: title }), element("div", { className: "scroll" }, element("table", {}, element("thead", {}, head), element("tbody", {}, ...body))));
}

function named(color, name) {
  const dot = element("i", { className: "dot" });
  if (color) dot.style.background = color;
  return element("span", {}, color ? dot : "", name);
}

function reasons(title, id, rows) {
  const items = rows.map(({ reason, count: num, advice }) => element("li", {}, element("strong", { textContent: `${count(num)} ${reason}` }), advice ? `: ${advice}` : ""));
  return items.length ? element("section", {}, element("h3", { textContent: title }), element("ul", { id }, ...items)) : null;
}

export function showReport(place, report) {
  const numbers = [["tried", count(report.tried)], ["placed", count(report.placed)], ["not placed", count(report.tried - report.placed)], ["lost", count(report.lost.reduce((sum, row) => sum + row.count, 0))], ["of the pixels", `${(100 * report.pastedFrac).toFixed(1)} %`]];
  const facts = element("dl", {}, ...numbers.map(([name, value]) => element("div", {}, element("dt", { textContent: name }), element("dd", { textContent: value, id: `number-${name.replaceAll(" ", "-")}` }))));
  const dropped = reasons("Not placed, and what helps", "dropped", report.dropped);
  const lost = reasons("Objects of the image that were lost, and what helps", "lost", report.lost);
  const some = report.lost.length > 0;
  const cells = (row) => [row.name, count(row.before), ...(some ? [count(row.lost)] : []), count(row.after)];
  const classes = table("Classes", ["class", "before", ...(some ? ["lost"] : []), "after"], report.classes.map(cells));
  const objects = table("Pasted objects", ["class", "scale", "flipped", "pixels"], report.objects.map((row) => [named(row.color, row.class), row.scale.toFixed(2), row.flipped ? "yes" : "no", row.area === null ? "" : count(row.area)]));
  place.replaceChildren(...[element("h2", { textContent: "Report" }), facts, dropped, lost, objects, classes].filter(Boolean));
}
