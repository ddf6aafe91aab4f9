/** Sets a key of a map behind all others. When the map has more than so many then, the first makes room. */
export function setBounded<K, V>(map: Map<K, V>, key: K, value: V, max: number): void {
  map.delete(key);
  map.set(key, value);
  const [first] = map.keys();
  if (map.size > max && first !== undefined) map.delete(first);
}
