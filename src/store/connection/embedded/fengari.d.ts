/** The used part of fengari, which has no types: the C API of Lua 5.3. */
declare module "fengari" {
  /** A Lua state, or one of its threads. */
  interface LuaState {
    readonly l_G: unknown;
  }
  const fengari: {
    to_luastring(text: string): Uint8Array;
    readonly lua: {
      readonly [constant in `LUA_${"OK" | "REGISTRYINDEX" | `T${"NIL" | "BOOLEAN" | "NUMBER" | "STRING" | "TABLE"}`}`]: number;
    } & {
      lua_call(state: LuaState, args: number, results: number): void;
      lua_error(state: LuaState): number;
      lua_pcall(state: LuaState, args: number, results: number, handler: number): number;
      lua_pushjsfunction(state: LuaState, fn: (state: LuaState) => number): void;
      lua_setglobal(state: LuaState, name: Uint8Array): void;
      lua_createtable(state: LuaState, elements: number, fields: number): void;
      lua_gettop(state: LuaState): number;
      lua_newthread(state: LuaState): LuaState;
      lua_pop(state: LuaState, count: number): void;
      lua_pushboolean(state: LuaState, value: boolean): void;
      lua_pushnumber(state: LuaState, value: number): void;
      lua_pushstring(state: LuaState, value: Uint8Array): void;
      lua_rawgeti(state: LuaState, table: number, index: number): number;
      lua_rawseti(state: LuaState, table: number, index: number): void;
      lua_setfield(state: LuaState, table: number, name: Uint8Array): void;
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
  // biome-ignore lint/style/noDefaultExport: the form of a CommonJS package in Node and in the bundle
  export default fengari;
}
