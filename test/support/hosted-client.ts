/** A group as the older documents of the hosted service have it. */
export interface HostedUserGroup {
  readonly team_id: number;
  readonly token: string;
  readonly name: string;
  readonly provided_id: string;
  readonly is_demo_group: boolean;
}

/** A group as the newer documents have it. */
export interface HostedCustomer extends Omit<HostedUserGroup, "team_id"> {
  readonly emails: readonly string[];
  readonly group_tags: readonly string[];
  readonly properties: object;
  readonly computed_properties: object;
  readonly parent_schema_datasource_mapping: object;
  readonly computed_parent_schema_datasource_mapping: object;
}

/** What every answer of the hosted service says. */
interface Answer {
  readonly success: number;
}

/** A call of the hosted service was not successful. */
export class HostedError extends Error {
  override readonly name = "HostedError";
  readonly status: number;
  readonly body: Answer;

  constructor(status: number, body: Answer) {
    super(`the hosted service answered ${status}: ${JSON.stringify(body)}`);
    this.status = status;
    this.body = body;
  }
}

/**
 * A client of the hosted service, made of its public documents (https://docs.explo.co/api-reference) and of nothing else:
 * their paths, header, fields and answers, by `fetch`.
 */
export class HostedClient {
  readonly #baseUrl: string;
  readonly #token: string;
  readonly #slash: string;

  /** @param slash what ends each path: the examples of the documents have a slash, some of their code has none */
  constructor(baseUrl: string, token: string, slash = "/") {
    this.#baseUrl = baseUrl;
    this.#token = token;
    this.#slash = slash;
  }

  createUserGroup(body: object): Promise<Answer & { new_user_group: boolean; user_group: HostedUserGroup }> {
    return this.#send("POST", "create_user_group", body);
  }

  updateUserGroup(body: object): Promise<Answer & { user_group: HostedUserGroup }> {
    return this.#send("POST", "update_user_group", body);
  }

  refreshUserGroupToken(body: object): Promise<Answer & { user_group: HostedUserGroup }> {
    return this.#send("POST", "refresh_user_group_token", body);
  }

  deleteUserGroup(body: object): Promise<Answer> {
    return this.#send("DELETE", "delete_user_group", body);
  }

  createCustomer(body: object): Promise<Answer & { new_customer: boolean; customer: HostedCustomer }> {
    return this.#send("POST", "create_customer", body);
  }

  updateCustomer(body: object): Promise<Answer & { customer: HostedCustomer }> {
    return this.#send("POST", "update_customer", body);
  }

  refreshCustomerToken(body: object): Promise<Answer & { customer: HostedCustomer }> {
    return this.#send("POST", "refresh_customer_token", body);
  }

  deleteCustomer(body: object): Promise<Answer> {
    return this.#send("DELETE", "delete_customer", body);
  }

  generateJwt(body: object): Promise<Answer & { jwt: string }> {
    return this.#send("POST", "generate_jwt", body);
  }

  async #send<T extends Answer>(method: string, path: string, body: object): Promise<T> {
    const response = await fetch(`${this.#baseUrl}/api/${path}${this.#slash}`, {
      method,
      headers: { "Content-Type": "application/json", "Explo-Authorization": `Token ${this.#token}` },
      body: JSON.stringify(body),
    });
    const answer = (await response.json()) as T;
    if (!response.ok || answer.success !== 1) throw new HostedError(response.status, answer);
    return answer;
  }
}
