import type Fengari from "fengari";
import { refusal } from "./memory.ts";

type LuaState = ReturnType<(typeof Fengari)["lauxlib"]["luaL_newstate"]>;

/** Runs a Redis command for a script. @param name in lower case. @throws an Error that a Redis would answer */
type RunCommand = (name: string, args: readonly string[]) => unknown;

/** A compiled script. Converts its result as Redis does. */
type LuaScript = (keys: readonly string[], args: readonly string[]) => unknown;

/**
 * Compiles Redis scripts in one Lua state. Every call of a script has its own globals. The compiler and the scripts throw a
 * `ReplyError`, as ioredis does for errors of Redis.
 *
 * @param run runs the commands of the scripts
 */
export function luaCompiler(fengari: typeof Fengari, run: RunCommand): (text: string) => LuaScript {
  const { lua, lauxlib, lualib, to_luastring } = fengari;
  const state = lauxlib.luaL_newstate();

  const errorOf = (thread: LuaState) => refusal(`a script failed: ${lua.lua_tojsstring(thread, -1)}`);

  /** Runs a Lua text, and leaves its results on the stack. */
  const load = (text: string, results: number): void => {
    if (lauxlib.luaL_loadstring(state, to_luastring(text)) !== lua.LUA_OK) throw errorOf(state);
    lua.lua_call(state, 0, results);
  };

  /** Pushes the answer of a command: null as false, and an error as a table. */
  const push = (thread: LuaState, value: unknown): void => {
    if (typeof value === "string") {
      lua.lua_pushstring(thread, Buffer.from(value));
    } else if (typeof value === "number") {
      // As a float, because the integers of fengari have 32 bits.
      lua.lua_pushnumber(thread, value);
    } else if (typeof value !== "object" || value === null) {
      lua.lua_pushboolean(thread, false);
    } else if (value instanceof Error) {
      lua.lua_createtable(thread, 0, 1);
      push(thread, value.message);
      lua.lua_setfield(thread, -2, to_luastring("err"));
    } else {
      const elements = value as readonly unknown[];
      lua.lua_createtable(thread, elements.length, 0);
      for (const [i, element] of elements.entries()) {
        push(thread, element);
        lua.lua_rawseti(thread, -2, i + 1);
      }
    }
  };

  /** Converts a value of a script: a table ends at its first nil, and false becomes null. */
  const at = (thread: LuaState, index: number): unknown => {
    switch (lua.lua_type(thread, index)) {
      case lua.LUA_TSTRING:
        return Buffer.from(lua.lua_tostring(thread, index)).toString();
      case lua.LUA_TNUMBER:
        return lua.lua_tonumber(thread, index);
      case lua.LUA_TBOOLEAN:
        return lua.lua_toboolean(thread, index) ? 1 : null;
      case lua.LUA_TTABLE: {
        const list: unknown[] = [];
        for (let i = 1; lua.lua_rawgeti(thread, index, i) !== lua.LUA_TNIL; i++) {
          list.push(at(thread, -1));
          lua.lua_pop(thread, 1);
        }
        lua.lua_pop(thread, 1);
        return list;
      }
      default:
        return null;
    }
  };

  /** Pushes `redis.call`, or `redis.pcall`, which returns an error instead of throwing it. */
  const pushCommand = (name: string, isProtected: boolean): void => {
    lua.lua_pushjsfunction(state, (thread) => {
      const [command = "", ...args] = Array.from({ length: lua.lua_gettop(thread) }, (_, i) =>
        String(at(thread, i + 1)),
      );
      try {
        push(thread, run(command.toLowerCase(), args));
        return 1;
      } catch (error) {
        push(thread, isProtected ? error : (error as Error).message);
      }
      return isProtected ? 1 : lua.lua_error(thread);
    });
    lua.lua_setfield(state, -2, to_luastring(name));
  };

  const call = (script: number, keys: readonly string[], args: readonly string[]): unknown => {
    // In a new thread, so a failed script leaves nothing on the stack.
    const thread = lua.lua_newthread(state);
    lua.lua_pop(state, 1);
    lua.lua_rawgeti(thread, lua.LUA_REGISTRYINDEX, script);
    push(thread, keys);
    push(thread, args);
    if (lua.lua_pcall(thread, 2, 1, 0) !== lua.LUA_OK) throw errorOf(thread);
    return at(thread, -1);
  };

  lualib.luaL_openlibs(state);
  lua.lua_createtable(state, 0, 2);
  pushCommand("call", false);
  pushCommand("pcall", true);
  lua.lua_setglobal(state, to_luastring("redis"));
  return (text) => {
    // The first line, such as `#!lua flags=allow-oom`, is not Lua.
    const body = text.replace(/^#!.*\n/, "\n");
    load(`return function(KEYS, ARGV) local _ENV = setmetatable({}, {__index = _ENV}) ${body}\nend`, 1);
    const reference = lauxlib.luaL_ref(state, lua.LUA_REGISTRYINDEX);
    return (keys, args) => call(reference, keys, args);
  };
}
