/**
 * Answers heddle's questions in a JavaScript plugin: `node --import` loads it before the
 * plugin, which finds a global `serve(handlers, options?)` and writes nothing else.
 *
 *     serve({ RetryPolicy: { nodeError: { after: (event, ctx) => ({ action: 'pass' }) } } });
 *
 * Frames come in on stdin and go out on stdout, one JSON object a line; all the answers to
 * one read go out in one write. stdin and stdout belong to the protocol, so the console and
 * `process.stdout.write` go to stderr, and `process.stdin` is empty.
 */

import { Console } from 'node:console';
import { writeSync } from 'node:fs';
import { Socket } from 'node:net';
import { Readable } from 'node:stream';

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

/**
 * Characters of a frame beyond which its lazy copies pay: a getter costs more than to copy
 * a small state, which nearly all are.
 */
const LARGE = 4096;

/** Characters that are written without a stream between; more than most pipes take at once. */
const SHORT = 32 * 1024;

const READ = 64 * 1024;

/** How many different beginnings of frames for several are kept; a heddle has some twenty. */
const HEADS = 256;

const write = process.stdout.write.bind(process.stdout);
process.stdout.write = process.stderr.write.bind(process.stderr);
globalThis.console = new Console({ stdout: process.stderr, stderr: process.stderr });

const realStdin = Object.getOwnPropertyDescriptor(process, 'stdin');
const nothing = new Readable({ read() {} });
nothing.push(null);
Object.defineProperty(process, 'stdin', { value: nothing, configurable: true });

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

/** A copy of what JSON.parse made. */
function copy(value) {
  if (typeof value !== 'object' || value === null) return value;
  if (Array.isArray(value)) return value.map(copy);
  const mine = { ...value };
  for (const name in mine) {
    const inner = mine[name];
    if (typeof inner === 'object' && inner !== null) mine[name] = copy(inner);
  }
  return mine;
}

// --- out ----------------------------------------------------------------------------

let out = [];
/** Whether somebody is going to flush: a timer, or the read that is being served. */
let flushing = false;

function flush() {
  flushing = false;
  if (out.length === 0) return;
  const text = out.length === 1 ? `${out[0]}\n` : out.join('\n') + '\n';
  out = [];
  put(text);
}

/** Writes that the stream has taken and not done: what follows goes behind them. */
let behind = 0;

/**
 * Writes to the pipe. A stream makes objects for each write that only a full collection
 * frees, so it gets what is long, and what there is no room for now.
 */
