/**
 * Answers heddle's questions in a JavaScript plugin: `node --import` loads it before the
 * plugin, which finds a global `serve(handlers, options?)` and writes nothing else.
 *
 *     serve({ RetryPolicy: { nodeError: { after: (event, ctx) => ({ action: 'pass' }) } } });
 *
 * Frames come in on stdin and go out on stdout, one JSON object a line; all the answers to
 * one read go out in one write. stdout belongs to the protocol, so the console and
 * `process.stdout.write` go to stderr.
 */

import { Console } from 'node:console';

const PROTOCOL = 1;
const FEATURES = ['consult'];

/** Milliseconds that handlers at work get when stdin closes; heddle kills after 1000. */
const LAST_WORDS = 400;

/**
 * After this many milliseconds in one frame for several, heddle is told that the next one is
 * asked, so that its budget of silence begins anew.
 */
const A_WHILE = 100;

const STORE = {
  sessionCreate: 'create',
  sessionRead: 'read',
  sessionAppend: 'append',
  sessionCheckpointRead: 'readCheckpoint',
  sessionCheckpointWrite: 'writeCheckpoint',
  sessionList: 'list',
  sessionDelete: 'delete',
};

const A_VERDICT = "a verdict, such as { action: 'proceed' } or { action: 'pass' }";

const write = process.stdout.write.bind(process.stdout);
process.stdout.write = process.stderr.write.bind(process.stderr);
globalThis.console = new Console({ stdout: process.stderr, stderr: process.stderr });

class HandlerMissing extends Error {
  name = 'HandlerMissing';
}

class AnswerInvalid extends TypeError {
  name = 'AnswerInvalid';
}

/** heddle refused or failed something that a handler asked of it. */
class HostError extends Error {
  constructor(error) {
    super(error?.message ?? String(error));
    this.name = error?.name ?? 'HostError';
    Object.assign(this, aboutError(error ?? {}));
  }
}

const complain = (text) => process.stderr.write(`heddle: ${text}\n`);

const isObject = (value) =>
  value !== null && typeof value === 'object' && !Array.isArray(value);

const copy = (value) => (value === undefined ? undefined : JSON.parse(JSON.stringify(value)));

// --- out ----------------------------------------------------------------------------

let out = [];
/** Whether somebody is going to flush: a timer, or the read that is being served. */
let flushing = false;

function flush() {
  flushing = false;
  if (out.length === 0) return;
  const text = out.length === 1 ? `${out[0]}\n` : out.join('\n') + '\n';
  out = [];
  write(text);
}

function send(frame) {
  out.push(frame);
  if (!flushing) {
    flushing = true;
    setImmediate(flush);
  }
}

const sendAnswer = (id, result) => {
  // A result that is undefined would leave a frame that is none.
  const encoded = JSON.stringify(result);
  send(`{"id":${JSON.stringify(id)},"result":${encoded === undefined ? 'null' : encoded}}`);
};

const sendError = (id, error) => send(JSON.stringify({ id, error: describe(error) }));

function describe(error) {
  try {
    if (error instanceof Error) {
      return {
        name: String(error.name),
        message: String(error.message || error.name),
        ...aboutError(error),
      };
    }
    return { name: 'Error', message: `a handler threw ${shortened(error)}` };
  } catch {
    return { name: 'Error', message: 'a handler threw what cannot be told' };
  }
}

/** What else an error says that heddle reads: a status, and whether to try again. */
function aboutError({ status, statusCode, retryAfterMs, retryable }) {
  const said = {};
  const code = [status, statusCode].find((value) => typeof value === 'number');
  if (code !== undefined) said.status = code;
  if (typeof retryAfterMs === 'number') said.retryAfterMs = retryAfterMs;
  if (typeof retryable === 'boolean') said.retryable = retryable;
  return said;
}

function shortened(value) {
  let text;
  try {
    text = typeof value === 'string' ? value : (JSON.stringify(value) ?? String(value));
  } catch {
    text = typeof value;
  }
  return text.length > 80 ? `${text.slice(0, 79)}…` : text;
}

// --- calls --------------------------------------------------------------------------

const calls = new Map();
const replies = new Map();
let lastReverse = 0;

