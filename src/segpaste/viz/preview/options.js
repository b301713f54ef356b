// The controls of the options, made from what the server says of the fields of the configuration.
"use strict";

const STEPS = 1000; // of a logarithmic slider

export function element(tag, { attributes = {}, ...properties } = {}, ...children) {
  const made = Object.assign(document.createElement(tag), properties);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.append(...children.filter((child) => child !== null));
  return made;
}

// Text with ``code`` in it.
export function withCode(text) {
  return text.split("``").map((part, i) => (i % 2 ? element("code", { textContent: part }) : part));
}

export const equal = (one, other) => JSON.stringify(one) === JSON.stringify(other);
const words = (value, choices) => (value === null ? (choices.includes(true) ? "auto" : "none") : value === true ? "on" : value === false ? "off" : String(value).replaceAll("_", " "));

// A slider and a number for one value; `ends` is the control, which says how far the slider goes.
function sliderOf(ends, label, changed) {
  const toSlider = (value) =>
    ends.log ? (STEPS * Math.log(Math.max(value, ends.low) / ends.low)) / Math.log(ends.high / ends.low) : value;
  const rounded = (value) => (ends.whole ? Math.round(value) : Number(value.toPrecision(3)));
  const fromSlider = (value) => (ends.log ? rounded(ends.low * (ends.high / ends.low) ** (value / STEPS)) : rounded(value));
  const slider = element("input", { type: "range", attributes: { "aria-label": label } });
  Object.assign(slider, ends.log ? { min: 0, max: STEPS, step: 1 } : { min: ends.low, max: ends.high, step: ends.step });
  const number = element("input", { type: "number", step: "any", attributes: { "aria-label": `${label}, number` } });
  const say = (value) => slider.setAttribute("aria-valuetext", String(value));
  slider.addEventListener("input", () => {
    number.value = fromSlider(Number(slider.value));
    say(number.value);
    changed();
  });
  number.addEventListener("input", () => {
    slider.value = toSlider(Number(number.value));
    say(number.value);
    changed();
  });
  return {
    slider,
    number,
    get: () => (number.validity.badInput ? "not a number" : number.value && Number(number.value)), // the server rejects text
    set(value) {
      if (document.activeElement !== number) number.value = value;
      if (document.activeElement !== slider) slider.value = toSlider(value);
      say(value);
    },
  };
}

// What a control looks like, by its kind: nodes, and the value in and out.
const KINDS = {
  switch(control, label, changed) {
    const box = element("input", { type: "checkbox", className: "switch", attributes: { role: "switch", "aria-label": label } });
    box.addEventListener("change", changed);
    return { inLine: [box], below: [], get: () => box.checked, set: (value) => (box.checked = value) };
  },
  choice(control, label, changed) {
    const choices = [...control.choices];
    const select = element("select", { attributes: { "aria-label": label } });
    const fill = () => select.replaceChildren(...choices.map((choice, i) => new Option(words(choice, choices), i)));
    fill();
    select.addEventListener("change", changed);
    return {
      inLine: [select],
      below: [],
      get: () => choices[select.value],
      set(value) {
        if (!choices.includes(value)) {
          choices.push(value);
          fill();
        }
        select.value = choices.indexOf(value);
      },
    };
  },
  number(control, label, changed) {
    const pair = sliderOf(control, label, changed);
    return { inLine: [pair.number], below: [pair.slider], get: pair.get, set: pair.set };
  },
  range(control, label, changed) {
    const low = sliderOf(control, `${label}, from`, () => (push(low, high, true), changed()));
    const high = sliderOf(control, `${label}, to`, () => (push(high, low, false), changed()));
    const push = (moved, other, isLow) => {
      if (document.activeElement !== moved.slider) return; // a number may be half typed
      if (isLow ? moved.get() > other.get() : moved.get() < other.get()) other.set(moved.get());
    };
    const parts = control.parts;
    return {
      inLine: [low.number, element("span", { textContent: "to", className: "to" }), high.number],
      below: [element("div", { className: "dual" }, low.slider, high.slider)],
      get: () => (parts.length ? { [parts[0]]: low.get(), [parts[1]]: high.get() } : [low.get(), high.get()]),
      set(value) {
        const [from, to] = parts.length ? parts.map((part) => Object(value)[part]) : Array.isArray(value) ? value : []; // an address may hold anything
        low.set(from);
        high.set(to);
      },
    };
  },
  text(control, label, changed) {
    const input = element("input", { type: "text", placeholder: "{1: …}", spellcheck: false, attributes: { "aria-label": label } });
    input.addEventListener("input", changed);
    return { inLine: [], below: [input], get: () => input.value.trim(), set: (value) => document.activeElement === input || (input.value = value) };
  },
};

// A control with its name, help, reset and error; `changed` is called with its key.
export function makeOption(control, changed) {
  const id = `option-${control.key.replaceAll(".", "-")}`;
  const isNumber = control.kind === "number" || control.kind === "range";
  const unset = isNumber && control.optional;
  const tell = () => changed(control.key);
  const given = element("input", { type: "checkbox", className: "switch", attributes: { role: "switch", "aria-label": `${control.label}: set` } });
  const inner = KINDS[control.kind](control, control.label, tell);
  const parts = element("span", { className: "parts" }, ...inner.inLine);
  const below = element("div", { className: "below" }, ...inner.below);
  const start = control.whole ? Math.round(Math.sqrt(Math.max(1, control.low) * control.high)) : (control.low + control.high) / 2;
  const atFirst = control.kind === "range" ? (control.parts.length ? { [control.parts[0]]: start / 2, [control.parts[1]]: start } : [start, start]) : start;
  let value = null;
  const show = () => {
    parts.hidden = below.hidden = unset && value === null;
    given.checked = value !== null;
    if (value !== null || !unset) inner.set(value);
  };
  given.addEventListener("change", () => {
    value = given.checked ? atFirst : null;
    show();
    tell();
  });
  const help = element("p", { id: `${id}-help`, className: "help", hidden: true }, ...withCode(control.note ? `${control.help}. ${control.note}` : control.help));
  const error = element("p", { id: `${id}-error`, className: "error", hidden: true });
  const more = element("button", { type: "button", className: "more", textContent: "?", attributes: { "aria-label": `What ${control.label} does`, "aria-expanded": "false", "aria-controls": help.id } });
  more.addEventListener("click", () => {
    help.hidden = !help.hidden;
    more.setAttribute("aria-expanded", String(!help.hidden));
  });
  const reset = element("button", { type: "button", className: "undo", textContent: "↺", hidden: true, title: "Back to its default", attributes: { "aria-label": `Reset ${control.label}` } });
  const name = element("span", { className: "name", textContent: control.label, title: control.key });
  const line = element("div", { className: "line" }, name, more, reset, unset ? given : null, parts);
  const row = element("div", { id, className: "option", attributes: { role: "group", "aria-label": control.key, "data-key": control.key } }, line, below, error, help);
  for (const input of row.querySelectorAll("input, select")) input.setAttribute("aria-describedby", error.id);
  return {
    row,
    control,
    reset,
    get: () => (unset && !given.checked ? null : (value = inner.get())),
    set(wanted) {
      value = wanted;
      show();
    },
    mark(isChanged) {
      reset.hidden = !isChanged;
      row.classList.toggle("changed", isChanged);
    },
    fail(text) {
      error.textContent = text || "";
      error.hidden = !text;
      row.classList.toggle("wrong", Boolean(text));
      for (const input of row.querySelectorAll("input, select")) input.setAttribute("aria-invalid", String(Boolean(text)));
    },
  };
}
