// What OpenAI's package gets of a server.
//
// Usage: end_to_end.mjs --base-url URL/v1 --thought ID --call ID
// IDs are those of the tokens that openai_check.py has put into the model.

import assert from 'node:assert/strict';
import { before, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { parseArgs } from 'node:util';

import OpenAI from 'openai';

const { values: flags } = parseArgs({
  options: {
    'base-url': { type: 'string' },
    thought: { type: 'string' },
    call: { type: 'string' },
  },
});
const END = 8189; // <|im_end|>
const LENGTH = 8;

const client = new OpenAI({
  baseURL: flags['base-url'],
  apiKey: 'none is needed',
  maxRetries: 0,
  timeout: 60_000,
});
let model;

const question = [{ role: 'user', content: 'What is the weather in Paris?' }];
const weather = {
  name: 'weather',
  description: 'The weather of a city.',
  parameters: { type: 'object', properties: { city: { type: 'string' } } },
};
const tools = [{ type: 'function', function: weather }];
// One text, of a length that is known.
const fixed = { temperature: 0, ignore_eos: true };
// Calls, until the penalty makes the end likelier.
const calling = {
  temperature: 0,
  frequency_penalty: 2,
  logit_bias: { [flags.call]: 100, [END]: 60 },
};
const thinking = { temperature: 0, logit_bias: { [flags.thought]: 100 } };

function chat(more) {
  return client.chat.completions.create({
    model, messages: question, max_tokens: LENGTH, ...fixed, ...more,
  });
}

function completion(more) {
  return client.completions.create({
    model, prompt: 'def add(a, b):', max_tokens: LENGTH, ...fixed, ...more,
  });
}

function response(more) {
  return client.responses.create({
    model, input: question, max_output_tokens: LENGTH, ...fixed, ...more,
  });
}

async function all(stream) {
  const items = [];
  for await (const item of await stream) items.push(item);
  return items;
}

async function eventually(what, holds) {
  const end = Date.now() + 30_000;
  while (!(await holds())) {
    assert.ok(Date.now() < end, `${what} took more than 30 s`);
    await sleep(20);
  }
}

// Of the server that has the routes of OpenAI under /v1.
function get(path) {
  return fetch(new URL(path, flags['base-url']));
}

// The value of a metric, or 0.
// The sum over all models of the series with that name and label.
async function metric(name, label = '') {
  const lines = (await (await get('/metrics')).text()).split('\n');
  return lines
      .filter((line) => line.startsWith(`${name}{`) && line.includes(label))
      .reduce((sum, line) => sum + Number(line.split(' ').at(-1)), 0);
}

before(async () => {
  await eventually('a worker', async () => (await get('/ready')).ok);
  model = (await client.models.list()).data[0].id;
});

test('models are listed and found by name', async () => {
  const found = await client.models.retrieve(model);

  assert.equal(found.id, model);
  assert.equal(found.object, 'model');
  assert.ok(found.max_model_len > 0);
  await assert.rejects(client.models.retrieve('nobody'), OpenAI.NotFoundError);
});

test('a chat streams the text that it has whole', async () => {
  const whole = await chat();
  const chunks = await all(
      chat({ stream: true, stream_options: { include_usage: true } }));

  assert.equal(whole.choices[0].finish_reason, 'length');
  assert.equal(whole.usage.completion_tokens, LENGTH);
  assert.ok(whole.choices[0].message.content.length >= LENGTH);
  assert.equal(chunks[0].choices[0].delta.role, 'assistant');
  const last = chunks.pop();
  assert.deepEqual(last.choices, []);
  assert.equal(last.usage.total_tokens, whole.usage.total_tokens);
  assert.equal(chunks.at(-1).choices[0].finish_reason, 'length');
  assert.equal(
      chunks.map((chunk) => chunk.choices[0].delta.content ?? '').join(''),
      whole.choices[0].message.content);
});

test('the log probabilities of a chat spell its text', async () => {
  const { choices: [choice] } = await chat({ logprobs: true, top_logprobs: 3 });
  const tokens = choice.logprobs.content;

  assert.equal(tokens.length, LENGTH);
  const bytes = tokens.flatMap((token) => token.bytes);
  assert.equal(Buffer.from(bytes).toString(), choice.message.content);
  for (const token of tokens) {
    assert.equal(token.top_logprobs.length, 3);
    // The likeliest is drawn at temperature 0.
    assert.equal(token.top_logprobs[0].logprob, token.logprob);
    assert.ok(token.logprob <= 0);
  }
});

test('a completion streams the text that it has whole, its prompt first',
     async () => {
  const more = { echo: true, logprobs: 2 };
  const { choices: [whole] } = await completion(more);
  const chunks = await all(completion({ ...more, stream: true }));

  assert.ok(whole.text.startsWith('def add(a, b):'));
  assert.equal(whole.finish_reason, 'length');
  assert.equal(whole.logprobs.tokens.join(''), whole.text);
  assert.equal(whole.logprobs.token_logprobs[0], null);
  const choices = chunks.map((chunk) => chunk.choices[0]);
  assert.equal(choices.map((choice) => choice.text).join(''), whole.text);
  for (const column of ['tokens', 'text_offset']) {
    assert.deepEqual(
        choices.flatMap((choice) => choice.logprobs[column]),
        whole.logprobs[column]);
  }
});

test('a text ends before a stop string', async () => {
  const { choices: [whole] } = await completion({ max_tokens: 64 });
  const stop = whole.text.slice(8, 12);
  const { choices: [choice] } = await completion({ max_tokens: 64, stop });

  assert.equal(choice.finish_reason, 'stop');
  assert.equal(choice.text, whole.text.slice(0, whole.text.indexOf(stop)));
});

test('choices have the texts of the next seeds', async () => {
  const drawn = { temperature: 1, seed: 5 };
  const { choices } = await chat({ ...drawn, n: 3 });
  const chunks = await all(chat({ ...drawn, n: 3, stream: true }));

  assert.deepEqual(choices.map((choice) => choice.index), [0, 1, 2]);
  for (const { index, message } of choices) {
    const single = await chat({ ...drawn, seed: drawn.seed + index });
    assert.equal(message.content, single.choices[0].message.content);
    const streamed = chunks.flatMap((chunk) => chunk.choices)
        .filter((choice) => choice.index === index)
        .map((choice) => choice.delta.content ?? '');
    assert.equal(streamed.join(''), message.content);
  }
  assert.notEqual(choices[0].message.content, choices[1].message.content);
});

test('a chat calls tools, and is told what they say', async () => {
  const asked = { tools, ...calling, ignore_eos: false, max_tokens: 64 };
  const { choices: [choice] } = await chat(asked);
  const streamed = await client.chat.completions
      .stream({ model, messages: question, ...asked })
      .finalChatCompletion();

  assert.equal(choice.finish_reason, 'tool_calls');
  const calls = choice.message.tool_calls;
  assert.ok(calls.length > 1);
  assert.equal(new Set(calls.map((call) => call.id)).size, calls.length);
  for (const call of calls) {
    assert.equal(call.function.name, 'weather');
    assert.deepEqual(JSON.parse(call.function.arguments), { city: 'Paris' });
  }
  assert.equal(streamed.choices[0].finish_reason, 'tool_calls');
  assert.deepEqual(
      streamed.choices[0].message.tool_calls.map((call) => call.function.name),
      calls.map((call) => call.function.name));
  const answers = calls.map(
      ({ id }) => ({ role: 'tool', tool_call_id: id, content: 'sunny' }));
  const first = await chat({ tools });
  const next = await chat({
    tools, messages: [...question, choice.message, ...answers],
  });
  assert.ok(next.usage.prompt_tokens > first.usage.prompt_tokens);
});

test('without a choice of tools their calls are text', async () => {
  const { choices: [choice] } = await chat(
      { tools, ...calling, tool_choice: 'none', max_tokens: 2 });

  assert.equal(choice.message.tool_calls, undefined);
  assert.match(choice.message.content, /^<tool_call>/);
});

test('reasoning comes apart from the text', async () => {
  const { choices: [choice] } = await chat({ ...thinking, max_tokens: 1 });
  const { output: [item] } =
      await response({ ...thinking, max_output_tokens: 1 });

  assert.equal(choice.message.reasoning_content.trim(), 'Rain?');
  assert.equal(choice.message.content, '');
  assert.equal(item.type, 'reasoning');
  assert.equal(item.content[0].text, choice.message.reasoning_content);
});

test('a response has the text of a chat, whole and streamed', async () => {
  const whole = await response();
  const stream = client.responses.stream({
    model, input: question, max_output_tokens: LENGTH, ...fixed,
  });
  const events = await all(stream);
  const { choices: [choice] } = await chat();

  assert.equal(whole.output_text, choice.message.content);
  assert.equal(whole.status, 'incomplete');
  assert.equal(whole.incomplete_details.reason, 'max_output_tokens');
  assert.equal(whole.usage.output_tokens, LENGTH);
  events.forEach((event, i) => assert.equal(event.sequence_number, i));
  const deltas = events.filter(
      (event) => event.type === 'response.output_text.delta');
  assert.equal(deltas.map((event) => event.delta).join(''), whole.output_text);
  assert.equal(events.at(-1).type, 'response.incomplete');
  assert.deepEqual(events.at(-1).response.usage.total_tokens,
                   whole.usage.total_tokens);
});

test('a response calls tools, and is told what they say', async () => {
  const flat = [{ type: 'function', strict: false, ...weather }];
  const { output, status } = await response({
    tools: flat, ...calling, ignore_eos: false, max_output_tokens: 64,
  });

  assert.equal(status, 'completed');
  const calls = output.filter((item) => item.type === 'function_call');
  assert.ok(calls.length > 1);
  assert.deepEqual(JSON.parse(calls[0].arguments), { city: 'Paris' });
  const answers = calls.map(({ call_id }) => (
    { type: 'function_call_output', call_id, output: 'sunny' }));
  const next = await response(
      { tools: flat, input: [...question, ...output, ...answers] });
  assert.equal(next.usage.output_tokens, LENGTH);
});

test('a client that leaves frees its request', async () => {
  const cancelled = () => metric('bole_requests_total', 'code="CANCELLED"');
  const before = await cancelled();
  const stream = await chat({ stream: true, max_tokens: 900 });
  const chunks = stream[Symbol.asyncIterator]();
  await chunks.next();
  await chunks.next();
  const running = (number) => async () =>
    (await metric('bole_requests_running')) === number;
  await eventually('running', running(1));
  stream.controller.abort();

  await eventually(
      'leaving', async () => (await cancelled()) === before + 1);
  await eventually('ending', running(0));
});

test('errors have their class, code and field', async () => {
  const wrong = [
    [() => chat({ max_tokens: 0 }), 400, 'invalid_value', 'max_tokens'],
    [() => chat({ max_tokenz: 1 }), 400, 'unsupported', 'max_tokenz'],
    [() => chat({ messages: [{ role: 'user', content: 1 }] }), 400,
      'invalid_value', 'messages[0].content'],
    [() => chat({ response_format: { type: 'json_object' } }), 400,
      'unsupported', 'response_format.type'],
    [() => chat({ stream: true, top_p: 2 }), 400, 'invalid_value', 'top_p'],
    [() => chat({ model: 'nobody' }), 404, 'model_not_found', 'model'],
    [() => completion({ prompt: ['a', 'b'] }), 400, 'unsupported', 'prompt'],
    [() => response({ max_output_tokens: 0 }), 400, 'invalid_value',
      'max_output_tokens'],
    [() => chat({ messages: [{ role: 'user', content: 'x '.repeat(9000) }] }),
      400, 'invalid_value', 'messages'],
    [() => client.embeddings.create({ model, input: 'a' }), 404, 'not_found',
      null],
  ];
  for (const [call, status, code, param] of wrong) {
    await assert.rejects(call, (error) => {
      assert.ok(error instanceof OpenAI.APIError, String(error));
      assert.deepEqual([error.status, error.code, error.param],
                       [status, code, param], error.message);
      assert.equal(error.type, 'invalid_request_error');
      assert.ok(error.requestID);
      return true;
    });
  }
});