function put(text) {
  let rest = text;
  if (behind === 0 && text.length <= SHORT) {
    try {
      const written = writeSync(1, text);
      if (written === Buffer.byteLength(text)) return;
      rest = Buffer.from(text).subarray(written);
    } catch (error) {
      if (error.code !== 'EAGAIN') process.exit(0);
    }
  }
  behind += 1;
  write(rest, () => {
    behind -= 1;
  });
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

const NONE = Object.freeze([]);

/** One question that is being answered. What its handler asks of heddle names it. */
class Call {
  constructor(id) {
    this.id = id;
    this.componentType = '';
    this.cancels = NONE;
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
    this.cancels = [...this.cancels, id];
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

  constructor(call, component, told = undefined, workspace = undefined) {
    this.#call = call;
    this.#workspace = workspace;
    this.component = isObject(component) ? component : {};
    if ('llm_config' in this.component && !('llmConfig' in this.component)) {
      this.component.llmConfig = this.component.llm_config;
    }
    if (told !== undefined) Object.assign(this, told);
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

function contextOf(call, { seam, half }, { attempt, maxAttempts }, component, honoured) {
  const context = new Context(call, component);
  context.seam = seam;
  context.half = half;
  context.attempt = attempt ?? 1;
  context.maxAttempts = maxAttempts ?? 1;
  context.admits = honoured;
  return context;
}

function askOne(call, params, half) {
  const { componentType, seam, component } = params;
  call.componentType = componentType;
  const holder = findHalf(componentType, seam, half);
  const event = asItIs(half, params.subject, params.input, params.outcome);
  const honoured = admits.get(`${seam}.${half}`) ?? [];
  const answer = holder[half](event, contextOf(call, { seam, half }, params, component, honoured));
  return then(answer, (said) => read(said, `${componentType} ${seam}.${half}`, A_VERDICT));
}

/**
 * Asks several in order, as heddle would one by one; the first that settles ends it. Each
 * is shown a copy of its own, so that what one does to it changes nothing for the next. A
 * verdict that does not count here ends it too: heddle refuses it, and nobody is asked
 * after a fault.
 */
function consult(call, params) {
  return new Consultation(call, new Plan(params), params, true).goOn();
}

/** Who is asked in a frame for several, and where: all that comes before its subject. */
class Plan {
  constructor({ seam, half, ask = [], checked }) {
    this.seam = seam;
    this.half = half;
    this.place = `${seam}.${half}`;
    this.consent = half === 'before' ? 'proceed' : 'pass';
    this.consented = `{"action":"${this.consent}"}`;
    this.checked = checked === true;
    this.steps = ask.map(({ componentType, component }) => {
      const said = `{"componentType":${JSON.stringify(componentType)},"verdict":`;
      return { componentType, component, said, consented: `${said}${this.consented}}` };
    });
  }
}

/** Several questions in one frame, on the way from one handler to the next. */
class Consultation {
  constructor(call, plan, params, large) {
    this.call = call;
    this.plan = plan;
    this.params = params;
    this.large = large;
    this.input = params.input;
    this.admits = admits.get(plan.place);
    this.verdicts = '';
    this.next = 0;
    this.told = performance.now();
  }

  /** Asks one after the other, without giving way unless a handler does. */
  goOn() {
    const { steps } = this.plan;
    while (this.next < steps.length) {
      const step = steps[this.next++];
      let answer;
      try {
        answer = this.question(step);
      } catch (error) {
        this.failed(step, error);
        break;
      }
      if (typeof answer?.then === 'function') return this.later(step, answer);
      if (!this.take(step, answer)) break;
    }
    return new Encoded(`{"verdicts":[${this.verdicts}]}`);
  }

  /** The same, from the answer of a handler that takes its time. */
  async later(step, promised) {
    let goesOn = false;
    try {
      goesOn = this.take(step, await promised);
    } catch (error) {
      this.failed(step, error);
    }
    if (!goesOn) this.next = this.plan.steps.length;
    return this.goOn();
  }

  question({ componentType, component }) {
    const { call, params } = this;
    const { seam, half, steps } = this.plan;
    call.componentType = componentType;
    if (this.next > 1 && performance.now() - this.told > A_WHILE) {
      this.told = performance.now();
      send(JSON.stringify({ id: call.id, partial: { at: componentType } }));
    }
    const holder = findHalf(componentType, seam, half);
    // The last one may have what is left.
    const as = this.next === steps.length ? asItIs : this.large ? copiedLate : copiedNow;
    const event = as(half, params.subject, this.input, params.outcome);
    const honoured = this.admits ?? [];
    return holder[half](event, contextOf(call, this.plan, params, copy(component), honoured));
  }

  /** Takes what a handler answered; whether the next one is to be asked. */
  take(step, answer) {
    const { plan } = this;
    let encoded;
    try {
      const verdict = isObject(answer)
        ? answer
        : read(answer, `${step.componentType} ${plan.place}`, A_VERDICT);
      if (isBare(verdict, plan.consent)) {
        this.add(step.consented);
        return this.call.cancels.length === 0;
      }
      encoded = JSON.stringify(verdict) ?? 'null';
    } catch (error) {
      this.failed(step, error);
      return false;
    }
    this.add(`${step.said}${encoded}}`);
    if (this.call.cancels.length > 0 || this.next === plan.steps.length) return false;
    // What counts is what heddle reads: toJSON or an undefined may have made it another.
    const verdict = JSON.parse(encoded);
    if (verdict?.action === plan.consent) return true;
    if (verdict?.action !== 'modify' || !isObject(verdict.input)) return false;
    if (!(this.admits ?? NOTHING_KNOWN).includes('modify')) return false;
    // Where heddle checks a modified input, it asks those that are left by itself.
    if (plan.checked) return false;
    const { input } = verdict;
    this.input = plan.seam === 'modelCall' ? edited(this.input, input) : input;
    return this.input !== undefined;
  }

  add(said) {
    this.verdicts = this.verdicts === '' ? said : `${this.verdicts},${said}`;
  }

  failed({ componentType }, error) {
    report(this.call, error, `${componentType} ${this.plan.place}`);
    this.add(JSON.stringify({ componentType, error: describe(error) }));
  }
}

/** Whether a verdict says this word and nothing else, so that its JSON is known. */
function isBare(verdict, word) {
  if (verdict.action !== word || Object.getPrototypeOf(verdict) !== Object.prototype) return false;
  for (const name in verdict) if (name !== 'action') return false;
  return verdict.toJSON === undefined && Object.hasOwn(verdict, 'action');
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

// What a handler is shown, in three ways with the same properties.

function asItIs(half, subject = {}, input, outcome) {
  if (half === 'before') return { subject, input: input ?? {} };
  return input === undefined ? { subject, outcome } : { subject, input, outcome };
}

const copiedNow = (half, subject, input, outcome) =>
  asItIs(half, copy(subject), copy(input), copy(outcome));

/** Copied when it is looked at. */
function copiedLate(half, subject, input, outcome) {
  let mine;
  let settled;
  const event = asItIs(half, { ...subject }, input, outcome);
  if ('input' in event) {
    Object.defineProperty(event, 'input', { get: () => (mine ??= copy(input ?? {})) });
  }
  if ('outcome' in event) {
    Object.defineProperty(event, 'outcome', { get: () => (settled ??= outcomeOf(outcome)) });
  }
  return event;
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
  if (line.length <= LARGE && beginKnown(line)) return;
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
  else begin(frame.id, frame.method, frame.params ?? {});
}

/**
 * Plans, by the text that they were made of. heddle begins all its frames at one half with
 * the same text, which is longer than the rest of most: it is parsed once.
 */
const heads = new Map();
const CONSULT = ',"method":"consult","params":';
const SUBJECT = ',"subject":';

/**
 * Begins a question to several whose text begins as another's did; whether it was one.
 *
 *     {"id":7,"method":"consult","params":{"seam":…,"ask":[…],"subject":…,"attempt":1}}
 *                                         └ head ───────────┘└ rest ────────────────┘
 */
function beginKnown(line) {
  if (!line.startsWith('{"id":') || !line.endsWith('}}')) return false;
  let at = 6;
  let id = 0;
  for (let digit = line.charCodeAt(at) - 48; digit >= 0 && digit <= 9; ) {
    id = id * 10 + digit;
    digit = line.charCodeAt(++at) - 48;
  }
  if (at === 6 || at > 21 || !line.startsWith(CONSULT, at)) return false;
  const start = at + CONSULT.length;
  const end = line.indexOf(SUBJECT, start);
  if (end === -1) return false;
  const head = line.slice(start, end);
  let plan = heads.get(head);
  let rest;
  try {
    // That both parts are whole proves that this is where one of them ends: a head is cut
    // inside no text and no list, and with the rest goes the end of the frame.
    plan ??= new Plan(JSON.parse(`${head}}`));
    rest = JSON.parse(`{${line.slice(end + 1, -1)}`);
  } catch {
    return false;
  }
  if (heads.size < HEADS) heads.set(head, plan);
  begin(id, 'consult', rest, plan);
  return true;
}

function begin(id, method, params, plan = undefined) {
  const call = new Call(id);
  calls.set(id, call);
  try {
    const verb = Object.hasOwn(VERBS, method) ? VERBS[method] : undefined;
    if (verb === undefined) throw new HandlerMissing(`there is no verb '${method}'`);
    const result =
      plan === undefined
        ? verb(call, params)
        : new Consultation(call, plan, params, false).goOn();
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
  const deadline = performance.now() + (toldToEnd ? 0 : LAST_WORDS);
  while (calls.size > 0 && performance.now() < deadline) {
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
  listen(dataTaken, () => {
    if (cut.length > 0) receive(Buffer.concat(cut).toString('utf8'));
    void closed();
  });
};

/** The pieces of a line whose end has not arrived. */
let cut = [];

function dataTaken(chunk) {
  const last = chunk.lastIndexOf(10);
  if (last === -1) {
    cut.push(Buffer.from(chunk));
    return;
  }
  const text =
    cut.length === 0
      ? chunk.utf8Slice(0, last)
      : Buffer.concat([...cut, chunk.subarray(0, last)]).toString('utf8');
  cut = last + 1 < chunk.length ? [Buffer.from(chunk.subarray(last + 1))] : [];
  flushing = true;
  if (text.includes('\n')) for (const line of text.split('\n')) receive(line);
  else receive(text);
  flush();
}

/** Calls `take` with what arrives on stdin, in a buffer that is used again, then `end`. */
function listen(take, end) {
  const buffer = Buffer.allocUnsafe(READ);
  const callback = (length) => {
    take(buffer.subarray(0, length));
    return true;
  };
  let stdin;
  try {
    stdin = new Socket({ fd: 0, writable: false, onread: { buffer, callback } });
  } catch {
    // A file or a terminal: somebody tries the plugin by hand.
    stdin = realStdin.get.call(process).on('data', take);
  }
  stdin.on('end', end);
}

// The pipe's other end is gone, and with it whoever the answers were for.
process.stdout.on('error', () => process.exit(0));

process.on('exit', () => {
  if (handlers === null) complain('the plugin ended without calling serve(handlers)');
});
