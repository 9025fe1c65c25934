"""A plan becomes machine code: target, plan, values, tiles, passes, compile, threads."""
