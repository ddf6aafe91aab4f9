/**
 * Sets a key of a map behind all others. When the map has too many then, the first makes room.
 *
 * @param max how many keys the map may have
 * @returns the key that made room
 */
export function setBounded<K, V>(map: Map<K, V>, key: K, value: V, max: number): K | undefined {
  map.delete(key);
  map.set(key, value);
  if (map.size <= max) return undefined;
  const [first] = map.keys();
  if (first !== undefined) map.delete(first);
  return first;
}
