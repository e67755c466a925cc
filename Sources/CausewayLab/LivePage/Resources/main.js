// The page of phones: reads the lab's event stream, and gives each event to the parts of the page.

import { PhoneGrid } from "/phonegrid.js";
import { LargePhones } from "/largephones.js";
import { Figures } from "/figures.js";
import { PhoneHistory } from "/phonehistory.js";

const hint = document.getElementById("hint");
const phoneHistory = new PhoneHistory(document.getElementById("history"));
const openHistory = (phone) => phoneHistory.open(phone);
let countsText = "";
let largePhones;
const phoneGrid = new PhoneGrid(document.getElementById("phoneGrid"), {
  obstacles: () => largePhones?.obstacles() ?? [],
  onOpen: openHistory,
  onPointedPhone: (phone) => { hint.textContent = phone < 0 ? countsText : phoneGrid.describe(phone); },
});
largePhones = new LargePhones(document.getElementById("largePhones"), openHistory, () => phoneGrid.arrange());
const figures = new Figures(openHistory);

function update(pageEvent) {
  const { screens } = pageEvent;
  if (screens) {
    phoneGrid.update(screens, pageEvent.whole);
    largePhones.update(screens, pageEvent.whole);
    const countsTextBefore = countsText;
    const countText = (name, word) => screens[name] ? `${screens[name].toLocaleString("en")} ${word}` : "";
    countsText = [`${screens.phones.toLocaleString("en")} ${screens.phones === 1 ? "phone" : "phones"}`, countText("active", "live"), countText("stale", "stale"), countText("ended", "ended"),
      countText("gone", "dismissed"), countText("offline", "offline"), countText("empty", "empty")].filter(Boolean).join(" · ");
    if (hint.textContent === countsTextBefore) hint.textContent = countsText;
    for (const name of ["phones", "active", "stale", "ended", "gone", "offline", "empty"]) hint.dataset[name] = screens[name];
    phoneHistory.refresh(screens.now);
  }
  figures.update(pageEvent);
  updateButtons(pageEvent.actions);
}

// MARK: buttons

const buttons = [...document.querySelectorAll("#breakers button")];
const usualTexts = new Map(buttons.map((button) => [button, button.querySelector("span").textContent]));

function updateButtons(actions) {
  for (const button of buttons) {
    const { allowed, on, leftMilliseconds, remark } = actions[button.dataset.action];
    button.disabled = !allowed;
    button.title = remark ?? "";
    button.setAttribute("aria-pressed", on);
    button.querySelector("span").textContent = on ? `ends in ${Math.ceil(leftMilliseconds / 1000)} s; press to end it now` : remark ?? usualTexts.get(button);
  }
}

for (const button of buttons) {
  button.addEventListener("click", async () => {
    button.classList.add("pressed");
    setTimeout(() => button.classList.remove("pressed"), 600);
    // This header shows the lab that the request comes from its own page.
    await fetch(`/press?action=${button.dataset.action}`, { method: "POST", headers: { "x-causeway-page": "1" } }).catch(() => {});
  });
}

// MARK: the stream

let isOver = false;
const eventStream = new EventSource("/events");
eventStream.onmessage = (event) => {
  const pageEvent = JSON.parse(event.data);
  isOver = ["over", "failed"].includes(pageEvent.figures.phase);
  document.body.classList.remove("away");
  update(pageEvent);
};
eventStream.onerror = () => {
  // After the last event of a run, the lab closes the stream. Do not connect again, so that the page keeps showing this
  // event.
  if (isOver) eventStream.close();
  document.body.classList.add("away");
  for (const button of buttons) button.disabled = true;
  if (!isOver) document.getElementById("phase").textContent = "causeway-lab does not respond";
};

// The number of times that the grid was drawn, for tests.
window.framesDrawn = () => phoneGrid.framesDrawn;
