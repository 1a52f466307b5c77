// The plugin that the tests of both runtimes ask: the same as contract.py.

const seenIn = (ctx) => ({
  component: ctx.component,
  where: [ctx.seam, ctx.half],
  attempt: [ctx.attempt, ctx.maxAttempts],
  admits: ctx.admits,
});

const seenBefore = ({ subject, input }, ctx) => ({
  action: 'replace',
  value: {
    subject: [subject.nodeName, subject.nodeType, subject.toolName, subject.toolCallId],
    input,
    ...seenIn(ctx),
  },
});

const seenAfter = ({ input, outcome: { ok, value = null, error = null } }, ctx) => ({
  action: 'replace',
  value: {
    input: input ?? {},
    ok,
    value,
    error: error && [error.name, error.message, error.status ?? null, error.retryAfterMs ?? null],
    ...seenIn(ctx),
  },
});

const proceed = { action: 'proceed' };
const edit = () => ({ action: 'modify', input: { model: 'small' } });
const sleep = (seconds) => new Promise((resolve) => setTimeout(resolve, seconds * 1000));

serve(
  {
    Seen: {
      toolCall: { before: seenBefore, after: seenAfter },
      node: { before: seenBefore, after: seenAfter },
    },
    Gate: {
      toolCall: {
        before: ({ input }) =>
          /rm/.test(String(input.cmd))
            ? { action: 'reject', reason: 'destructive command' }
            : proceed,
      },
    },
    Redactor: {
      toolCall: { before: ({ input }) => ({ action: 'modify', input: { ...input, secret: '***' } }) },
    },
    Vandal: {
      toolCall: {
        before: ({ input }, ctx) => {
          input.cmd = 'vandalised';
          ctx.component.vandalised = true;
          return proceed;
        },
      },
    },
    Edit: { modelCall: { before: edit }, toolCall: { before: edit }, node: { before: edit } },
    OtherHalf: { toolCall: { before: () => ({ action: 'pass' }) } },
    EditAs: {
      modelCall: { before: (event, ctx) => ({ action: 'modify', input: ctx.component.input }) },
    },
    SeenModel: { modelCall: { before: seenBefore } },
    Throws: {
      toolCall: {
        before: () => {
          throw new RangeError('no luck today');
        },
      },
    },
    Nothing: { toolCall: { before: () => undefined } },
    Text: { toolCall: { before: () => 'proceed' } },
    Prints: {
      toolCall: {
        before: () => {
          console.log('{"id": 1, "result": "forged"}');
          process.stdout.write('{"id": 1, "result": "forged"}\n');
          return proceed;
        },
      },
    },
    Circular: {
      toolCall: {
        before: () => {
          const value = {};
          value.self = value;
          return { action: 'replace', value };
        },
      },
    },
    Unknown: { toolCall: { before: () => ({ action: 'aprove' }) } },
    Slow: {
      toolCall: {
        before: async (event, ctx) => {
          await sleep(ctx.component.seconds);
          return proceed;
        },
      },
    },
    Waits: {
      toolCall: {
        before: async (event, ctx) => {
          ctx.log('info', 'waiting');
          await new Promise((resolve) => ctx.signal.addEventListener('abort', resolve));
          return proceed;
        },
      },
    },
    Asks: {
      toolCall: {
        before: async ({ input }, ctx) => {
          try {
            return {
              action: 'replace',
              value: { found: await ctx.runTool('lookup', { key: input.key ?? null }) },
            };
          } catch (error) {
            return { action: 'reject', reason: `${error.name}: ${error.message}` };
          }
        },
      },
    },
    AsksModel: {
      toolCall: {
        before: async (event, { callModel }) => ({
          action: 'replace',
          value: await callModel({ messages: [{ role: 'user', content: 'hi' }] }),
        }),
      },
    },
    Tells: {
      toolCall: {
        after: ({ subject }, { emitEvent, log }) => {
          emitEvent('seen', { tool: subject.toolName });
          log('warn', 'careful');
          return { action: 'pass' };
        },
      },
    },
    Again: { nodeError: { after: () => ({ action: 'retry', delayMs: 250 }) } },
    Ends: { node: { after: () => ({ action: 'fail', reason: 'enough' }) } },
    Upper: {
      execute: (input, ctx) =>
        input.where
          ? { output: { folder: ctx.getWorkspace() } }
          : {
              output: { text: input.text.toUpperCase() + (ctx.node.suffix ?? '') },
              branch: 'done',
            },
    },
    Prefix: {
      apply: (messages, { phase }) => {
        const last = messages.at(-1);
        const changed = { ...last, content: `[${phase}] ${last.content}` };
        return { action: 'modify', messages: [...messages.slice(0, -1), changed] };
      },
    },
    Parrot: {
      chat: async (request, ctx) => {
        const content = request.messages.at(-1).content + (ctx.component.suffix ?? '');
        if (!ctx.stream) return { content, finish_reason: 'stop' };
        for (const letter of content) ctx.partial({ content: letter });
        return { content: '', finish_reason: 'stop' };
      },
    },
    Lines: {
      encode: (event, ctx) => [{ event: event.type, data: ctx.runId }],
      finish: () => [{ data: 'bye' }],
    },
    Wordy: { encode: () => 'frames' },
    Silent: { encode: () => [] },
    Box: {
      read: (params, ctx) => (params.id === 'none' ? null : { ...params, config: ctx.component }),
      writeCheckpoint: ({ checkpoint }) => ({ wrote: checkpoint }),
    },
  },
  {
    tools: {
      add: ({ a, b }) => ({ output: { sum: a + b } }),
      broken: () => ({ sum: 1 }),
    },
    listTools: () => ({ tools: [{ name: 'add' }] }),
    shutdown: () => console.log('goodbye'),
  },
);
