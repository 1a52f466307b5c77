// Refuses shell commands that destroy things.
//
// Settings: {"tool": "shell", "refuse": ["rm", "sudo"]}, which tool runs commands and the
// words that none of them may hold. A word counts where it stands alone: "rm" is not in
// "charm".

const REFUSED = ['rm', 'sudo', 'mkfs', 'dd'];

serve({
  ApprovalGate: {
    toolCall: {
      before: ({ subject, input }, ctx) => {
        if (subject.toolName !== (ctx.component.tool ?? 'shell')) return { action: 'proceed' };
        // All arguments, whatever they are called: a gate must not depend on a name.
        const words = JSON.stringify(input).match(/[\w.-]+/g) ?? [];
        const refused = (ctx.component.refuse ?? REFUSED).find((word) => words.includes(word));
        if (refused === undefined) return { action: 'proceed' };
        return { action: 'reject', reason: `destructive command: ${refused}` };
      },
    },
  },
});
