/**
 * Types for the parts of fengari that the service uses. fengari itself has no types. The functions are the C functions
 * of Lua 5.3 on a state or a thread.
 */
declare module "fengari" {
  interface LuaState {
    readonly l_G: unknown;
  }
  const fengari: {
    to_luastring(text: string): Uint8Array;
    readonly lua: {
      readonly [constant in `LUA_${"OK" | "REGISTRYINDEX" | "YIELD" | `T${"NIL" | "BOOLEAN" | "NUMBER" | "STRING" | "TABLE"}`}`]: number;
    } & {
      lua_call(state: LuaState, args: number, results: number): void;
      lua_createtable(state: LuaState, elements: number, fields: number): void;
      lua_gettop(state: LuaState): number;
      lua_newthread(state: LuaState): LuaState;
      lua_pop(state: LuaState, count: number): void;
      lua_pushboolean(state: LuaState, value: boolean): void;
      lua_pushnumber(state: LuaState, value: number): void;
      lua_pushstring(state: LuaState, value: Uint8Array): void;
      lua_rawgeti(state: LuaState, table: number, index: number): number;
      lua_rawseti(state: LuaState, table: number, index: number): void;
      lua_resume(thread: LuaState, from: LuaState | null, args: number): number;
      lua_setfield(state: LuaState, table: number, name: Uint8Array): void;
      lua_settop(state: LuaState, top: number): void;
      lua_toboolean(state: LuaState, index: number): boolean;
      lua_tojsstring(state: LuaState, index: number): string;
      lua_tonumber(state: LuaState, index: number): number;
      lua_tostring(state: LuaState, index: number): Uint8Array;
      lua_type(state: LuaState, index: number): number;
    };
    readonly lauxlib: {
      luaL_loadstring(state: LuaState, text: Uint8Array): number;
      luaL_newstate(): LuaState;
      luaL_ref(state: LuaState, table: number): number;
    };
    readonly lualib: { luaL_openlibs(state: LuaState): void };
  };
  // biome-ignore lint/style/noDefaultExport: Node and the bundle export a CommonJS package as the default
  export default fengari;
}
