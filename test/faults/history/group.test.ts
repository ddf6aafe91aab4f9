import { describe, it } from "vitest";
import type { Answer } from "./call.ts";
import {
  at,
  CUT_OFF,
  call,
  created,
  finds,
  get,
  NO_GROUP,
  NO_TOKEN,
  NOT_MADE,
  passes,
  resolve,
  rotate,
  shown,
  UNKNOWN,
  UNREAD,
  update,
} from "./told.ts";

const FORGETS = { allow: { mayForget: true, staleMs: 0 } };
const LOST = "acknowledged is lost";

describe("names", () => {
  it("passes what was changed and read in one order", () => {
    passes([
      // It offers a name, which a group that is there does not take.
      at([1, 2], get({}, { value: "offered" })),
      at([2, 6], update("n1")),
      // While it is changed, a read may show either, and the later one of two that overlap the earlier value.
      at([3, 5], get({ name: "n1" })),
      at([3, 5], get()),
      at([6, 7], get({ name: "n1" })),
      at([8, 12], update("n2")),
      at([9, 11], update("n3")),
      at([13, 14], get({ name: "n2" })),
    ]);
  });

  it("passes a change of unknown outcome whether it was made or not", () => {
    passes([update("n1", UNKNOWN), get()]);
    passes([update("n1", UNKNOWN), get({ name: "n1" })]);
    // Nobody knows until when it may be made when not even the worker has told.
    passes([update("n1", CUT_OFF), get(), get({ name: "n1" })], { workersEnd: true });
  });

  it("finds an acknowledged change that is lost, also when one of unknown outcome is read in its place", () => {
    for (const more of [{}, FORGETS]) {
      finds(LOST, [update("n1"), get()], more);
      finds(LOST, [update("n1", UNKNOWN), update("n2"), get({ name: "n1" })], more);
    }
  });

  it("finds a change that was made though it was said not to be, or after its call was told that it failed", () => {
    finds("not made was made", [update("n1", NOT_MADE), get({ name: "n1" })]);
    finds("no order", [update("n1", UNKNOWN), get(), get({ name: "n1" })]);
  });

  it("finds reads that contradict each other", () => {
    finds("no order", [at([2, 9], update("n1")), at([3, 4], get({ name: "n1" })), at([5, 6], get())]);
  });

  it("finds that two changes took turns", () => {
    const changes = [at([2, 9], update("n1")), at([2, 9], update("n2"))];
    const reads = [at([10, 11], get({ name: "n1" })), at([12, 13], get({ name: "n2" }))];
    finds("no order", [...changes, ...reads]);
    finds("no order", [...changes, ...reads], FORGETS);
  });

  it("allows that what was not acknowledged was seen and is gone, where that is not promised", () => {
    const calls = [at([2, 9], update("n1", UNKNOWN)), at([3, 4], get({ name: "n1" })), at([10, 11], get())];
    finds("no order", calls);
    passes(calls, FORGETS);
  });

  it("allows reads that are out of date as far as that is said, and not in the end", () => {
    const allow = { mayForget: false, staleMs: 5 };
    passes([update("n1"), at([7, 8], get())], { allow });
    finds(LOST, [update("n1"), at([9, 10], get())], { allow });
    finds(LOST, [update("n1"), at([7, 8], get({}, { isFinal: true }))], { allow });
  });

  it("finds values that nobody wrote, or wrote later", () => {
    finds("from nowhere", [get({ name: "other" })]);
    finds("from nowhere", [get({ name: "n1" }), update("n1")]);
  });

  it("finds half a change, and an answer to another one", () => {
    finds("torn", [update("n1"), get({ name: "n1", mapped: "n0" })]);
    finds("torn", [update("n1", shown({ name: "n0" }))]);
  });
});

