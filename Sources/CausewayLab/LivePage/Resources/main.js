// The page of phones: reads the lab's event stream, and gives each event to the parts of the page.

import { Field } from "/field.js";
import { Wall } from "/wall.js";
import { Figures } from "/figures.js";
import { Story } from "/story.js";

const hint = document.getElementById("hint");
const story = new Story(document.getElementById("story"));
const open = (phone) => story.open(phone);
let census = "";
let wall;
const field = new Field(document.getElementById("field"), {
  obstacles: () => wall?.obstacles() ?? [],
  onOpen: open,
  onHint: (phone) => { hint.textContent = phone < 0 ? census : field.describe(phone); },
});
wall = new Wall(document.getElementById("wall"), open, () => field.arrange());
const figures = new Figures(open);

function take(frame) {
  const { screens } = frame;
  if (screens) {
    field.take(screens, frame.whole);
    wall.take(screens, frame.whole);
    const before = census;
    const part = (name, word) => screens[name] ? `${screens[name].toLocaleString("en")} ${word}` : "";
    census = [`${screens.phones.toLocaleString("en")} ${screens.phones === 1 ? "phone" : "phones"}`, part("active", "live"), part("stale", "stale"), part("ended", "ended"),
      part("gone", "dismissed"), part("offline", "off line"), part("empty", "empty")].filter(Boolean).join(" · ");
    if (hint.textContent === before) hint.textContent = census;
    for (const name of ["phones", "active", "stale", "ended", "gone", "offline", "empty"]) hint.dataset[name] = screens[name];
    story.tick(screens.now);
  }
  figures.take(frame);
  press(frame.actions);
}

// MARK: buttons

const buttons = [...document.querySelectorAll("#breakers button")];
const usual = new Map(buttons.map((button) => [button, button.querySelector("span").textContent]));

function press(actions) {
  for (const button of buttons) {
    const { allowed, on, leftMilliseconds, remark } = actions[button.dataset.action];
    button.disabled = !allowed;
    button.title = remark ?? "";
    button.setAttribute("aria-pressed", on);
    button.querySelector("span").textContent = on ? `ends in ${Math.ceil(leftMilliseconds / 1000)} s, or now` : remark ?? usual.get(button);
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
const stream = new EventSource("/events");
stream.onmessage = (event) => {
  const frame = JSON.parse(event.data);
  isOver = ["over", "failed"].includes(frame.figures.phase);
  document.body.classList.remove("away");
  take(frame);
};
stream.onerror = () => {
  // After the last event of a run, the lab closes the stream. Do not connect again, so that the page keeps showing this event.
  if (isOver) stream.close();
  document.body.classList.add("away");
  for (const button of buttons) button.disabled = true;
  if (!isOver) document.getElementById("phase").textContent = "The lab does not answer";
};

// The number of times that the field was drawn, for tests.
window.framesDrawn = () => field.frames;
