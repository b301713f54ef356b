// The page: what is asked of the server when something moves, and what its answer shows.
"use strict";
import { element, equal, makeOption } from "/options.js";
import { showReport } from "/report.js";

const $ = (id) => document.getElementById(id);
const PATIENCE_MS = 60;
const state = { image: 0, seed: 0, preset: "", values: {}, view: "instance", overlay: true, names: true, both: true };
let setup, answer, known, options = {}, isAsking = false, isStale = false, timer, form = "yaml";

async function start() {
  setup = await (await fetch("/setup")).json();
  Object.assign(state, setup.start, { both: innerWidth >= 1100 }, remembered());
  $("dataset").textContent = setup.dataset;
  document.title = `${setup.dataset} – segpaste preview`;
  $("images").textContent = `of ${setup.images.toLocaleString("en")}`;
  $("image").max = setup.images;
  for (const { name, summary } of setup.presets) $("preset").append(element("option", { value: name, textContent: name, title: summary }));
  buildOptions();
  listen();
  addEventListener("hashchange", () => (Object.assign(state, setup.start, remembered()), show(), ask()));
  show();
  ask();
}

// The address keeps what is chosen, so that a page that is loaded again shows the same. Invalid entries are left out.
function remembered() {
  let found;
  try {
    found = Object(JSON.parse(decodeURIComponent(location.hash.slice(1)) || "{}"));
  } catch {
    return {};
  }
  const within = (value, last) => Number.isInteger(value) && value >= 0 && value <= last;
  if (!within(found.image, setup.images - 1)) delete found.image;
  if (!within(found.seed, setup.largestSeed)) delete found.seed;
  if (found.preset && !setup.presets.some(({ name }) => name === found.preset)) delete found.preset;
  const keys = new Set(setup.controls.map(({ key }) => key));
  if ("values" in found) found.values = Object.fromEntries(Object.entries(Object(found.values)).filter(([key]) => keys.has(key)));
  return found;
}

function buildOptions() {
  const groups = Map.groupBy ? Map.groupBy(setup.controls, (control) => control.group) : grouped(setup.controls);
  for (const [title, controls] of groups) {
    const group = element("details", { open: title === setup.controls[0].group }, element("summary", { textContent: title }));
    for (const control of controls) {
      const option = makeOption(control, moved);
      option.reset.addEventListener("click", () => put(control.key, known.base[control.key]));
      options[control.key] = option;
      group.append(option.row);
    }
    $("groups").append(group);
  }
}

function grouped(controls) {
  const found = new Map();
  for (const control of controls) found.set(control.group, [...(found.get(control.group) || []), control]);
  return found;
}

function moved(key) {
  put(key, options[key].get());
}

function put(key, value) {
  if (known && equal(value, known.base[key])) delete state.values[key];
  else state.values[key] = value;
  ask();
}

function listen() {
  const go = (image) => (state.image = Math.min(setup.images - 1, Math.max(0, image)), show(), ask());
  $("chooser").addEventListener("submit", (event) => event.preventDefault());
  $("previous").addEventListener("click", () => go((state.image - 1 + setup.images) % setup.images));
  $("next").addEventListener("click", () => go((state.image + 1) % setup.images));
  $("image").addEventListener("change", () => go(Math.round(Number($("image").value) || 1) - 1));
  $("seed").addEventListener("input", () => {
    const given = $("seed").value;
    if (/^\d+$/.test(given) && Number(given) <= setup.largestSeed) return (state.seed = Number(given)), ask();
    fail([{ key: "", text: `seed: expected a whole number from 0 to ${setup.largestSeed}, got ${given || "none"}` }]);
  });
  $("draw").addEventListener("click", () => (state.seed = state.seed < setup.largestSeed ? state.seed + 1 : 0, show(), ask()));
  $("preset").addEventListener("change", () => (state.preset = $("preset").value, state.values = {}, ask()));
  $("reset").addEventListener("click", () => (state.values = {}, ask()));
  for (const name of ["overlay", "names"]) $(name).addEventListener("change", () => (state[name] = $(name).checked, ask()));
  $("both").addEventListener("change", () => (state.both = $("both").checked, show(), remember()));
  $("search").addEventListener("input", find);
  for (const button of document.querySelectorAll("[data-copy]")) button.addEventListener("click", () => (form = button.dataset.copy, showText()));
  $("copy").addEventListener("click", copy);
  listenToHold();
}

