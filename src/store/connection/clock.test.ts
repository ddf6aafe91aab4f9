import { describe, expect, it } from "vitest";
import { RedisClock } from "./clock.ts";

describe("RedisClock", () => {
  it("the estimate is never ahead of Redis' clock, even after a slow answer", () => {
    const clock = new RedisClock();
    // Redis' clock is 1,000,000 ms ahead of the clock of the process. The process sends the command at 100. Redis reads
    // its clock at 150. The answer arrives at 200.
    clock.learn(1_000_150, 100, 200);
    expect(clock.at(300)).toBe("1000250");
  });

  it("the estimate becomes more precise with a faster answer, and keeps its precision after a slower answer", () => {
    const clock = new RedisClock();
    clock.learn(1_000_150, 100, 200);
    clock.learn(1_000_301, 300, 302);
    expect(clock.at(400)).toBe("1000399");
    clock.learn(1_000_500, 400, 900);
    expect(clock.at(1000)).toBe("1000999");
  });

  it("the estimate is corrected if Redis' clock is set forward or back", () => {
    const clock = new RedisClock();
    clock.learn(1_000_150, 149, 151);
    clock.learn(5_000_250, 249, 251);
    expect(clock.at(300)).toBe("5000299");
    clock.learn(500_350, 349, 351);
    expect(clock.at(400)).toBe("500399");
    clock.learn(500_450, 450, 450);
    expect(clock.at(500)).toBe("500500");
  });
});
