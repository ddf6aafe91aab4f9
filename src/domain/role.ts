/** The roles of API tokens. Each may do what those before it may, except that `read` does not create groups. */
export const ROLES = ["resolve", "read", "manage", "admin"] as const;

/** What the bearer of an API token may do in its environment. */
export type Role = (typeof ROLES)[number];

/** Whether a text is the name of a role. */
export function isRole(text: string | undefined): text is Role {
  return (ROLES as readonly (string | undefined)[]).includes(text);
}