// The picture before is shown as long as the button, the picture or a key is held.
function listenToHold() {
  const hold = (isHeld) => {
    $("hold").setAttribute("aria-pressed", String(isHeld));
    $("pictures").classList.toggle("held", isHeld);
  };
  for (const place of [$("hold"), $("pictures")]) {
    place.addEventListener("pointerdown", (event) => event.button === 0 && hold(true));
    place.addEventListener("contextmenu", (event) => event.preventDefault());
  }
  $("hold").addEventListener("keydown", (event) => [" ", "Enter"].includes(event.key) && (event.preventDefault(), hold(true)));
  for (const end of ["pointerup", "pointercancel", "blur", "keyup"]) addEventListener(end, () => hold(false));
}

function find() {
  const wanted = $("search").value.trim().toLowerCase();
  for (const { row, control } of Object.values(options)) row.hidden = !`${control.key} ${control.label} ${control.help}`.toLowerCase().includes(wanted);
  for (const group of $("groups").children) {
    group.hidden = ![...group.querySelectorAll(".option")].some((row) => !row.hidden);
    if (wanted) group.open = true;
  }
}

// One request at a time: what moves meanwhile is asked for when the answer is there.
function ask() {
  remember();
  clearTimeout(timer);
  isStale = true;
  timer = setTimeout(send, PATIENCE_MS);
}

function remember() {
  const { image, seed, preset, values, view, overlay, names } = state;
  history.replaceState(null, "", `#${encodeURIComponent(JSON.stringify({ image, seed, preset, values, view, overlay, names }))}`);
}

async function send() {
  if (isAsking) return;
  isAsking = true;
  document.body.setAttribute("aria-busy", "true");
  while (isStale) {
    isStale = false;
    try {
      const reply = await fetch("/render", { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(state) });
      if (!reply.ok) throw new Error(await reply.text());
      await take(await reply.json());
    } catch (error) {
      fail([{ key: "", text: `no answer from segpaste preview: ${error.message}; is it still running?` }]);
    }
  }
  isAsking = false;
  document.body.removeAttribute("aria-busy");
}

async function take(found) {
  if (found.base) known = found;
  fail(found.errors || []);
  if (found.errors) return show();
  answer = found;
  state.view = found.view;
  for (const side of ["before", "after"]) {
    const image = $(side);
    image.src = found[side];
    image.width = found.width;
    image.height = found.height;
    image.alt = `${found.name}, ${found.view}, ${side}`;
    await image.decode().catch(() => {});
  }
  $("status").textContent = [found.name, found.note, `${found.seconds.toFixed(2)} s`].filter(Boolean).join(" · ");
  showReport($("report"), found.report);
  showText();
  show();
}

function fail(errors) {
  for (const [key, option] of Object.entries(options)) option.fail(errors.filter((error) => error.key === key).map((error) => error.text).join("; "));
  for (const { key } of errors) options[key]?.row.parentElement.setAttribute("open", "");
  document.body.classList.toggle("refused", errors.length > 0);
  if (errors.length) $("status").textContent = errors.map((error) => error.text).join("; ");
}

function show() {
  $("image").value = state.image + 1;
  if (document.activeElement !== $("seed")) $("seed").value = state.seed;
  $("preset").value = state.preset;
  for (const name of ["overlay", "names", "both"]) $(name).checked = state[name];
  $("names").disabled = !state.overlay || !["instance", "panoptic", "semantic"].includes(state.view);
  $("pictures").classList.toggle("both", state.both);
  $("hold").hidden = state.both;
  if (!known) return;
  for (const [key, option] of Object.entries(options)) {
    if (!isStale) option.set(known.values[key]);
    option.mark(!equal(known.values[key], known.base[key]));
  }
  $("reset").disabled = !Object.keys(state.values).length;
  if (!answer) return;
  const buttons = answer.views.map(({ name, title }) => {
    const button = element("button", { type: "button", textContent: title, disabled: !state.overlay, attributes: { "aria-pressed": String(name === answer.view), "data-view": name } });
    button.addEventListener("click", () => (state.view = name, ask()));
    return button;
  });
  if (!equal(buttons.map((b) => b.outerHTML), [...$("views").children].map((b) => b.outerHTML))) $("views").replaceChildren(...buttons);
}

function showText() {
  for (const button of document.querySelectorAll("[data-copy]")) button.setAttribute("aria-pressed", String(button.dataset.copy === form));
  $("text").textContent = answer ? answer.copies[form] : "";
  $("copy").textContent = "Copy";
}

async function copy() {
  try {
    await navigator.clipboard.writeText($("text").textContent);
    $("copy").textContent = "Copied";
  } catch {
    getSelection().selectAllChildren($("text"));
    $("copy").textContent = "Selected: press Ctrl-C";
  }
  setTimeout(() => ($("copy").textContent = "Copy"), 2000);
}

start();
