// Calls SQL functions with `pg`. Each line of the input is [function, [[name, type, value], …]].

import { createInterface } from "node:readline";
import pg from "pg";

// `pg` would make an array of PostgreSQL of a list.
const encode = (value, type) => {
  if (value === null || !type.startsWith("jsonb")) return value;
  return type === "jsonb" ? JSON.stringify(value) : value.map((each) => encode(each, "jsonb"));
};

const client = new pg.Client(); // the PG variables say where
await client.connect();
for await (const line of createInterface({ input: process.stdin })) {
  const [name, given] = JSON.parse(line);
  const places = given.map(([argument, type], index) => `${argument} => $${index + 1}::${type}`);
  const text = `SELECT * FROM inturn.${name}(${places.join(", ")})`;
  const values = given.map(([, type, value]) => encode(value, type));
  let answer;
  try {
    answer = { rows: (await client.query({ text, values, rowMode: "array" })).rows };
  } catch ({ code, message }) {
    answer = { code, message };
  }
  process.stdout.write(JSON.stringify(answer) + "\n");
}
await client.end();
