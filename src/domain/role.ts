/**
 * The roles of API tokens. The role of an API token defines its rights in the environment. Each role also has the
 * rights of the roles before it. With the role `read`, GetUserGroup does not create groups.
 */
export const ROLES = ["resolve", "read", "manage", "admin"] as const;

export type Role = (typeof ROLES)[number];

export function isRole(text: string | undefined): text is Role {
  return (ROLES as readonly (string | undefined)[]).includes(text);
}