/** One question that is being answered. What its handler asks of heddle names it. */
class Call {
  constructor(id) {
    this.id = id;
    this.componentType = '';
    this.cancels = [];
    this.controller = null;
  }

  get signal() {
    if (this.controller === null) {
      this.controller = new AbortController();
      if (this.cancels.length > 0) this.controller.abort();
    }
    return this.controller.signal;
  }

  cancel(id) {
    this.cancels.push(id);
    this.controller?.abort();
    for (const [reverse, reply] of replies) {
      if (reply.call === this) {
        replies.delete(reverse);
        reply.reject(new HostError({ name: 'AbortError', message: 'the call was cancelled' }));
      }
    }
  }

  reverse(method, params) {
    const id = ++lastReverse;
    const { id: call, componentType } = this;
    send(JSON.stringify({ id, method, params: { call, componentType, ...params } }));
    return id;
  }

  ask(method, params) {
    return new Promise((resolve, reject) => {
      const id = this.reverse(method, params);
      replies.set(id, { call: this, resolve, reject });
    });
  }
}

/** What a handler is told beside its event, and what it may ask of heddle. */
class Context {
  #call;
  #workspace;

  constructor(call, component, told = {}, workspace = undefined) {
    this.#call = call;
    this.#workspace = workspace;
    this.component = isObject(component) ? component : {};
    if ('llm_config' in this.component && !('llmConfig' in this.component)) {
      this.component.llmConfig = this.component.llm_config;
    }
    Object.assign(this, told);
  }

  // Functions that a handler may take out: ({ log }) => log('info', '…'). Each is made when
  // it is looked at, which most handlers do with none of them.

  get runTool() {
    return (name, input) => this.#call.ask('runTool', { name, input: input ?? {} });
  }

  get callModel() {
    return (request) => this.#call.ask('callModel', request);
  }

  get emitEvent() {
    return (name, data) => void this.#call.reverse('emitEvent', { name, data });
  }

  get log() {
    return (level, message) =>
      void this.#call.reverse('log', { level, message: String(message) });
  }

