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

export function showReport(place, report) {
  const numbers = [["tried", count(report.tried)], ["placed", count(report.placed)], ["not placed", count(report.tried - report.placed)], ["of the pixels", `${(100 * report.pastedFrac).toFixed(1)} %`]];
  const facts = element("dl", {}, ...numbers.map(([name, value]) => element("div", {}, element("dt", { textContent: name }), element("dd", { textContent: value, id: `number-${name.replaceAll(" ", "-")}` }))));
  const why = report.dropped.map(({ reason, count: num, advice }) => element("li", {}, element("strong", { textContent: `${count(num)} ${reason}` }), advice ? `: ${advice}` : ""));
  const dropped = why.length ? element("section", {}, element("h3", { textContent: "Not placed, and what helps" }), element("ul", { id: "dropped" }, ...why)) : null;
  const classes = table("Classes", ["class", "before", "after"], report.classes.map((row) => [row.name, count(row.before), count(row.after)]));
  const objects = table("Pasted objects", ["class", "scale", "flipped", "pixels"], report.objects.map((row) => [named(row.color, row.class), row.scale.toFixed(2), row.flipped ? "yes" : "no", row.area === null ? "" : count(row.area)]));
  place.replaceChildren(...[element("h2", { textContent: "Report" }), facts, dropped, objects, classes].filter(Boolean));
}
