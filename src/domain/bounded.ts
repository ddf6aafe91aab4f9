/** Sets a value, moves its key to the end of the map, and removes the first key if the map has more than `max` keys. */
export function setBounded<K, V>(map: Map<K, V>, key: K, value: V, max: number): void {
  map.delete(key);
  map.set(key, value);
  const [first] = map.keys();
  if (map.size > max && first !== undefined) map.delete(first);
}
