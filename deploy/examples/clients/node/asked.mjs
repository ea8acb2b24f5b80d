// What both examples ask, and how they show it: the command line, the gateway's address and key, and the headings.
import { parseArgs } from "node:util";

const { values, positionals } = parseArgs({
  options: { model: { type: "string", default: "auto" }, budget: { type: "string" } },
  allowPositionals: true,
});
if (positionals.length !== 1) {
  console.error('usage: node <example>.mjs [--model auto] [--budget tokens] "question"');
  process.exit(2);
}

export const question = positionals[0];
export const model = values.model;
export const controls = values.budget === undefined ? {} : { thinking_budget: Number(values.budget) };
export const baseURL = process.env.OPENAI_BASE_URL ?? "http://127.0.0.1:8080/v1";
export const apiKey = process.env.OPENAI_API_KEY ?? "none";

const [dim, plain] = process.stdout.isTTY ? ["\x1b[2m", "\x1b[0m"] : ["", ""];
let part = "";

/** Print a piece as it comes, under a heading of its part: "thinking" or "answer". */
export function show(name, text) {
  if (!text) return;
  if (name !== part) process.stdout.write(`${plain}${part && "\n"}[${name}]${name === "thinking" ? dim : ""}\n`);
  part = name;
  process.stdout.write(text);
}

/** The last line, from thinkgate's own object and the usage. */
export function summary({ pool, thinking }, tokensIn, tokensOut) {
  const ended = thinking.tokens ? `${thinking.tokens} tokens of thought, ended by ${thinking.ended_by}` : "no thought";
  console.log(`${plain}\n[${pool}: ${ended}; ${tokensIn} tokens in, ${tokensOut} out]`);
}

export function failed(error) {
  console.error(`${plain}\n${error.message}`);
  process.exitCode = 1;
}
