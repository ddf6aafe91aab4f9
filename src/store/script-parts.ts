/* What the scripts have in common. Their rules: `scripts.ts`. */

/** How a script asks for the time; the embedded store puts its own in its place. */
export const TIME = "redis.call('TIME')";

/** `now` and, as text, `stamp`: Redis' clock. Written with floats, for the embedded store's integers have 32 bits. */
export const CLOCK = `local time = ${TIME}
local now = (time[1] + 0.0) * 1000.0 + math.floor(time[2] / 1000)
local stamp = string.format('%.0f', now)
`;

/** Begins every change: it is not made when it is too late for it. */
export const CHANGE = `${CLOCK}if now > tonumber(ARGV[1]) then return {'late', stamp} end
`;

/** Lua 5.1 and 5.3 name it differently. */
export const UNPACK = "local spread = table.unpack or unpack\n";
