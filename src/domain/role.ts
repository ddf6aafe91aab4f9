/**
 * The roles of API tokens. Each role has the rights of the previous roles, except that `read` does not create groups.
 */
export const ROLES = ["resolve", "read", "manage", "admin"] as const;

/** The rights of an API token in its environment. */
export type Role = (typeof ROLES)[number];

/** Whether a text is the name of a role. */
export function isRole(text: string | undefined): text is Role {
  return (ROLES as readonly (string | undefined)[]).includes(text);
}
