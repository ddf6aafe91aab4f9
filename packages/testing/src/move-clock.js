// Preloaded into a process. Each SIGUSR2 moves the process's `Date` ahead by MOVE_CLOCK_MS.
const stepMs = Number(process.env["MOVE_CLOCK_MS"]);
const RealDate = Date;
let aheadMs = 0;

globalThis.Date = class extends RealDate {
  constructor(...args) {
    if (args.length === 0) super(RealDate.now() + aheadMs);
    else super(...args);
  }
  static now() {
    return RealDate.now() + aheadMs;
  }
};

process.on("SIGUSR2", () => {
  aheadMs += stepMs;
  console.log(`the clock is ${aheadMs} ms ahead`);
});
