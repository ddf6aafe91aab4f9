import { describe, it } from "vitest";
import {
  at,
  CUT_OFF,
  DONE,
  finds,
  get,
  imported,
  NO_GROUP,
  NO_TOKEN,
  NOT_MADE,
  passes,
  recreated,
  remove,
  resolve,
  revoke,
  rotate,
  shown,
  UNKNOWN,
  UNREAD,
  update,
} from "./told.ts";

const FORGETS = { allow: { mayForget: true, staleMs: 0 } };
const LOST = "acknowledged is lost";

describe("deletions", () => {
  /** The group after it was created anew. */
  const anew = { teamId: 2, token: "u0", name: "m0" };

  it("passes groups that come and go", () => {
    passes([
      at([2, 7], resolve("t0", NO_TOKEN)),
      at([3, 5], remove()),
      at([2, 4], get()),
      at([6, 7], update("n1", NO_GROUP)),
      at([6, 7], remove(NO_GROUP)),
      at([8, 9], recreated()),
      at([10, 11], resolve("t0", NO_TOKEN)),
      at([10, 11], resolve("u0", shown(anew))),
      at([10, 11], get(anew)),
      at([12, 13], remove(UNKNOWN)),
      at([14, 15], get(anew)),
      at([16, 17], remove(UNKNOWN)),
      at([18, 19], update("n2", NO_GROUP)),
      at([20, 21], recreated({ teamId: 3, token: "v0", name: "m1" })),
    ]);
  });

  it("passes two at once of a group that was created anew between them, whatever was answered first", () => {
    const [slow, second] = [at([1, 9], get()), at([4, 9], remove())];
    passes([slow, at([2, 3], remove()), at([4, 5], recreated()), second, at([4, 9], get(anew))]);
  });

  it("finds one that is undone, whether the group was created anew or not", () => {
    finds(LOST, [remove(), get()]);
    finds(LOST, [remove(), get()], FORGETS);
    finds(LOST, [remove(), update("n1")]);
    finds(LOST, [remove(), rotate("t1")]);
    finds(["team id", LOST], [remove(UNKNOWN), recreated(), get()]);
  });

  it("finds a token that outlives it, whatever it shows", () => {
    finds([LOST, "ended token"], [remove(), resolve("t0")]);
    finds([LOST, "ended token"], [rotate("t1", { graceMs: 100 }), remove(), resolve("t0", shown())]);
    finds("ended token", [remove(), recreated(), resolve("t0", shown(anew))]);
  });

  it("finds a group that has its token or its team id again", () => {
    finds(["no order", LOST], [remove(), recreated({ token: "t0" }), get({ ...anew, token: "t0" })]);
    finds(["created twice", LOST], [remove(), recreated({ teamId: 1 })]);
  });

  it("finds one that was made though it was said not to be", () => {
    finds("team id", [remove(NOT_MADE), recreated()]);
    finds("group missing", [remove(NOT_MADE), update("n1", NO_GROUP)]);
    finds("token refused", [remove(NOT_MADE), resolve("t0", NO_TOKEN)]);
  });

  it("finds a group that is missing though it was created anew since, or not deleted yet", () => {
    finds("group missing", [remove(), recreated(), update("n1", NO_GROUP)]);
    finds("group missing", [update("n1", NO_GROUP), remove()]);
    finds("group missing", [at([4, 5], remove(NO_GROUP))]);
  });

  it("passes a retry that does not find the group of its first try, and no other", () => {
    const request = { requestId: "r" };
    const made = at([2, 3], revoke(shown({ token: undefined }), request));
    const retried = [at([4, 5], remove()), at([6, 7], recreated()), at([8, 9], revoke(NO_GROUP, request))];
    passes([made, ...retried]);
    finds("group missing", retried);
  });

  it("finds lives without a deletion between them", () => {
    finds("team id", [remove(UNKNOWN), get(), recreated()]);
    finds("team id", [recreated(), remove()]);
  });

  it("finds lives that take turns", () => {
    const calls = [at([2, 20], remove(CUT_OFF)), recreated(), resolve("u0", shown({ name: "m0", token: undefined }))];
    finds(LOST, calls, { workersEnd: true });
  });

  it("allows what reads show as far as they may be out of date", () => {
    const calls = [remove(), at([7, 8], get())];
    passes(calls, { allow: { mayForget: false, staleMs: 5 } });
    finds(LOST, calls, { allow: { mayForget: false, staleMs: 3 } });
  });

  it("finds a failed change of which nothing is told", () => {
    for (const change of [remove(UNREAD), revoke(UNREAD), imported("f", UNREAD)]) finds("not told", [change]);
  });
});

