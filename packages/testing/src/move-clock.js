// A test loads this script into a Node process before the process's own code. On each SIGUSR2, `Date` in that process
// moves ahead by MOVE_CLOCK_MS.
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
