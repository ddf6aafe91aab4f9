import type Fengari from "fengari";

type LuaState = ReturnType<(typeof Fengari)["lauxlib"]["luaL_newstate"]>;

type RunCommand = (name: string, args: readonly string[]) => Promise<unknown>;

type LuaScript = (keys: readonly string[], args: readonly string[]) => Promise<unknown>;

/** The error of a script, or of a command in a script. ioredis gives the same name to errors of Redis. */
class ScriptFailed extends Error {
  override readonly name = "ReplyError";
}

/** Defines `redis.call` and `redis.pcall`, which suspend the thread of the script until the command is answered. */
const REDIS = `local yield = coroutine.yield
redis = {
  call = function(...) return yield('call', ...) end,
  pcall = function(...) return yield('pcall', ...) end,
}`;

/**
 * Compiles each Redis script once. Each call of a script has its own global variables. The compiler throws an Error for
 * invalid Lua.
 */
export function luaCompiler(fengari: typeof Fengari, run: RunCommand): (text: string) => LuaScript {
  const { lua, lauxlib, lualib, to_luastring } = fengari;
  const state = lauxlib.luaL_newstate();

  const errorOf = (thread: LuaState) => new ScriptFailed(`a script failed: ${lua.lua_tojsstring(thread, -1)}`);

  const load = (text: string, results: number): void => {
    if (lauxlib.luaL_loadstring(state, to_luastring(text)) !== lua.LUA_OK) throw errorOf(state);
    lua.lua_call(state, 0, results);
  };

  /** Pushes the answer of a command. An object becomes a list of fields and values, and an error becomes a table. */
  const push = (thread: LuaState, value: unknown): void => {
    if (typeof value === "string") {
      lua.lua_pushstring(thread, Buffer.from(value));
    } else if (typeof value === "number") {
      // The number is pushed as a float, because the integers of fengari have 32 bits.
      lua.lua_pushnumber(thread, value);
    } else if (typeof value !== "object" || value === null) {
      lua.lua_pushboolean(thread, false);
    } else if (value instanceof Error) {
      lua.lua_createtable(thread, 0, 1);
      push(thread, value.message);
      lua.lua_setfield(thread, -2, to_luastring("err"));
    } else {
      const elements: readonly unknown[] = Array.isArray(value) ? value : Object.entries(value).flat();
      lua.lua_createtable(thread, elements.length, 0);
      for (const [i, element] of elements.entries()) {
        push(thread, element);
        lua.lua_rawseti(thread, -2, i + 1);
      }
    }
  };

  /** Converts a value in the same way as Redis. A table ends at its first nil, and false becomes null. */
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

  const answerTo = async (thread: LuaState): Promise<unknown> => {
    const [how, name = "", ...args] = Array.from({ length: lua.lua_gettop(thread) }, (_, i) =>
      String(at(thread, i + 1)),
    );
    lua.lua_settop(thread, 0);
    return run(name.toLowerCase(), args).catch((error: Error) => {
      if (how === "pcall") return error;
      throw new ScriptFailed(error.message);
    });
  };

  const call = async (script: number, keys: readonly string[], args: readonly string[]): Promise<unknown> => {
    // Each call has a new thread, so a failed script leaves nothing on the stack.
    const thread = lua.lua_newthread(state);
    lua.lua_pop(state, 1);
    lua.lua_rawgeti(thread, lua.LUA_REGISTRYINDEX, script);
    push(thread, keys);
    push(thread, args);
    let status = lua.lua_resume(thread, null, 2);
    while (status === lua.LUA_YIELD) {
      push(thread, await answerTo(thread));
      status = lua.lua_resume(thread, null, 1);
    }
    if (status !== lua.LUA_OK) throw errorOf(thread);
    return at(thread, -1);
  };

  lualib.luaL_openlibs(state);
  load(REDIS, 0);
  const compiled = new Map<string, LuaScript>();
  return (text) => {
    const known = compiled.get(text);
    if (known) return known;
    // The first line of a Redis script, such as `#!lua flags=allow-oom`, is not Lua.
    const body = text.replace(/^#!.*\n/, "\n");
    load(`return function(KEYS, ARGV) local _ENV = setmetatable({}, {__index = _ENV}) ${body}\nend`, 1);
    const reference = lauxlib.luaL_ref(state, lua.LUA_REGISTRYINDEX);
    const script: LuaScript = (keys, args) => call(reference, keys, args);
    compiled.set(text, script);
    return script;
  };
}
