/**
 * The roles of API tokens. Each role includes the rights of all roles before it. If the caller has the role `read`,
 * GetUserGroup does not create groups.
 */
export const ROLES = ["resolve", "read", "manage", "admin"] as const;

export type Role = (typeof ROLES)[number];

export function isRole(text: string | undefined): text is Role {
  return (ROLES as readonly (string | undefined)[]).includes(text);
}
