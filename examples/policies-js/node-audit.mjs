// Publishes that each node ran and how it went; can stand in for types of nodes.
//
// Settings: {"dryRun": ["ToolNode"], "stub": {"report": "…"}}, the node types that are not
// run, and the output that they have instead.
//
// It reads who ran and whether it went well, and never what went through: an audit of every
// node sees every caller's data, and keeps none.

serve({
  NodeAudit: {
    node: {
      before: ({ subject }, { component }) =>
        (component.dryRun ?? []).includes(subject.nodeType)
          ? { action: 'replace', value: component.stub ?? {} }
          : { action: 'proceed' },

      after: ({ subject, outcome }, { emitEvent }) => {
        emitEvent('node', { node: subject.nodeName, ok: outcome.ok });
        return { action: 'pass' };
      },
    },
  },
});
