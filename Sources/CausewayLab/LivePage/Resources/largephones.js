// The large phones: Lock Screens of phones that the stream describes in full, as many as fit.

import { LockScreen } from "/lockscreen.js";

export class LargePhones {
  constructor(node, onOpen, onArranged) {
    this.node = node;
    this.onOpen = onOpen;
    this.onArranged = onArranged;
    this.views = new Map();
    this.lockScreens = [];
    node.addEventListener("keydown", (event) => this.handleKey(event));
    new ResizeObserver(() => this.arrange()).observe(node.parentElement);
  }

  // Shows `focus` of a response to GET /screens: the phones that it describes in full.
  update(screens, isWhole) {
    if (isWhole) this.views.clear();
    const viewCountBefore = this.views.size;
    for (const view of screens.focus) this.views.set(view.phone, view);
    if (isWhole || this.views.size !== viewCountBefore) this.arrange();
    const changed = new Set(screens.focus.map((view) => view.phone));
    for (const lockScreen of this.lockScreens) {
      lockScreen.showTime(screens.now);
      if (changed.has(lockScreen.phone)) lockScreen.show(this.views.get(lockScreen.phone), isWhole);
    }
  }

  // On a narrow page the large phones are a row that the user swipes. On a wide page they are in the middle of the grid.
  arrange() {
    const box = this.node.parentElement.getBoundingClientRect();
    const isNarrow = matchMedia("(max-width: 900px)").matches;
    const phonesMax = isNarrow ? 8 : Math.max(1, Math.min(6, Math.round((box.width * 0.94) / 262)));
    const width = isNarrow ? 204 : Math.max(150, Math.min(268, (box.height * 0.78) / 2.075, (box.width * 0.94 + 26) / phonesMax - 26));
    this.node.style.setProperty("--phone", `${Math.round(width)}px`);
    const numbers = [...this.views.keys()].sort((left, right) => left - right);
    const chosenPhones = Array.from({ length: Math.min(phonesMax, numbers.length) }, (_, place) =>
      numbers[Math.floor(((2 * place + 1) * numbers.length) / (2 * Math.min(phonesMax, numbers.length)))]);
    while (this.lockScreens.length > chosenPhones.length) this.lockScreens.pop().node.remove();
    while (this.lockScreens.length < chosenPhones.length) {
      const lockScreen = new LockScreen(this.onOpen);
      this.lockScreens.push(lockScreen);
      this.node.append(lockScreen.node);
    }
    chosenPhones.forEach((number, place) => {
      this.lockScreens[place].node.tabIndex = place === 0 ? 0 : -1;
      this.lockScreens[place].show(this.views.get(number), this.lockScreens[place].phone !== number);
    });
    this.onArranged();
  }

  handleKey(event) {
    const focusedIndex = this.lockScreens.findIndex((lockScreen) => lockScreen.node === document.activeElement);
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (focusedIndex < 0 || !step) return;
    const next = this.lockScreens[(focusedIndex + step + this.lockScreens.length) % this.lockScreens.length];
    for (const lockScreen of this.lockScreens) lockScreen.node.tabIndex = lockScreen === next ? 0 : -1;
    next.node.focus();
    event.preventDefault();
  }

  // The rectangles in which the grid draws no small phone.
  obstacles() {
    if (matchMedia("(max-width: 900px)").matches) return [];
    return this.lockScreens.map((lockScreen) => lockScreen.node.getBoundingClientRect());
  }
}
