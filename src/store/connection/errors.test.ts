import { describe, expect, it } from "vitest";
import {
  changedNothing,
  errorCodeOf,
  isPasswordRefusal,
  KeysMoving,
  messageOf,
  NotSent,
  redirectionOf,
} from "./errors.ts";

function refusal(text: string): Error {
  return Object.assign(new Error(text), { name: "ReplyError" });
}

describe("an error", () => {
  it.each([
    ["NOAUTH Authentication required.", "NOAUTH"],
    ["ERR MOVED 1 127.0.0.1:6381", "MOVED"],
    ["ERR upstream: CLUSTERDOWN The cluster is down", "CLUSTERDOWN"],
    ["ERR Error running script (call to f_0a): @user_script:3: -READONLY You can't write", "READONLY"],
    ["ERR syntax error", "ERR"],
    ["NOGROUP No such key", "NOGROUP"],
    ["a script failed", undefined],
    ["ERR REMOVED 1 127.0.0.1:6381", "ERR"],
    // Redis repeats input of the caller in these errors. A code in this input does not count.
    ["ERR unknown command 'x', with args beginning with: 'a' MOVED 1 10.0.0.1:6379 ", "ERR"],
    ["ERR unknown command `x`, with args beginning with: `MOVED 1 10.0.0.1:6379`, ", "ERR"],
    ["WRONGPASS invalid username-password pair or user is disabled.", "WRONGPASS"],
  ])("%s has the code %s", (text, word) => expect(errorCodeOf(refusal(text))).toBe(word));

  it("an error that Redis did not return has no code", () => expect(errorCodeOf(new Error("NOAUTH"))).toBeUndefined());

  it.each([
    ["MOVED 3999 127.0.0.1:6381", { kind: "moved", slot: 3999, to: { host: "127.0.0.1", port: 6381 } }],
    ["ASK 1 [::1]:6381", { kind: "ask", slot: 1, to: { host: "::1", port: 6381 } }],
    ["MOVED 1 :6381", { kind: "moved", slot: 1, to: { host: "", port: 6381 } }],
    ["TRYAGAIN Multiple keys request during rehashing of slot", { kind: "wait" }],
    ["ERR Script attempted to access a non local key in a cluster node", { kind: "wait" }],
    [
      "ERR MOVED 1 redis-1.example.com:6381",
      { kind: "moved", slot: 1, to: { host: "redis-1.example.com", port: 6381 } },
    ],
    ["MOVED 1 ::1:6381", { kind: "moved", slot: 1, to: { host: "::1", port: 6381 } }],
    [
      "ERR Error running script: @user_script:1: ASK 1 10.0.0.1:6381 script: 1, on @user_script:1.",
      { kind: "ask", slot: 1, to: { host: "10.0.0.1", port: 6381 } },
    ],
    ["ERR MOVED to another node", { kind: "wait" }],
    ["ERR TRYAGAIN Multiple keys request during rehashing of slot", { kind: "wait" }],
    ["CLUSTERDOWN The cluster is down", undefined],
    ["ERR value is not an integer: 'MOVED 1 10.0.0.1:6379'", undefined],
  ])("%s gives the redirection %j", (text, redirection) => expect(redirectionOf(refusal(text))).toEqual(redirection));

  it.each([
    [refusal("WRONGPASS invalid username-password pair or user is disabled."), true],
    [refusal("NOAUTH Authentication required."), true],
    [refusal("NOPERM this user has no permissions to run the 'get' command"), false],
    [refusal("ERR invalid password"), false],
    [new Error("WRONGPASS"), false],
  ])("%s counts as a refusal of the password: %s", (error, isOfIt) => expect(isPasswordRefusal(error)).toBe(isOfIt));

  it.each([
    ["READONLY You can't write against a read only replica.", true],
    ["ERR syntax error", false],
    ["WRONGTYPE Operation against a key", true],
    ["OOM command not allowed. script: 1, on @user_script:1.", true],
    ["READONLY You can't write against a read only replica. script: 1, on @user_script:1.", true],
    ["MISCONF Redis is configured to save RDB snapshots. script: 1, on @user_script:1.", true],
    ["NOREPLICAS Not enough good replicas to write. script: 1, on @user_script:1.", true],
    ["BUSY Redis is busy running a script. script: 1, on @user_script:1.", false],
    ["ERR syntax error. script: 1, on @user_script:1.", false],
    ["WRONGTYPE Operation against a key. script: 1, on @user_script:1.", false],
    ["ERR Script attempted to access a non local key. script: 1, on @user_script:1.", true],
    ["ERR MOVED 1 127.0.0.1:6381", true],
    ["ERR CLUSTERDOWN The cluster is down", true],
    ["ERR LOADING Redis is loading the dataset in memory", true],
    ["ERR Error running script (call to f_1): @user_script:2: MOVED 1 127.0.0.1:6381", true],
    ["ERR Error running script (call to f_1): @user_script:2: -READONLY You can't write", true],
    ["ERR Error running script (call to f_1): @user_script:2: -WRONGTYPE Operation against a key", false],
  ])("%s proves that nothing was changed: %s", (text, nothing) => expect(changedNothing(refusal(text))).toBe(nothing));
});

it("KeysMoving means that the command was not sent, and that the call must wait", () => {
  expect(new KeysMoving()).toBeInstanceOf(NotSent);
  expect(redirectionOf(new KeysMoving())).toEqual({ kind: "wait" });
  expect(redirectionOf(new NotSent("TRYAGAIN"))).toBeUndefined();
});

describe("messageOf", () => {
  it("returns all addresses of a failed attempt to connect", () => {
    const tried = ["connect ECONNREFUSED ::1:6379", "connect ECONNREFUSED 127.0.0.1:6379"].map(
      (text) => new Error(text),
    );
    expect(messageOf(new AggregateError(tried))).toMatch(/::1:6379.*127\.0\.0\.1:6379/);
  });
});