describe("revocations", () => {
  it("passes what they do", () => {
    const request = { requestId: "r" };
    passes([
      at([2, 3], revoke()),
      at([2, 3], resolve("t0")),
      at([4, 5], resolve("t0", NO_TOKEN)),
      at([4, 5], get({ token: "t1" })),
      at([6, 7], revoke(UNKNOWN, request)),
      at([8, 9], get({ token: "t2" })),
      at([10, 11], revoke(shown({ token: undefined }), request)),
      at([12, 13], get({ token: "t2" })),
      at([14, 15], revoke(UNKNOWN)),
      at([16, 17], resolve("t2")),
    ]);
  });

  it("finds a former token that is taken or shown", () => {
    finds("ended token", [revoke(), resolve("t0")]);
    finds(LOST, [revoke(), get()]);
    finds(LOST, [revoke(), get()], FORGETS);
    // One that is on its grace, too.
    finds("ended token", [rotate("t1", { graceMs: 100 }), revoke(), resolve("t0")]);
  });

  it("finds one that was made though it was said not to be, or twice", () => {
    finds("not made was made", [revoke(NOT_MADE), get({ token: "t1" })]);
    finds("token refused", [revoke(NOT_MADE), resolve("t0", NO_TOKEN)]);
    finds("not made was made", [revoke(), get({ token: "t1" }), get({ token: "t2" })]);
  });
});

describe("imports", () => {
  const there = { name: "name of f", token: "f" };
  const viewed = shown({ ...there, token: undefined });

  it("passes what they do", () => {
    passes([
      imported("f"),
      at([4, 5], resolve("t0", NO_TOKEN)),
      at([4, 5], resolve("f", viewed)),
      at([4, 5], get(there)),
      at([6, 7], imported("g", NOT_MADE)),
      at([8, 9], resolve("g", NO_TOKEN)),
      at([10, 11], imported("h", UNKNOWN)),
      at([12, 13], resolve("f", NO_TOKEN)),
      at([12, 13], resolve("h", shown({ name: "name of h", token: undefined }))),
      at([14, 15], rotate(shown({ name: "name of h", token: "t1" }), { token: "h" })),
      at([16, 17], resolve("h", NO_TOKEN)),
      at([18, 19], remove()),
      at([20, 21], imported("i", { ...DONE, created: true } as typeof DONE)),
      at([22, 23], get({ name: "name of i", token: "i", teamId: 2 })),
    ]);
  });

  it("finds one that is lost, or its token", () => {
    finds(LOST, [imported("f"), get()]);
    finds(LOST, [imported("f"), get({ ...there, name: "n0" })]);
    finds(LOST, [imported("f"), get({ ...there, token: "t0" })]);
    finds("token refused", [imported("f"), resolve("f", NO_TOKEN)]);
  });

  it("finds the token that it replaced, and its own after it was replaced", () => {
    finds("ended token", [imported("f"), resolve("t0", viewed)]);
    finds("ended token", [imported("f"), revoke(viewed), resolve("f", viewed)]);
    finds([LOST, "ended token"], [imported("f"), remove(), resolve("f", viewed)]);
    const rotated = rotate(shown({ ...there, token: "t1" }), { token: "f" });
    finds("ended token", [imported("f"), rotated, resolve("f", viewed)]);
    finds(LOST, [imported("f"), imported("g"), get(there)]);
  });

  it("finds one that was made though it was said not to be", () => {
    const never = imported("f", NOT_MADE);
    finds("not made was made", [never, resolve("f")]);
    finds("not made was made", [never, get({ token: "f" })]);
    finds("not made was made", [never, get({ name: "name of f" })]);
    finds("token refused", [never, resolve("t0", NO_TOKEN)]);
  });

  it("finds a token that neither they nor deletions can have given", () => {
    for (const call of [imported("f", UNKNOWN), remove(UNKNOWN)]) {
      finds("not made was made", [call, get({ token: "t9" })]);
    }
  });

  it("finds a token that leads to another group", () => {
    finds("another's group", [imported("f"), resolve("f", shown({ ...there, id: "b" }))]);
  });
});