  get partial() {
    return (chunk) => send(JSON.stringify({ id: this.#call.id, partial: chunk }));
  }

  get node() {
    return this.component;
  }

  get signal() {
    return this.#call.signal;
  }

  getWorkspace() {
    if (typeof this.#workspace === 'string') return this.#workspace;
    throw this.#workspace ?? new HostError({ name: 'WorkspaceUnavailable', message: 'this call has no workspace' });
  }
}

// --- what the plugin serves ------------------------------------------------------------

let handlers = null;
let options = {};
const admits = new Map();
let toldToEnd = false;

const known = () => Object.keys(handlers).join(', ') || 'nothing';

function missing(componentType, what, line) {
  const there = componentType in handlers ? '' : ` (there are handlers for: ${known()})`;
  return new HandlerMissing(`${componentType} ${what}${there}. Write serve(${line}).`);
}

/** What the handler of a half is a method of. */
function findHalf(componentType, seam, half) {
  const holder = handlers[componentType]?.[seam];
  if (typeof holder?.[half] === 'function') return holder;
  const action = half === 'before' ? 'proceed' : 'pass';
  throw missing(
    componentType,
    `has no handler for ${seam}.${half}`,
    `{ ${componentType}: { ${seam}: { ${half}: (event, ctx) => ({ action: '${action}' }) } } }`,
  );
}

function findFunction(componentType, name) {
  const holder = handlers[componentType];
  if (typeof holder?.[name] === 'function') return holder[name].bind(holder);
  throw missing(
    componentType,
    `has no handler '${name}'`,
    `{ ${componentType}: { ${name}: () => { … } } }`,
  );
}

/** What a handler answered, when it is an object. undefined is no consent. */
function read(answer, label, wanted) {
  if (isObject(answer)) return answer;
  throw new AnswerInvalid(`${label} returned ${shortened(answer)}. Return ${wanted}.`);
}

function withOutput(answer, label) {
  const wanted = '{ output: { … } }';
  if (isObject(read(answer, label, wanted).output)) return answer;
  throw new AnswerInvalid(`${label} returned no 'output' that is an object. Return ${wanted}.`);
}

/** Goes on with what a handler returned: now, or when its promise is kept. */
const then = (value, next) =>
  typeof value?.then === 'function' ? value.then(next) : next(value);

function contextOf(call, params, half, component, honoured) {
  const context = new Context(call, component);
  context.seam = params.seam;
  context.half = half;
  context.attempt = params.attempt ?? 1;
  context.maxAttempts = params.maxAttempts ?? 1;
  context.admits = honoured;
  return context;
}

function askOne(call, params, half) {
  const { componentType, seam, subject = {}, input, outcome } = params;
  call.componentType = componentType;
  const holder = findHalf(componentType, seam, half);
  const event = half === 'before' ? { subject, input: input ?? {} } : { subject, outcome };
  if (half === 'after' && input !== undefined) event.input = input;
  const honoured = admits.get(`${seam}.${half}`) ?? [];
  const answer = holder[half](event, contextOf(call, params, half, params.component, honoured));
  return then(answer, (said) => read(said, `${componentType} ${seam}.${half}`, A_VERDICT));
}

/**
 * Asks several in order, as heddle would one by one; the first that settles ends it. Each
 * is shown a copy of its own, made when it looks, so that what one does to it changes
 * nothing for the next. A verdict that does not count here ends it too: heddle refuses it,
 * and nobody is asked after a fault.
 */
function consult(call, params) {
  return new Consultation(call, params).goOn();
}

/** Several questions in one frame, on the way from one handler to the next. */
class Consultation {
  constructor(call, params) {
    this.call = call;
    this.params = params;
    this.ask = params.ask ?? [];
    this.input = params.input;
    this.place = `${params.seam}.${params.half}`;
    this.consent = params.half === 'before' ? 'proceed' : 'pass';
    this.consented = `{"action":"${this.consent}"}`;
    this.admits = admits.get(this.place);
    this.verdicts = [];
    this.next = 0;
    this.told = performance.now();
  }

  /** Asks one after the other, without giving way unless a handler does. */
  goOn() {
    while (this.next < this.ask.length) {
      const { componentType, component } = this.ask[this.next++];
      this.begin(componentType);
      let answer;
      try {
        answer = this.question(componentType, component);
      } catch (error) {
        this.failed(componentType, error);
        break;
      }
      if (typeof answer?.then === 'function') return this.later(componentType, answer);
      if (!this.take(componentType, answer)) break;
    }
    return new Encoded(`{"verdicts":[${this.verdicts.join(',')}]}`);
  }

  /** The same, from the answer of a handler that takes its time. */
  async later(componentType, promised) {
    let goesOn = false;
    try {
      goesOn = this.take(componentType, await promised);
    } catch (error) {
      this.failed(componentType, error);
    }
    if (!goesOn) this.next = this.ask.length;
    return this.goOn();
  }

  begin(componentType) {
    this.call.componentType = componentType;
    if (this.next > 1 && performance.now() - this.told > A_WHILE) {
      this.told = performance.now();
      send(JSON.stringify({ id: this.call.id, partial: { at: componentType } }));
    }
  }

  question(componentType, component) {
    const { seam, half, subject, outcome } = this.params;
    const holder = findHalf(componentType, seam, half);
    const event = eventOf(half, subject, this.input, outcome);
    const honoured = this.admits ?? [];
    return holder[half](event, contextOf(this.call, this.params, half, component, honoured));
  }

  /** Takes what a handler answered; whether the next one is to be asked. */
  take(componentType, answer) {
    let encoded;
    try {
      const verdict = isObject(answer) ? answer : read(answer, `${componentType} ${this.place}`, A_VERDICT);
      encoded = isBare(verdict, this.consent)
        ? this.consented
        : (JSON.stringify(verdict) ?? 'null');
    } catch (error) {
      this.failed(componentType, error);
      return false;
    }
    this.verdicts.push(`{"componentType":${quoted(componentType)},"verdict":${encoded}}`);
    if (this.call.cancels.length > 0) return false;
    if (encoded === this.consented) return true;
    // What counts is what heddle reads: toJSON or an undefined may have made it another.
    const verdict = JSON.parse(encoded);
    if (verdict?.action === this.consent) return true;
    if (verdict?.action !== 'modify' || !isObject(verdict.input)) return false;
    if (!(this.admits ?? NOTHING_KNOWN).includes('modify')) return false;
    // Where heddle checks a modified input, it asks those that are left by itself.
    if (this.params.checked === true) return false;
    const { input } = verdict;
    this.input = this.params.seam === 'modelCall' ? edited(this.input, input) : input;
    return this.input !== undefined;
  }

  failed(componentType, error) {
    report(this.call, error, `${componentType} ${this.place}`);
    this.verdicts.push(JSON.stringify({ componentType, error: describe(error) }));
  }
}

/** Whether a verdict says this word and nothing else, so that its JSON is known. */
function isBare(verdict, word) {
  if (verdict.action !== word || Object.getPrototypeOf(verdict) !== Object.prototype) return false;
  for (const name in verdict) if (name !== 'action') return false;
  return verdict.toJSON === undefined && Object.hasOwn(verdict, 'action');
}

const quotes = new Map();

/** A component type as JSON; there are few. */
function quoted(name) {
  let text = quotes.get(name);
  if (text === undefined) quotes.set(name, (text = JSON.stringify(name)));
  return text;
}

/** A heddle that did not say what a half admits is taken to admit a change. */
const NOTHING_KNOWN = ['modify'];

const REQUEST = [
  'model',
  'messages',
  'tools',
  'temperature',
  'maxTokens',
  'topP',
  'responseFormat',
  'responseSchema',
  'parameters',
];

/** The model request that heddle makes of an edit; undefined if it takes none of it. */
function edited(request, change) {
  const whole = { ...request };
  for (const field of REQUEST) {
    if (!(field in change)) continue;
    if (change[field] === null) return undefined;
    whole[field] = change[field];
  }
  if (!Array.isArray(whole.messages) || !whole.messages.every(isMessage)) return undefined;
  whole.messages = whole.messages.map(({ role, content, tool_calls, tool_call_id }) => ({
    role,
    content,
    ...(tool_calls?.length && { tool_calls }),
    ...(tool_call_id != null && { tool_call_id }),
  }));
  if (whole.tools?.length === 0) delete whole.tools;
  if (isObject(whole.parameters) && Object.keys(whole.parameters).length === 0) {
    delete whole.parameters;
  }
  return whole;
}

const isMessage = (value) =>
  isObject(value) && typeof value.role === 'string' && typeof value.content === 'string';

function eventOf(half, subject = {}, input, outcome) {
  let mine;
  let settled;
  const mySubject = { ...subject };
  if (half === 'before') {
    return {
      subject: mySubject,
      get input() {
        return (mine ??= copy(input ?? {}));
      },
    };
  }
  if (input === undefined) {
    return {
      subject: mySubject,
      get outcome() {
        return (settled ??= outcomeOf(outcome));
      },
    };
  }
  return {
    subject: mySubject,
    get input() {
      return (mine ??= copy(input));
    },
    get outcome() {
      return (settled ??= outcomeOf(outcome));
    },
  };
}

function outcomeOf(outcome) {
  if (!outcome?.ok) return copy(outcome);
  let mine;
  return Object.defineProperty({ ok: true }, 'value', {
    enumerable: true,
    get: () => (mine ??= copy(outcome.value)),
  });
}

/** A result that is JSON already. */
class Encoded {
  constructor(text) {
    this.text = text;
  }
}

function readFrames(answer, label) {
  if (Array.isArray(answer)) return answer;
  throw new AnswerInvalid(`${label} returned ${shortened(answer)}. Return an array of frames.`);
}

/** The newest question to an encoder that is not answered yet, by encoder and run. */
const turns = new Map();

/**
 * Asks an encoder when it has answered the question before. heddle asks ahead; an encoder
 * sees one event of a run at a time.
 */
function inTurn(componentType, runId, ask) {
  const key = `${componentType}\n${runId}`;
  const before = turns.get(key);
  const answer = before === undefined ? ask() : before.then(ask);
  if (typeof answer?.then !== 'function') return answer;
  const settled = () => {
    if (turns.get(key) === mine) turns.delete(key);
  };
  const mine = answer.then(settled, settled);
  turns.set(key, mine);
  return answer;
}

const VERBS = {
  init(call, params) {
    for (const [seam, admitted] of Object.entries(params.seams ?? {})) {
      for (const half of ['before', 'after']) admits.set(`${seam}.${half}`, admitted);
    }
    for (const [seam, halves] of Object.entries(params.halves ?? {})) {
      for (const half of ['before', 'after']) admits.set(`${seam}.${half}`, halves[half] ?? []);
    }
    return { protocol: PROTOCOL, features: FEATURES };
  },

  before: (call, params) => askOne(call, params, 'before'),
  after: (call, params) => askOne(call, params, 'after'),
  consult,

  shutdown() {
    toldToEnd = true;
    return then(goodbye(), () => ({}));
  },

  listTools() {
    if (typeof options.listTools !== 'function') {
      throw new HandlerMissing(
        'the manifest says discoverTools and nothing lists them. ' +
          'Write serve(handlers, { listTools: () => ({ tools: [] }) }).',
      );
    }
    return then(options.listTools(), (said) => read(said, 'listTools', '{ tools: […] }'));
  },

  callTool(call, { componentType, tool, input, component }) {
    call.componentType = componentType ?? '';
    const tools = options.tools ?? {};
    const handler = Object.hasOwn(tools, tool) ? tools[tool] : undefined;
    if (typeof handler !== 'function') {
      throw new HandlerMissing(
        `there is no tool '${tool}'. Write serve(handlers, ` +
          `{ tools: { ${tool}: (input, ctx) => ({ output: {} }) } }).`,
      );
    }
    const answer = handler(input ?? {}, new Context(call, component));
    return then(answer, (said) => withOutput(said, `tool ${tool}`));
  },

  execute(call, { componentType, node, input, workspace, workspaceUnavailable }) {
    call.componentType = componentType;
    const handler = findFunction(componentType, 'execute');
    const place =
      workspaceUnavailable === undefined
        ? workspace
        : new HostError({
            name: 'WorkspaceUnavailable',
            message: `there is no workspace here: ${workspaceUnavailable}`,
          });
    const answer = handler(input ?? {}, new Context(call, node, {}, place));
    return then(answer, (said) => withOutput(said, `${componentType} execute`));
  },

  apply(call, { componentType, component, phase, messages }) {
    call.componentType = componentType;
    const handler = findFunction(componentType, 'apply');
    const answer = handler(messages ?? [], new Context(call, component, { phase }));
    const wanted = "{ action: 'pass' }, modify or reject";
    return then(answer, (said) => read(said, `${componentType} apply`, wanted));
  },

  chat(call, { componentType, config, request, stream }) {
    call.componentType = componentType;
    const handler = findFunction(componentType, 'chat');
    const answer = handler(request ?? {}, new Context(call, config, { stream: stream === true }));
    const wanted = '{ content, finish_reason }';
    return then(answer, (said) => read(said, `${componentType} chat`, wanted));
  },

  encode(call, { componentType, runId, event }) {
    call.componentType = componentType;
    const handler = findFunction(componentType, 'encode');
    const ask = () => handler(event, new Context(call, {}, { runId }));
    const answer = inTurn(componentType, runId, ask);
    return then(answer, (said) => readFrames(said, `${componentType} encode`));
  },

  finishEncode(call, { componentType, runId }) {
    call.componentType = componentType;
    if (typeof handlers[componentType]?.finish !== 'function') return [];
    const handler = findFunction(componentType, 'finish');
    const answer = inTurn(componentType, runId, () => handler(new Context(call, {}, { runId })));
    return then(answer, (said) => readFrames(said, `${componentType} finish`));
  },
};

for (const [verb, name] of Object.entries(STORE)) {
  VERBS[verb] = (call, { componentType, config, ...params }) => {
    call.componentType = componentType;
    return findFunction(componentType, name)(params, new Context(call, config));
  };
}

// --- in -----------------------------------------------------------------------------

function receive(line) {
  if (line === '' || line === '\r') return;
  let frame;
  try {
    frame = JSON.parse(line);
  } catch {
    complain(`heddle sent a line that is no frame: ${line.slice(0, 200)}`);
    return;
  }
  if (!isObject(frame)) return;
  if (typeof frame.method !== 'string') settle(frame);
  else if (frame.method === 'cancel') cancel(frame);
  else begin(frame);
}

function begin({ id, method, params }) {
  const call = new Call(id);
  calls.set(id, call);
  try {
    const verb = Object.hasOwn(VERBS, method) ? VERBS[method] : undefined;
    if (verb === undefined) throw new HandlerMissing(`there is no verb '${method}'`);
    const result = verb(call, params ?? {});
    if (typeof result?.then === 'function') {
      result.then(
        (kept) => end(call, method, kept),
        (error) => fail(call, method, error),
      );
    } else {
      end(call, method, result);
    }
  } catch (error) {
    fail(call, method, error);
  }
}

function end(call, method, result) {
  if (stopped(call, method)) return;
  try {
    if (result instanceof Encoded) send(`{"id":${JSON.stringify(call.id)},"result":${result.text}}`);
    else sendAnswer(call.id, result);
  } catch (error) {
    sendError(call.id, error);
  }
}

function fail(call, method, error) {
  const label = call.componentType ? `${call.componentType} ${method}` : method;
  report(call, error, label);
  if (!stopped(call, method)) sendError(call.id, error);
}

/** Whether the call had been cancelled; then that is answered and the call is not. */
function stopped(call, method) {
  calls.delete(call.id);
  const at = method === 'consult' ? { at: call.componentType } : {};
  for (const id of call.cancels) sendAnswer(id, at);
  return call.cancels.length > 0;
}

function cancel({ id, params }) {
  const call = calls.get(params?.call);
  if (call === undefined) sendAnswer(id, {});
  else call.cancel(id);
}

function settle({ id, result, error }) {
  const reply = replies.get(id);
  replies.delete(id);
  if (reply !== undefined) {
    if (error === undefined) reply.resolve(result);
    else reply.reject(new HostError(error));
  } else if (error !== undefined) {
    complain(`heddle refused a call: ${error?.message ?? JSON.stringify(error)}`);
  }
}

/** Writes where a handler failed to stderr, for its author. */
function report(call, error, label) {
  if (call.cancels.length > 0) return;
  const brief = error instanceof HandlerMissing || error instanceof AnswerInvalid;
  complain(brief ? error.message : `${label} failed\n${stackOf(error)}`);
}

function stackOf(error) {
  try {
    return String(error?.stack ?? shortened(error));
  } catch {
    return 'of what cannot be told';
  }
}

function goodbye() {
  const { shutdown } = options;
  options = { ...options, shutdown: undefined };
  if (typeof shutdown !== 'function') return undefined;
  const failed = (error) => complain(`shutdown failed\n${stackOf(error)}`);
  try {
    const said = shutdown();
    return typeof said?.then === 'function' ? said.then(undefined, failed) : said;
  } catch (error) {
    return failed(error);
  }
}

async function closed() {
  const deadline = Date.now() + (toldToEnd ? 0 : LAST_WORDS);
  while (calls.size > 0 && Date.now() < deadline) {
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
  await goodbye();
  flush();
  process.exit(0);
}

globalThis.serve = function serve(given, chosen = {}) {
  if (handlers !== null) throw new Error('serve() was called twice; call it once, with all handlers');
  if (!isObject(given)) {
    throw new TypeError(
      `serve() takes an object of component types, not ${shortened(given)}; ` +
        'write serve({ MyPolicy: { toolCall: { before: handler } } })',
    );
  }
  handlers = given;
  options = chosen ?? {};
  let cut = [];
  process.stdin.on('data', (chunk) => {
    const last = chunk.lastIndexOf(10);
    if (last === -1) {
      cut.push(chunk);
      return;
    }
    const text =
      cut.length === 0
        ? chunk.toString('utf8', 0, last)
        : Buffer.concat([...cut, chunk.subarray(0, last)]).toString('utf8');
    cut = last + 1 < chunk.length ? [chunk.subarray(last + 1)] : [];
    flushing = true;
    if (text.includes('\n')) for (const line of text.split('\n')) receive(line);
    else receive(text);
    flush();
  });
  process.stdin.on('end', () => {
    if (cut.length > 0) receive(Buffer.concat(cut).toString('utf8'));
    void closed();
  });
};

// The pipe's other end is gone, and with it whoever the answers were for.
process.stdout.on('error', () => process.exit(0));

process.on('exit', () => {
  if (handlers === null) complain('the plugin ended without calling serve(handlers)');
});
