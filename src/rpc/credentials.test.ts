import { expect, it } from "vitest";
import { newApiToken, newUserGroupToken } from "../domain/token.ts";
import { withoutTokens } from "./credentials.ts";

const OWN = "static-token-0123456789";

it.each(["authorization", "explo-authorization"])(
  "redacts tokens of this service, and the API token in the header %s",
  (name) => {
    const header = { [name]: `Token ${OWN}` };
    const group = newUserGroupToken();
    expect(withoutTokens("request-1", header)).toBe("request-1");
    expect(withoutTokens("", header)).toBe("");
    expect(withoutTokens(OWN, header)).toBe("[redacted]");
    expect(withoutTokens(`a${OWN}b${OWN}`, header)).toBe("a[redacted]b[redacted]");
    expect(withoutTokens(`${group}/${newApiToken()}`, header)).toBe("[redacted]/[redacted]");
    expect(withoutTokens(group.slice(0, 20), header)).toBe("[redacted]");
    expect(withoutTokens(`x${OWN}y${group}`, {})).toBe(`x${OWN}y[redacted]`);
  },
);
