// The wall: large Lock Screens of phones that the stream describes in full, as many as fit.

import { Phone } from "/lockscreen.js";

export class Wall {
  constructor(node, onOpen, onArranged) {
    this.node = node;
    this.onOpen = onOpen;
    this.onArranged = onArranged;
    this.views = new Map();
    this.phones = [];
    node.addEventListener("keydown", (event) => this.pressed(event));
    new ResizeObserver(() => this.arrange()).observe(node.parentElement);
  }

  // Takes `focus` of an answer of GET /screens: the phones that it describes in full.
  take(screens, isWhole) {
    if (isWhole) this.views.clear();
    const before = this.views.size;
    for (const view of screens.focus) this.views.set(view.phone, view);
    if (isWhole || this.views.size !== before) this.arrange();
    const changed = new Set(screens.focus.map((view) => view.phone));
    for (const phone of this.phones) {
      phone.tell(screens.now);
      if (changed.has(phone.phone)) phone.show(this.views.get(phone.phone), isWhole);
    }
  }

  // On a narrow page the wall is a row that the user swipes. On a wide page the wall is in the middle of the field.
  arrange() {
    const box = this.node.parentElement.getBoundingClientRect();
    const isNarrow = matchMedia("(max-width: 900px)").matches;
    const room = isNarrow ? 8 : Math.max(1, Math.min(6, Math.round((box.width * 0.94) / 262)));
    const width = isNarrow ? 204 : Math.max(150, Math.min(268, (box.height * 0.78) / 2.075, (box.width * 0.94 + 26) / room - 26));
    this.node.style.setProperty("--phone", `${Math.round(width)}px`);
    const numbers = [...this.views.keys()].sort((left, right) => left - right);
    const chosen = Array.from({ length: Math.min(room, numbers.length) }, (_, place) =>
      numbers[Math.floor(((2 * place + 1) * numbers.length) / (2 * Math.min(room, numbers.length)))]);
    while (this.phones.length > chosen.length) this.phones.pop().node.remove();
    while (this.phones.length < chosen.length) {
      const phone = new Phone(this.onOpen);
      this.phones.push(phone);
      this.node.append(phone.node);
    }
    chosen.forEach((number, place) => {
      this.phones[place].node.tabIndex = place === 0 ? 0 : -1;
      this.phones[place].show(this.views.get(number), this.phones[place].phone !== number);
    });
    this.onArranged();
  }

  pressed(event) {
    const here = this.phones.findIndex((phone) => phone.node === document.activeElement);
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (here < 0 || !step) return;
    const next = this.phones[(here + step + this.phones.length) % this.phones.length];
    for (const phone of this.phones) phone.node.tabIndex = phone === next ? 0 : -1;
    next.node.focus();
    event.preventDefault();
  }

  // The rectangles in which the field draws no small phone.
  obstacles() {
    if (matchMedia("(max-width: 900px)").matches) return [];
    return this.phones.map((phone) => phone.node.getBoundingClientRect());
  }
}
