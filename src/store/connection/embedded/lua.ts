import type Fengari from "fengari";
import { refusal } from "./memory.ts";

type LuaState = ReturnType<(typeof Fengari)["lauxlib"]["luaL_newstate"]>;

/** Runs a command of Redis for a script. @param name in small letters. @throws what Redis answers as an error */
type RunCommand = (name: string, args: readonly string[]) => unknown;

/** A compiled script. Returns what it returns, as Redis converts it. */
type LuaScript = (keys: readonly string[], args: readonly string[]) => unknown;

/**
 * Compiles scripts of Redis in one state of Lua, each once. A script has globals of its own in every call. The compiler and the
 * scripts throw an Error with the name that ioredis gives to what Redis answers.
 *
 * @param run runs the commands of the scripts
 */
export function luaCompiler(fengari: typeof Fengari, run: RunCommand): (text: string) => LuaScript {
  const { lua, lauxlib, lualib, to_luastring } = fengari;
  const state = lauxlib.luaL_newstate();

  const errorOf = (thread: LuaState) => refusal(`a script failed: ${lua.lua_tojsstring(thread, -1)}`);

  /** Runs what it is given, and leaves its results on the stack. */
  const load = (text: string, results: number): void => {
    if (lauxlib.luaL_loadstring(state, to_luastring(text)) !== lua.LUA_OK) throw errorOf(state);
    lua.lua_call(state, 0, results);
  };

  /** Pushes what Redis answered: null as false, and an error as a table. */
  const push = (thread: LuaState, value: unknown): void => {
    if (typeof value === "string") {
      lua.lua_pushstring(thread, Buffer.from(value));
    } else if (typeof value === "number") {
      // Of the integers of Lua 5.3, which Redis' Lua does not have, fengari's have 32 bits.
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

  /** What a script gives to Redis: a table ends at its first nil, and false is null. */
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

  /** Makes `redis.call` or `redis.pcall`, which differ in what they do with an error. */
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
    // A thread of its own, so that one that fails leaves nothing behind.
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
    // A first line for Redis, such as `#!lua flags=allow-oom`, is no Lua.
    const body = text.replace(/^#!.*\n/, "\n");
    load(`return function(KEYS, ARGV) local _ENV = setmetatable({}, {__index = _ENV}) ${body}\nend`, 1);
    const reference = lauxlib.luaL_ref(state, lua.LUA_REGISTRYINDEX);
    return (keys, args) => call(reference, keys, args);
  };
}
