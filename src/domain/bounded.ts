/** Sets a key of a map as its last one, and removes the first one when there are then more than `max`. */
export function setBounded<K, V>(map: Map<K, V>, key: K, value: V, max: number): void {
  map.delete(key);
  map.set(key, value);
  const [first] = map.keys();
  if (map.size > max && first !== undefined) map.delete(first);
}
