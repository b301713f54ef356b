"use strict";
const cards = [...document.querySelectorAll(".card")];
const buttons = [...document.querySelectorAll(".views button")];
const filter = document.querySelector(".tools input");
const chosen = document.querySelector(".tools select");
const heading = document.querySelector(".shown");

function showView(view) {
  for (const button of buttons) button.setAttribute("aria-pressed", String(button.dataset.view === view));
  for (const card of cards) {
    const figures = [...card.querySelectorAll(".compare")];
    const picked = figures.find((figure) => figure.dataset.view === view) || figures[0];
    for (const figure of figures) figure.hidden = figure !== picked;
  }
}

function showMatches() {
  const wanted = filter.value.trim().toLowerCase();
  const isOfClass = (card) => !chosen.value || card.dataset.classes.split(" ").includes(chosen.value);
  for (const card of cards) card.hidden = !isOfClass(card) || !card.textContent.toLowerCase().includes(wanted);
  const shown = cards.filter((card) => !card.hidden).length;
  const count = (number) => number.toLocaleString("en");
  heading.textContent = `${count(shown)} of ${count(Number(heading.dataset.images))} images shown`;
}

for (const range of document.querySelectorAll(".compare input"))
  range.addEventListener("input", () => range.parentElement.style.setProperty("--x", `${range.value}%`));
for (const button of buttons) button.addEventListener("click", () => showView(button.dataset.view));
if (cards.length) {
  document.querySelector(".tools").hidden = false;
  filter.addEventListener("input", showMatches);
  chosen.addEventListener("change", showMatches);
  showMatches();
  showView(buttons.some((button) => button.dataset.view === "instances") ? "instances" : buttons[0].dataset.view);
}
