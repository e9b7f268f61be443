// Writes a TypeScript file that gives the answers of openai_samples the types
// which the npm package `openai` has for them.
//
// Usage: openai_samples | check_types.mjs > samples.ts

import { readFileSync } from 'node:fs';

// What Bole tells beyond the types.
const EXTENSIONS = ['max_model_len', 'reasoning_content', 'stop_reason', 'store', 'vocab_size'];

// What the types refuse is cast, and so not checked.
const CASTS = [
  // While a completion goes on, OpenAI's own stream has null here.
  { of: 'Completion', text: '"finish_reason":null' },
  // Tokens of reasoning are not counted apart.
  { of: 'Responses.', text: '"output_tokens_details":{}' },
];

// What the types ask of a response and Bole does not send: `output_text`, which
// the package makes itself, and what an account of OpenAI's may use.
const OWN = { output_text: '', access_programs: null };

function asTyped(key, value) {
  if (EXTENSIONS.includes(key)) return undefined;
  return value?.object === 'response' ? { ...value, ...OWN } : value;
}

const samples = readFileSync(0, 'utf8').trim().split('\n').map(JSON.parse);
console.log(`import OpenAI from 'openai';

// @ts-expect-error: this line tells that a wrong shape is found.
export const wrong: OpenAI.ChatCompletion = { object: 'chat.completion' };
`);
samples.forEach(({ type, value }, i) => {
  let text = JSON.stringify(value, asTyped);
  for (const cast of CASTS) {
    if (!type.startsWith(cast.of)) continue;
    text = text.replaceAll(cast.text, `${cast.text} as never`);
  }
  console.log(`export const sample${i}: OpenAI.${type} = ${text};`);
});
console.error(`${samples.length} answers`);
