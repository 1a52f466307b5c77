/** Policies that do what a script says, and tell what they were asked: as scripted.py. */

import { readFileSync } from 'node:fs';

const HALVES = [
  'nodeError.after',
  'node.before',
  'node.after',
  'toolCall.before',
  'toolCall.after',
  'modelCall.before',
  'modelCall.after',
  'agentRound.before',
  'agentRound.after',
];
const WAITING = 'ABCDEFGH';
const PLAIN = 'PQRS';

const scripts = new Map();

function scriptOf({ script = {} }) {
  if (typeof script !== 'string') return script;
  if (!scripts.has(script)) scripts.set(script, JSON.parse(readFileSync(script, 'utf8')));
  return scripts.get(script);
}

function detail(place, { subject, input, outcome }) {
  if (place.endsWith('after')) {
    const ok = outcome.ok ? 'ok' : 'error';
    if (place === 'modelCall.after') {
      return [ok, outcome.ok ? outcome.value.content : outcome.error.message];
    }
    if (place === 'agentRound.after') return [outcome.value.round];
    return [ok, subject.toolCallId ?? ''];
  }
  if (place === 'toolCall.before') return [subject.toolCallId];
  if (place === 'modelCall.before') {
    return [input.messages.filter(({ role }) => role !== 'user').length];
  }
  if (place === 'agentRound.before') return [input.round];
  return [input.n ?? ''];
}

function seen(who, { subject, input, outcome }, ctx) {
  const shown = {};
  if (ctx.half === 'before' || ctx.seam === 'toolCall') shown.input = input;
  if (ctx.half === 'after') {
    shown.outcome = outcome.ok
      ? { ok: true, value: outcome.value }
      : { ok: false, name: outcome.error.name, message: outcome.error.message };
  }
  return {
    who,
    place: `${ctx.seam}.${ctx.half}`,
    node: subject.nodeName,
    type: subject.nodeType,
    tool: subject.toolName ?? '',
    attempt: ctx.attempt,
    maxAttempts: ctx.maxAttempts,
    admits: ctx.admits,
    settings: ctx.component,
    shown,
  };
}

function entryFor(who, event, ctx) {
  const place = `${ctx.seam}.${ctx.half}`;
  const { nodeName } = event.subject;
  const script = scriptOf(ctx.component);
  if (typeof ctx.component.script !== 'string') {
    const entries = [script[place] ?? []].flat();
    return entries.find(({ on = nodeName }) => on === nodeName) ?? {};
  }
  const key = [who, place, nodeName, ctx.attempt, ...detail(place, event)].join('|');
  if (!Object.hasOwn(script, key)) throw new Error(`nobody foresaw the question ${key}`);
  return script[key];
}

function verdictOf(entry, { input }, ctx) {
  if ('set' in entry) return { action: 'modify', input: { ...input, ...entry.set } };
  if ('append' in entry) {
    const messages = [...input.messages, { role: 'user', content: entry.append }];
    return { action: 'modify', input: { messages } };
  }
  if ('verdict' in entry) return entry.verdict;
  return { action: ctx.half === 'before' ? 'proceed' : 'pass' };
}

function misbehave({ does }) {
  if (does === 'throw') throw new TypeError('scripted trouble');
  if (does === 'die') process.kill(process.pid, 'SIGKILL');
  if (does === 'exit') process.exit(7);
}

const block = (ms) => Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, ms);

const sleep = (ms, signal) =>
  new Promise((resolve, reject) => {
    setTimeout(resolve, ms);
    signal?.addEventListener('abort', () => reject(signal.reason));
  });

const plain = (who) => (event, ctx) => {
  ctx.emitEvent('asked', seen(who, event, ctx));
  const entry = entryFor(who, event, ctx);
  if ('block' in entry) block(entry.block);
  misbehave(entry);
  while (entry.does === 'hang' || entry.does === 'stubborn');
  return verdictOf(entry, event, ctx);
};

const waiting = (who) => async (event, ctx) => {
  ctx.emitEvent('asked', seen(who, event, ctx));
  const entry = entryFor(who, event, ctx);
  if ('exit' in entry) setTimeout(() => process.exit(7), entry.exit);
  if ('tool' in entry) {
    const found = await ctx.runTool(entry.tool, { asked_by: who });
    ctx.emitEvent('used', { who, tool: event.subject.toolName ?? '', found });
  }
  if ('block' in entry) {
    await sleep(10); // what was told goes out first
    block(entry.block);
  }
  for (let left = entry.delay ?? 0; left > 0; ) {
    const step = Math.min(left, entry.beat ?? left);
    await sleep(step, ctx.signal);
    left -= step;
    if ('beat' in entry) ctx.log('info', 'still at it');
  }
  misbehave(entry);
  if (entry.does === 'hang') await sleep(600_000, ctx.signal);
  if (entry.does === 'stubborn') await sleep(600_000);
  return verdictOf(entry, event, ctx);
};

const everywhere = (handler) => {
  const handlers = {};
  for (const place of HALVES) {
    const [seam, half] = place.split('.');
    (handlers[seam] ??= {})[half] = handler;
  }
  return handlers;
};

serve({
  ...Object.fromEntries([...WAITING].map((who) => [who, everywhere(waiting(who))])),
  ...Object.fromEntries([...PLAIN].map((who) => [who, everywhere(plain(who))])),
});