describe("tokens", () => {
  it("passes rotations, retries and viewers as they should be", () => {
    passes([
      rotate("t1", { token: "t0", requestId: "r1", graceMs: 10 }),
      rotate("t1", { token: "t0", requestId: "r1", graceMs: 10 }),
      at([4, 5], rotate(NO_TOKEN, { token: "t0" })),
      at([5, 6], resolve("t0")),
      at([5, 6], resolve("t1")),
      at([5, 6], get({ token: "t1" })),
      at([7, 8], rotate(UNKNOWN, { requestId: "r2" })),
      at([9, 10], get({ token: "t2" })),
      at([9, 10], rotate("t2", { requestId: "r2" })),
      at([11, 12], resolve("t0", NO_TOKEN)),
      at([11, 12], resolve("t2")),
    ]);
    // Either of two rotations at once may have been the last.
    passes([at([2, 9], rotate("t1")), at([2, 9], rotate("t2")), at([10, 11], resolve("t1"))]);
  });

  it("finds two winners of one rotation", () => {
    finds("two winners", [at([2, 5], rotate("t1", { token: "t0" })), at([2, 5], rotate("t2", { token: "t0" }))]);
  });

  it("finds a request id that was answered twice, with a token that was replaced, or two rotations with one token", () => {
    finds(["two answers", "not made was made"], [rotate("t1", { requestId: "r1" }), rotate("t2", { requestId: "r1" })]);
    finds(LOST, [rotate("t1", { requestId: "r1" }), rotate("t2"), rotate("t1", { requestId: "r1" })]);
    finds("two answers", [rotate("t1"), rotate("t1")]);
  });

  it("finds a rotation that was made though it was said not to be, or more than can have been made", () => {
    finds("not made was made", [rotate(NOT_MADE), get({ token: "t1" })]);
    finds("not made was made", [rotate(UNKNOWN), get({ token: "t1" }), get({ token: "t2" })]);
  });

  it("finds a rotation that was made anew by its retry, unless what was not acknowledged may be forgotten", () => {
    const request = { requestId: "r1" };
    const calls = [rotate(UNKNOWN, request), get({ token: "t1" }), rotate("t2", request)];
    finds("not made was made", calls);
    passes(calls, FORGETS);
  });

  it("finds an acknowledged rotation that is lost", () => {
    finds(LOST, [rotate("t1"), get({ token: "t0" })]);
    finds(LOST, [rotate("t1"), get({ token: "t0" })], FORGETS);
  });

  it("finds a token that is taken after its end", () => {
    finds("ended token", [rotate("t1"), resolve("t0")]);
    passes([rotate("t1", { graceMs: 10 }), at([12, 14], resolve("t0"))]);
    finds("ended token", [rotate("t1", { graceMs: 10 }), at([14, 15], resolve("t0"))]);
    // A grace is ended by the next rotation without one.
    finds("ended token", [rotate("t1", { graceMs: 100 }), rotate("t2"), resolve("t0")]);
  });

  it("allows a token after its end as far as reads may be out of date", () => {
    const calls = [rotate("t1"), at([7, 8], resolve("t0"))];
    passes(calls, { allow: { mayForget: false, staleMs: 5 } });
    finds("ended token", calls, { allow: { mayForget: false, staleMs: 3 } });
  });

  it("finds a valid token that is refused, to viewers and to rotations", () => {
    finds("token refused", [at([4, 5], resolve("t0", NO_TOKEN))]);
    finds("token refused", [rotate("t1"), resolve("t1", NO_TOKEN)]);
    finds("token refused", [rotate(NOT_MADE), resolve("t0", NO_TOKEN)]);
    finds("token refused", [resolve("t0", NO_TOKEN), rotate("t1")]);
    finds("token refused", [rotate("t1"), rotate("t2"), resolve("t2", NO_TOKEN)]);
    // The answer of the first attempt is owed to the second.
    const request = { token: "t0", requestId: "r1" };
    finds("token refused", [rotate(UNKNOWN, request), rotate(NO_TOKEN, request)]);
  });

  it("passes a refusal of a token that something may have ended", () => {
    passes([rotate(UNKNOWN), resolve("t0", NO_TOKEN)]);
    passes([at([2, 9], rotate("t1")), at([4, 5], resolve("t0", NO_TOKEN))]);
  });
});

describe("answers", () => {
  const foreign = { token: "t0", environment: "other" };

  it("passes what is refused as it should be", () => {
    const tooFew: Answer = { code: "unavailable", reason: "TOO_FEW_REPLICAS", outcome: "unknown" };
    passes([call("resolve", NO_TOKEN, foreign), at([2, 3], resolve("t0", UNREAD)), update("n1", tooFew)]);
  });

  it("finds another's group", () => {
    finds("another's group", [get({ id: "b" })]);
    finds("another's group", [call("resolve", shown(), foreign)]);
  });

  it("finds a group that is missing", () => {
    finds("group missing", [update("n1", NO_GROUP)]);
    passes([at([0, 3], update("n1", NO_GROUP))]);
  });

  it("finds a group that was created twice, or has two team ids, or that of another", () => {
    finds(["created twice", "from nowhere"], [at([2, 3], created)]);
    finds("team id", [get({ teamId: 2 })]);
    const other = call("get", shown({ id: "b", token: "t9" }, true), { group: "one/b", value: "n0" });
    finds("team id", [other]);
    finds("team id", [other], FORGETS);
    // A team id of a creation that nobody was told of may be given anew when it is forgotten.
    const attempt = at([1, 2], call("get", UNKNOWN, { group: "one/b", value: "n0" }));
    const read = at([2, 3], call("get", shown({ id: "b", token: "t9" }), { group: "one/b" }));
    finds("team id", [attempt, read]);
    passes([attempt, read], FORGETS);
  });

  it("finds a failed change of which nothing is told, and a failed read of which something is", () => {
    finds("not told", [update("n1", UNREAD)]);
    finds("not told", [resolve("t0", UNKNOWN)]);
    finds("not told", [update("n1", { ...UNKNOWN, outcome: "perhaps" } as Answer)]);
  });

  it("finds errors that no fault should lead to", () => {
    const broken: Answer = { code: "data_loss", reason: "RECORD_UNREADABLE", outcome: undefined };
    finds("unforeseen", [get(), call("get", broken)]);
    finds("unforeseen", [call("get", NOT_MADE, { isFinal: true })]);
    finds("unforeseen", [update("n1", CUT_OFF)]);
    passes([update("n1", CUT_OFF)], { workersEnd: true });
  });

  it("finds that workers disagree in the end", () => {
    const final = (name: string) => at([10, 12], get({ name }, { isFinal: true }));
    const change = at([2, 9], update("n1", UNKNOWN));
    passes([change, final("n0"), final("n0")]);
    finds(["no order", "disagreement"], [change, final("n1"), final("n0")]);
  });
});
