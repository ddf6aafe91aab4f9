import { LISTED_FIELDS } from "./fields.ts";
import { KEY } from "./keys.ts";
import { CLOCK, UNPACK } from "./script-parts.ts";

/** The scripts that list and look up groups, as `SCRIPTS` has them. */
export const GROUP_LIST_SCRIPTS = {
  /**
   * Lists groups of a partition in order of their ids.
   * KEYS: the ids. ARGV: 1 prefix of the partition's keys, 2 where to begin as ZRANGEBYLEX has it, 3 what the ids begin
   * with, 4 how many at most, 5 `1` for what is listed of each, else its id alone.
   * Answers `found`, Redis' clock and the ids, each followed by `LISTED_FIELDS`, empty where they are missing.
   */
  ugListGroups: `${CLOCK}
local to = ARGV[3] == '' and '+' or '(' .. ARGV[3] .. '\\255'
local ids = redis.call('ZRANGEBYLEX', KEYS[1], ARGV[2], to, 'LIMIT', '0', ARGV[4])
local answer = {'found', stamp}
for i = 1, #ids do
  answer[#answer + 1] = ids[i]
  if ARGV[5] == '1' then
    local key = ARGV[1] .. '${KEY.group}' .. ids[i]
    for _, field in ipairs({${LISTED_FIELDS.map((field) => `'${field}'`).join(", ")}}) do
      answer[#answer + 1] = redis.call('HGET', key, field) or ''
    end
  end
end
return answer`,

  /**
   * Reads a group.
   * KEYS: the group.
   * Answers nothing when it is missing; or `found`, Redis' clock and the record.
   */
  ugLookUp: `${CLOCK}${UNPACK}
local record = redis.call('HGETALL', KEYS[1])
if #record == 0 then return {} end
return {'found', stamp, spread(record)}`,
} as const;
