/** What counts in Redis. It changes no data that is kept, so it has neither a deadline nor replicas to wait for. */
export interface CountCommands {
  /**
   * Adds to a count that lasts for a window of time, which begins with the first.
   *
   * @param args how much, and the window in seconds; further ones are ignored
   * @returns the count, and when the window ends in milliseconds from now
   */
  ugCount(key: string, ...args: string[]): Promise<string[]>;
}

/** `ugCount` in Lua. A count without an end, which an operator may have made, gets one. */
export const COUNT = `
local count = redis.call('INCRBY', KEYS[1], ARGV[1])
local left = redis.call('PTTL', KEYS[1])
if left < 0 then
  left = ARGV[2] * 1000
  redis.call('PEXPIRE', KEYS[1], string.format('%.0f', left))
end
return {string.format('%.0f', count), string.format('%.0f', left)}`;
