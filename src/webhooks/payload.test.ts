import { Webhook } from "standardwebhooks";
import { describe, expect, it } from "vitest";
import { newWebhookSecret } from "../domain/webhook.ts";
import { messageOf, signedHeaders } from "./payload.ts";

describe("webhook messages", () => {
  const environment = { name: "acme", tag: "Customer" as const, number: 7 };
  const event = {
    ...{ id: "1795670180297000", type: "user_group.updated", time: 1_795_670_180_297, actorId: "root" },
    ...{ userGroupId: "ä <b>", changedFields: ["name", "mapping"] },
  };

  it("a message is accepted by the library of Standard Webhooks with each secret of the webhook, and with no other secret", () => {
    const secrets = [newWebhookSecret(), newWebhookSecret()];
    const { headers, body } = messageOf(environment, event, { url: "https://hooks.example", secrets });
    for (const secret of secrets) {
      expect(new Webhook(secret).verify(body, headers)).toEqual({
        type: "user_group.updated",
        timestamp: "2026-11-26T05:16:20.297Z",
        data: {
          ...{ event_id: event.id, environment: "acme/Customer", actor_id: "root", user_group_id: "ä <b>" },
          changed_fields: ["name", "mapping"],
        },
      });
      expect(() => new Webhook(secret).verify(`${body} `, headers)).toThrow("No matching signature");
    }
    expect(() => new Webhook(newWebhookSecret()).verify(body, headers)).toThrow("No matching signature");
    expect(headers["webhook-id"]).toBe("msg_7_1795670180297000");
  });

  it("a message has the signature of the example in the Standard Webhooks specification", () => {
    const message = { id: "msg_p5jXN8AQM9LWM0D4loKWxJek", timestamp: 1614265330, body: '{"test": 2432232314}' };
    const { "webhook-signature": signature } = signedHeaders(message, ["whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"]);
    expect(signature).toBe("v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
  });
});
