/** A group in a response of the hosted service (https://docs.explo.co), in the format of the older documentation. */
interface HostedUserGroup {
  readonly team_id: number;
  readonly token: string;
}

/** A response of the hosted service. The call determines which of these fields the response contains. */
interface Answer {
  readonly success: number;
  readonly new_customer?: boolean;
  readonly new_user_group?: boolean;
  readonly user_group: HostedUserGroup;
  /** The group, in the format of the newer documentation of the hosted service. */
  readonly customer: { readonly token: string };
  readonly jwt: string;
}

export class HostedError extends Error {
  override readonly name = "HostedError";
  readonly status: number;
  readonly body: unknown;

  constructor(status: number, body: unknown) {
    super(`response of the hosted service: ${status} ${JSON.stringify(body)}`);
    this.status = status;
    this.body = body;
  }
}

const CALLS = {
  createUserGroup: ["POST", "create_user_group"],
  updateUserGroup: ["POST", "update_user_group"],
  refreshUserGroupToken: ["POST", "refresh_user_group_token"],
  deleteUserGroup: ["DELETE", "delete_user_group"],
  createCustomer: ["POST", "create_customer"],
  updateCustomer: ["POST", "update_customer"],
  refreshCustomerToken: ["POST", "refresh_customer_token"],
  deleteCustomer: ["DELETE", "delete_customer"],
  generateJwt: ["POST", "generate_jwt"],
} as const;

/**
 * A client of the hosted service. Its calls were written only from the public documentation
 * (https://docs.explo.co/api-reference).
 */
export type HostedClient = { readonly [call in keyof typeof CALLS]: (body: object) => Promise<Answer> };

/**
 * @param slash is appended to each path. It can be empty, because some paths in the documentation end with "/" and some
 * do not
 */
export function hostedClient(baseUrl: string, token: string, slash = "/"): HostedClient {
  const calls = Object.entries(CALLS).map(([call, [method, path]]) => {
    const send = async (body: object): Promise<Answer> => {
      const response = await fetch(`${baseUrl}/api/${path}${slash}`, {
        method,
        headers: { "Content-Type": "application/json", "Explo-Authorization": `Token ${token}` },
        body: JSON.stringify(body),
      });
      const answer = (await response.json()) as Answer;
      if (!response.ok || answer.success !== 1) throw new HostedError(response.status, answer);
      return answer;
    };
    return [call, send];
  });
  return Object.fromEntries(calls) as HostedClient;
}
