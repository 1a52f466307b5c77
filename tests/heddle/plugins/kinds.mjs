// The same as kinds.py, in JavaScript.

const say = (input, ctx) => ctx.node.answer;

async function busy(input, ctx) {
  const doubled = await ctx.runTool('double', { n: input.n });
  let said;
  try {
    said = await ctx.callModel({ messages: [{ role: 'user', content: 'hi' }] });
  } catch (error) {
    if (!input.stubborn) throw error;
    await new Promise((done) => setTimeout(done, 10_000));
    return { output: { 'went on': error.name } };
  }
  ctx.emitEvent('seen', { n: input.n });
  ctx.log('warn', 'busy');
  return {
    output: {
      tool: doubled,
      model: said.content,
      workspace: ctx.getWorkspace(),
      model_id: ctx.node.llmConfig.model_id,
    },
  };
}

function stuck(input) {
  if (input.die) process.exit(7);
  return new Promise(() => {});
}

function rewrite(messages, ctx) {
  const decided = ctx.component[ctx.phase] ?? { action: 'pass' };
  if (decided !== 'shout') return decided;
  return {
    action: 'modify',
    messages: messages.map((each) => ({ ...each, content: each.content.toUpperCase() })),
  };
}

function chat(request, ctx) {
  const script = ctx.component;
  if (script.fail) {
    const { message, ...about } = script.fail;
    throw Object.assign(new Error(message), { name: 'ProviderError' }, about);
  }
  if (script.echo) {
    const said = request.messages.at(-1).content;
    return { content: `${said} ${ctx.stream ? 'True' : 'False'}`, finish_reason: 'stop' };
  }
  if (!ctx.stream) return script.whole;
  for (const piece of script.pieces ?? []) ctx.partial(piece);
  return script.last;
}

serve({
  Say: { execute: say },
  Choose: { execute: say },
  Busy: { execute: busy },
  Stuck: { execute: stuck },
  Rewrite: { apply: rewrite },
  Late: { apply: rewrite },
  Early: { apply: rewrite },
  Scripted: { chat },
  Whole: { chat },
  PassingOn: { chat: ({ messages }, ctx) => ctx.callModel({ messages }) },
});
